import { useEffect, useRef, useState } from "preact/hooks";
import { Client, messageOf } from "../api/client";
import { type Provider, readProviders, signInWithOIDC } from "../api/oidc";
import { parsePlace } from "../ui/location";
import { Failure, Note } from "../ui/parts";

/** The path at which "mainstay console" exchanges a one-time code for a session. Servers do not have it. */
const sessionPath = "/console/session";

/** Returns the one-time code in the fragment of the URL and removes it from the browser's history. */
export function takeCode(): string {
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1] ?? "";
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  return code;
}

/** The form for a one-time code or a bearer token. */
export function SignIn(props: { code: string; problem: string; signedIn: (token: string) => void }) {
  const [local, setLocal] = useState<boolean | undefined>();
  const [error, setError] = useState(props.problem);
  const [providers, setProviders] = useState<Provider[]>([]);
  const enter = async (text: string, isLocal: boolean): Promise<void> => {
    try {
      props.signedIn(isLocal ? await exchange(text) : await verified(text));
    } catch (failure) {
      setError(messageOf(failure));
    }
  };
  useEffect(() => {
    void fetch(sessionPath, { method: "GET", cache: "no-store" }).then(
      (response) => {
        const isLocal = response.headers.get("Mainstay-Console") === "local";
        setLocal(isLocal);
        if (isLocal && props.code && !props.problem) void enter(props.code, true);
        if (!isLocal) void readProviders().then(setProviders, () => undefined); // the form for a token works without it
      },
      () => setError("The server cannot be reached."),
    );
  }, []);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    setError("");
    void enter((new FormData(event.currentTarget as HTMLFormElement).get("secret") as string).trim(), local === true);
  };
  const signInWith = async (provider: Provider): Promise<void> => {
    setError("");
    const canceled = new AbortController();
    try {
      await enter(await signInWithOIDC(provider, canceled.signal), false);
    } catch (failure) {
      setError(messageOf(failure));
    } finally {
      canceled.abort();
    }
  };
  const label = local ? "One-time code" : "Bearer token";
  return (
    <>
      <h1>Mainstay</h1>
      {error && <Failure message={error} />}
      {local !== undefined && (
        <form onSubmit={submit} autocomplete="off">
          <label>
            {label}
            <input name="secret" type="password" autocomplete="off" spellcheck={false} required ref={focus} />
          </label>
          <button class="primary">Sign in</button>
        </form>
      )}
      <div class="buttons">
        {providers.map((provider) => (
          <button key={provider.issuer} onClick={() => void signInWith(provider)}>
            Sign in with {provider.issuer.replace("https://", "")}
          </button>
        ))}
      </div>
      {local && <Note>Press Enter in the terminal of "mainstay console" to get a new code. Codes and sessions exist in memory only, so a reloaded page needs a new code.</Note>}
      {local === false && (
        <Note>
          The page has the permissions of the token. The token stays in the memory of this page. Without a token, run <code>mainstay console</code> with your kubeconfig.
        </Note>
      )}
    </>
  );
}

/** The form above a page whose session has ended. The page below remains, because it can contain unsaved changes. */
export function SignInAgain(props: { signedIn: (token: string) => void; signOut: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const show = (): void => dialog.current?.showModal();
  useEffect(show, []);
  return (
    <dialog ref={dialog} class="signin" aria-label="Sign in again" onCancel={(event) => event.preventDefault()} onClose={show}>
      <SignIn code="" problem="The session has ended. Sign in again." signedIn={props.signedIn} />
      <footer>
        <button onClick={props.signOut}>Sign out and discard unsaved changes</button>
      </footer>
    </dialog>
  );
}

function focus(field: HTMLInputElement | null): void {
  field?.focus();
}

async function exchange(code: string): Promise<string> {
  const response = await fetch(sessionPath, { method: "POST", body: code, cache: "no-store" });
  if (!response.ok) throw new Error((await response.text()) || "The code was not accepted.");
  return response.text();
}

/** Returns the token if the server accepts it. */
async function verified(token: string): Promise<string> {
  const client = new Client(parsePlace(location.pathname, "").base, { token, expired: () => undefined });
  try {
    await client.send("/api");
  } catch (error) {
    throw new Error(`The token was not accepted: ${messageOf(error)}`);
  }
  return token;
}
