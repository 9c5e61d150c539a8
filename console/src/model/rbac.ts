// The rules of RBAC, evaluated over the roles and bindings that the user can read. The server decides requests; this
// evaluation explains its decisions, lists subjects, and simulates bindings that do not exist.

import type { ObjectMeta } from "../api/types";

export interface PolicyRule {
  verbs: string[];
  apiGroups?: string[];
  resources?: string[];
  resourceNames?: string[];
  nonResourceURLs?: string[];
}

export interface Role {
  metadata: ObjectMeta;
  rules?: PolicyRule[];
}

export interface Subject {
  kind: "User" | "Group" | "ServiceAccount";
  name: string;
  namespace?: string;
}

export interface Binding {
  metadata: ObjectMeta;
  subjects?: Subject[];
  roleRef: { kind: string; name: string };
}

/** The RBAC objects of a control plane. Bindings with a namespace are RoleBindings. */
export interface RBACObjects {
  clusterRoles: Role[];
  roles: Role[];
  clusterRoleBindings: Binding[];
  roleBindings: Binding[];
}

/** A request for a resource, or for a path if path is set. */
export interface Access {
  verb: string;
  group?: string;
  /** The plural name, with /SUBRESOURCE if there is one. */
  resource?: string;
  name?: string;
  /** "" for cluster-scoped resources and for all namespaces. */
  namespace?: string;
  path?: string;
}

/** A user with all of its groups. */
export interface Identity {
  user: string;
  groups: string[];
}

/** A rule of a role that a binding grants to a subject. */
export interface Grant {
  subject: Subject;
  binding: Binding;
  role: Role;
  rule: PolicyRule;
}

/** A grant that would allow a request except for the listed differences. */
export interface NearGrant extends Grant {
  differences: string[];
}

const serviceAccountPrefix = "system:serviceaccount:";

/** Returns the identity of a subject, with the groups that the server adds. */
export function identityOf(subject: Subject): Identity {
  switch (subject.kind) {
    case "Group":
      return { user: "", groups: [subject.name] };
    case "ServiceAccount":
      return userIdentity(`${serviceAccountPrefix}${subject.namespace ?? ""}:${subject.name}`);
    default:
      return userIdentity(subject.name);
  }
}

/** Returns the identity of a user name, with further groups and those that the server adds. */
export function userIdentity(user: string, groups: string[] = []): Identity {
  const all = new Set(groups);
  if (user.startsWith(serviceAccountPrefix)) {
    all.add("system:serviceaccounts");
    all.add(`system:serviceaccounts:${user.split(":")[2] ?? ""}`);
  }
  all.add(user === "system:anonymous" ? "system:unauthenticated" : "system:authenticated");
  return { user, groups: [...all] };
}

/** Returns the subject of a grant. A service account without a namespace is one of the namespace of the binding. */
export function subjectOf(grant: Pick<Grant, "subject" | "binding">): Subject {
  const { subject, binding } = grant;
  return subject.kind === "ServiceAccount" ? { ...subject, namespace: subject.namespace || (binding.metadata.namespace ?? "") } : subject;
}

/** Returns the user name or the group name with its kind. */
export function formatSubject(subject: Subject): string {
  if (subject.kind === "ServiceAccount") return `ServiceAccount ${subject.namespace}/${subject.name}`;
  return `${subject.kind} ${subject.name}`;
}

/** Returns all grants, of all subjects or of one identity. */
export function grants(objects: RBACObjects, identity?: Identity): Grant[] {
  const clusterRoles = new Map(objects.clusterRoles.map((role) => [role.metadata.name, role]));
  const roles = new Map(objects.roles.map((role) => [`${role.metadata.namespace}/${role.metadata.name}`, role]));
  const found: Grant[] = [];
  for (const binding of [...objects.clusterRoleBindings, ...objects.roleBindings]) {
    const { kind, name } = binding.roleRef;
    const role = kind === "ClusterRole" ? clusterRoles.get(name) : roles.get(`${binding.metadata.namespace}/${name}`);
    for (const subject of role ? (binding.subjects ?? []) : []) {
      if (identity && !includes(identity, subject, binding)) continue;
      for (const rule of role?.rules ?? []) found.push({ subject, binding, role: role!, rule });
    }
  }
  return found;
}

