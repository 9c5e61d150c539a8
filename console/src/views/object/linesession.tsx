import { useEffect, useRef, useState } from "preact/hooks";
import { type Command, Exec, encode } from "../../api/exec";
import { useApp } from "../../ui/context";
import { Note } from "../../ui/parts";

const maxCharacters = 200_000;

/** A command without a terminal. The page sends lines to its input. Its output stays visible after its end. */
export function LineSession(props: { command: Command; running: boolean; ended: (problem: string) => void }) {
  const { client } = useApp();
  const [output, setOutput] = useState("");
  const [open, setOpen] = useState(false);
  const exec = useRef<Exec>();
  const end = useRef<HTMLPreElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const print = (text: string): void => setOutput((old) => (old + text).slice(-maxCharacters));
  useEffect(() => {
    const decoders = new Map<number, TextDecoder>();
    exec.current = new Exec(client, props.command, {
      opened: () => setOpen(true),
      received: (bytes, stream) => {
        const decoder = decoders.get(stream) ?? new TextDecoder();
        decoders.set(stream, decoder);
        print(decoder.decode(bytes, { stream: true }));
      },
      closed: props.ended,
    });
    return () => exec.current?.close();
  }, []);
  useEffect(() => {
    if (!props.running) exec.current?.close();
  }, [props.running]);
  useEffect(() => end.current?.scrollTo(0, end.current.scrollHeight), [output]);
  useEffect(() => {
    if (open) input.current?.focus();
  }, [open]);
  const send = (event: SubmitEvent): void => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const line = `${new FormData(form).get("line") as string}\n`;
    print(line);
    exec.current?.write(encode(line));
    form.reset();
  };
  return (
    <>
      {props.running && !output && <Note>{open ? "The command is running. Its input has no terminal, so shells print no prompt." : "Connecting…"}</Note>}
      <pre class="logs" ref={end} tabIndex={0} role="log" aria-label="Output">
        {output}
      </pre>
      {props.running && (
        <form class="filters" onSubmit={send}>
          <input name="line" class="line" ref={input} aria-label="Input" placeholder="A line for the input of the command" disabled={!open} autocomplete="off" spellcheck={false} />
          <button disabled={!open}>Send</button>
          <button type="button" onClick={() => props.ended("")}>
            Stop
          </button>
        </form>
      )}
    </>
  );
}
