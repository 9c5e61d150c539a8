import assert from "node:assert/strict";
import { test } from "node:test";
import { matches, parseSelector, requirementsOf } from "../model/selector";

test("parseSelector parses the operators of label selectors", () => {
  assert.deepEqual(parseSelector(" app=web, tier == db,env!=a , example.com/x in (a, b,) ,y notin (c),z,!w,n>3,m < 5,e="), [
    { key: "app", operator: "In", values: ["web"] },
    { key: "tier", operator: "In", values: ["db"] },
    { key: "env", operator: "NotIn", values: ["a"] },
    { key: "example.com/x", operator: "In", values: ["a", "b", ""] },
    { key: "y", operator: "NotIn", values: ["c"] },
    { key: "z", operator: "Exists" },
    { key: "w", operator: "DoesNotExist" },
    { key: "n", operator: "Gt", values: ["3"] },
    { key: "m", operator: "Lt", values: ["5"] },
    { key: "e", operator: "In", values: [""] },
  ]);
  assert.deepEqual(parseSelector("in in (in)"), [{ key: "in", operator: "In", values: ["in"] }]);
  assert.deepEqual(parseSelector("  "), []);
});

test("parseSelector rejects other texts", () => {
  for (const [text, message] of [
    ["a,", /nothing where a key/], ["=b", /"=" where a key/], ["a b", /b after a, and not an operator/], ["a in b", /"b" where a list/], ["a in (b", /nothing where a closing/],
    ["a=b=c", /"=" where a comma/], ["a=-", /"-" where a value/], ["/a=b", /"\/a" where a key/], ["m<-5", /"-5" where a value/], ["a>b", /not with an integer/], [`a=${"x".repeat(64)}`, /where a value/], ["a!", /! after a/],
  ] as const) {
    assert.throws(() => parseSelector(text), message, text);
  }
});

test("matches evaluates all operators", () => {
  const labels = { app: "web", size: "12" };
  for (const selector of ["app=web", "app in (db,web)", "app!=db", "missing!=x", "missing notin (x)", "app", "!missing", "size>2", "size<100", "app=web,size", ""]) {
    assert.equal(matches(parseSelector(selector), labels), true, selector);
  }
  for (const selector of ["app=db", "app notin (web)", "missing", "!app", "missing=", "size>12", "size<12", "app>1", "app=web,missing", "toString"]) {
    assert.equal(matches(parseSelector(selector), labels), false, selector);
  }
  assert.equal(matches(parseSelector("app"), undefined), false);
});

test("requirementsOf accepts the selectors of services and workloads", () => {
  assert.deepEqual(requirementsOf({ app: "web" }), [{ key: "app", operator: "In", values: ["web"] }]);
  const expression = { key: "tier", operator: "Exists" };
  assert.deepEqual(requirementsOf({ matchLabels: { app: "web" }, matchExpressions: [expression] }), [{ key: "app", operator: "In", values: ["web"] }, expression]);
  assert.deepEqual(requirementsOf({ matchExpressions: [expression] }), [expression]);
  assert.deepEqual(requirementsOf({}), []);
});
