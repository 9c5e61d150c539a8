import { useState } from "preact/hooks";
import { messageOf } from "../api/client";
import type { Change, Condition, KubeObject, List } from "../api/types";
import { age, apiTime, bytes, manifest } from "../model/format";
import { objectPath, useApp, useLoad, useTick } from "../ui/context";
import { Difference } from "../ui/editor";
import { joinBase, splitBase } from "../ui/location";
import { Dialog, Failure, Link, Loading, Note, SimpleTable } from "../ui/parts";

const path = "/apis/mainstay.dev/v1/controlplanes";

interface ControlPlane extends KubeObject {
  spec?: { paused?: boolean; from?: { controlPlane?: string; time?: string } };
  status?: { phase?: string; objects?: number; bytes?: number; lastRequestTime?: string; conditions?: Condition[] } & Record<string, unknown>;
}

/** The page of the control planes, which are objects of the root control plane. */
export function ControlPlanes() {
  const { cluster } = splitBase(useApp().place.base);
  return cluster ? <Note>Control planes are objects of the root control plane. Leave {cluster} to see them.</Note> : <ControlPlaneList />;
}

/** The control planes and forks of the server. */
function ControlPlaneList() {
  const app = useApp();
  const { moment } = splitBase(app.place.base);
  const tick = useTick(3000);
  const list = useLoad(async (signal) => (await app.client.json<List<ControlPlane>>(path, { signal })).items ?? [], [app.client], tick);
  const [creating, setCreating] = useState(false);
  const [compared, setCompared] = useState<string>();
  return (
    <section>
      <header class="head">
        <h1>Control planes</h1>
        <span class="space" />
        {!moment && (
          <button class="primary" onClick={() => setCreating(true)}>
            Create or fork
          </button>
        )}
      </header>
      {list.error && <Failure message={list.error} retry={list.reload} />}
      {!list.value && !list.error && <Loading />}
      {list.value?.length === 0 && <Note>There are no control planes besides the root.</Note>}
      {list.value && list.value.length > 0 && (
        <SimpleTable
          label="Control planes" columns={["Name", "Phase", "Fork of", "Objects", "Size", "Last request", ""]}
          rows={list.value.map((plane) => {
            const from = plane.spec?.from;
            const reason = plane.status?.conditions?.find((condition) => condition.type === "Ready" && condition.status !== "True")?.message;
            return [
              <Link to={objectPath({ group: "mainstay.dev", name: "controlplanes" }, "", plane.metadata.name)}>{plane.metadata.name}</Link>,
              <span title={reason}>{plane.status?.phase ?? "Pending"}{reason && `: ${reason}`}</span>,
              from ? `${from.controlPlane || "the root"}${from.time ? ` at ${from.time}` : ""}` : "",
              plane.status?.objects ?? "", plane.status?.bytes === undefined ? "" : bytes(plane.status.bytes), age(plane.status?.lastRequestTime),
              !moment && <>
                <button disabled={plane.status?.phase !== "Ready"} onClick={() => app.setBase(joinBase(plane.metadata.name, ""), [])}>
                  Open
                </button>{" "}
                {from && <button disabled={plane.status?.phase !== "Ready"} onClick={() => setCompared(plane.metadata.name)}>Compare</button>}
              </>,
            ];
          })}
        />
      )}
      {creating && <CreateDialog existing={list.value ?? []} close={() => (setCreating(false), list.reload())} />}
      {compared && <CompareDialog name={compared} close={() => setCompared(undefined)} />}
    </section>
  );
}

function CreateDialog(props: { existing: ControlPlane[]; close: () => void }) {
  const app = useApp();
  const [source, setSource] = useState("");
  const [error, setError] = useState("");
  const create = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const time = form.get("time") as string | null;
    const from = source && { ...(source === "root" ? {} : { controlPlane: source.slice(1) }), ...(time ? { time: apiTime(new Date(time)) } : {}) };
    try {
      await app.client.send(path, { method: "POST", body: { apiVersion: "mainstay.dev/v1", kind: "ControlPlane", metadata: { name: form.get("name") }, spec: from ? { from } : {} } });
      props.close();
    } catch (failure) {
      setError(messageOf(failure));
    }
  };
  return (
    <Dialog title="Create a control plane" close={props.close}>
      <form class="rowsform" onSubmit={(event) => void create(event)}>
        <label>
          Name <input name="name" required pattern="[a-z0-9]([a-z0-9\-]*[a-z0-9])?" autocomplete="off" />
        </label>
        <label>
          Begins with{" "}
          <select value={source} onChange={(event) => setSource(event.currentTarget.value)}>
            <option value="">the default objects</option>
            <option value="root">a copy of the root control plane</option>
            {props.existing.map((plane) => (
              <option key={plane.metadata.uid} value={`/${plane.metadata.name}`}>
                a copy of {plane.metadata.name}
              </option>
            ))}
          </select>
        </label>
        {source && (
          <label>
            At the time (empty: now) <input type="datetime-local" name="time" step="1" />
          </label>
        )}
        {error && <Failure message={error} />}
        <footer>
          <button class="primary">Create</button>
        </footer>
      </form>
    </Dialog>
  );
}

/** The objects of a fork that differ from its source. */
function CompareDialog(props: { name: string; close: () => void }) {
  const app = useApp();
  const changes = useLoad((signal) => app.client.at(joinBase(props.name, "")).json<List<Change>>("/mainstay/v1/fork/changes", { signal }), [props.name]);
  const [open, setOpen] = useState<Change>();
  const items = changes.value?.items ?? [];
  return (
    <Dialog title={`${props.name}, compared with its source`} close={props.close} wide>
      {changes.error && <Failure message={changes.error} />}
      {!changes.value && !changes.error && <Loading />}
      {changes.value && items.length === 0 && <Note>The fork is equal to its source.</Note>}
      {items.length > 0 && (
        <SimpleTable
          label="Changes of the fork" columns={["Change", "Object", "Fields"]}
          rows={items.map((change) => [
            <button class="link" onClick={() => setOpen(change)}>{change.operation}</button>,
            `${change.object.resource} ${change.metadata.namespace ? `${change.metadata.namespace}/` : ""}${change.object.name}`, (change.fields ?? []).slice(0, 5).join(", "),
          ])}
        />
      )}
      {open && <Difference label={`${open.object.name} in the source and in the fork`} before={manifest(open.before)} after={manifest(open.after)} />}
      {items.length > 0 && <p class="muted">To write these changes to the source: mainstay apply-diff {props.name}</p>}
    </Dialog>
  );
}
