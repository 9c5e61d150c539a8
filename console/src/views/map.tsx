import { useMemo } from "preact/hooks";
import { messageOf } from "../api/client";
import type { Item } from "../model/owners";
import { type Requirement, matches, parseSelector } from "../model/selector";
import { objectPath, useApp, useLoad, useTick } from "../ui/context";
import { Graph, type GraphEdge, type GraphNode } from "../ui/graph";
import { Failure, Field, Loading, Note } from "../ui/parts";
import { NamespaceField } from "./namespacefield";
import { itemsPeriod, readItems, references, selects } from "./object/items";

const maxNodes = 200;

/** Kinds whose objects are read completely, for their selectors and references. */
const detailed: [group: string, name: string][] = [["", "services"], ["", "pods"], ["apps", "deployments"], ["apps", "statefulsets"], ["apps", "daemonsets"], ["networking.k8s.io", "ingresses"]];

/** The objects of a namespace with their owners, references and selectors. */
export function NamespaceMap() {
  const app = useApp();
  const { client, discovery } = app;
  const namespace = app.place.query.get("namespace") || "default";
  const kinds = app.place.query.get("kinds") ?? "";
  const labels = app.place.query.get("labels") ?? "";
  const data = useLoad((signal) => {
    const resources = detailed.map(([group, name]) => discovery.find(group, name)).filter((resource) => resource !== undefined);
    return readItems(client, discovery, namespace, signal, resources);
  }, [client, namespace], useTick(itemsPeriod));
  const selector = useMemo(() => tryParse(labels), [labels]);
  const graph = useMemo(() => {
    const wanted = kinds.toLowerCase().split(/[\s,]+/).filter(Boolean);
    const objects = data.value?.objects ?? [];
    const items = (data.value?.items ?? []).filter((item) => {
      if (wanted.length > 0 && !wanted.some((kind) => item.kind.toLowerCase() === kind || item.resource === kind)) return false;
      return matches(selector.requirements, item.metadata.labels);
    });
    const byName = new Map(items.map((item) => [`${item.kind}/${item.metadata.name}`, item.metadata.uid ?? ""]));
    const edges = new Map<string, GraphEdge>();
    const add = (edge: GraphEdge): void => void (edge.from !== edge.to && edges.set(`${edge.from} ${edge.to}`, edge));
    for (const object of objects) {
      const uid = object.metadata.uid ?? "";
      for (const reference of references(object)) {
        const target = byName.get(`${reference.kind}/${reference.name}`);
        if (target) add({ from: uid, to: target, dashed: true, label: reference.field });
      }
      if (object.kind !== "Service") continue;
      for (const pod of objects) if (pod.kind === "Pod" && selects(object, pod.metadata.labels)) add({ from: uid, to: pod.metadata.uid ?? "", dashed: true, label: "selector" });
    }
    for (const item of items) for (const owner of item.metadata.ownerReferences ?? []) add({ from: owner.uid, to: item.metadata.uid ?? "", label: "owner" });
    // If the map cannot show all objects, it omits unconnected ones first.
    const known = new Set(items.map((item) => item.metadata.uid ?? ""));
    const connected = new Set([...edges.values()].filter((edge) => known.has(edge.from) && known.has(edge.to)).flatMap((edge) => [edge.from, edge.to]));
    const order = (item: Item): string => `${connected.has(item.metadata.uid ?? "") ? 0 : 1} ${item.kind} ${item.metadata.name}`;
    const shown = items.map((item) => [order(item), item] as const).sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, maxNodes).map(([, item]) => item);
    const nodes = shown.map((item): GraphNode => ({
      id: item.metadata.uid ?? "", title: item.metadata.name, subtitle: item.kind, open: () => app.go(objectPath({ group: item.group, name: item.resource }, item.metadata.namespace, item.metadata.name)),
    }));
    return { nodes, edges: [...edges.values()], omitted: items.length - shown.length };
  }, [data.value, selector, kinds]);
  return (
    <section>
      <h1>Map</h1>
      <div class="filters">
        <NamespaceField value={namespace} apply={(value) => app.setQuery({ namespace: value })} />
        <Field label="Kinds" placeholder="Kinds: Deployment, Pod" value={kinds} apply={(value) => app.setQuery({ kinds: value })} />
        <Field label="Label selector" placeholder="Labels: app=web" value={labels} apply={(value) => app.setQuery({ labels: value })} />
      </div>
      {data.error && <Failure message={data.error} retry={data.reload} />}
      {selector.error && <Failure message={selector.error} />}
      {!data.value && !data.error && <Loading />}
      {data.value && graph.nodes.length === 0 && <Note>No object in the namespace {namespace} matches.</Note>}
      {data.value && graph.nodes.length > 0 && <Graph label={`Objects of the namespace ${namespace}`} nodes={graph.nodes} edges={graph.edges} />}
      {graph.omitted > 0 && <Note>The map omits {graph.omitted} objects. Filter by kind or label to see them.</Note>}
      {data.value && data.value.denied.length > 0 && <Note kind="warning">You cannot list these resources: {data.value.denied.join(", ")}.</Note>}
    </section>
  );
}

/** Parses a label selector. After an error, it selects all objects. */
function tryParse(text: string): { requirements: Requirement[]; error: string } {
  try {
    return { requirements: parseSelector(text), error: "" };
  } catch (error) {
    return { requirements: [], error: messageOf(error) };
  }
}
