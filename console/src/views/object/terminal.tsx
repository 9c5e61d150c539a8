import { useState } from "preact/hooks";
import { messageOf } from "../../api/client";
import type { Command } from "../../api/exec";
import type { KubeObject } from "../../api/types";
import { parseCommandLine } from "../../model/commandline";
import { Failure } from "../../ui/parts";
import { LineSession } from "./linesession";
import { ScreenSession } from "./screensession";

/** Runs a command in a container, in a terminal or with lines of input. */
export function Terminal(props: { pod: KubeObject }) {
  const spec = props.pod.spec as { containers?: { name: string }[] } | undefined;
  const containers = (spec?.containers ?? []).map((container) => container.name);
  const { name: pod, namespace = "" } = props.pod.metadata;
  const [container, setContainer] = useState(containers[0] ?? "");
  const [line, setLine] = useState("/bin/sh");
  const [tty, setTTY] = useState(true);
  const [error, setError] = useState("");
  const [command, setCommand] = useState<Command>(); // the last command, whose output stays visible after its end
  const [started, setStarted] = useState(0); // the number of started commands
  const [running, setRunning] = useState(false);

  const start = (event: SubmitEvent): void => {
    event.preventDefault();
    setError("");
    try {
      setCommand({ namespace, pod, container, args: parseCommandLine(line), tty });
      setStarted(started + 1);
      setRunning(true);
    } catch (problem) {
      setError(messageOf(problem));
    }
  };
  const ended = (problem: string): void => {
    setError(problem);
    setRunning(false);
  };
  const Session = command?.tty ? ScreenSession : LineSession;
  return (
    <>
      {!running && (
        <form class="filters" onSubmit={start}>
          <select aria-label="Container" value={container} onChange={(event) => setContainer(event.currentTarget.value)}>
            {containers.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
          <input class="line" aria-label="Command" value={line} onInput={(event) => setLine(event.currentTarget.value)} required autocomplete="off" spellcheck={false} />
          <label>
            <input type="checkbox" checked={tty} onChange={(event) => setTTY(event.currentTarget.checked)} /> Terminal (TTY)
          </label>
          <button class="primary">Run</button>
        </form>
      )}
      {error && <Failure message={error} />}
      {command && <Session key={started} command={command} running={running} ended={ended} />}
    </>
  );
}
