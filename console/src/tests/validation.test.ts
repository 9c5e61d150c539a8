import assert from "node:assert/strict";
import { test } from "node:test";
import { parseDocument } from "yaml";
import { type Schema, type SchemaDocument, schemaOf } from "../model/schema";
import { type Problem, maxProblems, validate } from "../model/validation";
import { parseYAML } from "../model/yaml";
import { rangeOf } from "../model/yamlpath";

const gvk = { group: "example.com", version: "v1", kind: "Toy" };

/** Returns a document in which the kind Toy has a schema. The prefix io.k8s marks types in Go. */
function documentOf(root: Schema, prefix = "com.example.", others: Record<string, Schema> = {}): SchemaDocument {
  return { components: { schemas: { ...others, [`${prefix}Toy`]: { ...root, "x-kubernetes-group-version-kind": [gvk] } } } };
}

function problems(document: SchemaDocument, text: string): Problem[] {
  return validate(schemaOf(document, gvk)!, parseYAML(text));
}

function format(found: Problem[]): string[] {
  return found.map(({ path, severity, message }) => `${severity === "warning" ? "warning: " : ""}${path.join(".")}: ${message}`);
}

/** Returns the problems of a custom resource with one field, value. */
function check(schema: Schema, value: string): string[] {
  return format(problems(documentOf({ type: "object", properties: { value: schema } }), `value: ${value}`)).map((problem) => problem.replace(/^value: /, ""));
}

test("validate checks integers that a number does not represent", () => {
  const int64: Schema = { type: "integer", format: "int64", minimum: 1, multipleOf: 3 };
  assert.deepEqual(check(int64, "9007199254740993"), []);
  assert.deepEqual(check(int64, "-9007199254740993"), ["must be at least 1"]);
  assert.deepEqual(check({ ...int64, format: "int32" }, "9007199254740993"), ["is out of the range of int32"]);
  assert.deepEqual(check({ type: "string" }, "9007199254740993"), ["must be a string, not an integer"]);
  assert.deepEqual(check({ type: "integer", maximum: 511 }, "0400"), []);
});

test("validate checks types", () => {
  const types: [type: string, valid: string[], invalid: string, message: string][] = [
    ["string", ["a", '""', '"1"'], "1", "must be a string, not an integer"],
    ["integer", ["1", "-3", "1.0"], "1.5", "must be an integer, not a number"],
    ["number", ["1", "1.5"], '"1"', "must be a number, not a string"],
    ["boolean", ["true"], '"true"', "must be a boolean, not a string"],
    ["array", ["[]", "[1]"], "{}", "must be a list, not an object"],
    ["object", ["{}", "{a: 1}"], "[1]", "must be an object, not a list"],
  ];
  for (const [type, valid, invalid, message] of types) {
    for (const value of valid) assert.deepEqual(check({ type }, value), []);
    assert.deepEqual(check({ type }, invalid), [message]);
    assert.equal(check({ type }, "null").length, 1);
    assert.deepEqual(check({ type, nullable: true }, "null"), []);
  }
  assert.deepEqual(check({}, "null"), []);
  assert.deepEqual(check({}, "[1, {a: b}]"), []);
});

test("validate accepts integers and strings for int-or-string", () => {
  const schemas: Schema[] = [{ "x-kubernetes-int-or-string": true }, { format: "int-or-string", oneOf: [{ type: "integer" }, { type: "string" }] }, { type: "string", format: "int-or-string" }];
  for (const schema of schemas) {
    for (const value of ["1", "25%"]) assert.deepEqual(check(schema, value), []);
    assert.deepEqual(check(schema, "true"), ["must be an integer or a string, not a boolean"]);
  }
  assert.deepEqual(check({ oneOf: [{ type: "string" }, { type: "number" }] }, "1.5"), []); // a quantity
});

test("validate checks numbers", () => {
  assert.deepEqual(check({ minimum: 1, maximum: 3 }, "0"), ["must be at least 1"]);
  assert.deepEqual(check({ minimum: 1, maximum: 3 }, "4"), ["must be at most 3"]);
  assert.deepEqual(check({ minimum: 1, maximum: 3 }, "3"), []);
  assert.deepEqual(check({ minimum: 1, exclusiveMinimum: true }, "1"), ["must be greater than 1"]);
  assert.deepEqual(check({ maximum: 3, exclusiveMaximum: true }, "3"), ["must be less than 3"]);
  assert.deepEqual(check({ multipleOf: 0.1 }, "0.3"), []);
  assert.deepEqual(check({ multipleOf: 5 }, "12"), ["must be a multiple of 5"]);
  assert.deepEqual(check({ type: "integer", format: "int32" }, "2147483648"), ["is out of the range of int32"]);
  assert.deepEqual(check({ type: "integer", format: "int32" }, "-2147483648"), []);
  assert.deepEqual(check({ type: "integer", format: "int64" }, "2147483648"), []);
  assert.deepEqual(check({ type: "integer", format: "int64" }, "9300000000000000000"), ["is out of the range of int64"]);
});

