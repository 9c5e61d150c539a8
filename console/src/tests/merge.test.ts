import assert from "node:assert/strict";
import test from "node:test";
import { equal, merge } from "../model/merge";

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

test("merge treats names of JavaScript properties as fields", () => {
  const object = (text: string): unknown => JSON.parse(text);
  for (const name of ["__proto__", "constructor", "toString"]) {
    const added = object(`{"a": 1, "${name}": "x"}`);
    const other = object('{"a": 2}');
    const both = object(`{"a": 2, "${name}": "x"}`);
    for (const [mine, live] of [[added, other], [other, added]]) {
      const merged = merge({ a: 1 }, mine, live);
      assert.equal(JSON.stringify(merged.value, Object.keys(both as object)), JSON.stringify(both));
      assert.deepEqual(merged.conflicts, []);
    }
  }
});

test("equal treats names of JavaScript properties as fields", () => {
  assert.ok(!equal(JSON.parse('{"constructor": "x"}'), { a: "x" }));
  assert.ok(!equal(JSON.parse('{"__proto__": {}}'), { a: {} }));
  assert.ok(equal(JSON.parse('{"__proto__": "x"}'), JSON.parse('{"__proto__": "x"}')));
});
