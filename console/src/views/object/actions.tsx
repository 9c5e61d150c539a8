import { useState } from "preact/hooks";
import { messageOf } from "../../api/client";
import { type Resource, pathOf } from "../../api/discovery";
import type { KubeObject } from "../../api/types";
import { cascade } from "../../model/owners";
import { listPath, objectPath, useApp, useLoad, useTick } from "../../ui/context";
import { Dialog, Failure, Link, Loading, Note } from "../../ui/parts";
import { itemsPeriod, readItems } from "./items";

/** Buttons for the writes that the object supports. */
export function Actions(props: { resource: Resource; object: KubeObject }) {
  const { resource, object } = props;
  const [dialog, setDialog] = useState<"delete" | "scale" | "restart">();
  const close = (): void => setDialog(undefined);
  const restartable = resource.group === "apps" && ["Deployment", "StatefulSet", "DaemonSet"].includes(resource.kind);
  return (
    <>
      {resource.subresources.includes("scale") && <button onClick={() => setDialog("scale")}>Scale</button>}
      {restartable && <button onClick={() => setDialog("restart")}>Restart</button>}
      {resource.verbs.includes("delete") && (
        <button class="danger" onClick={() => setDialog("delete")}>
          Delete
        </button>
      )}
      {dialog === "delete" && <DeleteDialog resource={resource} object={object} close={close} />}
      {dialog === "scale" && <ScaleDialog resource={resource} object={object} close={close} />}
      {dialog === "restart" && <RestartDialog resource={resource} object={object} close={close} />}
    </>
  );
}

interface ActionProps {
  resource: Resource;
  object: KubeObject;
  close: () => void;
}

/** Deletes an object after a preview of the dependents that the garbage collector deletes. */
function DeleteDialog(props: ActionProps) {
  const app = useApp();
  const { resource, object } = props;
  const { metadata } = object;
  const [policy, setPolicy] = useState("Background");
  const [error, setError] = useState("");
  const isNamespace = resource.group === "" && resource.kind === "Namespace";
  const all = useLoad((signal) => readItems(app.client, app.discovery, isNamespace ? metadata.name : (metadata.namespace ?? ""), signal), [metadata.uid], useTick(itemsPeriod));
  const effect = all.value && (isNamespace ? { deleted: all.value.items, kept: [] } : cascade(all.value.items, metadata.uid ?? ""));
  const remove = async (): Promise<void> => {
    try {
      const body = { kind: "DeleteOptions", apiVersion: "v1", propagationPolicy: policy, preconditions: { uid: metadata.uid } };
      const result = await app.client.json<KubeObject>(pathOf(resource, metadata.namespace, metadata.name), { method: "DELETE", body });
      props.close();
      if (result.metadata?.deletionTimestamp) return; // the page shows the finalizers that the object waits for
      app.notify(`${resource.kind} ${metadata.name} was deleted.`);
      app.go(listPath(resource), { namespace: metadata.namespace });
    } catch (failure) {
      setError(messageOf(failure));
    }
  };
  return (
    <Dialog title={`Delete ${resource.kind} ${metadata.name}`} close={props.close}>
      {!isNamespace && (
        <label>
          Dependents{" "}
          <select value={policy} onChange={(event) => setPolicy(event.currentTarget.value)}>
            <option value="Background">Delete in the background</option>
            <option value="Foreground">Delete first</option>
            <option value="Orphan">Keep</option>
          </select>
        </label>
      )}
      {all.error && <Failure message={all.error} />}
      {!effect && !all.error && <Loading />}
      {effect && policy !== "Orphan" && (
        <>
          <p>
            {effect.deleted.length === 0 ? "No other object is deleted." : `${effect.deleted.length} other ${effect.deleted.length === 1 ? "object is" : "objects are"} deleted:`}
          </p>
          <ul class="plainlist scroll short">
            {effect.deleted.slice(0, 200).map((item) => (
              <li key={item.metadata.uid}>
                <Link to={objectPath({ group: item.group, name: item.resource }, item.metadata.namespace, item.metadata.name)}>
                  {item.kind} {item.metadata.name}
                </Link>
              </li>
            ))}
            {effect.deleted.length > 200 && <li>and {effect.deleted.length - 200} more</li>}
          </ul>
          {effect.kept.length > 0 && <Note>These dependents remain, because another owner remains: {effect.kept.map((item) => `${item.kind} ${item.metadata.name}`).join(", ")}.</Note>}
        </>
      )}
      {all.value && all.value.denied.length > 0 && <Note kind="warning">You cannot list these resources, so other dependents can exist: {all.value.denied.join(", ")}.</Note>}
      {error && <Failure message={error} />}
      <footer>
        <button class="danger" onClick={() => void remove()}>
          Delete
        </button>
        <button onClick={props.close}>Cancel</button>
      </footer>
    </Dialog>
  );
}

function ScaleDialog(props: ActionProps) {
  const app = useApp();
  const { metadata } = props.object;
  const path = pathOf(props.resource, metadata.namespace, metadata.name, "scale");
  const scale = useLoad((signal) => app.client.json<{ spec: { replicas?: number } }>(path, { signal }), [path]);
  const [error, setError] = useState("");
  const apply = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const replicas = Number(new FormData(event.currentTarget as HTMLFormElement).get("replicas"));
    try {
      await app.client.send(path, { method: "PATCH", body: { spec: { replicas } }, contentType: "application/merge-patch+json", query: { fieldManager: "mainstay-console" } });
      app.notify(`${metadata.name} was scaled to ${replicas}.`);
      props.close();
    } catch (failure) {
      setError(messageOf(failure));
    }
  };
  return (
    <Dialog title={`Scale ${metadata.name}`} close={props.close}>
      {scale.error ? <Failure message={scale.error} /> : !scale.value && <Loading />}
      {scale.value && (
        <form onSubmit={(event) => void apply(event)}>
          <label>
            Replicas <input name="replicas" type="number" min="0" required defaultValue={String(scale.value.spec.replicas ?? 0)} />
          </label>
          <footer>
            <button class="primary">Scale</button>
          </footer>
        </form>
      )}
      {error && <Failure message={error} />}
    </Dialog>
  );
}

/** Restarts the pods of a workload as kubectl does: by an annotation of the pod template. */
function RestartDialog(props: ActionProps) {
  const app = useApp();
  const { metadata } = props.object;
  const [error, setError] = useState("");
  const restart = async (): Promise<void> => {
    const annotations = { "kubectl.kubernetes.io/restartedAt": new Date().toISOString() };
    try {
      await app.client.send(pathOf(props.resource, metadata.namespace, metadata.name), {
        method: "PATCH", body: { spec: { template: { metadata: { annotations } } } }, contentType: "application/strategic-merge-patch+json", query: { fieldManager: "mainstay-console" },
      });
      app.notify(`${metadata.name} restarts.`);
      props.close();
    } catch (failure) {
      setError(messageOf(failure));
    }
  };
  return (
    <Dialog title={`Restart ${metadata.name}`} close={props.close}>
      <p>The controller replaces all pods, according to the update strategy.</p>
      {error && <Failure message={error} />}
      <footer>
        <button class="primary" onClick={() => void restart()}>
          Restart
        </button>
      </footer>
    </Dialog>
  );
}
