import type { CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { useEffect, useState } from "preact/hooks";
import { type Resource, versionPath } from "../api/discovery";
import { type KindSchema, type SchemaDocument, schemaOf } from "../model/schema";
import { validate } from "../model/validation";
import { parentsOf } from "../model/yamlpath";
import { useApp } from "../ui/context";
import type { EditorSchema } from "../ui/editor";

/** Completes and validates objects of a resource, with the schema that the server publishes. Returns undefined without a schema. */
export function useSchema(resource: Resource | undefined): EditorSchema | undefined {
  const { client } = useApp();
  const [schema, setSchema] = useState<EditorSchema>();
  useEffect(() => {
    setSchema(undefined);
    if (!resource) return;
    const controller = new AbortController();
    client.text(`/openapi/v3${versionPath(resource)}`, { signal: controller.signal }).then(
      (text) => !controller.signal.aborted && setSchema(supportOf(schemaOf(JSON.parse(text) as SchemaDocument, resource))),
      () => undefined, // the editor works without the schema
    );
    return () => controller.abort();
  }, [client, resource]);
  return schema;
}

function supportOf(kind: KindSchema | undefined): EditorSchema | undefined {
  return kind && { complete: (context) => completeAt(context, kind), validate: (object) => validate(kind, object) };
}

const key = /^(\s*(?:- +)*)([\w./-]*)$/;
const value = /^(\s*(?:- +)*)([\w./-]+):\s+(\w*)$/;

function completeAt(context: CompletionContext, schema: KindSchema): CompletionResult | null {
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
      const container = resolved.type === "object" || resolved.properties ? `:\n${" ".repeat(indent.length + 2)}` : resolved.type === "array" ? `:\n${" ".repeat(indent.length)}- ` : ": ";
      return { label, type: "property", detail: resolved.type ?? "", info: property.description ?? "", apply: label + container };
    }),
  };
}
