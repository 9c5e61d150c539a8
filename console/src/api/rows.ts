import { APIError, type Client, messageOf, tableType } from "./client";
import type { Table, TableColumn, TableRow } from "./types";

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

const pageSize = 500;
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
  loading = true;
  private rows = new Map<string, Row>();
  private sorted: Row[] | undefined;
  /** Keys of objects that were deleted while pages are missing, which can still contain them. */
  private deleted = new Set<string>();
  private next = "";
  private revision = "";
  private readonly ended = new AbortController();
  private watching = new AbortController();

  /** changed is called after each change of the list. */
  constructor(
    private readonly client: Client,
    private readonly path: string,
    private readonly selection: Selection,
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

  /** The rows in the order of the server. The array must not be modified. */
  get all(): Row[] {
    return (this.sorted ??= [...this.rows.values()]);
  }

  /** Reads the next page, if there is one and none is being read. */
  async more(): Promise<void> {
    if (!this.next || this.loading) return;
    this.loading = true;
    this.update();
    try {
      await this.page();
    } catch (error) {
      this.fail(error);
    }
    this.loading = false;
    this.update();
  }

  private async run(): Promise<void> {
    while (!this.ended.signal.aborted) {
      try {
        if (!this.revision) await this.restart();
        await this.follow();
      } catch (error) {
        if (this.ended.signal.aborted) return;
        if (error instanceof APIError && error.code === 410) {
          this.revision = ""; // the server no longer has the changes since the list
          continue;
        }
        if (!this.watching.signal.aborted) {
          this.fail(error);
          await delay(retryDelay);
        }
      }
    }
  }

  private async restart(): Promise<void> {
    this.next = "";
    this.deleted.clear();
    this.loading = true;
    const old = this.rows;
    this.rows = new Map();
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

  private async page(): Promise<void> {
    const table = await this.client.json<Table>(this.path, {
      accept: tableType, signal: this.ended.signal,
      query: { limit: String(pageSize), continue: this.next, labelSelector: this.selection.labels, fieldSelector: this.selection.fields },
    });
    this.error = "";
    if (table.columnDefinitions) this.columns = table.columnDefinitions;
    for (const row of table.rows ?? []) {
      const converted = rowOf(row);
      if (!this.rows.has(converted.key) && !this.deleted.has(converted.key)) this.rows.set(converted.key, converted); // otherwise the watch has a newer state
    }
    this.revision ||= table.metadata.resourceVersion ?? "";
    this.next = table.metadata.continue ?? "";
    if (!this.next) this.deleted.clear();
    this.remaining = this.next ? (table.metadata.remainingItemCount ?? pageSize) : 0;
  }

  private async follow(): Promise<void> {
    while (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
    if (this.ended.signal.aborted) return;
    this.watching = new AbortController();
    const signal = AbortSignal.any([this.watching.signal, this.ended.signal]);
    const query = { resourceVersion: this.revision, labelSelector: this.selection.labels, fieldSelector: this.selection.fields };
    for await (const event of this.client.watch<Table>(this.path, { accept: tableType, signal, query })) {
      this.error = "";
      const row = event.object.rows?.[0];
      this.revision = row?.object.metadata.resourceVersion ?? event.object.metadata.resourceVersion ?? this.revision;
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
    this.sorted = undefined;
    this.changed();
  }
}

function rowOf(row: TableRow): Row {
  const { namespace = "", name, creationTimestamp = "" } = row.object.metadata;
  return { key: `${namespace}/${name}`, namespace, name, created: creationTimestamp, cells: row.cells };
}

function delay(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
