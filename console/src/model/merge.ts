/** The result of merging two changes of an object. */
export interface Merged {
  value: unknown;
  /** The fields that both sides changed to different values. The merged object has the value of mine. */
  conflicts: string[];
}

/** Merges the changes from base to mine with the changes from base to live: by the fields of objects, and lists as a whole. */
export function merge(base: unknown, mine: unknown, live: unknown, path = ""): Merged {
  if (equal(mine, base) || equal(mine, live)) return { value: live, conflicts: [] };
  if (equal(live, base)) return { value: mine, conflicts: [] };
  if (!isObject(mine) || !isObject(live)) return { value: mine, conflicts: [path] };
  const before = isObject(base) ? base : {};
  const fields: [string, unknown][] = [];
  const conflicts: string[] = [];
  for (const name of new Set([...Object.keys(live), ...Object.keys(mine)])) {
    const field = merge(fieldOf(before, name), fieldOf(mine, name), fieldOf(live, name), path ? `${path}.${name}` : name);
    if (field.value !== undefined) fields.push([name, field.value]);
    conflicts.push(...field.conflicts);
  }
  return { value: Object.fromEntries(fields), conflicts };
}

/** Returns a field of an object. The name can be that of an inherited property, such as constructor or __proto__. */
function fieldOf(object: Record<string, unknown>, name: string): unknown {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Reports whether two values of JSON are equal. The order of fields does not matter. */
export function equal(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, i) => equal(item, b[i]));
  if (!isObject(a) || !isObject(b)) return false;
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && equal(a[name], b[name]));
}
