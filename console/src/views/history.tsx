import { useState } from "preact/hooks";
import { type Client, messageOf } from "../api/client";
import { historyGroup, pathOf } from "../api/discovery";
import type { Change, KubeObject, List } from "../api/types";
import { age, apiTime, dateTime, manifest } from "../model/format";
import { type App, kindPath, useApp, useLoad } from "../ui/context";
import { Difference } from "../ui/editor";
import { joinBase, splitBase } from "../ui/location";
import { Dialog, Failure, Field, Link, Loading, Note, SimpleTable } from "../ui/parts";
import { NamespaceField } from "./namespacefield";

const changesPath = `/apis/${historyGroup}/v1/changes`;

/** Which changes a timeline contains. */
export interface ChangeFilter {
  namespace?: string | undefined;
  since?: string | undefined;
  user?: string | undefined;
  resource?: string | undefined;
  name?: string | undefined;
  manager?: string | undefined;
}

const maxChanges = 500;

/** Returns a client of the present: an earlier state does not contain the resource of the changes. */
function presentOf(client: Client): Client {
  const { cluster, moment } = splitBase(client.base);
  return moment ? client.at(joinBase(cluster, "")) : client;
}

/** Returns the range of the changes up to the moment of a client. An age is relative to that moment. */
async function rangeOf(client: Client, since: string | undefined, signal?: AbortSignal): Promise<{ since?: string | undefined; until?: string }> {
  const { moment } = splitBase(client.base);
  if (!moment) return { since };
  const until = moment.replace(/^-/, "");
  const length = ageSeconds(since ?? "");
  if (!length) return { since, until };
  const time = (await client.send("/api", { signal })).headers.get("Mainstay-Time");
  return { since: time ? apiTime(new Date(Date.parse(time) - length * 1000)) : since, until };
}

const unitSeconds: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86400 };

/** Parses an age such as 15m or 1h30m; 0 for another text. */
function ageSeconds(text: string): number {
  if (!/^(\d+[smhd])+$/.test(text)) return 0;
  return [...text.matchAll(/(\d+)([smhd])/g)].reduce((total, [, count, unit]) => total + Number(count) * unitSeconds[unit!]!, 0);
}

/** Returns the newest changes up to the moment of the client, the newest first. */
export async function readChanges(client: Client, filter: ChangeFilter, signal?: AbortSignal): Promise<Change[]> {
  const range = await rangeOf(client, filter.since, signal);
  const selector = Object.entries({ ...range, user: filter.user, "object.resource": filter.resource, "object.name": filter.name, fieldManager: filter.manager })
    .filter(([, value]) => value)
    .map(([key, value]) => `${key}=${value!.replace(/([\\,=])/g, "\\$1")}`)
    .join(",");
  const path = filter.namespace ? `/apis/${historyGroup}/v1/namespaces/${encodeURIComponent(filter.namespace)}/changes` : changesPath;
  const changes: Change[] = [];
  let next = "";
  do {
    const page: List<Change> = await presentOf(client).json<List<Change>>(path, { signal, query: { fieldSelector: selector, limit: "500", continue: next } });
    changes.push(...(page.items ?? []));
    changes.splice(0, changes.length - maxChanges);
    next = page.metadata.continue ?? "";
  } while (next);
  return changes.reverse();
}

/** Returns a change with the states of the object before and after it. */
export async function readChange(client: Client, change: Change, signal?: AbortSignal): Promise<Change> {
  const namespace = change.metadata.namespace;
  return presentOf(client).json<Change>(`/apis/${historyGroup}/v1${namespace ? `/namespaces/${encodeURIComponent(namespace)}` : ""}/changes/${encodeURIComponent(change.metadata.name)}`, { signal });
}

/** The changes of a namespace or of the whole API. */
export function History() {
  const app = useApp();
  const parameter = (name: string): string => app.place.query.get(name) ?? "";
  const [namespace, since, user, resource] = [parameter("namespace"), parameter("since") || "1h", parameter("user"), parameter("resource")];
  const changes = useLoad((signal) => readChanges(app.client, { namespace, since, user, resource }, signal), [app.client, namespace, since, user, resource]);
  return (
    <section>
      <header class="head">
        <h1>History</h1>
        <span class="space" />
        <button onClick={changes.reload}>Read again</button>
      </header>
      <div class="filters">
        <NamespaceField value={namespace} apply={(value) => app.setQuery({ namespace: value })} />
        <Field label="Since" placeholder="Since: 15m, 2d or a time" value={since} apply={(value) => app.setQuery({ since: value })} />
        <Field label="User" value={user} apply={(value) => app.setQuery({ user: value })} />
        <Field label="Resource" placeholder="Resource: deployments.apps" value={resource} apply={(value) => app.setQuery({ resource: value })} />
      </div>
      {changes.error && <Failure message={changes.error} retry={changes.reload} />}
      {!changes.value && !changes.error && <Loading />}
      {changes.value && <ChangeTable changes={changes.value} undone={changes.reload} />}
      {changes.value?.length === maxChanges && <Note>These are the newest {maxChanges} changes. Use the filters to see older ones.</Note>}
    </section>
  );
}

