import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Resource, pathOf } from "../api/discovery";
import { type Row, Rows } from "../api/rows";
import type { TableColumn } from "../api/types";
import { age, cell, compareCells } from "../model/format";
import { isAge } from "../model/table";
import { listPath, objectPath, useApp, useTick } from "../ui/context";
import { splitBase } from "../ui/location";
import { Failure, Field, Link, Loading, Note } from "../ui/parts";
import { NamespaceField } from "./namespacefield";
import { CreateDialog } from "./create";

const rowHeight = 31;
/** Rows that are rendered beyond the visible ones, and the distance to the end at which the next page is read. */
const extraRows = 20;

/** The objects of a resource: live, filtered, sorted, and rendered only as far as they are visible. */
export function ResourceList(props: { resource: Resource }) {
  const app = useApp();
  const { resource } = props;
  const parameter = (name: string): string => app.place.query.get(name) ?? "";
  const namespace = resource.namespaced ? parameter("namespace") : "";
  const [labels, fields, filter, sort, wide] = ["labels", "fields", "filter", "sort", "wide"].map(parameter) as [string, string, string, string, string];
  const [creating, setCreating] = useState(false);
  const rows = useRows(resource, namespace, labels, fields);
  useTick(10_000); // for the ages
  const now = Date.now();

  const columns = rows?.columns.map((column, index) => ({ column, index })).filter(({ column }) => wide || column.priority === 0) ?? [];
  // Tables of events, for example, show the name only with all columns.
  const linked = (columns.find(({ column }) => column.format === "name") ?? columns[0])?.index;
  const shown = useMemo(() => select(rows?.list ?? [], rows?.columns ?? [], filter, sort), [rows, filter, sort]);
  useEffect(() => {
    if ((filter || sort) && rows?.remaining && !rows.loading && !rows.error) void rows.source.more(); // both need all rows
  });
  const scroller = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState<[number, number]>([0, 60]);
  // After a change of the filters, the list can be shorter than the range.
  const start = Math.min(range[0], Math.max(0, shown.length - (range[1] - range[0])));
  const end = start + range[1] - range[0];
  const measure = (): void => {
    const box = scroller.current;
    if (!box) return;
    const first = Math.max(0, Math.floor(box.scrollTop / rowHeight) - extraRows);
    const last = Math.ceil((box.scrollTop + box.clientHeight) / rowHeight) + extraRows;
    if (first !== range[0] || last !== range[1]) setRange([first, last]);
    if (rows && last >= rows.list.length && rows.remaining && !rows.error) void rows.source.more();
  };
  useEffect(measure);

  const total = shown.length + (filter ? 0 : (rows?.remaining ?? 0));
  const past = splitBase(app.place.base).moment !== "";
  return (
    <section class="list">
      <header class="head">
        <h1>{resource.kind}</h1>
        <span class="muted" role="status">
          {rows?.error && rows.list.length === 0 ? "" : rows && !rows.loading ? countText(shown.length, total, rows) : "Loading…"}
        </span>
        <span class="space" />
        {!past && resource.verbs.includes("create") && (
          <button class="primary" onClick={() => setCreating(true)}>
            Create
          </button>
        )}
      </header>
      <div class="filters">
        {resource.namespaced && <NamespaceField value={namespace} apply={(value) => app.go(listPath(resource), { ...Object.fromEntries(app.place.query), namespace: value })} />}
        <Field label="Text" placeholder="Filter by text" value={filter} apply={(value) => app.setQuery({ filter: value })} />
        <Field label="Label selector" placeholder="Labels: app=web,tier!=db" value={labels} apply={(value) => app.setQuery({ labels: value })} />
        <Field label="Field selector" placeholder="Fields: metadata.name=web" value={fields} apply={(value) => app.setQuery({ fields: value })} />
        <label>
          <input type="checkbox" checked={wide !== ""} onChange={(event) => app.setQuery({ wide: event.currentTarget.checked ? "1" : undefined })} /> All columns
        </label>
      </div>
      {rows?.error && <Failure message={rows.error} retry={() => rows.source.retry()} />}
      {!rows || (rows.loading && rows.list.length === 0) ? (
        <Loading />
      ) : shown.length === 0 && !rows.remaining ? (
        !rows.error && <Note>{rows.list.length > 0 || labels || fields ? "No object matches the filters." : `There are no objects of the kind ${resource.kind}${namespace && ` in the namespace ${namespace}`}.`}</Note>
      ) : (
        <div class="rows" ref={scroller} onScroll={measure} tabIndex={0} aria-label={`Objects of the kind ${resource.kind}`}>
          <table aria-rowcount={!rows.counted && !filter ? -1 : total}>
            <thead>
              <tr>
                {resource.namespaced && !namespace && <Heading name="Namespace" sort={sort} />}
                {columns.map(({ column, index }) => (
                  <Heading key={index} name={column.name} title={column.description} sort={sort} numeric={isNumeric(column)} />
                ))}
              </tr>
            </thead>
            <tbody>
              <Spacer rows={start} />
              {shown.slice(start, end).map((row, i) => (
                <tr key={row.key} aria-rowindex={start + i + 1}>
                  {resource.namespaced && !namespace && <td>{row.namespace}</td>}
                  {columns.map(({ column, index }) => (
                    <td key={index} class={isNumeric(column) ? "number" : ""}>
                      {index === linked ? <Link to={objectPath(resource, row.namespace, row.name)}>{cell(row.cells[index]) || row.name}</Link> : cellText(row, column, index, now)}
                    </td>
                  ))}
                </tr>
              ))}
              <Spacer rows={total - Math.min(end, shown.length)} />
            </tbody>
          </table>
        </div>
      )}
      {creating && <CreateDialog resource={resource} namespace={namespace} close={() => setCreating(false)} />}
    </section>
  );
}

