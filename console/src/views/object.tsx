import { useEffect, useState } from "preact/hooks";
import { APIError, fieldSelector, messageOf, metadataType } from "../api/client";
import { type Resource, pathOf, qualifiedName } from "../api/discovery";
import type { KubeObject, List } from "../api/types";
import { untilVisible } from "../api/visible";
import { listPath, useApp, useLoad } from "../ui/context";
import { splitBase } from "../ui/location";
import { Failure, Link, Loading, Note, Tabs } from "../ui/parts";
import { readChanges } from "./changes";
import { ChangeTable } from "./history";
import { Actions } from "./object/actions";
import { Applied } from "./object/applied";
import { Events } from "./object/events";
import { Logs } from "./object/logs";
import { Relations } from "./object/relations";
import { Summary } from "./object/summary";
import { Terminal } from "./object/terminal";
import { YAMLTab } from "./object/yamltab";

/** An object with all views of it. It is updated by a watch. */
export function ObjectPage(props: { resource: Resource; namespace: string; name: string }) {
  const app = useApp();
  const { resource } = props;
  const { object, error, deleted } = useObject(resource, props.namespace, props.name);
  const past = splitBase(app.place.base).moment !== "";
  const tabs = ["Summary", "YAML", "Events", "Relations", ...(app.discovery.hasHistory ? ["History"] : []), "Managers", ...(resource.group === "" && resource.kind === "Pod" && !past ? ["Logs", "Terminal"] : [])];
  const tab = app.place.query.get("tab") ?? "Summary";
  const waiting = object ? finalizersOf(object) : [];
  return (
    <section>
      <nav class="crumbs" aria-label="Breadcrumbs">
        <Link to={listPath(resource)} query={{ namespace: props.namespace || undefined }}>
          {resource.kind}
        </Link>
        {props.namespace && <> / {props.namespace}</>}
      </nav>
      <header class="head">
        <h1>{props.name}</h1>
        <span class="space" />
        {object && !deleted && !past && <Actions resource={resource} object={object} />}
      </header>
      {deleted && <Note kind="warning">The object was deleted. The page shows its last state.</Note>}
      {object?.metadata.deletionTimestamp && !deleted && (
        <Note kind="warning">The object is being deleted.{waiting.length > 0 && ` It waits for the finalizers: ${waiting.join(", ")}.`}</Note>
      )}
      {error && <Failure message={error} />}
      {!object && !error && <Loading />}
      {!object && error && app.discovery.hasHistory && <ObjectHistory resource={resource} namespace={props.namespace} name={props.name} />}
      {object && (
        <>
          <Tabs names={tabs} current={tab} select={(name) => app.setQuery({ tab: name === "Summary" ? undefined : name })} />
          <div role="tabpanel" aria-label={tab}>
            {tab === "Summary" && <Summary resource={resource} object={object} />}
            {tab === "YAML" && <YAMLTab resource={resource} object={object} readOnly={past || deleted} />}
            {tab === "Events" && <Events object={object} />}
            {tab === "Relations" && <Relations resource={resource} object={object} />}
            {tab === "History" && <ObjectHistory resource={resource} namespace={props.namespace} name={props.name} />}
            {tab === "Managers" && <Applied resource={resource} object={object} />}
            {tab === "Logs" && <Logs pod={object} />}
            {tab === "Terminal" && <Terminal pod={object} />}
          </div>
        </>
      )}
    </section>
  );
}

/** Returns the finalizers of an object. Those of a namespace are also in its specification. */
function finalizersOf(object: KubeObject): string[] {
  const ofNamespace = object.kind === "Namespace" && object.apiVersion === "v1" ? object.spec?.["finalizers"] : undefined;
  return [...(object.metadata.finalizers ?? []), ...((ofNamespace ?? []) as string[])];
}

function ObjectHistory(props: { resource: Resource; namespace: string; name: string }) {
  const { client } = useApp();
  const filter = { namespace: props.namespace, resource: qualifiedName(props.resource), name: props.name };
  const changes = useLoad((signal) => readChanges(client, filter, signal), [client, props.resource, props.namespace, props.name]);
  if (changes.error) return <Failure message={changes.error} retry={changes.reload} />;
  return changes.value ? <ChangeTable changes={changes.value} withoutObject undone={changes.reload} /> : <Loading />;
}

interface LiveObject {
  object: KubeObject | undefined;
  error: string;
  deleted: boolean;
}

/** Throws an error, unless its code is 403. */
function ignoreForbidden(error: unknown): undefined {
  if (!(error instanceof APIError) || error.code !== 403) throw error;
}

/** Reads an object and follows its changes, while the page is visible. */
function useObject(resource: Resource, namespace: string, name: string): LiveObject {
  const { client } = useApp();
  const [state, setState] = useState<LiveObject>({ object: undefined, error: "", deleted: false });
  useEffect(() => {
    const ended = new AbortController();
    let watching = new AbortController();
    let listed = false;
    const visibilityChanged = (): void => {
      if (document.hidden) watching.abort();
    };
    document.addEventListener("visibilitychange", visibilityChanged);
    const follow = async (): Promise<void> => {
      while (!ended.signal.aborted) {
        try {
          const selector = fieldSelector({ "metadata.name": name });
          const collection = pathOf(resource, namespace);
          const isWatched = resource.verbs.includes("watch");
          // The revision of the object can be too old for a watch. A user without permission to list has no other one.
          const list = isWatched ? await client.json<List<unknown>>(collection, { accept: metadataType, signal: ended.signal, query: { fieldSelector: selector, limit: "1" } }).catch(ignoreForbidden) : undefined;
          listed = list !== undefined;
          const object = await client.json<KubeObject>(pathOf(resource, namespace, name), { signal: ended.signal });
          setState({ object, error: "", deleted: false });
          if (!isWatched) return;
          watching = new AbortController();
          const query = { fieldSelector: selector, resourceVersion: (list ?? object).metadata.resourceVersion };
          for await (const event of client.watch<KubeObject>(collection, { query, signal: AbortSignal.any([watching.signal, ended.signal]) })) {
            if (event.type === "DELETED") setState((old) => ({ ...old, deleted: true }));
            else if (event.type !== "BOOKMARK") setState({ object: event.object, error: "", deleted: false });
          }
        } catch (error) {
          if (ended.signal.aborted) return;
          if (watching.signal.aborted || (listed && error instanceof APIError && error.code === 410)) {
            await untilVisible();
            continue; // the object is read again
          }
          const code = error instanceof APIError ? error.code : 0;
          setState((old) => (code === 404 && old.object ? { ...old, deleted: true } : { ...old, error: messageOf(error) }));
          if (code === 401 || code === 403 || code === 404) return; // a user may have permission to get the object, but not to watch it
          await new Promise((resolve) => setTimeout(resolve, 2000));
        }
      }
    };
    void follow();
    return () => {
      document.removeEventListener("visibilitychange", visibilityChanged);
      ended.abort();
    };
  }, [client, resource, namespace, name]);
  return state;
}
