import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { APIError, type Client } from "../api/client";
import { bytes, cell, seconds } from "../model/format";
import { type Metrics, parseMetrics, quantile, select, sum } from "../model/metrics";
import { useApp, useLoad, useTick } from "../ui/context";
import { Chart, type Line } from "../ui/chart";
import { splitBase } from "../ui/location";
import { Failure, Loading, Note, SimpleTable } from "../ui/parts";

/** The response of /mainstay/v1/statistics: values of the last hour. */
interface Statistics {
  times: number[];
  series: { name: string; label?: string; unit: string; values: (number | null)[] }[];
}

const period = 15_000;

/** The state of the server: charts of the last hour, latencies, queues, controllers, the store, and health checks. */
export function Server() {
  const app = useApp();
  const tick = useTick(period);
  const { cluster, moment } = splitBase(app.place.base);
  const root = useMemo(() => (cluster ? app.client.at("") : app.client), [app.client, cluster]);
  if (moment) return <Note>The state of the server is not part of the history. Return to now to see it.</Note>;
  return (
    <section>
      <h1>Server</h1>
      {cluster && <Note>Control planes share one server. The charts and figures are those of the whole process; they need permissions in the root control plane.</Note>}
      <Charts client={root} tick={tick} />
      <Health client={root} tick={tick} />
      <Figures client={root} tick={tick} />
    </section>
  );
}

/** A part of the page that is read again with each tick. The client is one of the root control plane. */
interface Part {
  client: Client;
  tick: number;
}

const rate = (value: number): string => value.toFixed(value < 10 ? 1 : 0);
const count = (value: number): string => (Number.isInteger(value) ? String(value) : value.toFixed(1));

const charts: [title: string, names: string[], format: (value: number) => string][] = [
  ["Requests per second", ["requests"], rate],
  ["Failed requests per second", ["errors"], rate],
  ["Latency, 50th percentile", ["latencyP50"], seconds],
  ["Latency, 99th percentile", ["latencyP99"], seconds],
  ["Requests in execution", ["executing"], count],
  ["Waiting requests", ["queued"], count],
  ["Watches", ["watches"], count],
  ["Commit of the store, 99th percentile", ["commitP99"], seconds],
  ["Requests to etcd, 99th percentile", ["etcdRequestP99"], seconds],
  ["Size of the store", ["storeSize"], bytes],
  ["Memory", ["residentMemory", "heapInUse"], bytes],
  ["CPU cores", ["cpu"], (value) => value.toFixed(2)],
  ["Goroutines", ["goroutines"], count],
  ["Waiting keys of controllers", ["workQueue"], count],
];

/** The labels of series without a label of their own. */
const labels: Record<string, string> = {
  watches: "watches", commitP99: "duration", storeSize: "size", residentMemory: "resident memory", heapInUse: "heap in use", cpu: "cores", goroutines: "goroutines", workQueue: "keys",
};

function Charts({ client, tick }: Part) {
  const statistics = useLoad(async (signal) => {
    try {
      return await client.json<Statistics>("/mainstay/v1/statistics", { signal });
    } catch (error) {
      if (error instanceof APIError && error.code === 404) return undefined; // another server than Mainstay
      throw error;
    }
  }, [client], tick);
  if (statistics.error) return <Failure message={`The charts cannot be read: ${statistics.error}`} />;
  if (!statistics.value) return null;
  const { times, series } = statistics.value;
  if (times.length < 2) return <Note>The server has just started. The charts appear after some seconds.</Note>;
  return (
    <div class="charts">
      {charts.map(([title, names, format]) => {
        const lines: Line[] = series.filter((one) => names.includes(one.name)).map((one) => ({ label: one.label || labels[one.name] || one.name, values: one.values }));
        return lines.length > 0 && <Chart key={title} title={title} times={times} lines={lines} format={format} binary={format === bytes} />;
      })}
    </div>
  );
}

/** The checks of /readyz. */
function Health({ client, tick }: Part) {
  const checks = useLoad(async (signal) => {
    const text = await client.text("/readyz", { accept: "text/plain", query: { verbose: "1" }, signal }).catch((error: unknown) => {
      if (error instanceof APIError && error.code >= 500) return error.message;
      throw error;
    });
    return text.split("\n").filter((line) => /^\[[+-]\]/.test(line));
  }, [client], tick);
  return (
    <>
      <h2>Health checks</h2>
      {checks.error && <Failure message={checks.error} />}
      <p>
        {checks.value?.map((line) => (
          <span key={line} class={line.startsWith("[+]") ? "chip" : "chip failed"} title={line}>
            {line.startsWith("[+]") ? "✓" : "✗"} {line.slice(3).replace(/ (ok|failed:.*)$/, "")}
          </span>
        ))}
      </p>
    </>
  );
}