/** An empty row with the height of rows that are not rendered. */
function Spacer(props: { rows: number }) {
  return props.rows > 0 ? <tr aria-hidden="true" style={{ height: `${props.rows * rowHeight}px` }} /> : null;
}

/** A column heading that sorts the list: ascending, descending, or in the order of the server. */
function Heading(props: { name: string; title?: string | undefined; sort: string; numeric?: boolean }) {
  const app = useApp();
  const [ascending, descending] = [props.sort === props.name, props.sort === `-${props.name}`];
  const next = ascending ? `-${props.name}` : descending ? undefined : props.name;
  return (
    <th scope="col" class={props.numeric ? "number" : ""} aria-sort={ascending ? "ascending" : descending ? "descending" : "none"}>
      <button class="plain" title={props.title} onClick={() => app.setQuery({ sort: next })}>
        {props.name} {ascending ? "↑" : descending ? "↓" : ""}
      </button>
    </th>
  );
}

/** A snapshot of the rows for rendering. */
interface Snapshot {
  source: Rows;
  list: Row[];
  columns: TableColumn[];
  remaining: number;
  counted: boolean;
  loading: boolean;
  error: string;
}

/** Reads and follows the objects. Many changes within one frame cause one rendering. */
function useRows(resource: Resource, namespace: string, labels: string, fields: string): Snapshot | undefined {
  const { client } = useApp();
  const [snapshot, setSnapshot] = useState<Snapshot>();
  useEffect(() => {
    let frame = 0;
    const changed = (): void => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        setSnapshot({ source: rows, list: rows.all, columns: rows.columns, remaining: rows.remaining, counted: rows.counted, loading: rows.loading, error: rows.error });
      });
    };
    const rows = new Rows(client, pathOf(resource, namespace), { labels, fields }, resource.verbs.includes("watch"), changed);
    return () => {
      cancelAnimationFrame(frame);
      rows.close();
    };
  }, [client, resource, namespace, labels, fields]);
  return snapshot;
}

function isNumeric(column: TableColumn): boolean {
  return column.type === "integer" || column.type === "number";
}

function countText(shown: number, total: number, rows: Snapshot): string {
  if (!rows.counted) return `more than ${shown} objects`;
  return `${total} ${total === 1 ? "object" : "objects"}${rows.remaining ? `, ${rows.list.length} read` : ""}`;
}

function cellText(row: Row, column: TableColumn, index: number, now: number): string {
  if (isAge(column) && row.created) return age(row.created, now);
  return cell(row.cells[index]);
}

function select(list: Row[], columns: TableColumn[], filter: string, sort: string): Row[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length === 0 ? list : list.filter((row) => {
    const text = `${row.namespace} ${row.cells.map(cell).join(" ")}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  if (!sort) return found;
  const name = sort.replace(/^-/, "");
  const index = columns.findIndex((column) => column.name === name);
  const column = columns[index];
  const byAge = column && isAge(column);
  const value = (row: Row): unknown => (!column ? row.namespace : byAge ? -Date.parse(row.created) : row.cells[index]);
  const direction = sort.startsWith("-") ? -1 : 1;
  return [...found].sort((a, b) => direction * compareCells(value(a), value(b)));
}
