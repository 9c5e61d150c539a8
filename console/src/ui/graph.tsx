import * as dagre from "@dagrejs/dagre";
import { useMemo } from "preact/hooks";

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
  const layout = useMemo(() => {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 60, marginx: 8, marginy: 8 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const node of props.nodes) graph.setNode(node.id, { width, height });
    for (const edge of props.edges) if (graph.hasNode(edge.from) && graph.hasNode(edge.to)) graph.setEdge(edge.from, edge.to);
    dagre.layout(graph);
    return graph;
  }, [props.nodes, props.edges]);
  const size = layout.graph() as { width?: number; height?: number };
  return (
    <div class="graph scroll">
      <svg width={size.width} height={size.height} role="group" aria-label={props.label}>
        {props.edges.map((edge) => {
          const points = layout.hasEdge(edge.from, edge.to) ? (layout.edge(edge.from, edge.to) as { points: { x: number; y: number }[] }).points : undefined;
          return points && (
            <path key={`${edge.from} ${edge.to}`} class={edge.dashed ? "edge dashed" : "edge"} d={`M${points.map((point) => `${point.x} ${point.y}`).join("L")}`}>
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
            <g key={node.id} class={`node ${node.mark ?? ""}`} transform={`translate(${x - width / 2} ${y - height / 2})`} role={node.open ? "link" : "img"}
              tabIndex={node.open ? 0 : -1} aria-label={`${node.subtitle} ${node.title}`} onClick={node.open} onKeyDown={press}>
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

function shorten(text: string): string {
  return text.length > 27 ? `${text.slice(0, 26)}…` : text;
}
