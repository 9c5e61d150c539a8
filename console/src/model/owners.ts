import type { KubeObject } from "../api/types";

/** The metadata of an object, with its kind and the name of its resource. */
export type Item = Pick<KubeObject, "apiVersion" | "kind" | "metadata"> & { resource: string; group: string };

/** Returns the objects that have an owner in the set of UIDs, directly or through other objects. */
export function dependents(items: Item[], uid: string): Item[] {
  const byOwner = new Map<string, Item[]>();
  for (const item of items) {
    for (const owner of item.metadata.ownerReferences ?? []) {
      const siblings = byOwner.get(owner.uid);
      if (siblings) siblings.push(item);
      else byOwner.set(owner.uid, [item]);
    }
  }
  const found = new Map<string, Item>();
  const visit = (owner: string): void => {
    for (const item of byOwner.get(owner) ?? []) {
      const own = item.metadata.uid ?? "";
      if (own === uid || found.has(own)) continue;
      found.set(own, item);
      visit(own);
    }
  };
  visit(uid);
  return [...found.values()];
}

/** The effect of a deletion with the propagation policy Background or Foreground. */
export interface Cascade {
  /** Dependents that the garbage collector deletes. */
  deleted: Item[];
  /** Dependents that remain, because they have another owner. */
  kept: Item[];
}

/** Returns the effect of deleting an object. items are the objects that can depend on it. */
export function cascade(items: Item[], uid: string): Cascade {
  const deleted = new Set([uid]);
  const candidates = dependents(items, uid);
  for (let changed = true; changed; ) {
    changed = false;
    for (const item of candidates) {
      const own = item.metadata.uid ?? "";
      const owners = item.metadata.ownerReferences ?? [];
      if (!deleted.has(own) && owners.every((owner) => deleted.has(owner.uid))) {
        deleted.add(own);
        changed = true;
      }
    }
  }
  return {
    deleted: candidates.filter((item) => deleted.has(item.metadata.uid ?? "")),
    kept: candidates.filter((item) => !deleted.has(item.metadata.uid ?? "")),
  };
}
