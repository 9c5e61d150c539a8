import { type Document, type Node, isMap, isScalar, isSeq } from "yaml";

/** The names of fields and the indices of elements of lists, from the top of a document. */
export type Path = (string | number)[];

/** Parses a field in a message of the server, such as spec.containers[0].image. Keys of maps in brackets are omitted. */
export function parseField(field: string): Path {
  return field.replace(/\[(\d+)\]/g, ".$1").replace(/\[[^\]]*\]/g, "").split(".").map((part) => (/^\d+$/.test(part) ? Number(part) : part));
}

/**
 * Returns the range of a field in the text of a document: the value if it is a scalar, otherwise or if name is true, the
 * name; and of an element of a list that is an object, its first field. If the document does not contain the field, it returns the range of the closest field above it.
 */
export function rangeOf(document: Document, path: Path, name = false): [from: number, to: number] {
  let node = document.contents as Node | null | undefined;
  let place: Node | null | undefined;
  for (const [i, part] of path.entries()) {
    const pair = isMap<Node, Node | null>(node) ? node.items.find(({ key }) => isScalar(key) && String(key.value) === String(part)) : undefined;
    const value = pair ? pair.value : isSeq<Node>(node) ? node.items[Number(part)] : undefined;
    if (!pair && !value) break;
    if (pair && ((name && i === path.length - 1) || !isScalar(value))) place = pair.key;
    else place = isMap<Node>(value) ? (value.items[0]?.key ?? value) : value;
    node = value;
  }
  const [from, to] = place?.range ?? [0, 0];
  return [from, Math.max(from, to)];
}

/** Returns the fields that contain a line, given the lines above it and its indentation with list markers. */
export function parentsOf(above: string[], indent: string): string[] {
  const path: string[] = [];
  let depth = indent.length;
  const markers = (text: string): string[] => text.match(/- +/g) ?? [];
  for (const _ of markers(indent)) path.unshift("");
  depth -= markers(indent).join("").length;
  let inList = markers(indent).length > 0;
  for (const text of [...above].reverse()) {
    const match = /^(\s*)((?:- +)*)([\w./-]+):\s*$/.exec(text);
    const open = /^(\s*)((?:- +)+)/.exec(text);
    if (open && !inList && open[1]!.length < depth && open[1]!.length + open[2]!.length === depth) {
      path.unshift("");
      depth = open[1]!.length;
      inList = true;
      continue;
    }
    if (!match) continue;
    const column = match[1]!.length + match[2]!.length;
    if (column < depth || (inList && column === depth)) {
      path.unshift(match[3]!);
      if (match[2]) path.unshift("");
      depth = match[1]!.length;
      inList = match[2] !== "";
    }
  }
  return path;
}
