import assert from "node:assert/strict";
import test from "node:test";
import type { Client } from "../api/client";
import { discover } from "../api/discovery";

/** Returns a client of a server with resources of the group example.com, which have the given verbs. */
function clientOf(resources: Record<string, string[]>): Client {
  const versions = [{ version: "v1", resources: Object.entries(resources).map(([resource, verbs]) => ({ resource, responseKind: { kind: resource }, scope: "Namespaced", verbs })) }];
  const json = (path: string): Promise<unknown> => Promise.resolve(path === "/apis" ? { items: [{ metadata: { name: "example.com" }, versions }] } : {});
  return { base: "", json } as unknown as Client;
}

test("discover returns the previous result if nothing has changed", async () => {
  const before = await discover(clientOf({ a: ["list"], b: ["list"] }));
  assert.equal(await discover(clientOf({ a: ["list"], b: ["list"] }), before), before);
});

test("discover keeps the unchanged resources", async () => {
  const before = await discover(clientOf({ a: ["list"], b: ["list"], c: ["list"] }));
  const after = await discover(clientOf({ a: ["list"], b: ["get", "list"], d: [] }), before);
  assert.deepEqual(after.resources.map(({ name, verbs }) => [name, verbs]), [["a", ["list"]], ["b", ["get", "list"]], ["d", []]]);
  assert.equal(after.find("example.com", "a"), before.find("example.com", "a"));
  assert.equal(after.find("example.com", "c"), undefined);
});
