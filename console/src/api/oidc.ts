// Sign-in with OpenID Connect: the authorization code flow with PKCE (RFC 7636) for a client without a secret. The provider
// shows its page in a second window, whose last page passes the code to the console through a BroadcastChannel.

/** A provider that the server accepts. Its token endpoint is a part of the Content-Security-Policy. */
export interface Provider {
  issuer: string;
  clientID: string;
  authorizationEndpoint: string;
  tokenEndpoint: string;
  scopes?: string[];
}

/** Returns the providers. The server may just have closed the connection, because it rejected a token. */
export async function readProviders(): Promise<Provider[]> {
  const read = (): Promise<{ providers: Provider[] }> => readJSON<{ providers: Provider[] }>("/console/config.json", {});
  return (await read().catch(read)).providers;
}

/** The path to which the provider redirects the second window. */
export const callbackPath = "/console/callback";

const channelName = "mainstay-console-sign-in";

/** The parameters of the provider's redirect. */
interface Redirect {
  state: string;
  code?: string;
  error?: string;
}

/**
 * Passes the parameters of the redirect to the console and closes the window. Returns false if the page is not the redirect.
 * Browsers do not close a window that the user has opened.
 */
export function finishRedirect(): boolean {
  if (location.pathname !== callbackPath) return false;
  const parameters = new URLSearchParams(location.search);
  history.replaceState(null, "", callbackPath);
  const redirect: Redirect = { state: parameters.get("state") ?? "" };
  const [code, error] = [parameters.get("code"), parameters.get("error_description") ?? parameters.get("error")];
  if (code) redirect.code = code;
  if (error) redirect.error = error;
  const channel = new BroadcastChannel(channelName);
  channel.postMessage(redirect);
  channel.close();
  window.close();
  return true;
}

/** Returns the ID token of the user. Must be called by an event of the user, so that the browser opens the window. */
export async function signInWithOIDC(provider: Provider, signal: AbortSignal): Promise<string> {
  const opened = window.open("about:blank", "_blank", "popup,width=520,height=680");
  if (!opened) throw new Error("The browser blocked the window of the provider.");
  const [state, verifier] = [randomText(), randomText()];
  const redirect = new URL(callbackPath, location.origin).href;
  const received = awaitRedirect(state, signal);
  try {
    opened.location.href = await authorizationURL(provider, redirect, state, verifier);
  } catch (error) {
    opened.close();
    received.catch(() => undefined); // the caller aborts it
    throw error;
  }
  const { code, error } = await received;
  if (!code) throw new Error(`The provider rejected the sign-in: ${error ?? "it sent no code"}.`);
  const body = new URLSearchParams({ grant_type: "authorization_code", client_id: provider.clientID, code, redirect_uri: redirect, code_verifier: verifier });
  const { id_token: token } = await readJSON<{ id_token?: string }>(provider.tokenEndpoint, { method: "POST", body, signal });
  if (!token) throw new Error("The provider sent no ID token.");
  return token;
}

/** Returns the URL of the provider's page. The server verifies that the endpoints are https URLs. */
async function authorizationURL(provider: Provider, redirect: string, state: string, verifier: string): Promise<string> {
  const url = new URL(provider.authorizationEndpoint);
  const challenge = base64url(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
  const scopes = ["openid", "profile", "email", "groups"].filter((scope) => scope === "openid" || provider.scopes?.includes(scope));
  const parameters = {
    response_type: "code", client_id: provider.clientID, redirect_uri: redirect, scope: scopes.join(" "), state, code_challenge: challenge, code_challenge_method: "S256",
  };
  for (const [key, value] of Object.entries(parameters)) url.searchParams.set(key, value);
  return url.href;
}

/** Returns the parameters of the redirect with the state. Other pages of the console can sign in at the same time. */
function awaitRedirect(state: string, signal: AbortSignal): Promise<Redirect> {
  const channel = new BroadcastChannel(channelName);
  return new Promise<Redirect>((resolve, reject) => {
    channel.onmessage = (event: MessageEvent<Redirect>) => {
      if (event.data.state === state) resolve(event.data);
    };
    signal.addEventListener("abort", () => reject(new Error("The sign-in was canceled.")), { once: true });
  }).finally(() => channel.close());
}

async function readJSON<T>(url: string, init: RequestInit): Promise<T> {
  let response: Response;
  const { origin } = new URL(url, location.href);
  try {
    response = await fetch(url, { ...init, credentials: "omit", cache: "no-store" });
  } catch {
    throw new Error(`${origin} cannot be reached. The provider must allow requests from this page (CORS).`);
  }
  const text = await response.text();
  if (!response.ok) throw new Error(`${origin} responded with code ${response.status}: ${text.slice(0, 200)}`);
  return JSON.parse(text) as T;
}

function randomText(): string {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
