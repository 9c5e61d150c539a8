import { APIError, type Client, messageOf, tableType } from "./client";
import { tableOf } from "../model/table";
import type { TableColumn, TableRow } from "./types";
import { untilVisible } from "./visible";

/** A row of a list: the cells of the server's table, and the identity of the object. */
export interface Row {
  key: string;
  namespace: string;
  name: string;
  created: string;
  cells: unknown[];
}

/** Selectors of a list. */
export interface Selection {
  labels?: string | undefined;
  fields?: string | undefined;
}

type ListResponse = Parameters<typeof tableOf>[0];

/** The number of objects of the first page, which appears quickly, and of the other pages. */
const firstPageSize = 500;
const pageSize = 5000;
const retryDelay = 2000;

/**
 * Rows is a list of objects that is read in pages and updated by a watch. While the document is hidden, the
 * watch is closed: a browser has few connections for all of its pages if the server has only HTTP/1.1.
 */
export class Rows {
  columns: TableColumn[] = [];
  error = "";
  /** The number of objects that were not read yet; 0 if the list is complete. */
  remaining = 0;
  /** Reports whether remaining is exact. The server does not count the objects that match a selector. */
  counted = true;
  loading = true;
  private rows = new Map<string, Row>();
  private sorted: Row[] | undefined;
  /** Keys of objects that were deleted while pages are missing, which can still contain them. */
  private deleted = new Set<string>();
  private next = "";
  private revision = "";
  private readonly ended = new AbortController();
  private watching = new AbortController();
  private repeat: () => void = () => undefined;

  /** changed is called after each change of the list. A resource without the verb watch is only read once. */
  constructor(
    private readonly client: Client,
    private readonly path: string,
    private readonly selection: Selection,
    private readonly watchable: boolean,
    private readonly changed: () => void,
  ) {
    document.addEventListener("visibilitychange", this.visibilityChanged);
    void this.run();
  }

  close(): void {
    document.removeEventListener("visibilitychange", this.visibilityChanged);
    this.ended.abort();
    this.watching.abort();
  }

  /** The rows in the order of the server, which is the order of their keys. The array must not be modified. */
  get all(): Row[] {
    return (this.sorted ??= [...this.rows.values()].sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)));
  }

  /** Sends the failed request again. */
  retry(): void {
    this.repeat();
    void this.more();
  }

  /** Reads the next page, if there is one and none is being read. */
  async more(): Promise<void> {
    if (!this.next || this.loading) return;
    this.loading = true;
    this.update();
    try {
      await this.page();
    } catch (error) {
      if (isExpired(error)) {
        this.revision = ""; // the continue token has expired, so the list is read again
        this.watching.abort();
        this.repeat();
        if (!this.watchable) void this.run();
        return;
      }
      this.fail(error);
    }
    this.loading = false;
    this.update();
  }

  private async run(): Promise<void> {
    while (!this.ended.signal.aborted) {
      try {
        if (!this.revision) await this.restart();
        else if (this.error) await this.test();
        if (!this.watchable) return;
        await this.follow();
      } catch (error) {
        if (this.ended.signal.aborted) return;
        if (isExpired(error)) {
          this.revision = ""; // the server no longer has the changes since the list
          continue;
        }
        this.fail(error);
        await new Promise<void>((resolve) => {
          this.repeat = resolve;
          if (!isPermanent(error)) setTimeout(resolve, retryDelay);
        });
      }
    }
  }

  private async restart(): Promise<void> {
    this.next = "";
    this.deleted.clear();
    this.loading = true;
    const old = this.rows;
    this.rows = new Map();
    this.sorted = undefined;
    try {
      await this.page();
    } catch (error) {
      this.rows = old;
      this.loading = false;
      throw error;
    }
    this.loading = false;
    this.update();
  }

  /** Sends a small request after an error. A watch without events does not show that the server responds again. */
  private async test(): Promise<void> {
    await this.client.send(this.path, { accept: tableType, signal: this.ended.signal, query: { limit: "1", labelSelector: this.selection.labels, fieldSelector: this.selection.fields } });
    this.error = "";
    this.update();
  }

  private async page(): Promise<void> {
    const rows = this.rows;
    const response = await this.client.json<ListResponse>(this.path, {
      accept: tableType, signal: this.ended.signal,
      query: { limit: String(this.next ? pageSize : firstPageSize), continue: this.next, labelSelector: this.selection.labels, fieldSelector: this.selection.fields },
    });
    if (rows !== this.rows) return; // the list was started again
    const table = tableOf(response);
    this.error = "";
    if (table.columnDefinitions) this.columns = table.columnDefinitions;
    for (const row of table.rows ?? []) {
      const converted = rowOf(row);
      if (!this.rows.has(converted.key) && !this.deleted.has(converted.key)) this.rows.set(converted.key, converted); // otherwise the watch has a newer state
    }
    this.revision ||= table.metadata.resourceVersion ?? "";
    this.next = table.metadata.continue ?? "";
    if (!this.next) this.deleted.clear();
    this.counted = !this.next || table.metadata.remainingItemCount !== undefined;
    this.remaining = this.next ? (table.metadata.remainingItemCount ?? pageSize) : 0;
  }

  private async follow(): Promise<void> {
    await untilVisible();
    if (this.ended.signal.aborted || !this.revision) return;
    this.watching = new AbortController();
    const signal = AbortSignal.any([this.watching.signal, this.ended.signal]);
    try {
      await this.watch(signal);
    } catch (error) {
      if (!this.watching.signal.aborted) throw error;
    }
  }

  private async watch(signal: AbortSignal): Promise<void> {
    const query = { resourceVersion: this.revision, labelSelector: this.selection.labels, fieldSelector: this.selection.fields };
    for await (const event of this.client.watch<ListResponse>(this.path, { accept: tableType, signal, query })) {
      this.error = "";
      const table = tableOf(event.object);
      const row = table.rows?.[0];
      this.revision = row?.object.metadata.resourceVersion ?? table.metadata.resourceVersion ?? this.revision;
      if (!row || event.type === "BOOKMARK") continue;
      const changed = rowOf(row);
      if (event.type === "DELETED") {
        this.rows.delete(changed.key);
        if (this.next) this.deleted.add(changed.key);
      } else {
        this.rows.set(changed.key, changed);
        this.deleted.delete(changed.key);
      }
      this.update();
    }
  }

  private readonly visibilityChanged = (): void => {
    if (document.hidden) this.watching.abort();
  };

  private fail(error: unknown): void {
    this.error = messageOf(error);
    this.update();
  }

  private update(): void {
    if (this.ended.signal.aborted) return;
    this.sorted = undefined;
    this.changed();
  }
}

function rowOf(row: TableRow): Row {
  const { namespace = "", name, creationTimestamp = "" } = row.object.metadata;
  return { key: `${namespace}/${name}`, namespace, name, created: creationTimestamp, cells: row.cells };
}

function isExpired(error: unknown): boolean {
  return error instanceof APIError && error.code === 410;
}

/** Reports whether the server responds to the same request with the same error, such as to an invalid selector. */
function isPermanent(error: unknown): boolean {
  return error instanceof APIError && error.code >= 400 && error.code < 500 && error.code !== 429;
}
