import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Client, type Credentials } from "../api/client";
import { type Discovery, discover } from "../api/discovery";
import { Admission } from "../views/admission";
import { ControlPlanes } from "../views/controlplanes";
import { History } from "../views/history";
import { ResourceList } from "../views/list";
import { NamespaceMap } from "../views/map";
import { ObjectPage } from "../views/object";
import { Overview } from "../views/overview";
import { Permissions } from "../views/permissions";
import { Server } from "../views/server";
import { SignIn, SignInAgain, takeCode } from "../views/signin";
import { type App, AppContext, type Loaded, useLoad, useTick } from "./context";
import { type Place, joinBase, parsePlace, splitBase, urlOf } from "./location";
import { Palette } from "./palette";
import { Failure, Loading, Note } from "./parts";
import { Sidebar } from "./sidebar";
import { TopBar } from "./topbar";

function currentPlace(): Place {
  return parsePlace(location.pathname, location.search);
}

/** The whole page: the sign-in form, or the console. */
export function Page() {
  const [session, setSession] = useState<Session | undefined>();
  const [code, setCode] = useState(takeCode);
  const signedIn = (token: string): void => {
    setCode(""); // it can be used once
    const expired = (): void => setSession((now) => (now?.credentials === credentials ? { credentials, ended: true } : now));
    const credentials: Credentials = { token, expired };
    setSession({ credentials, ended: false });
  };
  if (!session) {
    return (
      <main class="signin">
        <SignIn code={code} problem="" signedIn={signedIn} />
      </main>
    );
  }
  const signOut = (): void => setSession(undefined);
  return (
    <>
      <Console session={session} signOut={signOut} />
      {session.ended && <SignInAgain signedIn={signedIn} signOut={signOut} />}
    </>
  );
}

interface Session {
  credentials: Credentials;
  /** The server no longer accepts the credentials. */
  ended: boolean;
}

/** The period of repeated reads of the resources, in milliseconds. */
const discoveryPeriod = 10_000;

function Console(props: { session: Session; signOut: () => void }) {
  const { credentials, ended } = props.session;
  const [place, setPlace] = useState(currentPlace);
  const [message, setMessage] = useState("");
  const [palette, setPalette] = useState(false);
  // Layout effects run before the page is shown. Otherwise, an event directly after the sign-in would be lost.
  useLayoutEffect(() => {
    const moved = (): void => {
      setPlace(currentPlace());
      setPalette(false);
    };
    window.addEventListener("popstate", moved);
    return () => window.removeEventListener("popstate", moved);
  }, []);
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key === "k") {
        event.preventDefault();
        setPalette(true);
      }
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
  const client = useMemo(() => new Client(place.base, credentials), [place.base, credentials]);
  const tick = useTick(discoveryPeriod);
  const repetition = useMemo(() => ({}), [credentials, tick]); // definitions and APIServices add and remove resources
  const loaded: Loaded<{ base: string; discovery: Discovery }> = useLoad(
    async () => ({ base: place.base, discovery: await discover(client, loaded.value?.base === place.base ? loaded.value.discovery : undefined) }),
    [place.base], repetition,
  );
  const discovery = loaded.value?.discovery;
  const isCurrent = loaded.value?.base === place.base;
  const { cluster } = splitBase(place.base);
  const user = useLoad(async () => ({ cluster, ...(await whoAmI(client.at(joinBase(cluster, "")))) }), [credentials, cluster]);
  const generation = useGeneration(user.value);

  const timer = useRef(0);
  const notify = useCallback((text: string) => {
    setMessage(text);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setMessage(""), 6000);
  }, []);
  const visit = (url: string, replace = false): void => {
    if (replace) history.replaceState(null, "", url);
    else history.pushState(null, "", url);
    setPlace(currentPlace());
  };
  const app: App = {
    client, discovery: discovery!, place, user: user.value?.username ?? "", groups: user.value?.groups ?? [], notify,
    go: (path, query) => visit(urlOf(place.base, path, query)),
    setQuery: (changes) => {
      const now = currentPlace();
      visit(urlOf(now.base, now.path, { ...Object.fromEntries(now.query), ...changes }), true);
    },
    setBase: (base, path) => {
      const now = currentPlace(); // the caller may have waited for a response
      visit(urlOf(base, path ?? now.path, path ? {} : Object.fromEntries(now.query)));
    },
  };
  useEffect(() => {
    document.title = [...place.path.filter((part) => part !== "-"), cluster, "Mainstay"].filter(Boolean).reverse().join(" · ");
  }, [place]);
  return (
    <AppContext.Provider value={app}>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <TopBar openPalette={() => setPalette(true)} signOut={props.signOut} />
      <div class="columns">
        {discovery ? <Sidebar /> : <nav class="sidebar" />}
        <main id="main" tabIndex={0}>
          {!isCurrent && (loaded.error ? <Failure message={loaded.error} retry={loaded.reload} /> : <Loading />)}
          {discovery && isCurrent && <View key={`${generation} ${place.base}`} place={place} discovery={discovery} />}
        </main>
      </div>
      {palette && discovery && !ended && <Palette close={() => setPalette(false)} />}
      <div class="toast" role="status" aria-live="polite">
        {message}
      </div>
    </AppContext.Provider>
  );
}

/** Counts the changes of the user of a control plane. The next user must not see what the previous one has read or typed. */
function useGeneration(user: (UserInfo & { cluster: string }) | undefined): number {
  const known = useRef({ user, generation: 0 }).current;
  if (user && known.user && user.cluster === known.user.cluster && user.username !== known.user.username) known.generation++;
  known.user = user ?? known.user;
  return known.generation;
}

interface UserInfo {
  username: string;
  groups?: string[];
}

/** Returns the user. The client must be one of the present, because the past does not accept reviews. */
async function whoAmI(client: Client): Promise<UserInfo> {
  const review = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  const result = await client.json<{ status: { userInfo: UserInfo } }>("/apis/authentication.k8s.io/v1/selfsubjectreviews", { method: "POST", body: review });
  return result.status.userInfo;
}

/** The view of a place. */
function View(props: { place: Place; discovery: Discovery }) {
  const [view, ...rest] = props.place.path;
  switch (view) {
    case undefined:
      return <Overview />;
    case "objects": {
      const [group = "", name = "", namespace = "", object] = rest;
      const resource = props.discovery.find(group === "core" ? "" : group, name);
      if (!resource) return <Note kind="error">The server has no resource {name} in the group {group}.</Note>;
      if (!object) return <ResourceList key={rest.join("/")} resource={resource} />;
      return <ObjectPage key={rest.join("/")} resource={resource} namespace={namespace === "-" ? "" : namespace} name={object} />;
    }
    case "map":
      return <NamespaceMap />;
    case "history":
      return <History />;
    case "permissions":
      return <Permissions />;
    case "admission":
      return <Admission />;
    case "server":
      return <Server />;
    case "controlplanes":
      return <ControlPlanes />;
    default:
      return <Note kind="error">The console has no page {view}.</Note>;
  }
}
