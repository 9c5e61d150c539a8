import { LineCounter, type Node, type Pair, isMap, isScalar, isSeq, parseDocument } from "yaml";
import type { FieldsV1, ManagedFields } from "../api/types";
import { parseJSON } from "./json";

/** A manager of a field, with the time of its last change of the object. */
export interface Manager {
  name: string;
  operation: string;
  subresource: string;
  time: string;
}

/** Returns the managers of the fields in each line of a YAML document, by line number from 1. */
export function managersOfLines(text: string, managedFields: ManagedFields[]): Map<number, Manager[]> {
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter });
  const lines = new Map<number, Manager[]>();
  for (const entry of managedFields) {
    if (!entry.fieldsV1 || !document.contents) continue;
    const manager = managerOf(entry);
    visit(document.contents as Node, entry.fieldsV1, (offset) => {
      const { line } = counter.linePos(offset);
      const managers = lines.get(line) ?? [];
      if (!managers.some((other) => other.name === manager.name && other.subresource === manager.subresource)) managers.push(manager);
      lines.set(line, managers);
    });
  }
  return lines;
}

export function managerOf(entry: ManagedFields): Manager {
  return { name: entry.manager ?? "", operation: entry.operation ?? "", subresource: entry.subresource ?? "", time: entry.time ?? "" };
}

/** Calls mark with the offset of each owned field below a node. */
function visit(node: Node, fields: FieldsV1, mark: (offset: number) => void): void {
  for (const [key, below] of Object.entries(fields)) {
    if (key === ".") continue;
    const found = child(node, key);
    if (!found) continue;
    const leaf = Object.keys(below).length === 0 || (Object.keys(below).length === 1 && "." in below);
    if (leaf || "." in below) mark(found.offset);
    if (leaf) markAll(found.value, mark);
    else if (found.value) visit(found.value, below, mark);
  }
}

/** Marks all lines of an atomic value. */
function markAll(node: Node | null, mark: (offset: number) => void): void {
  if (isMap(node)) {
    for (const pair of node.items as Pair<Node, Node>[]) {
      if (pair.key.range) mark(pair.key.range[0]);
      markAll(pair.value, mark);
    }
  } else if (isSeq(node)) {
    for (const item of node.items as Node[]) {
      if (item.range) mark(item.range[0]);
      markAll(item, mark);
    }
  }
}

interface Child {
  offset: number;
  value: Node | null;
}

/** Returns the part of a node that a key of FieldsV1 selects. */
function child(node: Node, key: string): Child | undefined {
  const kind = key.slice(0, 2);
  const rest = key.slice(2);
  if (kind === "f:" && isMap(node)) {
    for (const pair of node.items as Pair<Node, Node>[]) {
      if (isScalar(pair.key) && String(pair.key.value) === rest && pair.key.range) return { offset: pair.key.range[0], value: pair.value };
    }
    return undefined;
  }
  if (!isSeq(node)) return undefined;
  const items = node.items as Node[];
  let item: Node | undefined;
  if (kind === "i:") item = items[Number(rest)];
  if (kind === "v:") item = items.find((candidate) => isScalar(candidate) && candidate.value === JSON.parse(rest));
  if (kind === "k:") {
    const wanted = Object.entries(JSON.parse(rest) as Record<string, unknown>);
    // A key with a default value may be absent in the object of an older version.
    item = items.find((candidate) => isMap(candidate) && wanted.every(([name, value]) => candidate.get(name) === value));
  }
  return item?.range ? { offset: item.range[0], value: item } : undefined;
}

/** Returns the part of a value that consists of the fields in a set; undefined if there are none. */
export function project(value: unknown, fields: FieldsV1): unknown {
  const keys = Object.keys(fields).filter((key) => key !== ".");
  if (keys.length === 0) return value;
  if (Array.isArray(value)) {
    const found = keys.map((key) => [key, itemOf(value, key)] as const).filter(([, item]) => item !== undefined);
    return found.length > 0 ? found.map(([key, item]) => project(item, fields[key]!)) : undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const result: Record<string, unknown> = {};
  for (const key of keys) {
    const name = key.slice(2);
    const part = (value as Record<string, unknown>)[name];
    const projected = part === undefined ? undefined : project(part, fields[key]!);
    if (projected !== undefined) result[name] = projected;
  }
  return Object.keys(result).length > 0 ? result : undefined;
}

function itemOf(list: unknown[], key: string): unknown {
  const rest = key.slice(2);
  switch (key.slice(0, 2)) {
    case "i:":
      return list[Number(rest)];
    case "v:":
      return list.find((item) => item === parseJSON(rest));
    case "k:": {
      const wanted = Object.entries(parseJSON(rest) as Record<string, unknown>);
      return list.find((item) => wanted.every(([name, value]) => (item as Record<string, unknown>)?.[name] === value));
    }
  }
  return undefined;
}
