import { constraintErrors, patternError, typeError } from "./constraints";
import { Patterns } from "./pattern";
import { type KindSchema, type Schema, fieldSchema, refersToType } from "./schema";
import type { Path } from "./yamlpath";

/** A problem of a field. */
export interface Problem {
  path: Path;
  /** Unknown fields are warnings. */
  severity: "error" | "warning";
  message: string;
  /** The problem concerns the name of the field, and not its value. */
  name?: boolean;
}

export const maxProblems = 50;
const maxNesting = 100;
const maxCombined = 20;
const maxSteps = 500_000;

/** The state of a validation. */
interface Context {
  kind: KindSchema;
  problems: Problem[];
  /** Shared by all parts of a validation. */
  shared: { patterns: Patterns; steps: number; undecided: number };
  /** The value is decoded into a type in Go. null is then an absent value, and "" is allowed for enumerations. */
  typed: boolean;
  /** The nesting of allOf, anyOf, oneOf and not. Schemas in them are not complete, so they do not specify all fields. */
  combined: number;
}

/** Returns the problems of an object, at most maxProblems. May add default values to the object. */
export function validate(kind: KindSchema, value: unknown): Problem[] {
  const shared = { patterns: new Patterns(), steps: maxSteps, undecided: 0 };
  const context: Context = { kind, problems: [], shared, typed: kind.typed, combined: 0 };
  if (!kind.typed) setDefaults(kind, kind.root, value, 0);
  visit(context, kind.root, value, []);
  return context.problems.slice(0, maxProblems);
}

/** Sets the default values of a custom resource, because the server validates the object with them. */
function setDefaults(kind: KindSchema, schema: Schema, value: unknown, nesting: number): void {
  if (typeof value !== "object" || value === null || nesting > maxNesting || refersToType(schema)) return;
  if (Array.isArray(value)) {
    if (schema.items) for (const item of value) setDefaults(kind, schema.items, item, nesting + 1);
    return;
  }
  const fields = value as Record<string, unknown>;
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const absent = !Object.hasOwn(fields, name) || (fields[name] === null && !field.nullable);
    if (field.default !== undefined && absent) fields[name] = structuredClone(field.default);
  }
  for (const [name, below] of Object.entries(fields)) {
    const field = fieldSchema(schema, name);
    if (field) setDefaults(kind, field, below, nesting + 1);
  }
}

function report(context: Context, path: Path, message: string): void {
  context.problems.push({ path, severity: "error", message });
}

function visit(outer: Context, declared: Schema, value: unknown, path: Path): void {
  const { shared, kind } = outer;
  if (path.length > maxNesting || outer.combined > maxCombined) shared.steps = 0; // ends the validation
  if (outer.problems.length >= maxProblems || shared.steps-- <= 0) return;
  const context = !outer.typed && refersToType(declared) ? { ...outer, typed: true } : outer;
  const schema = kind.resolve(declared);
  if (value === null && (schema.nullable || context.typed)) return;
  const wrongType = typeError(schema, value);
  if (wrongType) {
    report(context, path, wrongType);
    return;
  }
  visitConstraints(context, schema, value, path);
  if (Array.isArray(value)) {
    if (schema.items) value.forEach((item, i) => visit(context, schema.items!, item, [...path, i]));
  } else if (typeof value === "object" && value !== null) {
    visitFields(context, schema, value as Record<string, unknown>, path);
  }
  visitCombined(context, schema, value, path);
}

function visitConstraints(context: Context, schema: Schema, value: unknown, path: Path): void {
  if (!(context.typed && value === "")) for (const message of constraintErrors(schema, value)) report(context, path, message);
  if (!schema.pattern || typeof value !== "string") return;
  const message = patternError(schema, value, context.shared.patterns);
  if (message === undefined) context.shared.undecided++;
  else if (message) report(context, path, message);
}

function visitFields(context: Context, schema: Schema, fields: Record<string, unknown>, path: Path): void {
  for (const name of schema.required ?? []) if (!Object.hasOwn(fields, name)) report(context, path, `the field ${name} is required`);
  const closed = context.combined === 0 && schema.properties && !schema.additionalProperties && !schema["x-kubernetes-preserve-unknown-fields"];
  for (const [name, value] of Object.entries(fields)) {
    const field = fieldSchema(schema, name);
    if (field) visit(context, field, value, [...path, name]);
    else if (closed) context.problems.push({ path: [...path, name], severity: "warning", message: `unknown field ${name}`, name: true });
  }
}

/** Validates a value against allOf, anyOf, oneOf and not. */
function visitCombined(context: Context, schema: Schema, value: unknown, path: Path): void {
  const { shared } = context;
  const test = (part: Schema): Problem[] => {
    const inner: Context = { ...context, problems: [], combined: context.combined + 1 };
    visit(inner, part, value, path);
    return inner.problems;
  };
  for (const part of schema.allOf ?? []) context.problems.push(...test(part));
  const undecided = shared.undecided;
  const anyOf = schema.anyOf?.map(test);
  const oneOf = schema.oneOf?.map(test);
  const excluded = schema.not && test(schema.not).length === 0;
  if (shared.steps <= 0) return; // the parts are not complete
  for (const alternatives of [anyOf, oneOf]) {
    if (alternatives?.every((problems) => problems.length > 0)) report(context, path, noAlternative(alternatives, path));
  }
  if (shared.undecided > undecided) return; // a part may contain errors that were not found
  const matching = oneOf?.filter((problems) => problems.length === 0).length ?? 0;
  if (matching > 1) report(context, path, `matches ${matching} alternatives of the schema, and must match only one`);
  if (excluded) report(context, path, "matches a schema that is not allowed (not)");
}

/** Returns the error of a value that matches no alternative: the first problem of each. */
function noAlternative(alternatives: Problem[][], path: Path): string {
  const reasons = alternatives.map(([problem]) => {
    const below = problem!.path.slice(path.length).join(".");
    return below ? `${below} ${problem!.message}` : problem!.message;
  });
  return [...new Set(reasons)].join(", or ");
}