/** A table of changes. A click shows the difference of a change. undone is called after a change was undone. */
export function ChangeTable(props: { changes: Change[]; withoutObject?: boolean; undone?: () => void }) {
  const app = useApp();
  const [open, setOpen] = useState<Change>();
  if (props.changes.length === 0) return <Note>There are no changes.</Note>;
  const rows = props.changes.map((change) => [
    <span title={dateTime(change.metadata.creationTimestamp)}>{age(change.metadata.creationTimestamp)}</span>,
    <button class="link" onClick={() => setOpen(change)}>{change.operation}</button>,
    ...(props.withoutObject ? [] : [<ChangedObject change={change} />]),
    `${change.user ?? ""}${change.impersonatedBy ? ` (by ${change.impersonatedBy})` : ""}`,
    [change.fieldManager, change.subresource].filter(Boolean).join(" / "),
    <span class="fields">{(change.fields ?? []).slice(0, 4).join(", ")}{(change.fields?.length ?? 0) > 4 && ", …"}</span>,
  ]);
  return (
    <>
      <SimpleTable label="Changes" columns={["Age", "Change", ...(props.withoutObject ? [] : ["Object"]), "User", "Manager", "Fields"]} rows={rows} />
      {open && <ChangeDialog key={open.metadata.name} app={app} change={open} close={() => setOpen(undefined)} undone={() => props.undone?.()} />}
    </>
  );
}

function ChangedObject(props: { change: Change }) {
  const { discovery } = useApp();
  const { object, metadata } = props.change;
  const [name = "", ...group] = object.resource.split(".");
  const resource = discovery.find(group.join("."), name);
  const path = resource && kindPath(discovery, object.apiVersion ?? resource.group + "/", object.kind ?? resource.kind, metadata.namespace, object.name);
  const text = `${object.resource} ${metadata.namespace ? `${metadata.namespace}/` : ""}${object.name}`;
  return path ? <Link to={path}>{text}</Link> : <>{text}</>;
}

/** The difference that a change made, with buttons to go to its time and to undo it. */
function ChangeDialog(props: { app: App; change: Change; close: () => void; undone: () => void }) {
  const { app, change } = props;
  const full = useLoad((signal) => readChange(app.client, change, signal), [change]);
  const [plan, setPlan] = useState<UndoPlan>();
  const [error, setError] = useState("");
  const { cluster, moment } = splitBase(app.place.base);
  const attempt = async (action: () => Promise<void>): Promise<void> => {
    setError("");
    try {
      await action();
    } catch (failure) {
      setError(messageOf(failure));
    }
  };
  return (
    <Dialog title={`${change.operation}: ${change.object.resource} ${change.object.name}`} close={props.close} wide>
      <p>
        {dateTime(change.metadata.creationTimestamp)} by {change.user || "an unknown user"}
        {change.fieldManager && `, field manager ${change.fieldManager}`}
        {change.userAgent && `, ${change.userAgent}`}
      </p>
      {full.error && <Failure message={full.error} retry={full.reload} />}
      {!full.value && !full.error && <Loading />}
      {full.value && !plan && <Difference label="Before and after the change" before={manifest(full.value.before)} after={manifest(full.value.after)} />}
      {plan && (
        <>
          <h3>Undo: {plan.title}</h3>
          <Difference label="The object now, and after undoing the change" before={plan.before} after={plan.after} />
        </>
      )}
      {error && <Failure message={error} />}
      <footer>
        {!plan && <button onClick={() => app.setBase(joinBase(cluster, `rv/${change.revision}`))}>Show everything after this change</button>}
        {!moment && full.value && !plan && <button onClick={() => void attempt(async () => setPlan(await planUndo(app, full.value!)))}>Undo…</button>}
        {plan && (
          <button
            class="primary"
            onClick={() => void attempt(async () => {
              await plan.execute();
              app.notify(`${change.object.resource} ${change.object.name}: the change was undone.`);
              props.close();
              props.undone();
            })}
          >
            Undo the change
          </button>
        )}
      </footer>
    </Dialog>
  );
}

interface UndoPlan {
  title: string;
  before: string;
  after: string;
  execute: () => Promise<unknown>;
}

/** Plans to return an object to its state before a change, and verifies the write by a dry run. */
async function planUndo(app: App, change: Change): Promise<UndoPlan> {
  const [name = "", ...group] = change.object.resource.split(".");
  const resource = app.discovery.find(group.join("."), name);
  if (!resource) throw new Error(`The server has no resource ${change.object.resource}.`);
  const namespace = change.metadata.namespace ?? "";
  const path = pathOf(resource, namespace, change.object.name);
  const live = await app.client.json<KubeObject>(path).catch((error: { code?: number }) => {
    if (error.code === 404) return undefined;
    throw error;
  });
  const { before } = change;
  if (!before) {
    if (change.operation !== "Created") throw new Error("The state before the change is not available.");
    if (live?.metadata.uid !== change.object.uid) throw new Error("The created object does not exist any more.");
    const body = { preconditions: { uid: live?.metadata.uid } };
    return { title: "delete the object", before: manifest(live), after: "", execute: () => app.client.send(path, { method: "DELETE", body }) };
  }
  if (!live) {
    const { resourceVersion: _, ...metadata } = before.metadata;
    const send = (dryRun?: string) => app.client.json<KubeObject>(pathOf(resource, namespace), {
      method: "POST", body: { ...before, metadata }, query: { restoreFrom: change.previousRevision, dryRun },
    });
    return { title: "create the object again", before: "", after: manifest(await send("All")), execute: () => send() };
  }
  const body = { ...before, metadata: { ...before.metadata, resourceVersion: live.metadata.resourceVersion } };
  const send = (dryRun?: string) => app.client.json<KubeObject>(path, { method: "PUT", body, query: { fieldManager: "mainstay-console", dryRun } });
  return { title: "return to the state before the change", before: manifest(live), after: manifest(await send("All")), execute: () => send() };
}
