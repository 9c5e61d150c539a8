import { apiTime } from "../model/format";
import { joinBase, splitBase } from "../ui/location";
import { type Client, fieldSelector } from "../api/client";
import { historyGroup } from "../api/discovery";
import type { Change, List } from "../api/types";

/** Selects the changes of a timeline. */
export interface ChangeFilter {
  namespace?: string | undefined;
  since?: string | undefined;
  user?: string | undefined;
  resource?: string | undefined;
  name?: string | undefined;
  manager?: string | undefined;
}

export const maxChanges = 500;

/** Returns a client of the present: an earlier state does not contain the resource of the changes. */
function presentOf(client: Client): Client {
  const { cluster, moment } = splitBase(client.base);
  return moment ? client.at(joinBase(cluster, "")) : client;
}

/** Returns the range of the changes up to the moment of a client. An age is relative to that moment. */
async function rangeOf(client: Client, since: string | undefined, signal?: AbortSignal): Promise<{ since?: string | undefined; until?: string }> {
  const { moment } = splitBase(client.base);
  if (!moment) return { since };
  const until = moment.replace(/^-/, "");
  const length = ageSeconds(since ?? "");
  if (!length) return { since, until };
  const time = (await client.send("/api", { signal })).headers.get("Mainstay-Time");
  return { since: time ? apiTime(new Date(Date.parse(time) - length * 1000)) : since, until };
}

const unitSeconds: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86400 };

/** Parses an age such as 15m or 1h30m; 0 for another text. */
function ageSeconds(text: string): number {
  if (!/^(\d+[smhd])+$/.test(text)) return 0;
  return [...text.matchAll(/(\d+)([smhd])/g)].reduce((total, [, count, unit]) => total + Number(count) * unitSeconds[unit!]!, 0);
}

function pathOfChanges(namespace: string | undefined): string {
  return `/apis/${historyGroup}/v1${namespace ? `/namespaces/${encodeURIComponent(namespace)}` : ""}/changes`;
}

/** Returns the newest changes up to the moment of the client, the newest first. */
export async function readChanges(client: Client, filter: ChangeFilter, signal?: AbortSignal): Promise<Change[]> {
  const range = await rangeOf(client, filter.since, signal);
  const selector = fieldSelector({ ...range, user: filter.user, "object.resource": filter.resource, "object.name": filter.name, fieldManager: filter.manager });
  const path = pathOfChanges(filter.namespace);
  const changes: Change[] = [];
  let next = "";
  do {
    const page: List<Change> = await presentOf(client).json<List<Change>>(path, { signal, query: { fieldSelector: selector, limit: "500", continue: next } });
    changes.push(...(page.items ?? []));
    changes.splice(0, changes.length - maxChanges);
    next = page.metadata.continue ?? "";
  } while (next);
  return changes.reverse();
}

/** Returns a change with the states of the object before and after it. A list, because a change of an object without a namespace has no path. */
export async function readChange(client: Client, change: Change, signal?: AbortSignal): Promise<Change> {
  const query = { fieldSelector: `metadata.name=${change.metadata.name}` };
  const [found] = (await presentOf(client).json<List<Change>>(pathOfChanges(change.metadata.namespace), { signal, query })).items ?? [];
  if (!found) throw new Error("The change is no longer in the history.");
  return found;
}
