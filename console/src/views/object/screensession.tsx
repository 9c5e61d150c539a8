import { useEffect, useRef } from "preact/hooks";
import { type Command, Exec } from "../../api/exec";
import { useApp } from "../../ui/context";
import { type Screen, openScreen } from "../../ui/screen";

/** A command in a terminal. Its output stays visible after its end. */
export function ScreenSession(props: { command: Command; running: boolean; ended: (problem: string) => void }) {
  const { client } = useApp();
  const host = useRef<HTMLDivElement>(null);
  const opened = useRef<Screen>();
  const stop = useRef<() => void>();
  useEffect(() => {
    const screen = openScreen(host.current!, (bytes) => exec.write(bytes), (columns, rows) => exec.resize(columns, rows));
    const exec = new Exec(client, props.command, {
      opened: () => {
        exec.resize(screen.columns, screen.rows);
        screen.focus();
      },
      received: (bytes) => screen.write(bytes),
      closed: props.ended,
    });
    opened.current = screen;
    stop.current = () => {
      exec.close();
      screen.freeze();
    };
    return () => {
      exec.close();
      screen.dispose();
    };
  }, []);
  useEffect(() => {
    if (!props.running) stop.current?.();
  }, [props.running]);
  return (
    <>
      <div class="filters">
        {props.running && <button onClick={() => props.ended("")}>Stop</button>}
        <label>
          <input type="checkbox" onChange={(event) => opened.current?.setScreenReader(event.currentTarget.checked)} /> Text for screen readers
        </label>
        {props.running && <span class="muted">Shift+Tab moves the focus out of the terminal.</span>}
      </div>
      <div class="screen" ref={host} />
    </>
  );
}
