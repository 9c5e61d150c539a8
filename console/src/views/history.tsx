import { useState } from "preact/hooks";
import { type Client, messageOf } from "../api/client";
import { pathOf } from "../api/discovery";
import type { Change, KubeObject } from "../api/types";
import { undo } from "../api/undo";
import { age, dateTime, manifest } from "../model/format";
import { type UndoAction, type UndoStep, actionOf, objectName } from "../model/undo";
import { type App, kindPath, useApp, useLoad } from "../ui/context";
import { Difference } from "../ui/editor";
import { joinBase, splitBase } from "../ui/location";
import { Dialog, Failure, Field, Link, Loading, Note, SimpleTable } from "../ui/parts";
import { maxChanges, readChange, readChanges } from "./changes";
import { NamespaceField } from "./namespacefield";
import { UndoDialog } from "./undo";

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
      {changes.value && <ChangeTable changes={changes.value} selectable={splitBase(app.place.base).moment === ""} undone={changes.reload} />}
      {changes.value?.length === maxChanges && <Note>These are the newest {maxChanges} changes. Use the filters to see older ones.</Note>}
    </section>
  );
}

/** A table of changes. A click shows the difference of a change. undone is called after changes were undone. */
export function ChangeTable(props: { changes: Change[]; withoutObject?: boolean; selectable?: boolean; undone?: () => void }) {
  const app = useApp();
  const [open, setOpen] = useState<Change>();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  if (props.changes.length === 0) return <Note>There are no changes.</Note>;
  const rows = props.changes.map((change) => [
    ...(props.selectable ? [<SelectBox change={change} selected={selected} select={setSelected} />] : []),
    <span title={dateTime(change.metadata.creationTimestamp)}>{age(change.metadata.creationTimestamp)}</span>,
    <button class="link" onClick={() => setOpen(change)}>{change.operation}</button>,
    ...(props.withoutObject ? [] : [<ChangedObject change={change} />]),
    `${change.user ?? ""}${change.impersonatedBy ? ` (by ${change.impersonatedBy})` : ""}`,
    [change.fieldManager, change.subresource].filter(Boolean).join(" / "),
    <span class="changed fields">{(change.fields ?? []).slice(0, 4).join(", ")}{(change.fields?.length ?? 0) > 4 && ", …"}</span>,
  ]);
  const undone = (): void => props.undone?.();
  return (
    <>
      {props.selectable && <Selection changes={props.changes} selected={selected} select={setSelected} undone={undone} />}
      <SimpleTable label="Changes" columns={[...(props.selectable ? ["Select"] : []), "Age", "Change", ...(props.withoutObject ? [] : ["Object"]), "User", "Manager", "Fields"]} rows={rows} />
      {open && <ChangeDialog key={open.metadata.name} app={app} change={open} close={() => setOpen(undefined)} undone={undone} />}
    </>
  );
}

/** The names of the selected changes. */
interface SelectionProps {
  selected: ReadonlySet<string>;
  select: (change: (selected: ReadonlySet<string>) => ReadonlySet<string>) => void;
}

function SelectBox(props: SelectionProps & { change: Change }) {
  const { name } = props.change.metadata;
  const toggle = (checked: boolean): void => props.select((old) => new Set(checked ? [...old, name] : [...old].filter((other) => other !== name)));
  const label = `Select: ${props.change.operation} ${objectName(props.change)}, ${dateTime(props.change.metadata.creationTimestamp)}`;
  return <input type="checkbox" aria-label={label} checked={props.selected.has(name)} onChange={(event) => toggle(event.currentTarget.checked)} />;
}

/** Selects all listed changes, and undoes the selected ones. */
function Selection(props: SelectionProps & { changes: Change[]; undone: () => void }) {
  const [undoing, setUndoing] = useState<Change[]>();
  const selected = props.changes.filter((change) => props.selected.has(change.metadata.name));
  const all = selected.length === props.changes.length;
  return (
    <div class="buttons">
      <label>
        <input type="checkbox" checked={all} onChange={() => props.select(() => new Set(all ? [] : props.changes.map((change) => change.metadata.name)))} /> Select all {props.changes.length} listed changes
      </label>
      <button disabled={selected.length === 0} onClick={() => setUndoing(selected.toReversed())}>
        Undo {selected.length} selected…
      </button>
      {undoing && <UndoDialog changes={undoing} close={() => setUndoing(undefined)} undone={() => (props.select(() => new Set()), props.undone())} />}
    </div>
  );
}

function ChangedObject(props: { change: Change }) {
  const { discovery } = useApp();
  const { object, metadata } = props.change;
  const [name = "", ...group] = object.resource.split(".");
  const resource = discovery.find(group.join("."), name);
  const path = resource && kindPath(discovery, object.apiVersion ?? resource.group + "/", object.kind ?? resource.kind, metadata.namespace, object.name);
  const text = objectName(props.change);
  return <span class="changed">{path ? <Link to={path}>{text}</Link> : text}</span>;
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
              await plan.execute(app.client);
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
  execute: (client: Client) => Promise<unknown>;
}

const titles: Record<UndoAction, string> = { delete: "delete the object", create: "create the object again", restore: "return to the state before the change" };

/** Plans to return an object to its state before a change, and verifies the write by a dry run. */
async function planUndo(app: App, change: Change): Promise<UndoPlan> {
  const live = await readLive(app, change);
  if (!change.before && change.operation !== "Created") throw new Error("The state before the change is not available.");
  if (!change.before && live?.metadata.uid !== change.object.uid) throw new Error("The created object does not exist any more.");
  const step: UndoStep = { change, want: change.before, live };
  const after = await undo(app.client, step, "All");
  return { title: titles[actionOf(step)], before: manifest(live), after: manifest(after), execute: (client) => undo(client, step) };
}

/** Returns the present state of a changed object; undefined if it does not exist. */
async function readLive(app: App, change: Change): Promise<KubeObject | undefined> {
  const [name = "", ...group] = change.object.resource.split(".");
  const resource = app.discovery.find(group.join("."), name);
  if (!resource) throw new Error(`The server has no resource ${change.object.resource}.`);
  return app.client.json<KubeObject>(pathOf(resource, change.metadata.namespace ?? "", change.object.name)).catch((error: { code?: number }) => {
    if (error.code === 404) return undefined;
    throw error;
  });
}
