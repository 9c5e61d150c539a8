import { useMemo, useState } from "preact/hooks";
import type { Client } from "../api/client";
import { type Discovery, qualifiedName } from "../api/discovery";
import type { List } from "../api/types";
import { type Access, type Binding, type Denial, type Grant, type NearGrant, type RBACObjects, type Role, type Subject, allowing, formatRule, formatSubject, identityOf, near, parseDenial, subjectOf, userIdentity } from "../model/rbac";
import { type App, objectPath, useApp, useLoad } from "../ui/context";
import { joinBase, splitBase } from "../ui/location";
import { Failure, Field, Link, Loading, Note, SimpleTable, Tabs } from "../ui/parts";

const group = "rbac.authorization.k8s.io";

/** Reads all roles and bindings. */
async function readRBAC(client: Client, signal: AbortSignal): Promise<RBACObjects> {
  const read = async <T,>(name: string): Promise<T[]> => (await client.json<List<T>>(`/apis/${group}/v1/${name}`, { signal })).items ?? [];
  const [clusterRoles, roles, clusterRoleBindings, roleBindings] = await Promise.all([
    read<Role>("clusterroles"), read<Role>("roles"), read<Binding>("clusterrolebindings"), read<Binding>("rolebindings"),
  ]);
  return { clusterRoles, roles, clusterRoleBindings, roleBindings };
}

const tabs = ["Who can", "What can", "Why denied"];

/** Who has which permissions, and why. The rules of RBAC are evaluated in the page, over the roles that its user can read. */
export function Permissions() {
  const app = useApp();
  const tab = app.place.query.get("tab") ?? tabs[0]!;
  const stored = useLoad((signal) => readRBAC(app.client, signal), [app.client]);
  const objects = useSimulation(stored.value);
  return (
    <section>
      <header class="head">
        <h1>Permissions</h1>
        <span class="space" />
        <button onClick={stored.reload}>Read again</button>
      </header>
      <Tabs names={tabs} current={tab} select={(name) => app.setQuery({ tab: name })} />
      {stored.error && <Failure message={`Roles and bindings cannot be read: ${stored.error}`} retry={stored.reload} />}
      {!stored.value && !stored.error && <Loading />}
      {objects && (
        <div role="tabpanel" aria-label={tab}>
          {tab === "Who can" && <WhoCan app={app} objects={objects} />}
          {tab === "What can" && <WhatCan app={app} objects={objects} />}
          {tab === "Why denied" && <WhyDenied app={app} objects={objects} />}
        </div>
      )}
      {stored.value && tab !== "Why denied" && <Simulation objects={stored.value} />}
      <Note>Only RBAC is evaluated here. The group system:masters may do everything, and other authorizers, such as Node and webhooks, can allow more.</Note>
    </section>
  );
}

/** Returns the objects with the binding of the simulation, which is part of the page's parameters. */
function useSimulation(objects: RBACObjects | undefined): RBACObjects | undefined {
  const { place } = useApp();
  const [role, subject, namespace] = ["simRole", "simSubject", "simNamespace"].map((name) => place.query.get(name) ?? "") as [string, string, string];
  return useMemo(() => {
    if (!objects || !role || !subject) return objects;
    const [kind = "", name = ""] = role.split("/");
    const binding: Binding = { metadata: { name: "(simulated)", ...(namespace ? { namespace } : {}) }, subjects: [parseSubject(subject)], roleRef: { kind, name } };
    return namespace ? { ...objects, roleBindings: [...objects.roleBindings, binding] } : { ...objects, clusterRoleBindings: [...objects.clusterRoleBindings, binding] };
  }, [objects, role, subject, namespace]);
}

/** Parses the name of a subject: group:NAME, NAMESPACE/NAME for a service account, or a user name. */
export function parseSubject(text: string): Subject {
  if (text.startsWith("group:")) return { kind: "Group", name: text.slice("group:".length) };
  const account = /^(?:system:serviceaccount:)?([a-z0-9-]+)[/:]([a-z0-9.-]+)$/.exec(text);
  if (account && (text.startsWith("system:serviceaccount:") || text.includes("/"))) return { kind: "ServiceAccount", namespace: account[1]!, name: account[2]! };
  return { kind: "User", name: text };
}

