import { equal } from "./merge";
import type { Patterns } from "./pattern";
import type { Schema } from "./schema";

const descriptions: Record<string, string> = {
  null: "null", boolean: "a boolean", integer: "an integer", number: "a number", string: "a string", array: "a list", object: "an object",
};

/** Returns the error of a value with another type than its schema; "" if the type is correct. */
export function typeError(schema: Schema, value: unknown): string {
  const allowed = schema["x-kubernetes-int-or-string"] || schema.format === "int-or-string" ? ["integer", "string"] : schema.type ? [schema.type] : [];
  const actual = typeOf(value);
  if (allowed.length === 0 || allowed.includes(actual) || (actual === "integer" && allowed.includes("number"))) return "";
  return `must be ${allowed.map((type) => descriptions[type] ?? type).join(" or ")}, not ${descriptions[actual]}`;
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  if (typeof value === "bigint") return "integer";
  return typeof value;
}

/** Returns the errors of a value with the correct type, without those of the fields and elements below it. */
export function constraintErrors(schema: Schema, value: unknown): string[] {
  const errors: string[] = [];
  if (schema.enum && !schema.enum.some((allowed) => equal(allowed, value))) errors.push(`must be one of: ${listed(schema.enum)}`);
  if (typeof value === "number" || typeof value === "bigint") errors.push(...numberErrors(schema, value));
  else if (typeof value === "string") errors.push(...lengthErrors(schema.minLength, schema.maxLength, () => [...value].length, "characters"));
  else if (Array.isArray(value)) errors.push(...lengthErrors(schema.minItems, schema.maxItems, () => value.length, "elements"));
  else if (typeof value === "object" && value !== null) errors.push(...lengthErrors(schema.minProperties, schema.maxProperties, () => Object.keys(value).length, "fields"));
  return errors;
}

const maxListed = 20;

function listed(values: unknown[]): string {
  const shown = values.slice(0, maxListed).map((value) => (typeof value === "string" && value ? value : JSON.stringify(value)));
  return shown.join(", ") + (values.length > maxListed ? ", …" : "");
}

const formats: Record<string, [min: number, max: number]> = { int32: [-(2 ** 31), 2 ** 31 - 1], int64: [-(2 ** 63), 2 ** 63] };

function numberErrors(schema: Schema, value: number | bigint): string[] {
  const errors: string[] = [];
  const { minimum, maximum, multipleOf } = schema;
  if (minimum !== undefined && (schema.exclusiveMinimum ? value <= minimum : value < minimum)) errors.push(`must be ${schema.exclusiveMinimum ? "greater than" : "at least"} ${minimum}`);
  if (maximum !== undefined && (schema.exclusiveMaximum ? value >= maximum : value > maximum)) errors.push(`must be ${schema.exclusiveMaximum ? "less than" : "at most"} ${maximum}`);
  if (multipleOf && !isInteger(Number(value) / multipleOf)) errors.push(`must be a multiple of ${multipleOf}`);
  const [min, max] = formats[schema.format ?? ""] ?? [-Infinity, Infinity];
  if (value < min || value > max) errors.push(`is out of the range of ${schema.format}`);
  return errors;
}

/** Reports whether a quotient is an integer, except for the rounding of a division such as 0.3/0.1. */
function isInteger(quotient: number): boolean {
  return Math.abs(quotient - Math.round(quotient)) <= 1e-9 * Math.max(1, Math.abs(quotient));
}

function lengthErrors(min: number | undefined, max: number | undefined, lengthOf: () => number, unit: string): string[] {
  if (min === undefined && max === undefined) return [];
  const length = lengthOf();
  if (min !== undefined && length < min) return [`must have at least ${min} ${unit}`];
  if (max !== undefined && length > max) return [`must have at most ${max} ${unit}`];
  return [];
}

/** Returns the error of a text that does not match the pattern of its schema; undefined if the browser cannot decide it. */
export function patternError(schema: Schema, value: string, patterns: Patterns): string | undefined {
  const matches = patterns.matches(schema.pattern!, value);
  return matches === undefined ? undefined : matches ? "" : `must match ${schema.pattern}`;
}
