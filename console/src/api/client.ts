import { formatJSON, parseJSON } from "../model/json";
import type { Status, WatchEvent } from "./types";

/** Requests the representation of the server for people: columns and cells. */
export const tableType = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/** Requests objects without spec and status. */
export const metadataType = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";

/** An unsuccessful response of the API, or a failed connection (code 0). */
export class APIError extends Error {
  constructor(
    readonly code: number,
    readonly status: Status,
  ) {
    super(status.message || `the server responded with code ${code}`);
  }
}

/** The parts of a request that have defaults. */
export interface RequestOptions {
  method?: string;
  /** The body: a string is sent as it is, other values as JSON. */
  body?: unknown;
  contentType?: string;
  accept?: string;
  query?: Record<string, string | undefined>;
  signal?: AbortSignal | undefined;
}

/** The credentials of a client. The token is stored only in the memory of the page. */
export interface Credentials {
  token: string;
  /** Is called if the server no longer accepts the token. */
  expired: () => void;
}

/** The minimum duration of a watch that the server ends, in milliseconds. */
const minWatch = 1000;

/** Client sends requests to one control plane, at the present or at a past time. */
export class Client {
  /** The response that ended the session. Further requests fail without being sent. */
  private rejection: APIError | undefined;

  /** base is the prefix of all paths: "", /clusters/NAME, /at/MOMENT or both. A rejected token does not end the session of a lenient client. */
  constructor(
    readonly base: string,
    private readonly credentials: Credentials,
    private readonly lenient = false,
  ) {}

  /**
   * Returns a client of another control plane or moment, with the same credentials. A rejected token does not end the
   * session, because a token of one control plane is not valid in another one.
   */
  at(base: string): Client {
    return new Client(base, this.credentials, true);
  }

  /** Sends a request. Throws an APIError if the response is not successful. */
  async send(path: string, options: RequestOptions = {}): Promise<Response> {
    if (this.rejection) throw this.rejection;
    const headers: Record<string, string> = { Accept: options.accept ?? "application/json" };
    if (this.credentials.token) headers["Authorization"] = `Bearer ${this.credentials.token}`;
    let body: string | undefined;
    if (options.body !== undefined) {
      body = typeof options.body === "string" ? options.body : formatJSON(options.body);
      headers["Content-Type"] = options.contentType ?? "application/json";
    }
    let response: Response;
    try {
      response = await fetch(this.base + path + encodeQuery(options.query), {
        method: options.method ?? "GET", headers, body: body ?? null, signal: options.signal ?? null, cache: "no-store", credentials: "omit", redirect: "error",
      });
    } catch (error) {
      if (options.signal?.aborted) throw error;
      throw new APIError(0, { kind: "Status", message: "The server cannot be reached." });
    }
    if (response.ok) return response;
    const error = await errorOf(response);
    if (response.status === 401 && !this.lenient) {
      this.rejection = error;
      this.credentials.expired();
    }
    throw error;
  }

  /** Returns the parsed response, in which large integers are of the type bigint. */
  async json<T>(path: string, options?: RequestOptions): Promise<T> {
    return parseJSON(await this.text(path, options)) as T;
  }

  async text(path: string, options?: RequestOptions): Promise<string> {
    return (await this.send(path, options)).text();
  }

  /** Returns the lines of a streamed response, until it ends or the signal aborts it. */
  async *lines(path: string, options: RequestOptions): AsyncGenerator<string> {
    const response = await this.send(path, options);
    if (!response.body) return;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader(); // some browsers cannot iterate over streams
    let rest = "";
    try {
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const lines = (rest + part.value).split("\n");
        rest = lines.pop() ?? "";
        yield* lines;
      }
      if (rest) yield rest;
    } finally {
      await reader.cancel().catch(() => undefined); // the stream may have failed
    }
  }

  /** Opens a WebSocket. The token is one of the subprotocols, because browsers cannot send it in a header. */
  socket(path: string, protocols: string[]): WebSocket {
    const url = new URL(this.base + path, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const encoded = btoa(this.credentials.token).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    return new WebSocket(url, [...protocols, `base64url.bearer.authorization.k8s.io.${encoded}`]);
  }

  /** Returns the events of a watch, which takes at least minWatch. Throws an APIError for an event of type ERROR. */
  async *watch<T>(path: string, options: RequestOptions): AsyncGenerator<WatchEvent<T>> {
    const query = { ...options.query, watch: "1", allowWatchBookmarks: "true" };
    const start = Date.now();
    for await (const line of this.lines(path, { ...options, query })) {
      if (!line) continue;
      const event = parseJSON(line) as WatchEvent<T>;
      if (event.type === "ERROR") {
        const status = event.object as unknown as Status;
        throw new APIError(status.code ?? 500, status);
      }
      yield event;
    }
    // A server that stops, or a proxy, can end each watch at once. Callers then start the next one.
    const rest = start + minWatch - Date.now();
    if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
  }
}

/** Returns ?a=b&c=d, or "" without parameters. Undefined and empty values are omitted. */
export function encodeQuery(query: Record<string, string | undefined> = {}): string {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value) parameters.set(key, value);
  const text = parameters.toString();
  return text && `?${text}`;
}

/** Returns a field selector. Undefined and empty values are omitted. */
export function fieldSelector(fields: Record<string, string | undefined>): string {
  return Object.entries(fields)
    .filter(([, value]) => value)
    .map(([key, value]) => `${key}=${value!.replace(/([\\,=])/g, "\\$1")}`)
    .join(",");
}

async function errorOf(response: Response): Promise<APIError> {
  const text = await response.text();
  try {
    const status = JSON.parse(text) as Status;
    if (status.kind === "Status") return new APIError(response.status, status);
  } catch {
    // It is not JSON: a proxy or a plain handler responded.
  }
  return new APIError(response.status, { kind: "Status", message: text.slice(0, 500) || response.statusText });
}

/** Returns the message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
