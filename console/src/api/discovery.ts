import { equal } from "../model/merge";
import type { Client } from "./client";

/** A resource of the API. */
export interface Resource {
  group: string;
  version: string;
  /** The plural name. */
  name: string;
  kind: string;
  namespaced: boolean;
  verbs: string[];
  shortNames: string[];
  subresources: string[];
}

interface DiscoveryDocument {
  items?: {
    metadata?: { name?: string };
    versions?: {
      version: string;
      resources?: {
        resource: string;
        responseKind?: { kind: string };
        scope: string;
        verbs?: string[];
        shortNames?: string[];
        subresources?: { subresource: string }[];
      }[];
    }[];
  }[];
}

/** Discovery is the resources of a control plane, each in the preferred version of its group. */
export class Discovery {
  private readonly byKey = new Map<string, Resource>();
  private readonly byKind = new Map<string, Resource>();

  constructor(
    readonly resources: Resource[],
    private readonly past = false,
  ) {
    for (const resource of resources) {
      this.byKey.set(keyOf(resource.group, resource.name), resource);
      this.byKind.set(`${resource.group}/${resource.kind}`, resource);
    }
  }

  find(group: string, name: string): Resource | undefined {
    return this.byKey.get(keyOf(group, name));
  }

  /** Finds the resource of an apiVersion and kind. The version may differ. */
  findKind(apiVersion: string, kind: string): Resource | undefined {
    return this.byKind.get(`${groupOf(apiVersion)}/${kind}`);
  }

  /** Returns the resources that can be listed, without Mainstay's own changes. */
  get listed(): Resource[] {
    return this.resources.filter((resource) => resource.verbs.includes("list") && resource.group !== historyGroup);
  }

  /** Reports whether the server has a history. The resource of the changes exists at present only. */
  get hasHistory(): boolean {
    return this.past || this.find(historyGroup, "changes") !== undefined;
  }
}

export const historyGroup = "history.mainstay.dev";

function keyOf(group: string, name: string): string {
  return group ? `${name}.${group}` : name;
}

/** Returns the group of an apiVersion; "" for v1. */
export function groupOf(apiVersion: string): string {
  return apiVersion.includes("/") ? apiVersion.slice(0, apiVersion.indexOf("/")) : "";
}

/** Returns RESOURCE.GROUP, as in kubectl. */
export function qualifiedName(resource: Pick<Resource, "group" | "name">): string {
  return keyOf(resource.group, resource.name);
}

/** Returns GROUP/VERSION, or VERSION for the core group. */
export function apiVersionOf(resource: Pick<Resource, "group" | "version">): string {
  return resource.group ? `${resource.group}/${resource.version}` : resource.version;
}

/** Returns the path of the version of a resource. */
export function versionPath(resource: Pick<Resource, "group" | "version">): string {
  return `${resource.group ? "/apis" : "/api"}/${apiVersionOf(resource)}`;
}

/** Returns the path of a collection, or of an object if name is not "". */
export function pathOf(resource: Pick<Resource, "group" | "version" | "name" | "namespaced">, namespace = "", name = "", subresource = ""): string {
  let path = versionPath(resource);
  if (resource.namespaced && namespace) path += `/namespaces/${encodeURIComponent(namespace)}`;
  path += `/${resource.name}`;
  if (name) path += `/${encodeURIComponent(name)}`;
  if (subresource) path += `/${subresource}`;
  return path;
}

const discoveryType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/** Reads the resources of a control plane (aggregated discovery, KEP-3352). Unchanged resources are the same objects as in the previous result. */
export async function discover(client: Client, previous?: Discovery): Promise<Discovery> {
  const documents = await Promise.all(["/api", "/apis"].map((path) => client.json<DiscoveryDocument>(path, { accept: discoveryType })));
  const found = new Map<string, Resource>();
  for (const group of documents.flatMap((document) => document.items ?? [])) {
    const name = group.metadata?.name ?? "";
    for (const version of group.versions ?? []) {
      for (const resource of version.resources ?? []) {
        const key = keyOf(name, resource.resource);
        if (found.has(key)) continue; // the first version is the preferred one
        const read: Resource = {
          group: name, version: version.version, name: resource.resource, kind: resource.responseKind?.kind ?? "", namespaced: resource.scope === "Namespaced",
          verbs: resource.verbs ?? [], shortNames: resource.shortNames ?? [], subresources: (resource.subresources ?? []).map((sub) => sub.subresource),
        };
        const known = previous?.find(name, resource.resource);
        found.set(key, known && equal(known, read) ? known : read);
      }
    }
  }
  const resources = [...found.values()];
  const changed = resources.length !== previous?.resources.length || resources.some((resource, i) => resource !== previous.resources[i]);
  return changed ? new Discovery(resources, client.base.includes("/at/")) : previous;
}
