/** A schema of OpenAPI v3, with the extensions of Kubernetes. */
export interface Schema {
  $ref?: string;
  description?: string;
  type?: string;
  format?: string;
  nullable?: boolean;
  default?: unknown;
  enum?: unknown[];
  minimum?: number;
  exclusiveMinimum?: boolean;
  maximum?: number;
  exclusiveMaximum?: boolean;
  multipleOf?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  items?: Schema;
  minItems?: number;
  maxItems?: number;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  required?: string[];
  minProperties?: number;
  maxProperties?: number;
  allOf?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  not?: Schema;
  "x-kubernetes-int-or-string"?: boolean;
  "x-kubernetes-preserve-unknown-fields"?: boolean;
  "x-kubernetes-group-version-kind"?: { group: string; version: string; kind: string }[];
}

/** The OpenAPI document of a version of a group. */
export interface SchemaDocument {
  components?: { schemas?: Record<string, Schema> };
}

const maxReferences = 8;

/** KindSchema is the schema of a kind, with the document that contains the referenced schemas. */
export class KindSchema {
  private readonly resolved = new WeakMap<Schema, Schema>();

  constructor(
    private readonly document: SchemaDocument,
    readonly root: Schema,
    /** Reports whether the kind is a type in Go, and not a custom resource. */
    readonly typed: boolean,
  ) {}

  /** Returns the schema of a path of fields. The path has a "" for each element of a list. */
  at(path: string[]): Schema | undefined {
    let schema: Schema | undefined = this.resolve(this.root);
    for (const name of path) {
      if (!schema) return undefined;
      const below: Schema | undefined = name === "" ? schema.items : fieldSchema(schema, name);
      schema = below && this.resolve(below);
    }
    return schema;
  }

  /** Replaces a reference by its schema. The description of the field has precedence. */
  resolve(schema: Schema): Schema {
    const known = this.resolved.get(schema);
    if (known) return known;
    const found = this.follow(schema);
    this.resolved.set(schema, found);
    return found;
  }

  private follow(schema: Schema): Schema {
    for (let i = 0; i < maxReferences; i++) {
      const name = referenceOf(schema);
      if (!name) return schema;
      schema = { ...this.document.components?.schemas?.[name], ...(schema.description ? { description: schema.description } : {}) };
    }
    return {};
  }
}

/** Returns the schema of a field; undefined if the schema does not specify the field. */
export function fieldSchema(schema: Schema, name: string): Schema | undefined {
  if (schema.properties && Object.hasOwn(schema.properties, name)) return schema.properties[name];
  return typeof schema.additionalProperties === "object" ? schema.additionalProperties : undefined;
}

/** Returns the name of the referenced schema. A reference with a description is the only element of allOf. */
function referenceOf(schema: Schema): string | undefined {
  const reference = schema.$ref ?? (schema.allOf?.length === 1 ? schema.allOf[0]!.$ref : undefined);
  return reference?.slice(reference.lastIndexOf("/") + 1);
}

/** Reports whether a schema refers to a type in Go of Kubernetes. Custom resources refer only to ObjectMeta. */
export function refersToType(schema: Schema): boolean {
  return isType(referenceOf(schema) ?? "");
}

function isType(name: string): boolean {
  return name.startsWith("io.k8s.");
}

/** Returns the schema of a kind; undefined if the document does not contain the kind. */
export function schemaOf(document: SchemaDocument, wanted: { group: string; version: string; kind: string }): KindSchema | undefined {
  const found = Object.entries(document.components?.schemas ?? {}).find(([, schema]) =>
    schema["x-kubernetes-group-version-kind"]?.some(({ group, version, kind }) => group === wanted.group && version === wanted.version && kind === wanted.kind),
  );
  return found && new KindSchema(document, found[1], isType(found[0]));
}
