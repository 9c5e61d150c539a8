// The parts of Kubernetes' types that the console reads.

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

/** An entry of metadata.managedFields. */
export interface ManagedFields {
  manager?: string;
  operation?: string;
  subresource?: string;
  time?: string;
  apiVersion?: string;
  fieldsV1?: FieldsV1;
}

/** A set of fields as a trie; the keys have the prefixes f:, k:, v: and i: (structured-merge-diff). */
export interface FieldsV1 {
  [key: string]: FieldsV1;
}

export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: OwnerReference[];
  finalizers?: string[];
  managedFields?: ManagedFields[];
}

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

/** An object of any kind. */
export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec?: Json;
  status?: Json;
  [key: string]: unknown;
}

/** A JSON object of an unknown shape. */
export type Json = Record<string, unknown>;

export interface List<T> {
  metadata: { resourceVersion?: string; continue?: string; remainingItemCount?: number };
  items?: T[];
}

/** The error response of the API. */
export interface Status {
  kind: "Status";
  status?: string;
  message?: string;
  reason?: string;
  code?: number;
  details?: { causes?: { reason?: string; message?: string; field?: string }[]; retryAfterSeconds?: number };
}

export interface TableColumn {
  name: string;
  type: string;
  format?: string;
  priority: number;
  description?: string;
}

export interface TableRow {
  cells: unknown[];
  object: { metadata: ObjectMeta };
}

/** meta.k8s.io/v1 Table. */
export interface Table {
  kind?: string;
  metadata: List<unknown>["metadata"];
  columnDefinitions?: TableColumn[];
  rows?: TableRow[];
}

/** An event of a watch. */
export interface WatchEvent<T> {
  type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  object: T;
}

/** A change of the API group history.mainstay.dev. */
export interface Change {
  metadata: ObjectMeta;
  object: { apiVersion?: string; kind?: string; resource: string; name: string; uid?: string };
  operation: "Created" | "Updated" | "Deleted";
  revision: string;
  previousRevision?: string;
  user?: string;
  impersonatedBy?: string;
  verb?: string;
  subresource?: string;
  fieldManager?: string;
  userAgent?: string;
  fields?: string[];
  fieldsTruncated?: boolean;
  before?: KubeObject;
  after?: KubeObject;
}