/** The form for a binding that does not exist. */
function Simulation(props: { objects: RBACObjects }) {
  const app = useApp();
  const value = (name: string): string => app.place.query.get(name) ?? "";
  const roles = [...props.objects.clusterRoles.map((role) => `ClusterRole/${role.metadata.name}`), ...props.objects.roles.map((role) => `Role/${role.metadata.name}`)];
  return (
    <details open={value("simRole") !== ""}>
      <summary>Simulate a binding</summary>
      <p class="muted">The results above include this binding as if it existed. Nothing is stored.</p>
      <div class="filters">
        <Field label="Simulated role" placeholder="Role: ClusterRole/edit" value={value("simRole")} apply={(text) => app.setQuery({ simRole: text })} list="roles" />
        <Field label="Simulated subject" placeholder="User, group:NAME or NAMESPACE/ACCOUNT" value={value("simSubject")} apply={(text) => app.setQuery({ simSubject: text })} />
        <Field label="Simulated namespace" placeholder="Namespace (none: whole cluster)" value={value("simNamespace")} apply={(text) => app.setQuery({ simNamespace: text })} />
        <button onClick={() => app.setQuery({ simRole: undefined, simSubject: undefined, simNamespace: undefined })}>Remove</button>
        <datalist id="roles">
          {roles.map((role) => (
            <option key={role} value={role} />
          ))}
        </datalist>
      </div>
    </details>
  );
}

const verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

function ResourceList(props: { discovery: Discovery }) {
  return (
    <datalist id="resources">
      {props.discovery.resources.map((resource) => (
        <option key={qualifiedName(resource)} value={qualifiedName(resource)} />
      ))}
    </datalist>
  );
}

/** Returns the API group and the resource of RESOURCE[.GROUP][/SUBRESOURCE]. */
export function splitResource(text: string): { group: string; resource: string } {
  const [qualified = "", subresource] = text.split("/");
  const [name = "", ...group] = qualified.split(".");
  return { group: group.join("."), resource: subresource ? `${name}/${subresource}` : name };
}

/** The subjects that have each verb for a resource, with the rule and binding behind each permission. */
function WhoCan(props: { app: App; objects: RBACObjects }) {
  const { app } = props;
  const value = (name: string): string => app.place.query.get(name) ?? "";
  const [resource, namespace, name] = [value("resource") || "pods", value("namespace"), value("name")];
  const [open, setOpen] = useState<string>();
  const matrix = useMemo(() => {
    const subjects = new Map<string, Map<string, Grant[]>>();
    for (const verb of verbs) {
      const access: Access = { verb, ...splitResource(resource), namespace, ...(name ? { name } : {}) };
      for (const grant of allowing(props.objects, access)) {
        const subject = formatSubject(subjectOf(grant));
        const row = subjects.get(subject) ?? new Map<string, Grant[]>();
        row.set(verb, [...(row.get(verb) ?? []), grant]);
        subjects.set(subject, row);
      }
    }
    return [...subjects].sort(([a], [b]) => a.localeCompare(b));
  }, [props.objects, resource, namespace, name]);
  const grants = matrix.flatMap(([subject, row]) => [...row].filter(([verb]) => `${subject} ${verb}` === open).flatMap(([, found]) => found));
  return (
    <>
      <div class="filters">
        <Field label="Resource" placeholder="Resource: deployments.apps or pods/log" value={resource} apply={(text) => app.setQuery({ resource: text })} list="resources" />
        <Field label="Namespace" placeholder="Namespace (none: all)" value={namespace} apply={(text) => app.setQuery({ namespace: text })} />
        <Field label="Name" placeholder="Name (none: all)" value={name} apply={(text) => app.setQuery({ name: text })} />
        <ResourceList discovery={app.discovery} />
      </div>
      {matrix.length === 0 ? (
        <Note>No subject of RBAC has any of the verbs for {resource}.</Note>
      ) : (
        <SimpleTable
          label={`Who can use ${resource}`} columns={["Subject", ...verbs]}
          rows={matrix.map(([subject, row]) => [
            subject,
            ...verbs.map((verb) => row.has(verb) ? (
              <button class="link allowed" aria-expanded={open === `${subject} ${verb}`} aria-label={`${subject} can ${verb}: show the reason`} onClick={() => setOpen(`${subject} ${verb}`)}>
                ✓
              </button>
            ) : <span class="muted">–</span>),
          ])}
        />
      )}
      {open && grants.length > 0 && (
        <>
          <h2>Reason: {open}</h2>
          <GrantTable grants={grants} />
        </>
      )}
    </>
  );
}