function includes(identity: Identity, subject: Subject, binding: Binding): boolean {
  switch (subject.kind) {
    case "User":
      return subject.name === identity.user;
    case "Group":
      return identity.groups.includes(subject.name);
    default:
      return identity.user === `${serviceAccountPrefix}${subjectOf({ subject, binding }).namespace}:${subject.name}`;
  }
}

/** Returns the differences between a grant and a request; none if the grant allows it. */
export function differences(grant: Grant, access: Access): string[] {
  const { rule, binding } = grant;
  const found: string[] = [];
  if (!matches(rule.verbs, access.verb)) found.push("verb");
  if (access.path !== undefined) {
    if (binding.metadata.namespace || !matchesPath(rule.nonResourceURLs ?? [], access.path)) found.push("path");
    return found;
  }
  if (binding.metadata.namespace && binding.metadata.namespace !== access.namespace) found.push("namespace");
  if (!matches(rule.apiGroups ?? [], access.group ?? "")) found.push("API group");
  if (!matchesResource(rule.resources ?? [], access.resource ?? "")) found.push(sharesResource(rule.resources ?? [], access.resource ?? "") ? "subresource" : "resource");
  if (rule.resourceNames?.length && !(access.name && rule.resourceNames.includes(access.name))) found.push("name");
  return found;
}

function matches(allowed: string[], value: string): boolean {
  return allowed.includes("*") || allowed.includes(value);
}

function matchesResource(allowed: string[], resource: string): boolean {
  const slash = resource.indexOf("/");
  return matches(allowed, resource) || (slash >= 0 && allowed.includes(`*${resource.slice(slash)}`));
}

/** Reports whether a rule has a resource that differs only in its subresource. */
function sharesResource(allowed: string[], resource: string): boolean {
  const parent = (name: string): string => name.split("/")[0]!;
  return allowed.some((name) => parent(name) === "*" || parent(name) === parent(resource));
}

function matchesPath(allowed: string[], path: string): boolean {
  return allowed.some((pattern) => pattern === path || (pattern.endsWith("*") && path.startsWith(pattern.slice(0, -1))));
}

/** Returns the grants that allow a request, of all subjects or of one identity. */
export function allowing(objects: RBACObjects, access: Access, identity?: Identity): Grant[] {
  return grants(objects, identity).filter((grant) => differences(grant, access).length === 0);
}

const maxNear = 5;

/** Returns the grants of an identity that differ from a request in the fewest respects, but not in its resource. */
export function near(objects: RBACObjects, access: Access, identity: Identity): NearGrant[] {
  return grants(objects, identity)
    .map((grant) => ({ ...grant, differences: differences(grant, access) }))
    .filter((grant) => grant.differences.length > 0 && grant.differences.length <= 2 && !grant.differences.includes("resource") && !grant.differences.includes("path"))
    .sort((a, b) => a.differences.length - b.differences.length)
    .slice(0, maxNear);
}

/** A denied request in a message of the server. */
export interface Denial {
  identity: Identity;
  access: Access;
}

const denial = /User "([^"]*)" cannot (\S+) (?:resource "([^"]*)" in API group "([^"]*)"|path "([^"]*)")(?:.*?in the namespace "([^"]*)")?/;
const deniedName = /\b(?:[a-z0-9.]+) "([^"]+)" is forbidden: User/;

/** Parses the message of a response with code 403; undefined if it is another text. */
export function parseDenial(text: string): Denial | undefined {
  const plain = text.replaceAll('\\"', '"');
  const match = denial.exec(plain);
  if (!match) return undefined;
  const [, user = "", verb = "", resource, group, path, namespace] = match;
  const identity = userIdentity(user);
  if (path !== undefined) return { identity, access: { verb, path } };
  const name = deniedName.exec(plain)?.[1];
  return { identity, access: { verb, group: group ?? "", resource: resource ?? "", namespace: namespace ?? "", ...(name ? { name } : {}) } };
}

/** Describes the permissions of a rule in one line. */
export function formatRule(rule: PolicyRule): string {
  const verbs = rule.verbs.join(", ");
  if (rule.nonResourceURLs?.length) return `${verbs} on ${rule.nonResourceURLs.join(", ")}`;
  const groups = (rule.apiGroups ?? []).map((group) => group || "core").join(", ");
  const names = rule.resourceNames?.length ? ` named ${rule.resourceNames.join(", ")}` : "";
  return `${verbs} on ${(rule.resources ?? []).join(", ")} (${groups})${names}`;
}
