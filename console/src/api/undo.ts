import { type UndoStep, actionOf, definitions, restoredManagers, statesDiffer, writable } from "../model/undo";
import { APIError, type Client, messageOf } from "./client";
import { groupOf, pathOf } from "./discovery";
import type { Change, Condition, KubeObject } from "./types";

const fieldManager = "mainstay-console";

/** Performs a step and returns the written object; undefined for a deletion. dryRun is "All" for a dry run. */
export async function undo(client: Client, step: UndoStep, dryRun?: string): Promise<KubeObject | undefined> {
  const path = itemPath(step.want ?? step.live!, step.change);
  const written = await write(client, step, path, dryRun);
  if (dryRun || !written || !step.want) return written;
  await restoreManagers(client, path, step.want).catch((error: unknown) => {
    throw new Error(`The object was written, but not the managers of its fields: ${messageOf(error)}`);
  });
  if (step.change.object.resource === definitions) await awaitEstablished(client, path);
  return written;
}

function write(client: Client, step: UndoStep, path: string, dryRun: string | undefined): Promise<KubeObject | undefined> {
  switch (actionOf(step)) {
    case "delete":
      return remove(client, path, step.live!, dryRun);
    case "create":
      return create(client, step, path, dryRun);
    case "restore":
      return replace(client, path, step.want!, step.live, dryRun);
  }
}

/** Returns the path of an object. The definition of its resource need not exist yet. */
function itemPath(state: KubeObject, change: Change): string {
  return pathOf(resourceOf(state, change), change.metadata.namespace, change.object.name);
}

function resourceOf(state: KubeObject, change: Change): Parameters<typeof pathOf>[0] {
  return {
    group: groupOf(state.apiVersion), version: state.apiVersion.slice(state.apiVersion.lastIndexOf("/") + 1),
    name: change.object.resource.split(".")[0]!, namespaced: change.metadata.namespace !== undefined,
  };
}

/** Reads an object, which must have the planned state except for its status. Without a planned state, it can have any. */
async function readPlanned(client: Client, path: string, planned: KubeObject | undefined): Promise<KubeObject> {
  const live = await client.json<KubeObject>(path);
  if (planned && statesDiffer(live, planned)) throw new Error("The object has changed since the preview.");
  return live;
}

/** Deletes an object. It may have been deleted with its owner. */
async function remove(client: Client, path: string, planned: KubeObject, dryRun: string | undefined): Promise<undefined> {
  try {
    const { metadata } = await readPlanned(client, path, planned);
    // Servers ignore the query of a request with options.
    const body = { kind: "DeleteOptions", apiVersion: "v1", preconditions: { uid: metadata.uid }, ...(dryRun ? { dryRun: [dryRun] } : {}) };
    await client.send(path, { method: "DELETE", body });
  } catch (error) {
    if (!hasCode(error, 404)) throw error;
  }
}

/** Creates an object with its UID. If a controller has created it again, such as the service account of a namespace, it is replaced. */
async function create(client: Client, step: UndoStep, path: string, dryRun: string | undefined): Promise<KubeObject> {
  const collection = pathOf(resourceOf(step.want!, step.change), step.change.metadata.namespace);
  const query = { fieldManager, restoreFrom: step.change.previousRevision, dryRun };
  try {
    return await whileTerminating(() => client.json<KubeObject>(collection, { method: "POST", body: writable(step.want!), query }));
  } catch (error) {
    if (dryRun || !hasCode(error, 409)) throw error;
    return replace(client, path, step.want!, undefined, dryRun);
  }
}

/** Replaces an object, which must have the planned state, if there is one. */
async function replace(client: Client, path: string, want: KubeObject, planned: KubeObject | undefined, dryRun: string | undefined): Promise<KubeObject> {
  const live = await readPlanned(client, path, planned);
  return client.json<KubeObject>(path, { method: "PUT", body: writable(want, live), query: { fieldManager, dryRun } });
}

/** Restores the managers of the fields. Otherwise, the next apply of a manager would conflict with the console. */
async function restoreManagers(client: Client, path: string, want: KubeObject): Promise<void> {
  const managedFields = restoredManagers(want, await client.json<KubeObject>(path));
  if (managedFields.length === 0) return;
  await client.send(path, { method: "PATCH", body: { metadata: { managedFields } }, contentType: "application/merge-patch+json", query: { fieldManager } });
}

const attempts = 60;
const pause = 500;

/** Repeats a creation while the object or its namespace is being deleted. */
async function whileTerminating<T>(action: () => Promise<T>): Promise<T> {
  for (let i = 1; ; i++) {
    try {
      return await action();
    } catch (error) {
      if (i === attempts || !(error instanceof APIError) || !/being (deleted|terminated)/.test(error.message)) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

/** Waits until a definition is in effect. */
async function awaitEstablished(client: Client, path: string): Promise<void> {
  for (let i = 0; i < attempts; i++) {
    const conditions = ((await client.json<KubeObject>(path)).status?.["conditions"] ?? []) as Condition[];
    if (conditions.some((condition) => condition.type === "Established" && condition.status === "True")) return;
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  throw new Error("The definition is not in effect.");
}

function hasCode(error: unknown, code: number): boolean {
  return error instanceof APIError && error.code === code;
}
