import assert from "node:assert/strict";
import { test } from "node:test";
import { joinBase, parsePlace, splitBase, urlOf } from "../ui/location";

const place = (pathname: string) => {
  const { base, path } = parsePlace(pathname, "");
  return [base, ...path];
};

test("places", () => {
  assert.deepEqual(place("/console/"), [""]);
  assert.deepEqual(place("/console"), [""]);
  assert.deepEqual(place("/console/objects/core/pods/shop/web"), ["", "objects", "core", "pods", "shop", "web"]);
  assert.deepEqual(place("/clusters/team-a/console/history"), ["/clusters/team-a", "history"]);
  assert.deepEqual(place("/at/rv/123/console/map"), ["/at/rv/123", "map"]);
  assert.deepEqual(place("/at/-5m/console/"), ["/at/-5m"]);
  assert.deepEqual(place("/clusters/a/at/2026-11-27T14:02:00Z/console/"), ["/clusters/a/at/2026-11-27T14:02:00Z"]);
});

test("a control plane, a namespace and an object can have the name console", () => {
  assert.deepEqual(place("/clusters/console/console/map"), ["/clusters/console", "map"]);
  assert.deepEqual(place("/clusters/console-a/console/"), ["/clusters/console-a"]);
  assert.deepEqual(place("/console/objects/core/configmaps/console/console"), ["", "objects", "core", "configmaps", "console", "console"]);
});

test("names are encoded", () => {
  const name = "system:a/b c%?#";
  const url = urlOf("/clusters/a", ["objects", "rbac.authorization.k8s.io", "clusterroles", "-", name], { tab: "YAML", empty: "", missing: undefined });
  assert.equal(url, "/clusters/a/console/objects/rbac.authorization.k8s.io/clusterroles/-/system%3Aa%2Fb%20c%25%3F%23?tab=YAML");
  const { pathname, search } = new URL(url, "http://localhost");
  const parsed = parsePlace(pathname, search);
  assert.equal(parsed.path.at(-1), name);
  assert.equal(parsed.query.get("tab"), "YAML");
  assert.deepEqual(parsePlace("/console/%", "").path, ["%"]);
});

test("bases", () => {
  for (const [cluster, moment] of [["", ""], ["a", ""], ["", "-5m"], ["", "rv/7"], ["a", "2026-11-27T14:02:00Z"]] as const) {
    assert.deepEqual(splitBase(joinBase(cluster, moment)), { cluster, moment });
  }
  assert.deepEqual(splitBase("/at/2026-11-27T14:02:00Z"), { cluster: "", moment: "2026-11-27T14:02:00Z" });
});