/** Rules with the binding that grants them. For rules that do not allow a request, the table has the differences. */
function GrantTable(props: { grants: (Grant | NearGrant)[] }) {
  const near = props.grants.some((grant) => "differences" in grant);
  const link = (kind: string, namespace: string | undefined, name: string) => {
    const names: Record<string, string> = { ClusterRole: "clusterroles", Role: "roles", ClusterRoleBinding: "clusterrolebindings", RoleBinding: "rolebindings" };
    if (name === "(simulated)") return `${kind} ${name}`;
    return <Link to={objectPath({ group, name: names[kind]! }, namespace, name)}>{`${kind} ${name}`}</Link>;
  };
  return (
    <SimpleTable
      label="Grants" columns={["Subject", "Binding", "Role", "Rule", ...(near ? ["Differs in"] : [])]}
      rows={props.grants.map((grant) => {
        const { namespace, name } = grant.binding.metadata;
        return [
          formatSubject(subjectOf(grant)), link(namespace ? "RoleBinding" : "ClusterRoleBinding", namespace, name), link(grant.binding.roleRef.kind, grant.role.metadata.namespace, grant.role.metadata.name),
          formatRule(grant.rule), ...("differences" in grant ? [grant.differences.join(", ")] : []),
        ];
      })}
    />
  );
}

/** The permissions of a user, group or service account, by resource. */
function WhatCan(props: { app: App; objects: RBACObjects }) {
  const { app } = props;
  const subjectText = app.place.query.get("subject") || app.user;
  const namespace = app.place.query.get("namespace") ?? "";
  const groupsText = app.place.query.get("groups") ?? "";
  const identity = useMemo(() => {
    const { user, groups } = identityOf(parseSubject(subjectText));
    const further = subjectText === app.user ? app.groups : [];
    return { user, groups: [...new Set([...groups, ...further, ...splitGroups(groupsText)])] };
  }, [subjectText, groupsText, app.user, app.groups]);
  const rows = useMemo(
    () => app.discovery.resources
      .map((resource) => ({
        resource,
        allowed: verbs.map((verb) => resource.verbs.includes(verb) ? allowing(props.objects, { verb, group: resource.group, resource: resource.name, namespace: resource.namespaced ? namespace : "" }, identity) : undefined),
      }))
      .filter(({ allowed }) => allowed.some((grants) => grants && grants.length > 0)),
    [app.discovery, props.objects, identity, namespace],
  );
  return (
    <>
      <div class="filters">
        <Field label="Subject" placeholder="User, group:NAME or NAMESPACE/ACCOUNT" value={subjectText} apply={(text) => app.setQuery({ subject: text })} />
        <Field label="Further groups" placeholder="Further groups: dev,ops" value={groupsText} apply={(text) => app.setQuery({ groups: text })} />
        <Field label="Namespace" placeholder="Namespace (none: all)" value={namespace} apply={(text) => app.setQuery({ namespace: text })} />
      </div>
      <p class="muted">Groups: {identity.groups.join(", ")}</p>
      {identity.groups.includes("system:masters") && <Note>The group system:masters may do everything, independent of RBAC.</Note>}
      {rows.length === 0 ? (
        <Note>RBAC does not allow {subjectText} anything{namespace ? ` in the namespace ${namespace}` : " in all namespaces"}.</Note>
      ) : (
        <SimpleTable
          label={`Permissions of ${subjectText}`} columns={["Resource", ...verbs]}
          rows={rows.map(({ resource, allowed }) => [
            qualifiedName(resource),
            ...allowed.map((grants) => grants?.length ? <span class="allowed" title={grants.map((grant) => `${grant.binding.metadata.name}: ${formatRule(grant.rule)}`).join("\n")}>✓</span> : <span class="muted">{grants ? "–" : ""}</span>),
          ])}
        />
      )}
    </>
  );
}

