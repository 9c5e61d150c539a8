import { type Client, metadataType } from "../../api/client";
import { type Discovery, type Resource, apiVersionOf, pathOf } from "../../api/discovery";
import type { KubeObject, List, ObjectMeta } from "../../api/types";
import type { Item } from "../../model/owners";

const parallel = 6;
const pageSize = "500";

/** Resources that are not shown as dependents: they are numerous, or views of other objects. */
const ignored = new Set(["events", "componentstatuses"]);

/**
 * Reads the metadata of all objects of a namespace, or of the whole API if namespace is "". Resources that the user
 * cannot list are left out; their names are in denied.
 */
export async function readItems(client: Client, discovery: Discovery, namespace: string, signal: AbortSignal): Promise<{ items: Item[]; denied: string[] }> {
  const waiting = discovery.listed.filter((resource) => !ignored.has(resource.name) && (namespace === "" || resource.namespaced) && !resource.group.startsWith("metrics."));
  const items: Item[] = [];
  const denied: string[] = [];
  const work = async (): Promise<void> => {
    for (let resource = waiting.pop(); resource; resource = waiting.pop()) {
      try {
        items.push(...(await readAll(client, resource, namespace, signal)));
      } catch (error) {
        if (signal.aborted) throw error;
        denied.push(resource.name);
      }
    }
  };
  await Promise.all(Array.from({ length: parallel }, work));
  return { items, denied };
}

async function readAll(client: Client, resource: Resource, namespace: string, signal: AbortSignal): Promise<Item[]> {
  const found: Item[] = [];
  let next = "";
  do {
    const list: List<{ metadata: ObjectMeta }> = await client.json(pathOf(resource, namespace), { accept: metadataType, signal, query: { limit: pageSize, continue: next } });
    for (const { metadata } of list.items ?? []) found.push(itemOf(resource, metadata));
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
const nameFields: Record<string, [kind: string, apiVersion: string]> = {
  serviceAccountName: ["ServiceAccount", "v1"], claimName: ["PersistentVolumeClaim", "v1"], secretName: ["Secret", "v1"], nodeName: ["Node", "v1"],
  storageClassName: ["StorageClass", "storage.k8s.io/v1"], ingressClassName: ["IngressClass", "networking.k8s.io/v1"], priorityClassName: ["PriorityClass", "scheduling.k8s.io/v1"],
  volumeName: ["PersistentVolume", "v1"], runtimeClassName: ["RuntimeClass", "node.k8s.io/v1"],
};

/** Fields that contain an object with the name of an object of the kind. */
const referenceFields: Record<string, [kind: string, apiVersion: string]> = {
  configMap: ["ConfigMap", "v1"], configMapRef: ["ConfigMap", "v1"], configMapKeyRef: ["ConfigMap", "v1"], secretRef: ["Secret", "v1"], secretKeyRef: ["Secret", "v1"],
  secret: ["Secret", "v1"],  imagePullSecrets: ["Secret", "v1"], service: ["Service", "v1"],
};

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
    const known = referenceFields[key];
    if (typeof fields["kind"] === "string" && typeof fields["name"] === "string") {
      const group = fields["apiGroup"] === undefined ? undefined : `${String(fields["apiGroup"])}/`;
      add(field, fields["kind"], String(fields["apiVersion"] ?? group ?? "v1"), fields["name"], fields["namespace"]);
    } else if (known) add(field, ...known, fields["name"], fields["namespace"]);
    for (const [name, below] of Object.entries(fields)) {
      const target = nameFields[name];
      if (target && typeof below === "string") add(`${field}.${name}`, ...target, below, undefined);
      else visit(below, field ? `${field}.${name}` : name, name);
    }
  };
  for (const [name, value] of Object.entries(object)) if (!notFields.has(name)) visit(value, name, name);
  return [...found.values()];
}

interface Requirement {
  key: string;
  operator: string;
  values?: string[];
}

/** Reports whether the selector of a Service or a workload selects the labels. */
export function selects(object: KubeObject, labels: Record<string, string> = {}): boolean {
  const selector = object.spec?.["selector"] as Record<string, unknown> | undefined;
  if (!selector) return false;
  const structured = typeof selector["matchLabels"] === "object" || Array.isArray(selector["matchExpressions"]);
  const required = Object.entries((structured ? selector["matchLabels"] : selector) ?? {});
  const requirements = structured ? ((selector["matchExpressions"] ?? []) as Requirement[]) : [];
  return required.length + requirements.length > 0 && required.every(([key, value]) => labels[key] === value) && requirements.every((requirement) => meets(requirement, labels));
}

function meets(requirement: Requirement, labels: Record<string, string>): boolean {
  const value = labels[requirement.key];
  switch (requirement.operator) {
    case "In":
      return value !== undefined && (requirement.values ?? []).includes(value);
    case "NotIn":
      return value === undefined || !(requirement.values ?? []).includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    default:
      return false;
  }
}
