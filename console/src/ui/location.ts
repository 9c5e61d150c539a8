/** A place in the console: the API that it shows, the page, and the parameters of the page. */
export interface Place {
  /** The path prefix of the API: "", /clusters/NAME, /at/MOMENT or both. */
  base: string;
  /** The decoded segments of the path after /console/. */
  path: string[];
  query: URLSearchParams;
}

/** Matches the paths of the page, as the server does: a control plane can have the name console. */
const page = /^((?:\/clusters\/[^/]+)?(?:\/at\/(?:rv\/)?[^/]+)?)\/console(?:\/(.*))?$/;

/** Parses the path and query of a URL. */
export function parsePlace(pathname: string, search: string): Place {
  const [, base = "", rest = ""] = page.exec(pathname) ?? [];
  return {
    base,
    path: rest.split("/").filter(Boolean).map(decodeSegment),
    query: new URLSearchParams(search),
  };
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Returns the URL of a page. */
export function urlOf(base: string, path: string[], query: Record<string, string | undefined> = {}): string {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value) parameters.set(key, value);
  const text = parameters.toString();
  return `${base}/console/${path.map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

/** Splits a base into the control plane ("" for the root) and the moment ("" for the present). */
export function splitBase(base: string): { cluster: string; moment: string } {
  const match = /^(?:\/clusters\/([^/]+))?(?:\/at\/(.+))?$/.exec(base);
  return { cluster: match?.[1] ?? "", moment: decodeSegment(match?.[2] ?? "") };
}

/** Returns the base of a control plane at a moment. */
export function joinBase(cluster: string, moment: string): string {
  return (cluster && `/clusters/${encodeURIComponent(cluster)}`) + (moment && `/at/${moment.split("/").map(encodeURIComponent).join("/")}`);
}
