import { type Document, type ParseOptions, type DocumentOptions, type SchemaOptions, type Tags, parseDocument, stringify } from "yaml";

/** Tags of YAML 1.1 that kubectl and the server do not resolve: times, and numbers with the base 60. */
const unresolved = new Set(["tag:yaml.org,2002:timestamp", "TIME"]);

/**
 * The options for YAML as kubectl and the server parse it: with the schema of YAML 1.1. In it, 0400 is an octal number, yes
 * is a boolean, and << merges an object.
 */
const options: ParseOptions & DocumentOptions & SchemaOptions = {
  schema: "yaml-1.1", intAsBigInt: true,
  customTags: (tags: Tags): Tags => [...tags.filter((tag) => typeof tag === "string" || !(unresolved.has(tag.tag) || unresolved.has(("format" in tag && tag.format) || ""))), "intOct"],
};

/** Parses a document. The errors of its syntax are a part of the result. */
export function parseYAMLDocument(text: string): Document {
  return parseDocument(text, options);
}

/** Returns the value of a document. Integers that a number does not represent exactly are of the type bigint. */
export function valueOf(document: Document): unknown {
  return document.toJS({ reviver: (_, value: unknown) => (typeof value === "bigint" && Number.isSafeInteger(Number(value)) ? Number(value) : value) });
}

/** Parses a text with one document. Throws an error for a text with another syntax. */
export function parseYAML(text: string): unknown {
  const document = parseYAMLDocument(text);
  const [error] = document.errors;
  if (error) throw error;
  return valueOf(document);
}

/** Formats a value. Strings such as yes and 0400, which YAML 1.1 and 1.2 resolve differently, are quoted. */
export function yaml(value: unknown): string {
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false, compat: "yaml-1.1" });
}
