// The rules of undoing changes, which are those of the command "mainstay undo".
import type { Change, KubeObject, ManagedFields } from "../api/types";
import { equal } from "./merge";

/** An object with the first and the last of its selected changes. */
export interface ChangedObject {
  first: Change;
  last: Change;
}

/** A write that returns an object to an earlier state. */
export interface UndoStep {
  /** The first change that is undone. */
  change: Change;
  /** The state to write; undefined if the object is deleted. */
  want: KubeObject | undefined;
  /** The present state; undefined if the object does not exist. */
  live: KubeObject | undefined;
}

export type UndoAction = "delete" | "create" | "restore";

export function actionOf(step: UndoStep): UndoAction {
  return !step.want ? "delete" : step.live ? "restore" : "create";
}

/** Groups changes by their objects. The changes must be in the order of their revisions. */
export function changedObjects(changes: Change[]): ChangedObject[] {
  const found = new Map<string, ChangedObject>();
  for (const change of changes) {
    const key = `${change.object.resource}/${change.metadata.namespace ?? ""}/${change.object.name}`;
    found.set(key, { first: found.get(key)?.first ?? change, last: change });
  }
  return [...found.values()];
}

const transient = new Set(["events", "events.events.k8s.io", "leases.coordination.k8s.io"]);

/** Reports whether an object describes the present only, so that its earlier state is not restored. */
export function isTransient(change: Change): boolean {
  return transient.has(change.object.resource);
}

/**
 * Reports whether a step writes the IPAddress of a service. The server creates and deletes it with the service. If it
 * existed first, the service could not be created with this address.
 */
export function isServiceAddress(step: UndoStep): boolean {
  const spec = (step.want ?? step.live)?.["spec"] as { parentRef?: { resource?: string } } | undefined;
  return step.change.object.resource === "ipaddresses.networking.k8s.io" && spec?.parentRef?.resource === "services";
}

/** Returns an object without the metadata that each write changes. */
export function withoutNoise(object: KubeObject): KubeObject {
  const { managedFields: _, resourceVersion: __, generation: ___, ...metadata } = object.metadata;
  return { ...object, metadata };
}

/** Reports whether two states differ, except in their status and in the metadata that each write changes. */
export function statesDiffer(a: KubeObject | undefined, b: KubeObject | undefined): boolean {
  if (!a || !b) return Boolean(a ?? b);
  const [{ status: _, ...left }, { status: __, ...right }] = [withoutNoise(a), withoutNoise(b)];
  return !equal(left, right);
}

/** Returns the body of a write: a state without the fields that the server sets. live is the object that is replaced. */
export function writable(state: KubeObject, live?: KubeObject): KubeObject {
  const { deletionTimestamp: _, ...metadata } = withoutNoise(state).metadata;
  delete (metadata as Record<string, unknown>)["deletionGracePeriodSeconds"];
  return { ...state, metadata: { ...metadata, ...(live ? { resourceVersion: live.metadata.resourceVersion ?? "", uid: live.metadata.uid ?? "" } : {}) } };
}

/** Returns the managers of a restored state. Those of the status remain, because the status is not restored. */
export function restoredManagers(want: KubeObject, live: KubeObject): ManagedFields[] {
  const ofStatus = (entry: ManagedFields): boolean => entry.subresource === "status";
  const [before, now] = [want.metadata.managedFields ?? [], live.metadata.managedFields ?? []];
  return before.length === 0 ? [] : [...before.filter((entry) => !ofStatus(entry)), ...now.filter(ofStatus)];
}

/** Returns steps in their order: objects are created before the objects that depend on them, and deleted in the reverse order. */
export function inOrder(steps: UndoStep[]): UndoStep[] {
  const depths = depthsOf(steps);
  const rank = (step: UndoStep): number => {
    const depth = depths.get(step) ?? 0;
    return { create: depth, restore: 500, delete: 1000 - depth }[actionOf(step)];
  };
  return [...steps].sort((a, b) => rank(a) - rank(b));
}

const maxDepth = 20;

/** Returns the number of objects that an object depends on: its owners, its namespace and its definition. */
function depthsOf(steps: UndoStep[]): Map<UndoStep, number> {
  const byUID = new Map(steps.map((step) => [step.change.object.uid, step]));
  const depths = new Map<UndoStep, number>();
  const depthOf = (step: UndoStep, limit: number): number => {
    const known = depths.get(step);
    if (known !== undefined || limit === 0) return known ?? 0;
    const owners = ((step.want ?? step.live)?.metadata.ownerReferences ?? []).map((owner) => byUID.get(owner.uid)).filter((owner) => owner && owner !== step);
    const depth = Math.max(baseDepth(step.change), ...owners.map((owner) => depthOf(owner!, limit - 1) + 1));
    depths.set(step, depth);
    return depth;
  };
  for (const step of steps) depthOf(step, maxDepth);
  return depths;
}

export const definitions = "customresourcedefinitions.apiextensions.k8s.io";

const baseDepths: Record<string, number> = { namespaces: 0, [definitions]: 1, serviceaccounts: 2, secrets: 2, configmaps: 2 };

function baseDepth(change: Change): number {
  return baseDepths[change.object.resource] ?? 3;
}

/** Returns the name of a changed object, such as deployments.apps shop/web. */
export function objectName(change: Change): string {
  return `${change.object.resource} ${change.metadata.namespace ? `${change.metadata.namespace}/` : ""}${change.object.name}`;
}
