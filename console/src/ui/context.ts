import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { type Client, messageOf } from "../api/client";
import type { Discovery, Resource } from "../api/discovery";
import type { Place } from "./location";

/** The state and the functions that all views of a page share. */
export interface App {
  client: Client;
  discovery: Discovery;
  place: Place;
  /** The user name, for display. */
  user: string;
  /** The groups of the user. */
  groups: string[];
  /** Opens a page of the same API. */
  go: (path: string[], query?: Record<string, string | undefined>) => void;
  /** Replaces parameters of the current page, without a new entry in the browser's history. */
  setQuery: (changes: Record<string, string | undefined>) => void;
  /** Opens the current page, or another one, of another API. */
  setBase: (base: string, path?: string[]) => void;
  /** Shows a message for some seconds. */
  notify: (message: string) => void;
}

export const AppContext = createContext<App | null>(null);

export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error("useApp is used outside of the page");
  return app;
}

/** The state of a value that is being loaded. */
export interface Loaded<T> {
  value: T | undefined;
  error: string;
  reload: () => void;
}

/**
 * Loads a value when one of the dependencies changes, and again when the tick changes unless it is still being loaded. A failed
 * repetition keeps the value. The signal is aborted when the result is no longer needed.
 */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, dependencies: unknown[], tick: unknown = 0): Loaded<T> {
  const [state, setState] = useState<{ value: T | undefined; error: string }>({ value: undefined, error: "" });
  const [attempt, setAttempt] = useState(0);
  const running = useRef<AbortController>();
  const run = async (repeated: boolean): Promise<void> => {
    const controller = new AbortController();
    running.current = controller;
    const result = await load(controller.signal).then((value) => ({ value, error: "" }), (error: unknown) => ({ value: undefined, error: messageOf(error) }));
    if (controller.signal.aborted) return;
    running.current = undefined;
    setState((old) => (result.error && repeated ? { ...result, value: old.value } : result));
  };
  useEffect(() => {
    void run(false);
    return () => running.current?.abort();
  }, [...dependencies, attempt]);
  useEffect(() => {
    if (!running.current) void run(true);
  }, [tick]);
  return { ...state, reload: () => setAttempt(attempt + 1) };
}

/** Returns a number that grows each period (in milliseconds) while the page is visible, so that the component is rendered again. */
export function useTick(period: number): number {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && setTick((n) => n + 1), period);
    return () => clearInterval(timer);
  }, [period]);
  return tick;
}

/** The segments of the page of an object. */
export function objectPath(resource: Pick<Resource, "group" | "name">, namespace: string | undefined, name: string): string[] {
  return ["objects", resource.group || "core", resource.name, namespace || "-", name];
}

/** The segments of the page of a resource. */
export function listPath(resource: Pick<Resource, "group" | "name">): string[] {
  return ["objects", resource.group || "core", resource.name];
}

/** The segments of the page of an object of a kind; undefined if the server does not have the kind. */
export function kindPath(discovery: Discovery, apiVersion: string, kind: string, namespace: string | undefined, name: string): string[] | undefined {
  const resource = discovery.findKind(apiVersion, kind);
  return resource && objectPath(resource, resource.namespaced ? namespace : "", name);
}
