import { formatJSON } from "./json";
import { yaml } from "./yaml";

const units: [number, string][] = [[86400 * 365, "y"], [86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

/** Formats the time since a moment like kubectl: 5s, 3m, 2h, 4d. */
export function age(time: string | undefined, now = Date.now()): string {
  const at = time ? Date.parse(time) : NaN;
  if (Number.isNaN(at)) return "";
  const seconds = Math.max(0, Math.round((now - at) / 1000));
  const [length, unit] = units.find(([length]) => seconds >= length) ?? [1, "s"];
  return `${Math.floor(seconds / length)}${unit}`;
}

/** Formats a time in the time zone of the user. */
export function dateTime(time: string | undefined): string {
  return time ? new Date(time).toLocaleString() : "";
}

export function bytes(value: number): string {
  const unit = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; value >= 1024 && i < unit.length - 1; i++) value /= 1024;
  return `${value < 10 && i > 0 ? value.toFixed(1) : Math.round(value)} ${unit[i]}`;
}

/** Formats a duration in seconds. */
export function seconds(value: number): string {
  if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  return `${value.toFixed(1)} s`;
}

/** Formats a time as the API does: RFC 3339 in UTC, without fractions of a second. */
export function apiTime(time: Date): string {
  return time.toISOString().replace(/\.\d+Z$/, "Z");
}

/** Returns an object without managed fields, for display. */
export function withoutManagedFields<T extends { metadata: { managedFields?: unknown } }>(object: T): T {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata };
}

/** Returns an object as YAML without managed fields; "" for an object that does not exist. */
export function manifest(object: Parameters<typeof withoutManagedFields>[0] | undefined): string {
  return object ? yaml(withoutManagedFields(object)) : "";
}

/** Formats a cell of the server's table. */
export function cell(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? formatJSON(value) : String(value);
}

const collator = new Intl.Collator(undefined, { numeric: true });

/** Compares two cells: numbers and durations such as 3d4h by size, other values alphabetically. */
export function compareCells(a: unknown, b: unknown): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  const [left, right] = [String(a ?? ""), String(b ?? "")];
  const [shorter, longer] = [durationOf(left), durationOf(right)];
  return shorter !== undefined && longer !== undefined ? shorter - longer : collator.compare(left, right);
}

/** Returns the length of a duration of the server's table in seconds. */
function durationOf(text: string): number | undefined {
  if (!/^(\d+[ydhms])+$/.test(text)) return undefined;
  let total = 0;
  for (const [, count, unit] of text.matchAll(/(\d+)([ydhms])/g)) total += Number(count) * (units.find(([, name]) => name === unit)?.[0] ?? 0);
  return total;
}