test("validate checks lengths and enumerations", () => {
  assert.deepEqual(check({ minLength: 2, maxLength: 3 }, "ä"), ["must have at least 2 characters"]);
  assert.deepEqual(check({ minLength: 2, maxLength: 3 }, "😀😀😀"), []);
  assert.deepEqual(check({ maxItems: 1 }, "[1, 2]"), ["must have at most 1 elements"]);
  assert.deepEqual(check({ minProperties: 1 }, "{}"), ["must have at least 1 fields"]);
  assert.deepEqual(check({ enum: ["red", "green"] }, "blue"), ["must be one of: red, green"]);
  assert.deepEqual(check({ enum: [{ a: 1, b: [2] }] }, "{b: [2], a: 1}"), []);
});

test("validate reports required and unknown fields", () => {
  const spec: Schema = { type: "object", required: ["size", "color"], properties: { size: { type: "integer" }, color: { type: "string", default: "red" } } };
  const document = documentOf({ type: "object", properties: { spec, list: { type: "array", items: spec } } });
  assert.deepEqual(format(problems(document, "spec: {}")), ["spec: the field size is required"]);
  assert.deepEqual(format(problems(document, "spec: {size: 1, sise: 2}\nother: 1")), ["warning: spec.sise: unknown field sise", "warning: other: unknown field other"]);
  assert.deepEqual(format(problems(document, "list: [{size: 1}, {size: a}]")), ["list.1.size: must be an integer, not a string"]);
  for (const open of [{ additionalProperties: true }, { additionalProperties: { type: "integer" } }, { "x-kubernetes-preserve-unknown-fields": true }]) {
    assert.deepEqual(check({ type: "object", properties: { a: { type: "string" } }, ...open }, "{a: x, b: 1}"), []);
  }
  assert.deepEqual(check({ type: "object", additionalProperties: { type: "string" } }, "{app: 1}"), ["value.app: must be a string, not an integer"]);
  assert.deepEqual(check({ type: "object" }, "{anything: 1}"), []);
  assert.deepEqual(check({ type: "object", properties: { a: {} } }, "{toString: 1}"), ["warning: value.toString: unknown field toString"]);
});

test("validate checks patterns that the browser evaluates correctly and quickly", () => {
  const name = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
  assert.deepEqual(check({ pattern: name }, "a.b-c"), []);
  assert.deepEqual(check({ pattern: name }, "a_b"), [`must match ${name}`]);
  assert.deepEqual(check({ pattern: "b" }, "abc"), []); // not anchored
  for (const skipped of ["\\Ax\\z", "^(?P<a>x)$", "^(?i)x$", "^[[:alpha:]]+$", "^[]x]$", "^(a+)+$", "^(a|a)*$", "^((a*)b?)*$", "^("]) assert.deepEqual(check({ pattern: skipped }, "!"), [], skipped);
  assert.deepEqual(check({ pattern: "^a*$" }, "b".repeat(1000)), []); // too long
});

test("validate evaluates allOf, anyOf, oneOf and not", () => {
  const anyOf: Schema = { type: "object", properties: { a: {}, b: {} }, anyOf: [{ required: ["a"] }, { required: ["b"] }] };
  assert.deepEqual(check(anyOf, "{a: 1, b: 1}"), []);
  assert.deepEqual(check(anyOf, "{}"), ["the field a is required, or the field b is required"]);
  assert.deepEqual(check({ anyOf: [{ properties: { a: { minimum: 1 } } }, { properties: { a: { type: "string" } } }] }, "{a: 0}"), ["a must be at least 1, or a must be a string, not an integer"]);
  const oneOf: Schema = { type: "object", properties: { a: {}, b: {} }, oneOf: [{ required: ["a"] }, { required: ["b"] }] };
  assert.deepEqual(check(oneOf, "{a: 1}"), []);
  assert.deepEqual(check(oneOf, "{a: 1, b: 1}"), ["matches 2 alternatives of the schema, and must match only one"]);
  assert.deepEqual(check({ allOf: [{ minimum: 1 }, { maximum: 3 }] }, "4"), ["must be at most 3"]);
  assert.deepEqual(check({ type: "string", not: { enum: ["x"] } }, "x"), ["matches a schema that is not allowed (not)"]);
  assert.deepEqual(check({ type: "string", not: { enum: ["x"] } }, "z"), []);
  // Parts of a combination do not specify all fields.
  assert.deepEqual(check({ type: "object", properties: { a: {}, b: {} }, allOf: [{ properties: { a: { type: "integer" } } }, {}] }, "{a: 1, b: 1}"), []);
  // It is unknown whether the text matches the pattern.
  assert.deepEqual(check({ not: { pattern: "^(a+)+$" } }, "x"), []);
  assert.deepEqual(check({ oneOf: [{ pattern: "^(a+)+$" }, { pattern: "x" }] }, "x"), []);
});

