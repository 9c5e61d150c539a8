// The text format of Prometheus: https://prometheus.io/docs/instrumenting/exposition_formats/

export interface Sample {
  labels: Record<string, string>;
  value: number;
}

/** Metrics are samples by the name of the metric. */
export type Metrics = Map<string, Sample[]>;

const line = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)/;
const label = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g;

/** Parses the response of /metrics. Lines that are not samples, and samples with the value NaN, are ignored. */
export function parseMetrics(text: string): Metrics {
  const metrics: Metrics = new Map();
  for (const row of text.split("\n")) {
    const match = row.startsWith("#") ? null : line.exec(row);
    if (!match || Number.isNaN(parseNumber(match[3]!))) continue;
    const [, name = "", labels = "", value = ""] = match;
    const sample: Sample = { labels: {}, value: parseNumber(value) };
    for (const [, key = "", quoted = ""] of labels.matchAll(label)) sample.labels[key] = quoted.replace(/\\(.)/g, (_, c: string) => (c === "n" ? "\n" : c));
    const samples = metrics.get(name);
    if (samples) samples.push(sample);
    else metrics.set(name, [sample]);
  }
  return metrics;
}

function parseNumber(text: string): number {
  if (text === "+Inf") return Infinity;
  return Number(text);
}

/** Returns the sum of the samples of a metric that have all of the labels; undefined if there are none. */
export function sum(metrics: Metrics, name: string, labels: Record<string, string> = {}): number | undefined {
  const found = select(metrics, name, labels);
  return found.length > 0 ? found.reduce((total, sample) => total + sample.value, 0) : undefined;
}

export function select(metrics: Metrics, name: string, labels: Record<string, string> = {}): Sample[] {
  const wanted = Object.entries(labels);
  return (metrics.get(name) ?? []).filter((sample) => wanted.every(([key, value]) => sample.labels[key] === value));
}

/** Returns the quantile q (0 to 1) of cumulative histogram buckets, interpolated linearly; undefined without observations. */
export function quantile(buckets: Sample[], q: number): number | undefined {
  const byBound = new Map<number, number>();
  for (const { labels, value } of buckets) {
    const bound = parseNumber(labels["le"] ?? "");
    byBound.set(bound, (byBound.get(bound) ?? 0) + value);
  }
  const sorted = [...byBound].sort(([a], [b]) => a - b);
  const total = sorted.at(-1)?.[1] ?? 0;
  if (total === 0) return undefined;
  let lower = 0;
  let below = 0;
  for (const [bound, count] of sorted) {
    if (count >= q * total) return bound === Infinity ? lower : lower + ((bound - lower) * (q * total - below)) / (count - below || 1);
    lower = bound;
    below = count;
  }
  return lower;
}
