import assert from "node:assert/strict";
import test from "node:test";
import { isAge, tableOf } from "../model/table";

test("tableOf returns a table as it is", () => {
  const table = { kind: "Table", metadata: { resourceVersion: "1" }, rows: [] };
  assert.equal(tableOf(table), table);
});

test("tableOf converts lists and objects", () => {
  const metadata = { name: "a", namespace: "b", creationTimestamp: "2026-11-29T10:00:00Z" };
  const object = { apiVersion: "example.com/v1", kind: "Example", metadata };
  const rows = [{ cells: ["a", ""], object: { metadata } }];
  const list = tableOf({ metadata: { resourceVersion: "7", continue: "next" }, items: [object] });
  assert.deepEqual([list.metadata, list.rows], [{ resourceVersion: "7", continue: "next" }, rows]);
  assert.deepEqual(list.columnDefinitions!.map((column) => [column.name, isAge(column)]), [["Name", false], ["Age", true]]);
  assert.deepEqual(tableOf(object).rows, rows);
  assert.deepEqual(tableOf({ metadata: { resourceVersion: "7" }, items: [] }).rows, []);
  const bookmark = { apiVersion: "example.com/v1", kind: "Example", metadata: { resourceVersion: "8" } as never };
  assert.deepEqual([tableOf(bookmark).metadata.resourceVersion, tableOf(bookmark).rows], ["8", []]);
});

test("isAge distinguishes the age of objects from other columns", () => {
  const column = (name: string, type: string, description?: string) => isAge({ name, type, priority: 0, ...(description ? { description } : {}) });
  const path = (text: string): string => `Custom resource definition column (in JSONPath format): ${text}`;
  assert.ok(column("Age", "string", "CreationTimestamp is a timestamp representing the server time when this object was created."));
  assert.ok(column("Age", "date", path(".metadata.creationTimestamp")));
  assert.ok(column("Age", "date", "The age of the database."));
  assert.ok(!column("Age", "date", path(".status.startTime")));
  assert.ok(!column("Age", "integer", path(".spec.age")));
  assert.ok(!column("Age", "string", "The age of the person."));
  assert.ok(!column("Created At", "date", "CreationTimestamp is a timestamp representing the server time when this object was created."));
});