function splitGroups(text: string): string[] {
  return text.split(",").map((name) => name.trim()).filter(Boolean);
}

/** Explains a request that was denied: the message of the server, and the rules that come closest. */
function WhyDenied(props: { app: App; objects: RBACObjects }) {
  const { app } = props;
  const [text, setText] = useState("");
  const [groups, setGroups] = useState("");
  const denial = useMemo(() => {
    const parsed = parseDenial(text);
    if (!parsed) return undefined;
    const { user } = parsed.identity;
    return { ...parsed, identity: userIdentity(user, [...(user === app.user ? app.groups : []), ...splitGroups(groups)]) };
  }, [text, groups, app.user, app.groups]);
  const present = useMemo(() => app.client.at(joinBase(splitBase(app.place.base).cluster, "")), [app.client]);
  const review = useLoad(async (signal) => denial && decide(present, denial, signal), [present, denial]);
  const close = denial ? near(props.objects, denial.access, denial.identity) : [];
  const allowed = denial ? allowing(props.objects, denial.access, denial.identity) : [];
  return (
    <>
      <label>
        Message of the response, from a log or a terminal
        <textarea
          rows={4} value={text} spellcheck={false} onInput={(event) => setText(event.currentTarget.value)}
          placeholder={'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "shop"'}
        />
      </label>
      <div class="filters">
        <Field label="Further groups" placeholder="Further groups of the user: dev,ops" value={groups} apply={setGroups} />
        <span class="muted">The message does not contain the groups of the user.</span>
      </div>
      {text && !denial && <Note kind="warning">The text is not a message of a denied request.</Note>}
      {denial && (
        <>
          <p>
            <b>{denial.identity.user}</b> ({denial.identity.groups.join(", ")}) {denial.access.verb} {denial.access.path ?? `${denial.access.resource}${denial.access.group ? `.${denial.access.group}` : ""}`}
            {denial.access.namespace ? ` in ${denial.access.namespace}` : ""}
          </p>
          {review.error && <Failure message={review.error} />}
          {review.value && <Note kind={review.value.allowed ? "info" : "warning"}>The server's decision now: {review.value.allowed ? "allowed" : "denied"}. {review.value.reason}</Note>}
          {allowed.length > 0 && <GrantTable grants={allowed} />}
          {allowed.length === 0 && close.length > 0 && (
            <>
              <h2>Rules that come closest</h2>
              <GrantTable grants={close} />
            </>
          )}
          {allowed.length === 0 && close.length === 0 && <Note>No rule of the user comes close.</Note>}
        </>
      )}
    </>
  );
}

/** Returns the decision of the server. */
async function decide(client: Client, denial: Denial, signal: AbortSignal): Promise<{ allowed: boolean; reason?: string }> {
  const { access, identity: { user, groups } } = denial;
  const [resource, subresource] = (access.resource ?? "").split("/");
  const attributes = access.path !== undefined
    ? { nonResourceAttributes: { verb: access.verb, path: access.path } }
    : { resourceAttributes: { verb: access.verb, group: access.group, resource, subresource, name: access.name, namespace: access.namespace } };
  const body = { apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview", spec: { user, groups, ...attributes } };
  return (await client.json<{ status: { allowed: boolean; reason?: string } }>("/apis/authorization.k8s.io/v1/subjectaccessreviews", { method: "POST", body, signal })).status;
}