test("validate applies defaults before it combines schemas", () => {
  const schema: Schema = { type: "object", properties: { mode: { type: "string", default: "fast" } }, oneOf: [{ properties: { mode: { enum: ["fast"] } }, required: ["mode"] }] };
  assert.deepEqual(check(schema, "{}"), []);
  assert.deepEqual(check(schema, "{mode: null}"), []);
});

test("validate follows references, and accepts null for types in Go", () => {
  const others: Record<string, Schema> = {
    "io.k8s.meta.ObjectMeta": { type: "object", properties: { name: { type: "string" }, creationTimestamp: { $ref: "#/components/schemas/io.k8s.meta.Time" } } },
    "io.k8s.meta.Time": { type: "string", format: "date-time" },
  };
  const root: Schema = {
    type: "object", properties: { metadata: { allOf: [{ $ref: "#/components/schemas/io.k8s.meta.ObjectMeta" }], description: "Metadata" }, policy: { type: "string", enum: ["Always"] }, data: { type: "string" } },
  };
  assert.deepEqual(format(problems(documentOf(root, "com.example.", others), "metadata: {creationTimestamp: null, nam: x}\ndata: null")), ["warning: metadata.nam: unknown field nam", "data: must be a string, not null"]);
  assert.deepEqual(format(problems(documentOf(root, "io.k8s.", others), 'metadata: {creationTimestamp: null}\ndata: null\npolicy: ""')), []);
});

test("validate ends for recursive schemas", () => {
  const self = { $ref: "#/components/schemas/com.example.Toy" };
  const nested = (depth: number): string => `${"{not: ".repeat(depth)}{size: x}${"}".repeat(depth)}`;
  const document = documentOf({ type: "object", properties: { not: self, size: { type: "integer" } } });
  assert.deepEqual(format(problems(document, nested(3))), ["not.not.not.size: must be an integer, not a string"]);
  assert.deepEqual(problems(document, nested(150)), []);
  assert.deepEqual(problems(documentOf({ type: "object", anyOf: [self, self] }), "{}"), []); // the number of steps is limited
  assert.deepEqual(problems(documentOf({ allOf: [self] }), "{}"), []);
});

test("validate limits the number of problems", () => {
  const text = Array.from({ length: 200 }, (_, i) => `field${i}: 1`).join("\n");
  assert.equal(problems(documentOf({ type: "object", properties: { a: {} } }), text).length, maxProblems);
});

test("validate accepts any document", () => {
  const document = documentOf({ type: "object", properties: { a: { type: "string" } } });
  assert.deepEqual(format(problems(document, "just a text")), [": must be an object, not a string"]);
  assert.equal(problems(document, "[1]").length, 1);
  assert.equal(problems(document, "").length, 1);
});

test("rangeOf finds the text of a problem", () => {
  const text = "metadata:\n  labels:\n    8080: x\nspec:\n  list:\n  - name: a\n    size: big\n  - {name: b}\n";
  const document = parseDocument(text);
  const at = (path: (string | number)[], name?: boolean): string => text.slice(...rangeOf(document, path, name));
  assert.equal(at(["spec", "list", 0, "size"]), "big");
  assert.equal(at(["spec", "list", 0, "size"], true), "size");
  assert.equal(at(["spec", "list"]), "list"); // not the whole list
  assert.equal(at(["spec", "missing", "field"]), "spec");
  assert.equal(at(["metadata", "labels", "8080"]), "x");
  assert.equal(at(["spec", "list", 1]), "name");
  assert.equal(at([]), "");
});

test("validate applies the default of a field with the name of a JavaScript property", () => {
  const schema: Schema = { type: "object", required: ["constructor"], properties: { constructor: { type: "string", default: "x" } } };
  assert.deepEqual(check(schema, "{}"), []);
});
