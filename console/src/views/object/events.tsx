import type { KubeObject, List } from "../../api/types";
import { age } from "../../model/format";
import { useApp, useLoad } from "../../ui/context";
import { Failure, Loading, Note, SimpleTable } from "../../ui/parts";

/** The events about an object. */
export function Events(props: { object: KubeObject }) {
  const { client } = useApp();
  const { uid, namespace } = props.object.metadata;
  const events = useLoad(
    (signal) => client.json<List<KubeObject>>(namespace ? `/api/v1/namespaces/${namespace}/events` : "/api/v1/events", { signal, query: { fieldSelector: `involvedObject.uid=${uid}`, limit: "500" } }),
    [client, uid, props.object.metadata.resourceVersion],
  );
  if (events.error) return <Failure message={events.error} retry={events.reload} />;
  if (!events.value) return <Loading />;
  const time = (event: KubeObject): string => String(event["lastTimestamp"] ?? event["eventTime"] ?? event.metadata.creationTimestamp ?? "");
  const items = (events.value.items ?? []).sort((a, b) => time(b).localeCompare(time(a)));
  if (items.length === 0) return <Note>There are no events about this object.</Note>;
  return (
    <SimpleTable
      label="Events" columns={["Age", "Type", "Reason", "Message", "Count"]}
      rows={items.map((event) => [age(time(event)), <span class={`status ${String(event["type"])}`}>{String(event["type"] ?? "")}</span>, String(event["reason"] ?? ""), String(event["message"] ?? ""), String(event["count"] ?? 1)])}
    />
  );
}
