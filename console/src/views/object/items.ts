import { APIError, type Client, metadataType } from "../../api/client";
import { type Discovery, type Resource, apiVersionOf, pathOf } from "../../api/discovery";
import { mapParallel } from "../../api/parallel";
import type { KubeObject, List, ObjectMeta } from "../../api/types";
import type { Item } from "../../model/owners";
import { matches, requirementsOf } from "../../model/selector";

const pageSize = "500";

/** Resources that are not shown as dependents: they are numerous, or views of other objects. */
const ignored = new Set(["events", "componentstatuses"]);

/** The period of repeated reads of the objects of a namespace, in milliseconds. */
export const itemsPeriod = 10_000;

export interface Items {
  items: Item[];
  /** The complete objects of the detailed resources. */
  objects: KubeObject[];
  /** The names of the resources that the user cannot list. */
  denied: string[];
}

/**
 * Reads the metadata of all objects of a namespace, or of the whole API if namespace is "", and the complete objects of the
 * detailed resources.
 */
export async function readItems(client: Client, discovery: Discovery, namespace: string, signal: AbortSignal, detailed: Resource[] = []): Promise<Items> {
  const resources = discovery.listed.filter((resource) => !ignored.has(resource.name) && (namespace === "" || resource.namespaced) && !resource.group.startsWith("metrics."));
  // The order of the objects does not depend on the order of the responses, so that repeated reads have the same order.
  const found = await mapParallel(resources, async (resource) => {
    try {
      return await readAll(client, resource, namespace, signal, detailed.includes(resource) ? undefined : metadataType);
    } catch (error) {
      if (signal.aborted || isUnavailable(error)) throw error;
      return undefined;
    }
  });
  return {
    items: resources.flatMap((resource, i) => (found[i] ?? []).map(({ metadata }) => itemOf(resource, metadata))),
    objects: resources.flatMap((resource, i) => (detailed.includes(resource) ? (found[i] ?? []) : [])),
    denied: resources.filter((_, i) => !found[i]).map((resource) => resource.name),
  };
}

/** Reports whether a request failed because of the connection, the session or the load of the server, and not because of its resource. */
function isUnavailable(error: unknown): boolean {
  return !(error instanceof APIError) || [0, 401, 429, 502].includes(error.code);
}

/** Reads all objects of a resource in a namespace, in pages. With metadataType, they have only metadata. */
export async function readAll(client: Client, resource: Resource, namespace: string | undefined, signal: AbortSignal, accept?: string): Promise<KubeObject[]> {
  const found: KubeObject[] = [];
  let next = "";
  do {
    const list: List<KubeObject> = await client.json(pathOf(resource, namespace), { ...(accept ? { accept } : {}), signal, query: { limit: pageSize, continue: next } });
    for (const object of list.items ?? []) found.push({ ...object, kind: resource.kind, apiVersion: apiVersionOf(resource) }); // items of lists do not have them
    next = list.metadata.continue ?? "";
  } while (next);
  return found;
}

export function itemOf(resource: Resource, metadata: ObjectMeta): Item {
  return { apiVersion: apiVersionOf(resource), kind: resource.kind, metadata, resource: resource.name, group: resource.group };
}

/** A reference to another object in a field of an object. */
export interface Reference {
  field: string;
  kind: string;
  apiVersion: string;
  name: string;
  namespace: string;
}

/** Fields whose value is the name of an object of the kind, in the namespace of the object. */
const nameFields = new Map<string, [kind: string, apiVersion: string]>(Object.entries({
  serviceAccountName: ["ServiceAccount", "v1"], claimName: ["PersistentVolumeClaim", "v1"], secretName: ["Secret", "v1"], nodeName: ["Node", "v1"],
  storageClassName: ["StorageClass", "storage.k8s.io/v1"], ingressClassName: ["IngressClass", "networking.k8s.io/v1"], priorityClassName: ["PriorityClass", "scheduling.k8s.io/v1"],
  volumeName: ["PersistentVolume", "v1"], runtimeClassName: ["RuntimeClass", "node.k8s.io/v1"],
}));

/** Fields that contain an object with the name of an object of the kind. */
const referenceFields = new Map<string, [kind: string, apiVersion: string]>(Object.entries({
  configMap: ["ConfigMap", "v1"], configMapRef: ["ConfigMap", "v1"], configMapKeyRef: ["ConfigMap", "v1"], secretRef: ["Secret", "v1"], secretKeyRef: ["Secret", "v1"],
  secret: ["Secret", "v1"],  imagePullSecrets: ["Secret", "v1"], service: ["Service", "v1"],
}));

/** Parts of an object without references, such as the data of a ConfigMap. */
const notFields = new Set(["apiVersion", "kind", "metadata", "status", "data", "binaryData", "stringData"]);

/** Returns the references in the fields of an object, including those with kind and name. */
export function references(object: KubeObject): Reference[] {
  const found = new Map<string, Reference>();
  const add = (field: string, kind: string, apiVersion: string, name: unknown, namespace: unknown): void => {
    if (typeof name === "string" && name) {
      const key = `${apiVersion}/${kind}/${typeof namespace === "string" ? namespace : ""}/${name}`;
      const before = found.get(key);
      const reference = { field: before ? `${before.field}, ${field}` : field, kind, apiVersion, name, namespace: typeof namespace === "string" ? namespace : (object.metadata.namespace ?? "") };
      found.set(key, reference);
    }
  };
  const visit = (value: unknown, field: string, key: string): void => {
    if (Array.isArray(value)) {
      value.forEach((item, i) => visit(item, `${field}[${i}]`, key));
      return;
    }
    if (typeof value !== "object" || value === null) return;
    const fields = value as Record<string, unknown>;
    const known = referenceFields.get(key);
    if (typeof fields["kind"] === "string" && typeof fields["name"] === "string") {
      const group = fields["apiGroup"] === undefined ? undefined : `${String(fields["apiGroup"])}/`;
      add(field, fields["kind"], String(fields["apiVersion"] ?? group ?? "v1"), fields["name"], fields["namespace"]);
    } else if (known) add(field, ...known, fields["name"], fields["namespace"]);
    for (const [name, below] of Object.entries(fields)) {
      const target = nameFields.get(name);
      if (target && typeof below === "string") add(`${field}.${name}`, ...target, below, undefined);
      else visit(below, field ? `${field}.${name}` : name, name);
    }
  };
  for (const [name, value] of Object.entries(object)) if (!notFields.has(name)) visit(value, name, name);
  return [...found.values()];
}

/** Reports whether the selector of a Service or a workload selects the labels. A selector without requirements selects nothing. */
export function selects(object: KubeObject, labels: Record<string, string> | undefined): boolean {
  const requirements = requirementsOf((object.spec?.["selector"] ?? {}) as Record<string, unknown>);
  return requirements.length > 0 && matches(requirements, labels);
}
