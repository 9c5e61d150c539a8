import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "../../api/client";
import type { KubeObject } from "../../api/types";
import { useApp } from "../../ui/context";
import { Failure, Note } from "../../ui/parts";

const maxCharacters = 200_000;

/** Channels of the streaming protocol v5.channel.k8s.io: the first byte of each message. */
const channels = { stdin: 0, stdout: 1, stderr: 2, error: 3, close: 255 };

/** Runs a command in a container and shows its output. Lines are sent to its input; there is no terminal emulation. */
export function Terminal(props: { pod: KubeObject }) {
  const { client } = useApp();
  const spec = props.pod.spec as { containers?: { name: string }[] } | undefined;
  const containers = (spec?.containers ?? []).map((container) => container.name);
  const { name, namespace } = props.pod.metadata;
  const [container, setContainer] = useState(containers[0] ?? "");
  const [command, setCommand] = useState("sh");
  const [output, setOutput] = useState("");
  const [error, setError] = useState("");
  const [socket, setSocket] = useState<WebSocket>();
  const [open, setOpen] = useState(false);
  const end = useRef<HTMLPreElement>(null);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => () => socket?.close(), [socket]);
  useEffect(() => end.current?.scrollTo(0, end.current.scrollHeight), [output]);
  useEffect(() => {
    if (open) input.current?.focus();
  }, [open]);

  const print = (text: string): void => setOutput((old) => (old + text).slice(-maxCharacters));
  const start = (event: SubmitEvent): void => {
    event.preventDefault();
    const words = command.trim().split(/\s+/);
    setOutput("");
    setError("");
    const query = new URLSearchParams([...words.map((word) => ["command", word]), ["container", container], ["stdin", "true"], ["stdout", "true"], ["stderr", "true"]]);
    const path = `/api/v1/namespaces/${namespace}/pods/${name}/exec?${query}`;
    const started = client.socket(path, ["v5.channel.k8s.io"]);
    started.binaryType = "arraybuffer";
    const decoders = new Map<number, TextDecoder>();
    let opened = false;
    started.onopen = () => {
      opened = true;
      setOpen(true);
    };
    started.onmessage = (message: MessageEvent<ArrayBuffer>) => {
      const bytes = new Uint8Array(message.data);
      const channel = bytes[0] ?? 0;
      const decoder = decoders.get(channel) ?? new TextDecoder();
      decoders.set(channel, decoder);
      const text = decoder.decode(bytes.subarray(1), { stream: true });
      if (channel === channels.stdout || channel === channels.stderr) print(text);
      if (channel === channels.error && text) setError(failureOf(text));
    };
    started.onclose = (closed) => {
      setSocket(undefined);
      setOpen(false);
      if (!opened) void reject(path);
      else if (closed.code !== 1000 && closed.code !== 1005) setError((old) => old || closed.reason || "The connection to the container was closed.");
    };
    setSocket(started);
  };
  // A page cannot read the response to a rejected WebSocket request, so the same request is sent without an upgrade. If the
  // server has no reason to reject it, it only responds that an upgrade is required.
  const reject = async (path: string): Promise<void> => {
    const message = await client.text(path).then(() => "", messageOf);
    setError(!message || message.includes("Upgrade request required") ? "The connection to the container could not be opened." : message);
  };
  const stop = (): void => {
    if (!socket) return;
    socket.onclose = null; // the server may end the connection without a closing handshake
    socket.close();
    setSocket(undefined);
    setOpen(false);
  };
  const send = (event: SubmitEvent): void => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const line = `${new FormData(form).get("line") as string}\n`;
    print(line);
    socket?.send(new Uint8Array([channels.stdin, ...new TextEncoder().encode(line)]));
    form.reset();
  };
  return (
    <>
      {!socket && (
        <form class="filters" onSubmit={start}>
          <select aria-label="Container" value={container} onChange={(event) => setContainer(event.currentTarget.value)}>
            {containers.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
          <input class="line" aria-label="Command" value={command} onInput={(event) => setCommand(event.currentTarget.value)} required autocomplete="off" spellcheck={false} />
          <button class="primary">Run</button>
        </form>
      )}
      {error && <Failure message={error} />}
      {socket && !output && <Note>{open ? "The command is running. Its input has no terminal, so shells print no prompt." : "Connecting…"}</Note>}
      <pre class="logs" ref={end} tabIndex={0} role="log" aria-label="Output">
        {output}
      </pre>
      {socket && (
        <form class="filters" onSubmit={send}>
          <input name="line" class="line" ref={input} aria-label="Input" placeholder="A line for the input of the command" disabled={!open} autocomplete="off" spellcheck={false} />
          <button disabled={!open}>Send</button>
          <button type="button" onClick={stop}>
            Stop
          </button>
        </form>
      )}
    </>
  );
}

/** Returns the message of a status on the error channel; "" if the command succeeded. */
function failureOf(text: string): string {
  try {
    const status = JSON.parse(text) as { status: string; message?: string };
    return status.status === "Success" ? "" : (status.message ?? "The command failed.");
  } catch {
    return text;
  }
}
