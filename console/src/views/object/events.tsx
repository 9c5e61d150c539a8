import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../../api/client";
import type { KubeObject, List } from "../../api/types";
import { untilVisible } from "../../api/visible";
import { age } from "../../model/format";
import { useApp } from "../../ui/context";
import { Failure, Loading, Note, SimpleTable } from "../../ui/parts";

/** The events about an object, which are updated by a watch. */
export function Events(props: { object: KubeObject }) {
  const { uid, namespace } = props.object.metadata;
  const events = useEvents(uid ?? "", namespace ?? "");
  if (events.error) return <Failure message={events.error} />;
  if (!events.items) return <Loading />;
  const time = (event: KubeObject): string => String(event["lastTimestamp"] ?? event["eventTime"] ?? event.metadata.creationTimestamp ?? "");
  const items = events.items.sort((a, b) => time(b).localeCompare(time(a)));
  if (items.length === 0) return <Note>There are no events about this object.</Note>;
  return (
    <SimpleTable
      label="Events" columns={["Age", "Type", "Reason", "Message", "Count"]}
      rows={items.map((event) => [age(time(event)), <span class={`status ${String(event["type"])}`}>{String(event["type"] ?? "")}</span>, String(event["reason"] ?? ""), String(event["message"] ?? ""), String(event["count"] ?? 1)])}
    />
  );
}

interface LiveEvents {
  items?: KubeObject[];
  error?: string;
}

const retryDelay = 2000;

/** Reads the events about an object and follows their changes. After an error or the end of the watch, it reads them again. */
function useEvents(uid: string, namespace: string): LiveEvents {
  const { client } = useApp();
  const [state, setState] = useState<LiveEvents>({});
  useEffect(() => {
    const ended = new AbortController();
    const { signal } = ended;
    const path = namespace ? `/api/v1/namespaces/${encodeURIComponent(namespace)}/events` : "/api/v1/events";
    const fieldSelector = `involvedObject.uid=${uid}`;
    const follow = async (): Promise<void> => {
      const list = await client.json<List<KubeObject>>(path, { signal, query: { fieldSelector, limit: "500" } });
      const items = new Map((list.items ?? []).map((event) => [event.metadata.uid, event]));
      setState({ items: [...items.values()] });
      for await (const event of client.watch<KubeObject>(path, { signal, query: { fieldSelector, resourceVersion: list.metadata.resourceVersion } })) {
        if (event.type === "BOOKMARK") continue;
        if (event.type === "DELETED") items.delete(event.object.metadata.uid);
        else items.set(event.object.metadata.uid, event.object);
        setState({ items: [...items.values()] });
      }
    };
    const repeat = async (): Promise<void> => {
      while (!signal.aborted) {
        await untilVisible();
        await follow().catch((error: unknown) => !signal.aborted && setState({ error: messageOf(error) }));
        await new Promise((resolve) => setTimeout(resolve, retryDelay));
      }
    };
    void repeat();
    return () => ended.abort();
  }, [client, uid, namespace]);
  return state;
}
