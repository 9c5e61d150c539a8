import { useMemo, useState } from "preact/hooks";
import { listPath, useApp } from "./context";
import { Dialog } from "./parts";
import { pagesOf } from "./sidebar";

interface Entry {
  title: string;
  detail: string;
  path: string[];
  query?: Record<string, string>;
}

const maxEntries = 12;

/** The command palette: pages and resources by a part of their name; "KIND NAME" opens an object. */
export function Palette(props: { close: () => void }) {
  const app = useApp();
  const [text, setText] = useState("");
  const [selected, setSelected] = useState(0);
  const all = useMemo<Entry[]>(() => {
    const pages = pagesOf(app.discovery).map(([title, path]): Entry => ({ title, detail: "page", path }));
    return [...pages, ...app.discovery.listed.map((resource) => ({ title: resource.kind, detail: [resource.name, resource.group, ...resource.shortNames].filter(Boolean).join(" "), path: listPath(resource) }))];
  }, [app.discovery]);
  const entries = useMemo(() => search(all, text), [all, text]);
  const open = (entry: Entry | undefined): void => {
    if (!entry) return;
    props.close();
    app.go(entry.path, entry.query);
  };
  const pressed = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step) {
      event.preventDefault();
      setSelected((selected + step + entries.length) % Math.max(1, entries.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      open(entries[selected]);
    }
  };
  return (
    <Dialog title="Search" close={props.close}>
      <input
        class="full" autofocus role="combobox" aria-expanded="true" aria-controls="palette" aria-activedescendant={`palette-${selected}`} aria-label="Page or resource, and a part of a name"
        placeholder="Page or resource, and a part of a name" value={text} onKeyDown={pressed}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setSelected(0);
        }}
      />
      <ul id="palette" role="listbox" class="palette" aria-label="Results">
        {entries.map((entry, i) => (
          <li key={entry.path.join("/")} id={`palette-${i}`} role="option" aria-selected={i === selected} onClick={() => open(entry)}>
            <b>{entry.title}</b> <span class="muted">{entry.detail}</span>
          </li>
        ))}
        {entries.length === 0 && <li class="muted">Nothing matches.</li>}
      </ul>
    </Dialog>
  );
}

/** The first word selects the page or the resource, and the others filter the names of its objects. */
function search(all: Entry[], text: string): Entry[] {
  const [word = "", ...names] = text.toLowerCase().split(/\s+/);
  const rank = (entry: Entry): number => {
    const title = entry.title.toLowerCase();
    const words = entry.detail.split(" ");
    if (title === word || words.includes(word)) return 0;
    if (title.startsWith(word)) return 1;
    return title.includes(word) || entry.detail.includes(word) ? 2 : 3;
  };
  const name = names.join(" ").trim();
  return all
    .map((entry) => [rank(entry), entry] as const)
    .filter(([rank]) => rank < 3)
    .sort(([a], [b]) => a - b)
    .slice(0, maxEntries)
    .map(([, entry]) => (name ? { ...entry, detail: `whose name contains ${name}`, query: { filter: name } } : entry));
}
