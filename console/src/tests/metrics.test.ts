import assert from "node:assert/strict";
import { test } from "node:test";
import { parseMetrics, quantile, select, sum } from "../model/metrics";

const text = `# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{verb="GET",code="200"} 7
requests_total{verb="GET",code="404"} 1
requests_total{verb="LIST",code="200"} 2 1700000000000
goroutines 1.5e+02
escaped{name="a \\"b\\", c=\\\\d\\n{e}"} 1
latency_bucket{verb="GET",le="0.1"} 50
latency_bucket{verb="GET",le="0.5"} 90
latency_bucket{verb="GET",le="+Inf"} 100
latency_sum{verb="GET"} 12.5
empty_bucket{le="0.1"} 0
empty_bucket{le="+Inf"} 0

not a sample
`;

test("samples have labels and values", () => {
  const metrics = parseMetrics(text);
  assert.deepEqual(metrics.get("goroutines"), [{ labels: {}, value: 150 }]);
  assert.deepEqual(metrics.get("escaped"), [{ labels: { name: 'a "b", c=\\d\n{e}' }, value: 1 }]);
  assert.equal(metrics.get("requests_total")?.length, 3);
  assert.equal(metrics.has("not"), false);
});

test("sums and selections", () => {
  const metrics = parseMetrics(text);
  assert.equal(sum(metrics, "requests_total"), 10);
  assert.equal(sum(metrics, "requests_total", { verb: "GET" }), 8);
  assert.equal(sum(metrics, "requests_total", { verb: "PUT" }), undefined);
  assert.equal(select(metrics, "requests_total", { verb: "GET", code: "404" }).length, 1);
  assert.deepEqual(select(metrics, "missing"), []);
});

test("quantiles are interpolated within a bucket", () => {
  const metrics = parseMetrics(text);
  const buckets = select(metrics, "latency_bucket");
  assert.equal(quantile(buckets, 0.25), 0.05);
  assert.equal(quantile(buckets, 0.7), 0.1 + 0.4 * 0.5);
  assert.equal(quantile(buckets, 0.99), 0.5); // the unlimited bucket has no upper bound
  assert.equal(quantile(select(metrics, "empty_bucket"), 0.5), undefined);
  assert.equal(quantile([], 0.5), undefined);
});

test("buckets of several series are added", () => {
  const bucket = (code: string, le: string, value: number) => ({ labels: { code, le }, value });
  const buckets = [bucket("200", "1", 1), bucket("200", "+Inf", 1), bucket("404", "1", 0), bucket("404", "2", 3), bucket("404", "+Inf", 3), bucket("200", "2", 1)];
  assert.equal(quantile(buckets, 1), 2);
});
