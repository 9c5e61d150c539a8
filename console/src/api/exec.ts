// Commands in containers: the subresource exec of pods over a WebSocket.

import { type Client, messageOf } from "./client";

/** A command in a container. With a terminal (tty), its output and its errors are one stream. */
export interface Command {
  namespace: string;
  pod: string;
  container: string;
  args: string[];
  tty: boolean;
}

/** Events are called in this order: opened at most once, received, and closed at most once. */
export interface Events {
  opened: () => void;
  /** stream is stdout or stderr. */
  received: (bytes: Uint8Array, stream: number) => void;
  /** problem is the reason of a failure; "" after a command that succeeded. */
  closed: (problem: string) => void;
}

/** Channels of the protocol v5.channel.k8s.io: the first byte of each message. */
const channels = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4 };

/** Exec is a running command. */
export class Exec {
  private readonly socket: WebSocket;
  private problem = "";
  private closed = false;

  constructor(
    private readonly client: Client,
    command: Command,
    private readonly events: Events,
  ) {
    const { namespace, pod, container, args, tty } = command;
    const query = new URLSearchParams([...args.map((arg) => ["command", arg]), ["container", container], ["stdin", "true"], ["stdout", "true"], [tty ? "tty" : "stderr", "true"]]);
    const path = `/api/v1/namespaces/${namespace}/pods/${pod}/exec?${query}`;
    this.socket = client.socket(path, ["v5.channel.k8s.io"]);
    this.socket.binaryType = "arraybuffer";
    let opened = false;
    this.socket.onopen = () => {
      opened = true;
      events.opened();
    };
    this.socket.onmessage = (message: MessageEvent<ArrayBuffer>) => this.receive(new Uint8Array(message.data));
    this.socket.onclose = ({ code, reason }) => {
      if (!opened) void this.reject(path);
      else if (code === 1000 || code === 1005) events.closed(this.problem);
      else events.closed(this.problem || reason || "The connection to the container was closed.");
    };
  }

  /** Sends bytes to the input of the command. */
  write(bytes: Uint8Array): void {
    this.send(channels.stdin, bytes);
  }

  /** Reports the size of the terminal, in characters. */
  resize(columns: number, rows: number): void {
    this.send(channels.resize, encode(JSON.stringify({ Width: columns, Height: rows })));
  }

  /** Closes the connection. There are no further events, because the server may end it without a closing handshake. */
  close(): void {
    this.closed = true;
    this.socket.onopen = this.socket.onmessage = this.socket.onclose = null;
    this.socket.close();
  }

  private send(channel: number, bytes: Uint8Array): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(new Uint8Array([channel, ...bytes]));
  }

  private receive(message: Uint8Array): void {
    const [channel, bytes] = [message[0], message.subarray(1)];
    if (channel === channels.stdout || channel === channels.stderr) this.events.received(bytes, channel);
    if (channel === channels.error && bytes.length > 0) this.problem = problemOf(new TextDecoder().decode(bytes));
  }

  /**
   * Reads the reason of a rejected WebSocket request. Browsers do not pass the response to the page, so the same request is
   * sent without an upgrade. If the server has no reason to reject it, it only responds that an upgrade is required.
   */
  private async reject(path: string): Promise<void> {
    const message = await this.client.text(path).then(() => "", messageOf);
    if (!this.closed) this.events.closed(!message || message.includes("Upgrade request required") ? "The connection to the container could not be opened." : message);
  }
}

/** Returns the UTF-8 encoding of a text. */
export function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Returns the message of a status on the error channel; "" if the command succeeded. */
function problemOf(text: string): string {
  try {
    const status = JSON.parse(text) as { status: string; message?: string };
    return status.status === "Success" ? "" : (status.message ?? "The command failed.");
  } catch {
    return text;
  }
}
