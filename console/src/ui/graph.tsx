import * as dagre from "@dagrejs/dagre";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";

export interface GraphNode {
  id: string;
  title: string;
  subtitle: string;
  /** Marks the node; "focus" is the object of the page. */
  mark?: "focus" | "deleted" | "missing" | undefined;
  open?: (() => void) | undefined;
}

export interface GraphEdge {
  from: string;
  to: string;
  dashed?: boolean;
  label?: string;
}

const width = 190;
const height = 42;

/** A directed graph from left to right. Nodes are buttons. */
export function Graph(props: { nodes: GraphNode[]; edges: GraphEdge[]; label: string }) {
  // Repeated reads often return the same objects, and their positions are expensive to compute.
  const structure = JSON.stringify([props.nodes.map((node) => node.id), props.edges.map((edge) => [edge.from, edge.to])]);
  const layout = useMemo(() => {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 60, marginx: 8, marginy: 16 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const node of props.nodes) graph.setNode(node.id, { width, height });
    for (const edge of props.edges) if (graph.hasNode(edge.from) && graph.hasNode(edge.to)) graph.setEdge(edge.from, edge.to);
    dagre.layout(graph);
    return graph;
  }, [structure]);
  const host = useFocusedNode();
  const size = layout.graph() as { width?: number; height?: number };
  return (
    <div class="graph scroll" ref={host}>
      <svg width={size.width} height={size.height} role="group" aria-label={props.label}>
        {props.edges.map((edge) => {
          const points = layout.hasEdge(edge.from, edge.to) ? (layout.edge(edge.from, edge.to) as { points: Point[] }).points : undefined;
          if (!points) return undefined;
          const ends = [layout.node(edge.from), layout.node(edge.to)] as [Point, Point];
          return (
            <path key={`${edge.from} ${edge.to}`} class={edge.dashed ? "edge dashed" : "edge"} d={curve(points, ...ends)}>
              {edge.label && <title>{edge.label}</title>}
            </path>
          );
        })}
        {props.nodes.map((node) => {
          const { x, y } = layout.node(node.id) as { x: number; y: number };
          const press = (event: KeyboardEvent): void => {
            if (event.key === "Enter" || event.key === " ") node.open?.();
          };
          return (
            <g key={node.id} data-id={node.id} class={`node ${node.mark ?? ""}`} transform={`translate(${x - width / 2} ${y - height / 2})`} role={node.open ? "link" : "img"}
              tabindex={node.open ? 0 : -1} aria-label={`${node.subtitle} ${node.title}`} onClick={node.open} onKeyDown={press}>
              <rect width={width} height={height} rx={6} />
              <text x={10} y={17} class="subtitle">{shorten(node.subtitle)}</text>
              <text x={10} y={33}>{shorten(node.title)}</text>
              <title>{`${node.subtitle} ${node.title}`}</title>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

/** Returns a reference to a graph whose focused node keeps the focus when its element is moved, such as behind a new node. */
function useFocusedNode() {
  const host = useRef<HTMLDivElement>(null);
  const isInside = host.current?.contains(document.activeElement) ?? false;
  const focused = isInside ? document.activeElement?.getAttribute("data-id") : undefined;
  useLayoutEffect(() => {
    if (!focused || host.current?.contains(document.activeElement)) return;
    host.current?.querySelector<SVGElement>(`[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  });
  return host;
}

interface Point {
  x: number;
  y: number;
}

/**
 * Returns the path of an edge: from the right side of a node to the left side of another one. Between two columns of
 * nodes, dagre adds a point for a label, which makes the curve less smooth; so only the points in the columns are used.
 */
function curve(points: Point[], from: Point, to: Point): string {
  const direction = from.x <= to.x ? 1 : -1; // an edge of a cycle goes from right to left
  const [start, ...rest] = [{ x: from.x + (direction * width) / 2, y: from.y }, ...points.slice(1, -1).filter((_, i) => i % 2 === 1), { x: to.x - (direction * width) / 2, y: to.y }] as [Point, ...Point[]];
  let path = `M${start.x} ${start.y}`;
  let last = start;
  for (const point of rest) {
    const middle = (last.x + point.x) / 2;
    path += `C${middle} ${last.y} ${middle} ${point.y} ${point.x} ${point.y}`;
    last = point;
  }
  return path;
}

function shorten(text: string): string {
  return text.length > 27 ? `${text.slice(0, 26)}…` : text;
}
