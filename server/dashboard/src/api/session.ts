import { writeStored } from '../lib/dom';

/// The bearer token. It comes from the link that the server prints (#token=…), or is entered at the log-in. By default this browser
/// keeps it for all tabs until it has not been used for KEPT_DAYS; the user may choose to keep it for one tab. It is sent with
/// requests and never written into a link.
/// Where this server's token is stored. Servers below different paths of one origin have different names.
const KEY = tokenKey(globalThis.location?.pathname ?? '/');
export const KEPT_DAYS = 30;
const DAY_MS = 86_400_000;
type Listener = () => void;

/// The name under which the token of the server whose page is at `path` is stored.
export function tokenKey(path: string): string {
  const folder = path.replace(/[^/]*$/, '');
  return folder === '/' ? 'babelring.token' : `babelring.token:${folder}`;
}

let token: string | null = null;
let expired: Listener = () => undefined;
let tabs: BroadcastChannel | null = null;

/// The storage of this tab or of all tabs; null if the browser forbids storage. Then the token lives as long as the page.
function stores(): Storage[] {
  try {
    return [sessionStorage, localStorage];
  } catch {
    return [];
  }
}

/// The stored form of the token for all tabs, with its expiry.
export const keptText = (value: string, nowMs: number): string =>
  JSON.stringify({ token: value, until: nowMs + KEPT_DAYS * DAY_MS });

/// The token in a stored text; null if it has expired or is malformed.
export function keptToken(text: string | null, nowMs: number): string | null {
  try {
    const kept = JSON.parse(text ?? 'null') as { token?: unknown; until?: unknown } | null;
    return typeof kept?.token === 'string' && typeof kept.until === 'number' && nowMs < kept.until ? kept.token : null;
  } catch {
    return null;
  }
}

/// The token in `hash`, and `hash` without it; null if there is none. Accepts #token=…, #/path?…&token=… and, with a token that is for this
/// tab alone, #/path?share=….
export function splitToken(hash: string): { token: string; rest: string; shared?: boolean } | null {
  const text = hash.replace(/^#/, '');
  const bare = /^token=[^&]+(?:&(.*))?$/.exec(text);
  if (bare) return { token: new URLSearchParams(text).get('token')!, rest: bare[1] ? `#${bare[1]}` : '' };
  const [path = '', query = ''] = text.split('?');
  const parameters = new URLSearchParams(query);
  const shared = parameters.has('share');
  const name = shared ? 'share' : 'token';
  const found = parameters.get(name);
  if (!found) return null;
  parameters.delete(name);
  const left = parameters.toString();
  return { token: found, rest: `#${path}${left ? `?${left}` : ''}`, shared };
}

/// Takes the token from the address bar, otherwise the stored one. Must run before the first request.
export function startSession(): void {
  const [tab, browser] = stores();
  if (tab) token = tab.getItem(KEY); // without storage the page keeps what it has
  const kept = keptToken(browser?.getItem(KEY) ?? null, Date.now());
  if (token === null && kept !== null) setToken(kept, true); // used again: kept for longer
  const linked = splitToken(location.hash);
  if (!linked) return;
  history.replaceState(null, '', `${location.pathname}${location.search}${linked.rest}`);
  if (!linked.shared) return setToken(linked.token, true);
  token = linked.token; // another token, which other tabs have, stays
  write(tab, token);
}

/// Uses this token from now on without storing it, so that the log-in can check it first.
export function tryToken(value: string): void {
  token = value;
}

/// Stores the token, for all tabs of this browser if `keep`, otherwise for this tab.
export function setToken(value: string, keep: boolean): void {
  token = value;
  const [tab, browser] = stores();
  write(tab, keep ? null : value);
  write(browser, keep ? keptText(value, Date.now()) : null);
}

const write = (store: Storage | undefined, text: string | null): void => {
  if (store) writeStored(KEY, text, store);
};

export function forgetToken(): void {
  token = null;
  stores().forEach((store) => write(store, null));
}

/// Calls `work` when another tab logs out, after this tab has dropped its token.
export function followLogOut(work: Listener): void {
  tabs = new BroadcastChannel(KEY);
  tabs.onmessage = () => {
    forgetToken();
    work();
  };
}

/// Drops the token in every tab.
export function logOut(): void {
  forgetToken();
  tabs?.postMessage('log out');
}

/// Calls `work` when another tab logs in while this one has no token, after this tab has taken over that token.
export const followLogIn = (wants: () => boolean, work: Listener): void =>
  window.addEventListener('storage', ({ key, newValue }) => {
    const kept = key === KEY && wants() ? keptToken(newValue, Date.now()) : null;
    if (kept === null) return;
    token = kept;
    work();
  });

export const hasToken = (): boolean => token !== null;

export const authorization = (): Record<string, string> => (token === null ? {} : { Authorization: `Bearer ${token}` });

/// Calls `work` whenever the server rejects a request for lack of a valid token.
export function onUnauthorized(work: Listener): void {
  expired = work;
}

export const unauthorized = (): void => expired();
export type Need = 'read' | 'operate' | 'admin';
const RANKING: readonly string[] = ['read', 'operate', 'admin'];
let scope: string | null = null;

/// Sets the token's scope; null if the server works without tokens. Fires "scopechange" on window.
export function setScope(value: string | null): void {
  if (value === scope) return;
  scope = value;
  window.dispatchEvent(new Event('scopechange'));
}

export const allows = (given: string | null, needed: Need): boolean =>
  given === null || RANKING.indexOf(given) >= RANKING.indexOf(needed);

/// Whether to offer actions that need this scope. The server enforces scopes in any case.
export const may = (needed: Need): boolean => allows(scope, needed);

const RIGHTS: Record<string, string> = {
  read: 'read everything',
  ingest: 'report records of a run',
  operate: 'read, start and stop runs',
  admin: 'do everything',
};

export const rightsOf = (scope: string): string => RIGHTS[scope] ?? scope;
