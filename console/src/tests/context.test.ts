import assert from "node:assert/strict";
import test from "node:test";
import { Discovery, type Resource } from "../api/discovery";
import { kindPath } from "../ui/context";

const resource = (group: string, name: string, kind: string): Resource => ({ group, version: "v1", name, kind, namespaced: true, verbs: [], shortNames: [], subresources: [] });
const discovery = new Discovery([resource("", "services", "Service"), resource("apps", "deployments", "Deployment")]);

test("kindPath returns the page of an object in the group of its kind", () => {
  assert.deepEqual(kindPath(discovery, "v1", "Service", "shop", "web"), ["objects", "core", "services", "shop", "web"]);
  assert.deepEqual(kindPath(discovery, "apps/v1beta1", "Deployment", "shop", "web"), ["objects", "apps", "deployments", "shop", "web"]);
  assert.equal(kindPath(discovery, "serving.example.com/v1", "Service", "shop", "web"), undefined);
});
