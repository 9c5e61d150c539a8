import { useMemo, useState } from "preact/hooks";
import type { Discovery, Resource } from "../api/discovery";
import { listPath, useApp } from "./context";
import { Link } from "./parts";

const sections: [string, string[]][] = [
  ["Overview", []],
  ["Map", ["map"]],
  ["History", ["history"]],
  ["Permissions", ["permissions"]],
  ["Admission", ["admission"]],
  ["Server", ["server"]],
  ["Control planes", ["controlplanes"]],
];

/** Returns the titles and paths of the pages that the server supports. */
export function pagesOf(discovery: Discovery): [title: string, path: string[]][] {
  return sections.filter(([, path]) => {
    if (path[0] === "history") return discovery.hasHistory;
    return path[0] !== "controlplanes" || discovery.find("mainstay.dev", "controlplanes");
  });
}

/** Groups that are shown open. The other groups are closed until one of their resources is shown. */
const openGroups = new Set(["", "apps", "batch"]);

export function Sidebar() {
  const app = useApp();
  const [filter, setFilter] = useState("");
  const groups = useMemo(() => groupsOf(app.discovery.listed, filter.toLowerCase()), [app.discovery, filter]);
  const [view, group, name] = app.place.path;
  const current = view === "objects" ? `${group}/${name}` : "";
  return (
    <nav class="sidebar" aria-label="Pages">
      {pagesOf(app.discovery).map(([title, path]) => (
        <Link key={title} to={path} current={view === path[0]}>
          {title}
        </Link>
      ))}
      <hr />
      <input aria-label="Filter resources" placeholder="Filter resources" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      {groups.map(([title, resources]) => (
        <details key={title} open={filter !== "" || openGroups.has(title) || resources.some((resource) => `${resource.group || "core"}/${resource.name}` === current)}>
          <summary>{title || "core"}</summary>
          {resources.map((resource) => (
            <Link key={resource.name} to={listPath(resource)} query={{ namespace: app.place.query.get("namespace") ?? undefined }} current={`${resource.group || "core"}/${resource.name}` === current}>
              {resource.kind}
            </Link>
          ))}
        </details>
      ))}
      {groups.length === 0 && <p class="muted">No resource matches.</p>}
    </nav>
  );
}

function groupsOf(resources: Resource[], filter: string): [string, Resource[]][] {
  const groups = new Map<string, Resource[]>();
  for (const resource of resources) {
    const text = [resource.kind, resource.name, resource.group, ...resource.shortNames].join(" ").toLowerCase();
    if (!text.includes(filter)) continue;
    groups.set(resource.group, [...(groups.get(resource.group) ?? []), resource]);
  }
  for (const members of groups.values()) members.sort((a, b) => a.kind.localeCompare(b.kind));
  const rank = (group: string): number => (group === "" ? 0 : openGroups.has(group) ? 1 : 2);
  return [...groups].sort(([a], [b]) => rank(a) - rank(b) || a.localeCompare(b));
}
