import assert from "node:assert/strict";
import { test } from "node:test";
import type { Client } from "../api/client";
import { undo } from "../api/undo";
import type { Change, KubeObject, ObjectMeta } from "../api/types";
import { type UndoStep, changedObjects, inOrder, isServiceAddress, isTransient, objectName, restoredManagers, statesDiffer, writable } from "../model/undo";

function change(resource: string, name: string, namespace = "shop", revision = "1"): Change {
  return { metadata: { name: `${revision}-${name}`, ...(namespace ? { namespace } : {}) }, object: { resource, name, uid: name }, operation: "Updated", revision };
}

function object(metadata: Partial<ObjectMeta>, other: Record<string, unknown> = {}): KubeObject {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a", ...metadata }, ...other };
}

test("changedObjects groups changes by resource, namespace and name", () => {
  const changes = [change("configmaps", "a", "shop", "1"), change("secrets", "a", "shop", "2"), change("configmaps", "a", "office", "3"), change("configmaps", "a", "shop", "4"), change("configmaps", "a", "shop", "5")];
  assert.deepEqual(changedObjects(changes).map(({ first, last }) => `${objectName(first)} ${first.revision}-${last.revision}`), ["configmaps shop/a 1-5", "secrets shop/a 2-2", "configmaps office/a 3-3"]);
});

test("isTransient reports events and leases", () => {
  assert.deepEqual(["events", "events.events.k8s.io", "leases.coordination.k8s.io", "configmaps"].map((resource) => isTransient(change(resource, "a"))), [true, true, true, false]);
});

test("isServiceAddress reports the IPAddresses of services", () => {
  const step = (resource: string, parent: string): UndoStep => ({ change: change(resource, "10.0.0.1", ""), want: undefined, live: object({}, { spec: { parentRef: { resource: parent } } }) });
  const ipAddresses = "ipaddresses.networking.k8s.io";
  assert.deepEqual([step(ipAddresses, "services"), step(ipAddresses, "gateways"), step("widgets.example.com", "services")].map(isServiceAddress), [true, false, false]);
});

test("statesDiffer ignores the status and the metadata that each write changes", () => {
  const state = object({ resourceVersion: "1", generation: 1, managedFields: [{ manager: "x" }] }, { data: { a: "b" }, status: { ready: true } });
  assert.equal(statesDiffer(state, object({ resourceVersion: "2" }, { data: { a: "b" } })), false);
  assert.equal(statesDiffer(state, object({}, { data: { a: "c" } })), true);
  assert.equal(statesDiffer(state, object({ labels: { a: "b" } }, { data: { a: "b" } })), true);
  assert.equal(statesDiffer(state, undefined), true);
  assert.equal(statesDiffer(undefined, undefined), false);
});

test("writable removes the fields of the server", () => {
  const state = object({ uid: "old", resourceVersion: "1", generation: 3, deletionTimestamp: "2026-11-28T00:00:00Z", managedFields: [] }, { data: {} });
  assert.deepEqual(writable(state), object({ uid: "old" }, { data: {} }));
  assert.deepEqual(writable(state, object({ uid: "new", resourceVersion: "7" })), object({ uid: "new", resourceVersion: "7" }, { data: {} }));
});

test("restoredManagers keeps the present managers of the status", () => {
  const want = object({ managedFields: [{ manager: "helm" }, { manager: "old", subresource: "status" }] });
  const live = object({ managedFields: [{ manager: "console" }, { manager: "controller", subresource: "status" }] });
  assert.deepEqual(restoredManagers(want, live), [{ manager: "helm" }, { manager: "controller", subresource: "status" }]);
  assert.deepEqual(restoredManagers(object({}), live), []);
});

test("undo sends the dry run of a deletion in its options", async () => {
  const bodies: unknown[] = [];
  const client = {
    json: () => Promise.resolve(object({ uid: "u" })),
    send: (_: string, request: { body: unknown; query?: unknown }) => Promise.resolve(bodies.push(request.body, request.query)),
  } as unknown as Client;
  const step: UndoStep = { change: change("configmaps", "a"), want: undefined, live: object({ uid: "u" }) };
  await undo(client, step, "All");
  await undo(client, step);
  const options = { kind: "DeleteOptions", apiVersion: "v1", preconditions: { uid: "u" } };
  assert.deepEqual(bodies, [{ ...options, dryRun: ["All"] }, undefined, options, undefined]);
});

test("inOrder creates owners first and deletes them last", () => {
  const step = (resource: string, name: string, action: "create" | "restore" | "delete", owner?: string): UndoStep => {
    const state = object({ name, ...(owner ? { ownerReferences: [{ apiVersion: "v1", kind: "X", name: owner, uid: owner }] } : {}) });
    return { change: change(resource, name), want: action === "delete" ? undefined : state, live: action === "create" ? undefined : state };
  };
  const names = (steps: UndoStep[]): string[] => inOrder(steps).map(({ change }) => change.object.name);
  const definitions = "customresourcedefinitions.apiextensions.k8s.io";
  assert.deepEqual(
    names([step("pods", "pod", "create", "rs"), step("replicasets.apps", "rs", "create", "deploy"), step("deployments.apps", "deploy", "create"), step("configmaps", "cm", "restore"), step(definitions, "crd", "create"), step("namespaces", "ns", "create"), step("secrets", "key", "create")]),
    ["ns", "crd", "key", "deploy", "rs", "pod", "cm"],
  );
  assert.deepEqual(names([step("namespaces", "ns", "delete"), step("deployments.apps", "deploy", "delete"), step("pods", "pod", "delete", "deploy"), step("secrets", "key", "restore")]), ["key", "pod", "deploy", "ns"]);
  assert.deepEqual(names([step("pods", "a", "create", "b"), step("pods", "b", "create", "a")]).sort(), ["a", "b"]); // a cycle
});
