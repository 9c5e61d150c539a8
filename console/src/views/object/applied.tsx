import { useState } from "preact/hooks";
import { type Resource, qualifiedName } from "../../api/discovery";
import type { KubeObject, ManagedFields } from "../../api/types";
import { age, dateTime } from "../../model/format";
import { project } from "../../model/ownership";
import { yaml } from "../../model/yaml";
import { useApp, useLoad } from "../../ui/context";
import { Difference, Viewer } from "../../ui/editor";
import { Failure, Loading, Note } from "../../ui/parts";
import { readChange, readChanges } from "../changes";

/** The managers of an object: their fields, and the difference between what each last applied and the object. */
export function Applied(props: { resource: Resource; object: KubeObject }) {
  const entries = props.object.metadata.managedFields ?? [];
  const [open, setOpen] = useState(0);
  if (entries.length === 0) return <Note>The object has no managed fields.</Note>;
  const selected = entries[Math.min(open, entries.length - 1)]!;
  return (
    <>
      <div class="filters" role="group" aria-label="Managers">
        {entries.map((entry, i) => (
          <button key={i} aria-pressed={entry === selected} onClick={() => setOpen(i)}>
            {nameOf(entry)}
          </button>
        ))}
      </div>
      <p class="muted">
        {selected.operation}, last change {age(selected.time)} ago, {dateTime(selected.time)}
      </p>
      <ManagerFields key={nameOf(selected)} resource={props.resource} object={props.object} entry={selected} />
    </>
  );
}

function nameOf(entry: ManagedFields): string {
  return entry.subresource ? `${entry.manager} (${entry.subresource})` : (entry.manager ?? "");
}

function ManagerFields(props: { resource: Resource; object: KubeObject; entry: ManagedFields }) {
  const { client, discovery } = useApp();
  const { object, entry } = props;
  const applied = useLoad(async (signal) => {
    if (!discovery.hasHistory) return undefined;
    const filter = { namespace: object.metadata.namespace, resource: qualifiedName(props.resource), name: object.metadata.name, manager: entry.manager };
    const last = (await readChanges(client, filter, signal)).find((change) => change.object.uid === object.metadata.uid && (change.subresource ?? "") === (entry.subresource ?? ""));
    return last && (await readChange(client, last, signal)).after;
  }, [client, object.metadata.resourceVersion]);
  const then = applied.value?.metadata.managedFields?.find((old) => nameOf(old) === nameOf(entry) && old.operation === entry.operation);
  const text = (value: unknown): string => (value === undefined ? "" : yaml(value));
  if (!applied.value && !applied.error && discovery.hasHistory) {
    return (
      <>
        <Loading />
        <Viewer label={`Fields of ${nameOf(entry)}`} text={text(project(object, entry.fieldsV1 ?? {}))} />
      </>
    );
  }
  if (!applied.value || !then) {
    return (
      <>
        {applied.error && <Failure message={applied.error} />}
        <Note>The history does not contain the last change of this manager. These are the fields that it manages now.</Note>
        <Viewer label={`Fields of ${nameOf(entry)}`} text={text(project(object, entry.fieldsV1 ?? {}))} />
      </>
    );
  }
  const [before, after] = [text(project(applied.value, then.fieldsV1 ?? {})), text(project(object, then.fieldsV1 ?? {}))];
  return (
    <>
      {before === after ? (
        <>
          <Note>All fields still have the values that {nameOf(entry)} wrote.</Note>
          <Viewer label={`Fields of ${nameOf(entry)}`} text={after} />
        </>
      ) : (
        <>
          <p>Left: the values that {nameOf(entry)} wrote. Right: the same fields now.</p>
          <Difference label={`The last values of ${nameOf(entry)}, and the current ones`} before={before} after={after} />
        </>
      )}
    </>
  );
}
