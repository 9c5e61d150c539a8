import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useApp } from "./context";
import { urlOf } from "./location";

/** A link to a page of the same API. The browser opens it in a new tab as usual. */
export function Link(props: { to: string[]; query?: Record<string, string | undefined>; class?: string; current?: boolean; children: ComponentChildren }) {
  const app = useApp();
  const follow = (event: MouseEvent): void => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    app.go(props.to, props.query);
  };
  return (
    <a href={urlOf(app.place.base, props.to, props.query)} class={props.class} aria-current={props.current ? "page" : undefined} onClick={follow}>
      {props.children}
    </a>
  );
}

/** The state of a view without data. */
export function Note(props: { kind?: "info" | "error" | "warning"; children: ComponentChildren }) {
  const kind = props.kind ?? "info";
  return (
    <div class={`note ${kind}`} role={kind === "error" ? "alert" : "status"}>
      {props.children}
    </div>
  );
}

export function Loading() {
  return (
    <div class="loading" role="status">
      Loading…
    </div>
  );
}

/** The error of a request, with a button that repeats it. */
export function Failure(props: { message: string; retry?: () => void }) {
  return (
    <Note kind="error">
      {props.message} {props.retry && <button onClick={props.retry}>Try again</button>}
    </Note>
  );
}

/** A row of tabs. The selected one is a parameter of the page, so that it is part of a link. */
export function Tabs(props: { names: string[]; current: string; select: (name: string) => void }) {
  const move = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    const next = props.names[(props.names.indexOf(props.current) + step + props.names.length) % props.names.length]!;
    props.select(next);
    const tabs = (event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=tab]");
    tabs[props.names.indexOf(next)]?.focus();
  };
  return (
    <div class="tabs" role="tablist" onKeyDown={move}>
      {props.names.map((name) => (
        <button key={name} role="tab" aria-selected={name === props.current} tabIndex={name === props.current ? 0 : -1} onClick={() => props.select(name)}>
          {name}
        </button>
      ))}
    </div>
  );
}

/** A modal dialog. close is called when the user presses Escape. */
export function Dialog(props: { title: string; close: () => void; wide?: boolean; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class={props.wide ? "wide" : ""} aria-label={props.title} onClose={props.close}>
      <header>
        <h2>{props.title}</h2>
        <button class="plain" aria-label="Close" onClick={props.close}>
          ✕
        </button>
      </header>
      {props.children}
    </dialog>
  );
}

/** A text field whose value is applied when the user presses Enter or leaves the field. */
export function Field(props: { label: string; value: string; apply: (value: string) => void; placeholder?: string; list?: string }) {
  const [text, setText] = useState(props.value);
  useEffect(() => setText(props.value), [props.value]);
  return (
    <input
      aria-label={props.label} placeholder={props.placeholder ?? props.label} title={props.label} value={text} list={props.list} spellcheck={false} autocomplete="off"
      onInput={(event) => setText(event.currentTarget.value)}
      onBlur={() => text !== props.value && props.apply(text)}
      onKeyDown={(event) => event.key === "Enter" && props.apply(text)}
    />
  );
}

/** A table of few rows. */
export function SimpleTable(props: { columns: string[]; rows: ComponentChildren[][]; label: string }) {
  const box = useRef<HTMLDivElement>(null);
  // A wide table scrolls, so the keyboard must reach it.
  const measure = (): void => {
    const { clientWidth, scrollWidth } = box.current!;
    if (scrollWidth > clientWidth) box.current!.tabIndex = 0;
    else box.current!.removeAttribute("tabindex");
  };
  useEffect(measure);
  useEffect(() => {
    const resized = new ResizeObserver(measure);
    resized.observe(box.current!);
    return () => resized.disconnect();
  }, []);
  return (
    <div class="scroll" ref={box} role="group" aria-label={props.label}>
      <table aria-label={props.label}>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row, i) => (
            <tr key={i}>
              {row.map((value, j) => (
                <td key={j}>{value}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
