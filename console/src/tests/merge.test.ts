import assert from "node:assert/strict";
import test from "node:test";
import { merge } from "../model/merge";

const base = { spec: { replicas: 1, paused: false, ports: [80] }, labels: { app: "web" } };

test("merge combines changes of different fields", () => {
  const mine = { spec: { replicas: 2, paused: false, ports: [80] }, labels: { app: "web" } };
  const live = { spec: { ports: [80], replicas: 1, paused: true }, labels: { app: "web", team: "blue" } };
  assert.deepEqual(merge(base, mine, live), {
    value: { spec: { replicas: 2, paused: true, ports: [80] }, labels: { app: "web", team: "blue" } }, conflicts: [],
  });
});

test("merge reports fields with two different changes and keeps mine", () => {
  const mine = { ...base, spec: { ...base.spec, replicas: 2, ports: [80, 81] } };
  const live = { ...base, spec: { ...base.spec, replicas: 3, ports: [80, 82] } };
  assert.deepEqual(merge(base, mine, live), { value: mine, conflicts: ["spec.replicas", "spec.ports"] });
});

test("merge accepts the same change on both sides", () => {
  const changed = { ...base, spec: { ...base.spec, ports: [81] } };
  assert.deepEqual(merge(base, changed, structuredClone(changed)), { value: changed, conflicts: [] });
});

test("merge removes fields that one side removed", () => {
  const { labels: _, ...mine } = base;
  assert.deepEqual(merge(base, mine, { ...base, spec: {} }), { value: { spec: {} }, conflicts: [] });
});

test("merge reports a field that one side removed and the other one changed", () => {
  const { labels: _, ...mine } = base;
  assert.deepEqual(merge(base, mine, { ...base, labels: { app: "api" } }), { value: mine, conflicts: ["labels"] });
});
