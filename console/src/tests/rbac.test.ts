import assert from "node:assert/strict";
import { test } from "node:test";
import { type Access, type RBACObjects, allowing, differences, formatRule, formatSubject, grants, identityOf, near, parseDenial, subjectOf, userIdentity } from "../model/rbac";
import table from "./rbac.json";

// TestPermissionRules of test/console compares the same table with the decisions of a server.
const objects = table.objects as RBACObjects;

interface Case extends Access {
  user: string;
  groups?: string[];
  allowed: boolean;
}

for (const { user, groups, allowed, ...access } of table.cases as Case[]) {
  test(`${user} ${(groups ?? []).join(",")} ${access.verb} ${access.path ?? access.resource} ${access.namespace ?? ""} ${access.name ?? ""}`, () => {
    assert.equal(allowing(objects, access, userIdentity(user, groups)).length > 0, allowed);
  });
}

test("grants contain the binding and the role", () => {
  const found = allowing(objects, { verb: "get", resource: "pods/log", namespace: "shop" });
  assert.deepEqual(found.map((grant) => [formatSubject(grant.subject), grant.binding.metadata.name, grant.role.metadata.name]), [
    ["Group console-admins", "console-everything", "console-everything"],
    ["ServiceAccount console-b/collector", "console-logs", "console-logs"],
  ]);
});

test("a binding of a missing role grants nothing", () => {
  assert.equal(grants(objects).some((grant) => grant.binding.metadata.name === "console-missing-role"), false);
});

test("a service account without a namespace is one of the namespace of the binding", () => {
  const role = { metadata: { name: "r", namespace: "shop" }, rules: [{ verbs: ["get"], apiGroups: [""], resources: ["pods"] }] };
  const binding = { metadata: { name: "b", namespace: "shop" }, subjects: [{ kind: "ServiceAccount" as const, name: "robot" }], roleRef: { kind: "Role", name: "r" } };
  const found = grants({ clusterRoles: [], roles: [role], clusterRoleBindings: [], roleBindings: [binding] }, userIdentity("system:serviceaccount:shop:robot"));
  assert.deepEqual(found.map((grant) => formatSubject(subjectOf(grant))), ["ServiceAccount shop/robot"]);
});

test("identities have the groups that the server adds", () => {
  assert.deepEqual(identityOf({ kind: "ServiceAccount", name: "robot", namespace: "shop" }), {
    user: "system:serviceaccount:shop:robot", groups: ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"],
  });
  assert.deepEqual(identityOf({ kind: "Group", name: "dev" }), { user: "", groups: ["dev"] });
  assert.deepEqual(userIdentity("system:anonymous").groups, ["system:unauthenticated"]);
  assert.deepEqual(userIdentity("jane", ["dev"]).groups, ["dev", "system:authenticated"]);
});

test("differences name each part of a request", () => {
  const [grant] = grants(objects, userIdentity("system:serviceaccount:console-a:deployer"));
  assert.ok(grant);
  const different = (access: Access): string[] => differences(grant, access);
  assert.deepEqual(different({ verb: "get", resource: "pods", namespace: "console-a" }), []);
  assert.deepEqual(different({ verb: "delete", resource: "pods", namespace: "console-b" }), ["verb", "namespace"]);
  assert.deepEqual(different({ verb: "get", group: "batch", resource: "pods", namespace: "console-a" }), ["API group"]);
  assert.deepEqual(different({ verb: "get", resource: "pods/log", namespace: "console-a" }), ["subresource"]);
  assert.deepEqual(different({ verb: "get", resource: "secrets", namespace: "console-a" }), ["resource"]);
  assert.deepEqual(different({ verb: "get", path: "/metrics" }), ["path"]);
});

test("the nearest rules have the fewest differences", () => {
  const found = near(objects, { verb: "delete", resource: "configmaps", namespace: "console-a", name: "other" }, userIdentity("jane"));
  assert.deepEqual(found.map((grant) => [grant.role.metadata.name, grant.differences]), [["one-map", ["verb", "name"]]]);
});

test("a rule for the resource without the subresource is near", () => {
  const found = near(objects, { verb: "get", resource: "nodes/status" }, userIdentity("jane"));
  assert.deepEqual(found.map((grant) => [grant.role.metadata.name, grant.differences]), [["console-nodes", ["subresource"]]]);
});

test("messages of denials", () => {
  const parsed = (text: string) => {
    const denial = parseDenial(text);
    return denial && { user: denial.identity.user, ...denial.access };
  };
  assert.deepEqual(parsed('pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "shop"'), {
    user: "jane", verb: "list", group: "", resource: "pods", namespace: "shop",
  });
  assert.deepEqual(parsed('Error from server (Forbidden): deployments.apps "web" is forbidden: User "a@b.c" cannot patch resource "deployments/scale" in API group "apps" in the namespace "shop"'), {
    user: "a@b.c", verb: "patch", group: "apps", resource: "deployments/scale", namespace: "shop", name: "web",
  });
  assert.deepEqual(parsed('nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope: RBAC: clusterrole "x" not found'), {
    user: "jane", verb: "list", group: "", resource: "nodes", namespace: "",
  });
  assert.deepEqual(parsed('forbidden: User "system:serviceaccount:a:b" cannot get path "/metrics"'), { user: "system:serviceaccount:a:b", verb: "get", path: "/metrics" });
  assert.deepEqual(parsed('time="x" msg="configmaps \\"a\\" is forbidden: User \\"jane\\" cannot get resource \\"configmaps\\" in API group \\"\\" in the namespace \\"shop\\""'), {
    user: "jane", verb: "get", group: "", resource: "configmaps", namespace: "shop", name: "a",
  });
  assert.equal(parsed("pods is forbidden: exceeded quota"), undefined);
});

test("rules are formatted in one line", () => {
  assert.equal(formatRule({ verbs: ["get"], apiGroups: ["", "apps"], resources: ["pods"], resourceNames: ["a"] }), "get on pods (core, apps) named a");
  assert.equal(formatRule({ verbs: ["get", "post"], nonResourceURLs: ["/metrics"] }), "get, post on /metrics");
});
