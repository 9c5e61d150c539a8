import assert from "node:assert/strict";
import { test } from "node:test";
import { type Item, cascade, dependents } from "../model/owners";

/** Returns an item whose UID is its name, with the UIDs of its owners. */
function item(name: string, ...owners: string[]): Item {
  const ownerReferences = owners.map((uid) => ({ apiVersion: "v1", kind: "Example", name: uid, uid }));
  return { apiVersion: "v1", kind: "Example", resource: "examples", group: "", metadata: { name, uid: name, ...(owners.length > 0 ? { ownerReferences } : {}) } };
}

function names(items: Item[]): string[] {
  return items.map((item) => item.metadata.name).sort();
}

test("dependents returns direct and indirect dependents", () => {
  const items = [item("deployment"), item("replicaset", "deployment"), item("pod-1", "replicaset"), item("pod-2", "replicaset"), item("other"), item("pod-3", "other")];
  assert.deepEqual(names(dependents(items, "deployment")), ["pod-1", "pod-2", "replicaset"]);
  assert.deepEqual(names(dependents(items, "pod-1")), []);
});

test("dependents contains an object with several owners once, and ends for cycles", () => {
  const items = [item("a", "c"), item("b", "a"), item("c", "a", "b")];
  assert.deepEqual(names(dependents(items, "a")), ["b", "c"]);
});

test("dependents includes dependents of an object that is not in the list", () => {
  assert.deepEqual(names(dependents([item("pod", "node")], "node")), ["pod"]);
});

test("cascade deletes dependents without another owner", () => {
  const items = [item("a"), item("b", "a"), item("c", "b"), item("other"), item("shared", "b", "other"), item("below", "shared")];
  const { deleted, kept } = cascade(items, "a");
  assert.deepEqual(names(deleted), ["b", "c"]);
  assert.deepEqual(names(kept), ["below", "shared"]);
});

test("cascade deletes an object if all of its owners are deleted", () => {
  const items = [item("late", "b", "c"), item("c", "a"), item("b", "a")];
  const { deleted, kept } = cascade(items, "a");
  assert.deepEqual(names(deleted), ["b", "c", "late"]);
  assert.deepEqual(kept, []);
});

test("cascade keeps objects in a cycle, as the garbage collector does", () => {
  const { deleted, kept } = cascade([item("b", "a", "c"), item("c", "b")], "a");
  assert.deepEqual(names(deleted), []);
  assert.deepEqual(names(kept), ["b", "c"]);
});
