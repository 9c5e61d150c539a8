import type { Client } from "../api/client";
import { pathOf } from "../api/discovery";
import type { Change, KubeObject, List } from "../api/types";
import { listPath, useApp, useLoad } from "../ui/context";
import { Failure, Link, Loading, Note } from "../ui/parts";
import { readChanges } from "./changes";
import { ChangeTable } from "./history";

/** Kinds whose number is shown, as RESOURCE.GROUP. */
const counted: [string, string][] = [
  ["", "namespaces"], ["", "pods"], ["apps", "deployments"], ["apps", "statefulsets"], ["batch", "jobs"], ["", "services"], ["", "configmaps"], ["", "secrets"],
  ["apiextensions.k8s.io", "customresourcedefinitions"],
];

/** The start page: the number of objects of the common kinds, warnings and recent changes. */
export function Overview() {
  const app = useApp();
  const { client, discovery } = app;
  const counts = useLoad(async (signal) => {
    const resources = counted.map(([group, name]) => discovery.find(group, name)).filter((resource) => resource !== undefined);
    return Promise.all(resources.map(async (resource) => {
      // Only the first object is read; remainingItemCount is the number of the others.
      const count = await client.json<List<unknown>>(pathOf(resource), { signal, query: { limit: "1" } }).then((list) => (list.items?.length ?? 0) + (list.metadata.remainingItemCount ?? 0), () => undefined);
      return { resource, count };
    }));
  }, [client]);
  const warnings = useLoad((signal) => client.json<List<KubeObject>>("/api/v1/events", { signal, query: { fieldSelector: "type=Warning", limit: "20" } }), [client]);
  const changes = useLoad((signal) => (discovery.hasHistory ? newestChanges(client, signal) : Promise.resolve(undefined)), [client]);
  return (
    <section>
      <h1>Overview</h1>
      {counts.error ? <Failure message={counts.error} retry={counts.reload} /> : !counts.value && <Loading />}
      <div class="cards">
        {counts.value?.map(({ resource, count }) => (
          <Link key={resource.name} to={listPath(resource)} class="card">
            <b>{count ?? "–"}</b>
            <span>{resource.name}</span>
          </Link>
        ))}
      </div>
      <h2>Warnings</h2>
      {warnings.error && <Failure message={warnings.error} retry={warnings.reload} />}
      {warnings.value && (warnings.value.items?.length ? (
        <ul class="plainlist">
          {warnings.value.items.map((event) => (
            <li key={event.metadata.uid}>
              <b>{String(event["reason"] ?? "")}</b> {String(event["message"] ?? "")} <span class="muted">{event.metadata.namespace}/{event.metadata.name}</span>
            </li>
          ))}
        </ul>
      ) : <Note>There are no warnings.</Note>)}
      {discovery.hasHistory && (
        <>
          <h2>Changes of the last hour</h2>
          {changes.error && <Failure message={changes.error} retry={changes.reload} />}
          {changes.value && <ChangeTable changes={changes.value} undone={changes.reload} />}
        </>
      )}
    </section>
  );
}

const maxChanges = 20;

/** Returns the newest changes of the last hour. The server lists the oldest ones first, so that a short range is read first. */
async function newestChanges(client: Client, signal: AbortSignal): Promise<Change[]> {
  let found: Change[] = [];
  for (const since of ["1m", "10m", "1h"]) {
    found = await readChanges(client, { since }, signal);
    if (found.length >= maxChanges) break;
  }
  return found.slice(0, maxChanges);
}
