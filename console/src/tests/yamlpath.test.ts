import assert from "node:assert/strict";
import { test } from "node:test";
import { parentsOf } from "../model/yamlpath";

/** Returns the fields that contain the last line of a text. The line consists of its indentation and list markers. */
function parents(text: string): string[] {
  const lines = text.split("\n");
  return parentsOf(lines.slice(0, -1), lines.at(-1)!);
}

test("parentsOf returns nothing at the top of the document", () => {
  assert.deepEqual(parents("apiVersion: v1\nmetadata:\n  name: a\n"), []);
});

test("parentsOf finds nested fields and skips their siblings", () => {
  assert.deepEqual(parents("metadata:\n  labels:\n    a: b\nspec:\n  strategy:\n    rollingUpdate:\n      maxSurge: 1\n  template:\n    "), ["spec", "template"]);
  assert.deepEqual(parents("metadata:\n  labels:\n    a: b\n  "), ["metadata"]);
});

test("parentsOf accepts list items at the column of their field, and indented ones", () => {
  for (const item of ["  containers:\n  - name: a\n    ", "  containers:\n    - name: a\n      "]) assert.deepEqual(parents(`spec:\n${item}`), ["spec", "containers", ""]);
  for (const item of ["  containers:\n  - ", "  containers:\n    - "]) assert.deepEqual(parents(`spec:\n${item}`), ["spec", "containers", ""]);
});

test("parentsOf skips earlier list items", () => {
  const items = "spec:\n  containers:\n  - name: a\n    env:\n    - name: X\n      value: y\n";
  assert.deepEqual(parents(`${items}  - `), ["spec", "containers", ""]);
  assert.deepEqual(parents(`${items}  - name: b\n    `), ["spec", "containers", ""]);
  assert.deepEqual(parents(`${items}    - `), ["spec", "containers", "", "env", ""]);
});

test("parentsOf finds a field that begins a list item", () => {
  assert.deepEqual(parents("spec:\n  containers:\n  - ports:\n    - containerPort: 80\n      "), ["spec", "containers", "", "ports", ""]);
  assert.deepEqual(parents("spec:\n  containers:\n  - resources:\n      limits:\n        "), ["spec", "containers", "", "resources", "limits"]);
  assert.deepEqual(parents("spec:\n  containers:\n  - resources:\n      "), ["spec", "containers", "", "resources"]);
});

test("parentsOf finds keys with dots and slashes", () => {
  assert.deepEqual(parents("metadata:\n  annotations:\n    example.com/a:\n      "), ["metadata", "annotations", "example.com/a"]);
});
