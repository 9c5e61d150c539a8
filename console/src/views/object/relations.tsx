import { useMemo } from "preact/hooks";
import { metadataType } from "../../api/client";
import type { Resource } from "../../api/discovery";
import type { KubeObject } from "../../api/types";
import { type Item, cascade, dependents } from "../../model/owners";
import { kindPath, objectPath, useApp, useLoad, useTick } from "../../ui/context";
import { Graph, type GraphEdge, type GraphNode } from "../../ui/graph";
import { Failure, Link, Loading, Note, SimpleTable } from "../../ui/parts";
import { itemOf, itemsPeriod, readAll, readItems, references, selects } from "./items";

const maxNodes = 150;

/** The owners and dependents of an object as a graph, its references, and the objects with matching selectors. */
export function Relations(props: { resource: Resource; object: KubeObject }) {
  const { client, discovery } = useApp();
  const { metadata } = props.object;
  // Dependents of a namespaced object are in its namespace. The namespace itself is no owner.
  const scope = metadata.namespace ?? "";
  const all = useLoad((signal) => readItems(client, discovery, scope, signal), [client, scope, metadata.uid], useTick(itemsPeriod));
  const failure = all.error && <Failure message={all.error} retry={all.reload} />;
  if (!all.value) return failure || <Loading />;
  return (
    <>
      {failure}
      <OwnerGraph resource={props.resource} object={props.object} items={all.value.items} />
      {all.value.denied.length > 0 && <Note kind="warning">You cannot list these resources, so the graph does not contain them: {all.value.denied.join(", ")}.</Note>}
      <References object={props.object} />
      {metadata.namespace && <Selectors resource={props.resource} object={props.object} />}
    </>
  );
}

function OwnerGraph(props: { resource: Resource; object: KubeObject; items: Item[] }) {
  const app = useApp();
  const { metadata } = props.object;
  const { nodes, edges, omitted, collected } = useMemo(() => {
    const self = itemOf(props.resource, metadata);
    const byUID = new Map([...props.items, self].map((item) => [item.metadata.uid, item]));
    const below = dependents(props.items, metadata.uid ?? "");
    const shown = [...ancestors(self, byUID), self, ...below].slice(0, maxNodes);
    const deleted = new Set(cascade(props.items, metadata.uid ?? "").deleted.map((item) => item.metadata.uid));
    const nodes = new Map<string, GraphNode>();
    const edges: GraphEdge[] = [];
    for (const item of shown) {
      const mark = item === self ? "focus" : deleted.has(item.metadata.uid) ? "deleted" : undefined;
      nodes.set(item.metadata.uid ?? "", {
        id: item.metadata.uid ?? "", title: item.metadata.name, subtitle: item.kind, mark, open: () => app.go(objectPath({ group: item.group, name: item.resource }, item.metadata.namespace, item.metadata.name)),
      });
    }
    for (const item of shown) {
      for (const owner of item.metadata.ownerReferences ?? []) {
        if (!nodes.has(owner.uid) && !byUID.has(owner.uid)) nodes.set(owner.uid, { id: owner.uid, title: owner.name, subtitle: `${owner.kind} (not found)`, mark: "missing" });
        edges.push({ from: owner.uid, to: item.metadata.uid ?? "", dashed: !owner.controller, label: owner.controller ? "controller" : "owner" });
      }
    }
    return { nodes: [...nodes.values()], edges, omitted: below.length + 1 - shown.length, collected: deleted.size };
  }, [props.items, metadata]);
  return (
    <>
      <h2>Owners and dependents</h2>
      {nodes.length === 1 ? (
        <Note>The object has neither owners nor dependents.</Note>
      ) : (
        <>
          <p class="muted">{collected > 0 && `If the object is deleted, the garbage collector deletes the ${collected} outlined ${collected === 1 ? "dependent" : "dependents"}.`}</p>
          <Graph label="Owners and dependents" nodes={nodes} edges={edges} />
        </>
      )}
      {omitted > 0 && <Note>The graph omits {omitted} objects.</Note>}
    </>
  );
}

function ancestors(item: Item, byUID: Map<string | undefined, Item>): Item[] {
  const found = new Set<Item>();
  const visit = (current: Item): void => {
    for (const owner of current.metadata.ownerReferences ?? []) {
      const above = byUID.get(owner.uid);
      if (!above || above === item || found.has(above)) continue;
      found.add(above);
      visit(above);
    }
  };
  visit(item);
  return [...found];
}

function References(props: { object: KubeObject }) {
  const { discovery } = useApp();
  const found = references(props.object);
  if (found.length === 0) return null;
  return (
    <>
      <h2>References</h2>
      <SimpleTable
        label="References" columns={["Object", "Field"]}
        rows={found.map((reference) => {
          const path = kindPath(discovery, reference.apiVersion, reference.kind, reference.namespace, reference.name);
          const text = `${reference.kind} ${reference.name}`;
          return [path ? <Link to={path}>{text}</Link> : text, reference.field];
        })}
      />
    </>
  );
}

/** Kinds with a selector of pods. */
const selecting: [group: string, name: string][] = [["", "services"], ["apps", "deployments"], ["apps", "statefulsets"], ["apps", "daemonsets"], ["policy", "poddisruptionbudgets"]];

const pods: [group: string, name: string][] = [["", "pods"]];

/** For a pod: the objects that select it. For an object with a selector: the selected pods. */
function Selectors(props: { resource: Resource; object: KubeObject }) {
  const { client, discovery } = useApp();
  const { metadata } = props.object;
  const isPod = props.resource.group === "" && props.resource.kind === "Pod";
  const found = useLoad(async (signal) => {
    const resources = (isPod ? selecting : pods).map(([group, name]) => discovery.find(group, name)).filter((resource) => resource !== undefined);
    const lists = await Promise.all(resources.map((resource) => readAll(client, resource, metadata.namespace, signal, isPod ? undefined : metadataType).catch(() => [])));
    return resources.flatMap((resource, i) => lists[i]!.map((other) => ({ resource, other })));
  }, [client, metadata.uid], useTick(itemsPeriod));
  const selected = found.value?.filter(({ other }) => (isPod ? selects(other, metadata.labels) : selects(props.object, other.metadata.labels)));
  if (!selected?.length) return null;
  return (
    <>
      <h2>{isPod ? "Selected by" : "Selected pods"}</h2>
      <ul class="plainlist">
        {selected.map(({ resource, other }) => (
          <li key={other.metadata.uid}>
            <Link to={objectPath(resource, metadata.namespace, other.metadata.name)}>
              {resource.kind} {other.metadata.name}
            </Link>
          </li>
        ))}
      </ul>
    </>
  );
}
