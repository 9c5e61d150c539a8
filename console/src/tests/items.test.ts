import assert from "node:assert/strict";
import test from "node:test";
import { references } from "../views/object/items";

test("references finds fields with the name of an object", () => {
  const spec = { serviceAccountName: "robot", volumes: [{ configMap: { name: "settings" } }, { secret: { secretName: "password" } }] };
  const found = references({ apiVersion: "v1", kind: "Pod", metadata: { name: "a", namespace: "b" }, spec });
  assert.deepEqual(found.map(({ kind, name, field }) => [kind, name, field]), [
    ["ServiceAccount", "robot", "spec.serviceAccountName"], ["ConfigMap", "settings", "spec.volumes[0].configMap"], ["Secret", "password", "spec.volumes[1].secret.secretName"],
  ]);
});

test("references ignores fields with the names of JavaScript properties", () => {
  const spec: unknown = JSON.parse('{"matchLabels": {"constructor": "x", "__proto__": "y"}, "toString": {"name": "z"}, "properties": {"constructor": {"type": "object"}}}');
  assert.deepEqual(references({ apiVersion: "v1", kind: "Example", metadata: { name: "a" }, spec: spec as Record<string, unknown> }), []);
});
