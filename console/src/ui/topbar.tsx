import { useEffect, useRef, useState } from "preact/hooks";
import { type Client, messageOf } from "../api/client";
import { apiTime, dateTime } from "../model/format";
import { useApp, useLoad } from "./context";
import { joinBase, splitBase } from "./location";
import { Dialog, Link } from "./parts";

const moments: [string, string][] = [
  ["", "Now"],
  ["-5m", "5 minutes ago"],
  ["-15m", "15 minutes ago"],
  ["-1h", "1 hour ago"],
  ["-1d", "1 day ago"],
  ["-7d", "7 days ago"],
];

/** The value of the option that opens the dialog for a time. */
const otherTime = "other";

export function TopBar(props: { openPalette: () => void; signOut: () => void }) {
  const app = useApp();
  const { cluster, moment } = splitBase(app.place.base);
  return (
    <header class="topbar">
      <Link to={[]} class="brand">
        Mainstay
      </Link>
      {cluster && (
        <span class="chip">
          control plane {cluster}
          <button class="plain" aria-label="Leave the control plane" onClick={() => app.setBase("", ["controlplanes"])}>
            ✕
          </button>
        </span>
      )}
      <button class="search" onClick={props.openPalette}>
        Search <kbd>Ctrl K</kbd>
      </button>
      <span class="space" />
      {(app.discovery?.hasHistory || moment) && <MomentSelector cluster={cluster} moment={moment} />}
      <ThemeButton />
      <span class="muted user" title="The user of all requests">
        {app.user}
      </span>
      <button class="plain" onClick={props.signOut}>
        Sign out
      </button>
      {moment && <Banner cluster={cluster} moment={moment} />}
    </header>
  );
}

/** The note above all pages that show an earlier state. */
function Banner(props: { cluster: string; moment: string }) {
  const app = useApp();
  const time = useLoad(async (signal) => (await app.client.send("/api", { signal })).headers.get("Mainstay-Time") ?? "", [app.client]);
  return (
    <div class="banner" role="status">
      The page shows the state of {formatMoment(props.moment)}
      {time.value && ` (${dateTime(time.value)})`}. It cannot be changed.
      <button onClick={() => app.setBase(joinBase(props.cluster, ""))}>Return to now</button>
    </div>
  );
}

function formatMoment(moment: string): string {
  return moment.startsWith("rv/") ? `resourceVersion ${moment.slice("rv/".length)}` : moment;
}

function MomentSelector(props: { cluster: string; moment: string }) {
  const app = useApp();
  const [custom, setCustom] = useState(false);
  const [error, setError] = useState("");
  const known = moments.some(([value]) => value === props.moment);
  const pending = useRef<AbortController>();
  useEffect(() => () => pending.current?.abort(), [props.cluster, props.moment]); // the user opened another state
  // An age would move while the page is open, so it is replaced by the resourceVersion of its time.
  const select = async (value: string): Promise<void> => {
    setError("");
    pending.current?.abort();
    const { signal } = (pending.current = new AbortController());
    try {
      const resolved = value && (await resolveMoment(app.client, props.cluster, value, signal));
      if (!signal.aborted) app.setBase(joinBase(props.cluster, resolved));
    } catch (failure) {
      if (!signal.aborted) setError(messageOf(failure));
    }
  };
  const changed = (selector: HTMLSelectElement): void => {
    const { value } = selector;
    selector.value = props.moment; // until the page has changed
    if (value === otherTime) setCustom(true);
    else void select(value);
  };
  const apply = (event: SubmitEvent): void => {
    event.preventDefault();
    const value = new FormData(event.currentTarget as HTMLFormElement).get("time") as string;
    setCustom(false);
    if (value) void select(apiTime(new Date(value)));
  };
  return (
    <>
      <label class="moment">
        As of{" "}
        <select value={props.moment} onChange={(event) => changed(event.currentTarget)}>
          {moments.map(([value, title]) => (
            <option key={value} value={value}>
              {title}
            </option>
          ))}
          {!known && <option value={props.moment}>{formatMoment(props.moment)}</option>}
          <option value={otherTime}>Other time…</option>
        </select>
      </label>
      {error && (
        <Dialog title="The state is not available" close={() => setError("")}>
          <p>{error}</p>
        </Dialog>
      )}
      {custom && (
        <Dialog title="Show the state of a time" close={() => setCustom(false)}>
          <form onSubmit={apply}>
            <input type="datetime-local" name="time" step="1" aria-label="Time" required /> <button class="primary">Show</button>
          </form>
        </Dialog>
      )}
    </>
  );
}

async function resolveMoment(client: Client, cluster: string, value: string, signal: AbortSignal): Promise<string> {
  const response = await client.at(joinBase(cluster, value)).send("/api", { signal });
  const revision = response.headers.get("Mainstay-Revision");
  return revision ? `rv/${revision}` : value;
}

/** Switches between the light and the dark theme. Without a choice, the page follows the system. */
function ThemeButton() {
  const toggle = (): void => {
    const root = document.documentElement;
    const dark = root.dataset["theme"] ? root.dataset["theme"] === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset["theme"] = dark ? "light" : "dark";
  };
  return (
    <button class="plain" aria-label="Switch between light and dark" title="Switch between light and dark" onClick={toggle}>
      ◐
    </button>
  );
}
