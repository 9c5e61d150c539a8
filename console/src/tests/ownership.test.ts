import assert from "node:assert/strict";
import { test } from "node:test";
import type { FieldsV1, ManagedFields } from "../api/types";
import { managersOfLines, project } from "../model/ownership";

function entry(manager: string, fieldsV1: FieldsV1, subresource?: string): ManagedFields {
  return { manager, operation: "Apply", time: "2026-11-23T10:00:00Z", fieldsV1, ...(subresource ? { subresource } : {}) };
}

/** Returns "LINE: MANAGER, MANAGER" for each line with managers. */
function lines(text: string, ...entries: ManagedFields[]): string[] {
  const found = [...managersOfLines(text, entries)].sort(([a], [b]) => a - b);
  const all = text.split("\n");
  return found.map(([line, managers]) => `${all[line - 1]!.trim()} <- ${managers.map((manager) => manager.name).join(", ")}`);
}

const deployment = `metadata:
  labels:
    app.kubernetes.io/name: web
    tier: front
  finalizers:
    - example.com/a
    - example.com/b
spec:
  replicas: 3
  selector:
    matchLabels:
      app: web
  template:
    spec:
      containers:
        - name: web
          image: web:1
          ports:
            - containerPort: 80
              protocol: TCP
        - name: proxy
          image: proxy:1
`;

test("managersOfLines finds keys with dots and slashes", () => {
  const found = lines(deployment, entry("a", { "f:metadata": { "f:labels": { "f:app.kubernetes.io/name": {} } } }));
  assert.deepEqual(found, ["app.kubernetes.io/name: web <- a"]);
});

test("managersOfLines lists all managers of a field once, in the order of the entries", () => {
  const replicas = { "f:spec": { "f:replicas": {} } };
  const found = managersOfLines(deployment, [entry("a", replicas), entry("b", replicas), entry("a", replicas), entry("a", replicas, "scale")]);
  assert.deepEqual([...found.keys()], [9]);
  assert.deepEqual(found.get(9)!.map(({ name, subresource }) => [name, subresource]), [["a", ""], ["b", ""], ["a", "scale"]]);
});

test("managersOfLines marks the parent of owned fields only if the parent itself is owned", () => {
  assert.deepEqual(lines(deployment, entry("a", { "f:metadata": { "f:labels": { ".": {}, "f:tier": {} } } })), ["labels: <- a", "tier: front <- a"]);
  assert.deepEqual(lines(deployment, entry("a", { "f:metadata": { "f:labels": { "f:tier": {} } } })), ["tier: front <- a"]);
});

test("managersOfLines marks all lines of an atomic field", () => {
  assert.deepEqual(lines(deployment, entry("a", { "f:spec": { "f:selector": {} } })), ["selector: <- a", "matchLabels: <- a", "app: web <- a"]);
});

test("managersOfLines selects elements of lists by keys, values and indexes", () => {
  const containers = (below: FieldsV1): FieldsV1 => ({ "f:spec": { "f:template": { "f:spec": { "f:containers": below } } } });
  assert.deepEqual(lines(deployment, entry("a", containers({ 'k:{"name":"proxy"}': { ".": {}, "f:image": {} } }))), ["- name: proxy <- a", "image: proxy:1 <- a"]);
  assert.deepEqual(lines(deployment, entry("a", containers({ 'k:{"name":"web"}': { "f:ports": { 'k:{"containerPort":80,"protocol":"TCP"}': { "f:containerPort": {} } } } }))), ["- containerPort: 80 <- a"]);
  assert.deepEqual(lines(deployment, entry("a", { "f:metadata": { "f:finalizers": { 'v:"example.com/b"': {} } } })), ["- example.com/b <- a"]);
  assert.deepEqual(lines(deployment, entry("a", { "f:metadata": { "f:finalizers": { "i:0": {} } } })), ["- example.com/a <- a"]);
});

test("managersOfLines ignores fields that the object does not have, entries without fields, and empty documents", () => {
  assert.deepEqual(lines(deployment, entry("a", { "f:status": { "f:replicas": {} } }), { manager: "b" }), []);
  assert.deepEqual(lines("", entry("a", { "f:spec": {} })), []);
});

test("project returns the fields of a set", () => {
  const object = { metadata: { labels: { app: "web", tier: "front" } }, spec: { replicas: 3, paused: false } };
  assert.deepEqual(project(object, { "f:metadata": { "f:labels": { ".": {}, "f:app": {} } }, "f:spec": { "f:paused": {} } }), { metadata: { labels: { app: "web" } }, spec: { paused: false } });
});

test("project returns an atomic value as a whole", () => {
  assert.deepEqual(project({ selector: { matchLabels: { app: "web" } } }, { "f:selector": {} }), { selector: { matchLabels: { app: "web" } } });
});

test("project selects elements of lists", () => {
  const list = { items: [{ name: "a", image: "x", args: ["1"] }, { name: "b", image: "y" }], set: ["u", "v", "w"] };
  assert.deepEqual(project(list, { "f:items": { 'k:{"name":"b"}': { "f:image": {} } } }), { items: [{ image: "y" }] });
  assert.deepEqual(project(list, { "f:set": { 'v:"w"': {}, 'v:"u"': {}, 'v:"missing"': {} } }), { set: ["w", "u"] });
  assert.deepEqual(project(list, { "f:set": { "i:1": {} } }), { set: ["v"] });
  assert.deepEqual(project({ set: [1, 9007199254740993n] }, { "f:set": { "v:9007199254740993": {} } }), { set: [9007199254740993n] });
});

test("project returns undefined if the value has none of the fields", () => {
  assert.equal(project({ spec: {} }, { "f:spec": { "f:replicas": {} } }), undefined);
  assert.equal(project({ items: [] }, { "f:items": { "i:0": {} } }), undefined);
  assert.equal(project("text", { "f:spec": {} }), undefined);
});
