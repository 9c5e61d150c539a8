import type { CompletionContext, CompletionResult, CompletionSource } from "@codemirror/autocomplete";
import { useEffect, useState } from "preact/hooks";
import type { Client } from "../api/client";
import { type Resource, versionPath } from "../api/discovery";
import { parentsOf } from "../model/yamlpath";
import { useApp } from "../ui/context";

/** A schema of OpenAPI v3. */
interface Schema {
  $ref?: string;
  allOf?: Schema[];
  description?: string;
  type?: string;
  enum?: unknown[];
  properties?: Record<string, Schema>;
  items?: Schema;
  additionalProperties?: Schema | boolean;
  "x-kubernetes-group-version-kind"?: { group: string; version: string; kind: string }[];
}

interface Document {
  components?: { schemas?: Record<string, Schema> };
}

/** Completes the fields and the enumerated values of a kind, from the schema that the server publishes. */
export function useCompletion(resource: Resource): CompletionSource | undefined {
  const { client } = useApp();
  const [source, setSource] = useState<CompletionSource>();
  useEffect(() => {
    const controller = new AbortController();
    readSchema(client, resource, controller.signal).then(
      (schema) => schema && setSource(() => (context: CompletionContext) => completeAt(context, schema)),
      () => undefined, // the editor works without completion
    );
    return () => controller.abort();
  }, [client, resource]);
  return source;
}

/** Resolver finds the schema of a path of fields. */
class Resolver {
  constructor(
    private readonly document: Document,
    private readonly root: Schema,
  ) {}

  /** path has a "" for each element of a list. */
  at(path: string[]): Schema | undefined {
    let schema: Schema | undefined = this.resolve(this.root);
    for (const name of path) {
      if (!schema) return undefined;
      if (name === "") schema = this.resolve(schema.items);
      else schema = this.resolve(schema.properties?.[name] ?? (typeof schema.additionalProperties === "object" ? schema.additionalProperties : undefined));
    }
    return schema;
  }

  resolve(schema: Schema | undefined): Schema | undefined {
    const reference = schema?.$ref ?? schema?.allOf?.[0]?.$ref;
    if (!reference) return schema;
    return { ...this.document.components?.schemas?.[reference.slice(reference.lastIndexOf("/") + 1)], ...(schema?.description ? { description: schema.description } : {}) };
  }
}

async function readSchema(client: Client, resource: Resource, signal: AbortSignal): Promise<Resolver | undefined> {
  const document = await client.json<Document>(`/openapi/v3${versionPath(resource)}`, { signal });
  const root = Object.values(document.components?.schemas ?? {}).find((schema) =>
    schema["x-kubernetes-group-version-kind"]?.some(({ group, version, kind }) => group === resource.group && version === resource.version && kind === resource.kind),
  );
  return root && new Resolver(document, root);
}

const key = /^(\s*(?:- +)*)([\w./-]*)$/;
const value = /^(\s*(?:- +)*)([\w./-]+):\s+(\w*)$/;

function completeAt(context: CompletionContext, schema: Resolver): CompletionResult | null {
  const line = context.state.doc.lineAt(context.pos);
  const before = line.text.slice(0, context.pos - line.from);
  const above = context.state.sliceDoc(0, line.from).split("\n").slice(0, -1);
  const atValue = value.exec(before);
  if (atValue) {
    const [, indent = "", name = "", typed = ""] = atValue;
    const found = schema.at([...parentsOf(above, indent), name]);
    const values = found?.enum ?? (found?.type === "boolean" ? [true, false] : []);
    return { from: context.pos - typed.length, options: values.map((option) => ({ label: String(option), type: "enum" })) };
  }
  const atKey = key.exec(before);
  if (!atKey || (!context.explicit && atKey[2] === "")) return null;
  const [, indent = "", typed = ""] = atKey;
  const properties = schema.at(parentsOf(above, indent))?.properties;
  if (!properties) return null;
  return {
    from: context.pos - typed.length,
    options: Object.entries(properties).map(([label, property]) => {
      const resolved = schema.resolve(property);
      const container = resolved?.type === "object" || resolved?.properties ? `:\n${" ".repeat(indent.length + 2)}` : resolved?.type === "array" ? `:\n${" ".repeat(indent.length)}- ` : ": ";
      return { label, type: "property", detail: resolved?.type ?? "", info: property.description ?? "", apply: label + container };
    }),
  };
}