/** Tables of the current metrics, since the start of the server. */
function Figures({ client, tick }: Part) {
  const loaded = useLoad(async (signal) => parseMetrics(await client.text("/metrics", { accept: "text/plain", signal })), [client], tick);
  if (loaded.error) return <Failure message={`The metrics cannot be read: ${loaded.error}`} retry={loaded.reload} />;
  const metrics = loaded.value;
  if (!metrics) return <Loading />;
  return (
    <>
      <h2>Latency by verb and resource</h2>
      <SimpleTable label="Latency by verb and resource" columns={["Verb", "Resource", "Requests", "p50", "p90", "p99"]} rows={latencyRows(metrics)} />
      <h2>Flow control</h2>
      <SimpleTable label="Flow control" columns={["Priority level", "Seats", "Executing", "Waiting", "Rejected"]} rows={flowRows(metrics)} />
      <h2>Controllers</h2>
      <SimpleTable label="Controllers" columns={["Queue", "Waiting", "Added", "Retries", "Duration p99"]} rows={queueRows(metrics)} />
      <h2>Certificates</h2>
      <SimpleTable label="Certificates" columns={["Certificate", "Expires"]} rows={certificateRows(metrics)} />
      <h2>Store, history and memory</h2>
      <SimpleTable label="Store, history and memory" columns={["Figure", "Value"]} rows={storeRows(metrics)} />
    </>
  );
}

const maxRows = 30;

function latencyRows(metrics: Metrics): string[][] {
  const groups = new Map<string, { verb: string; resource: string; buckets: ReturnType<typeof select> }>();
  for (const sample of select(metrics, "apiserver_request_duration_seconds_bucket")) {
    const { verb = "", resource = "", subresource, group } = sample.labels;
    if (verb === "WATCH" || verb === "CONNECT") continue;
    const name = [resource + (group ? `.${group}` : ""), subresource].filter(Boolean).join("/");
    const found = groups.get(`${verb} ${name}`) ?? { verb, resource: name, buckets: [] };
    found.buckets.push(sample);
    groups.set(`${verb} ${name}`, found);
  }
  const count = (buckets: ReturnType<typeof select>): number => buckets.filter((sample) => sample.labels["le"] === "+Inf").reduce((n, sample) => n + sample.value, 0);
  return [...groups.values()]
    .map((entry) => ({ ...entry, requests: count(entry.buckets) }))
    .sort((a, b) => b.requests - a.requests)
    .slice(0, maxRows)
    .map(({ verb, resource, buckets, requests }) => [verb, resource, String(requests), ...[0.5, 0.9, 0.99].map((q) => seconds(quantile(buckets, q) ?? 0))]);
}

function flowRows(metrics: Metrics): string[][] {
  const value = (name: string, level: string): string => cell(sum(metrics, name, { priority_level: level }) ?? 0);
  return select(metrics, "apiserver_flowcontrol_nominal_limit_seats").map(({ labels }) => {
    const level = labels["priority_level"] ?? "";
    return [level, ...["current_limit_seats", "current_executing_requests", "current_inqueue_requests", "rejected_requests_total"].map((name) => value(`apiserver_flowcontrol_${name}`, level))];
  });
}

function queueRows(metrics: Metrics): string[][] {
  return select(metrics, "workqueue_depth").map(({ labels, value }) => {
    const duration = quantile(select(metrics, "workqueue_work_duration_seconds_bucket", { name: labels["name"] ?? "" }), 0.99);
    return [labels["name"] ?? "", String(value), ...["workqueue_adds_total", "workqueue_retries_total"].map((name) => String(sum(metrics, name, { name: labels["name"] ?? "" }) ?? 0)), duration === undefined ? "" : seconds(duration)];
  });
}

const warnedDays = 30;

/** The certificates of the server, the next to expire first. */
function certificateRows(metrics: Metrics): ComponentChildren[][] {
  const certificates = [...select(metrics, "mainstay_certificate_expiration_timestamp_seconds")].sort((a, b) => a.value - b.value);
  return certificates.map(({ labels, value }) => {
    const days = Math.floor((value * 1000 - Date.now()) / 86_400_000);
    return [labels["certificate"], <span class={days < warnedDays ? "rejection" : ""}>{`${new Date(value * 1000).toLocaleDateString()}, in ${days} days`}</span>];
  });
}

function storeRows(metrics: Metrics): string[][] {
  const rows: [string, number | undefined, (value: number) => string][] = [
    ["Size of the store", sum(metrics, "apiserver_storage_size_bytes"), bytes],
    ["Compacted revision", sum(metrics, "mainstay_kv_compacted_revision"), String],
    ["Commit, 99th percentile", quantile(select(metrics, "mainstay_kv_commit_write_seconds_bucket"), 0.99), seconds],
    ["Size of the history", sum(metrics, "mainstay_history_size_bytes"), bytes],
    ["Oldest state of the history", sum(metrics, "mainstay_history_oldest_timestamp_seconds"), (value) => new Date(value * 1000).toLocaleString()],
    ["Resident memory", sum(metrics, "process_resident_memory_bytes"), bytes],
    ["Live heap", sum(metrics, "go_gc_heap_live_bytes"), bytes],
    ["Goroutines", sum(metrics, "go_sched_goroutines_goroutines") ?? sum(metrics, "go_goroutines"), String],
    ["Start", sum(metrics, "process_start_time_seconds"), (value) => new Date(value * 1000).toLocaleString()],
  ];
  return rows.filter(([, value]) => value !== undefined).map(([name, value, format]) => [name, format(value!)]);
}
