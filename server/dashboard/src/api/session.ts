/// The bearer token of this tab. It comes once in the link the server prints (#token=…), or is typed at the log-in; it is kept
/// for the tab, or for this browser where the reader wants that. It is sent with requests and never written into a link.
const KEY = 'babelring.token';

type Listener = () => void;

let token: string | null = null;
let expired: Listener = () => undefined;

function stores(): Storage[] {
  try {
    return [sessionStorage, localStorage];
  } catch {
    return [];  // a browser that forbids storage: the token lives as long as the page
  }
}

/// `hash` without a token in it, and the token; null where there is none. Understands #token=… and #/path?…&token=….
export function splitToken(hash: string): { token: string; rest: string } | null {
  const text = hash.replace(/^#/, '');
  const bare = /^token=[^&]+(?:&(.*))?$/.exec(text);
  if (bare) return { token: new URLSearchParams(text).get('token')!, rest: bare[1] ? `#${bare[1]}` : '' };
  const [path = '', query = ''] = text.split('?');
  const parameters = new URLSearchParams(query);
  const found = parameters.get('token');
  if (!found) return null;
  parameters.delete('token');
  const left = parameters.toString();
  return { token: found, rest: `#${path}${left ? `?${left}` : ''}` };
}

/// Takes the token out of the address bar, if one is there, and else the kept one. Once, before anything is fetched.
export function startSession(): void {
  token = null;
  for (const store of stores()) token ??= store.getItem(KEY);
  const linked = splitToken(location.hash);
  if (!linked) return;
  history.replaceState(null, '', `${location.pathname}${location.search}${linked.rest}`);
  setToken(linked.token, false);
}

/// `keep`: beyond this tab.
export function setToken(value: string, keep: boolean): void {
  token = value;
  const [tab, browser] = stores();
  tab?.setItem(KEY, value);
  if (keep) browser?.setItem(KEY, value);
  else browser?.removeItem(KEY);
}

export function forgetToken(): void {
  token = null;
  stores().forEach((store) => store.removeItem(KEY));
}

export const hasToken = (): boolean => token !== null;

/// The headers that say who asks.
export function authorization(): Record<string, string> {
  return token === null ? {} : { Authorization: `Bearer ${token}` };
}

/// `work` is called whenever the server wants a (better) token.
export function onUnauthorized(work: Listener): void {
  expired = work;
}

export function unauthorized(): void {
  expired();
}

export type Need = 'read' | 'operate' | 'admin';

const RANKING: readonly string[] = ['read', 'operate', 'admin'];

let scope: string | null = null;

/// What the server says this token may do; null where it works without tokens. "scopechange" on window tells the pages.
export function setScope(value: string | null): void {
  if (value === scope) return;
  scope = value;
  window.dispatchEvent(new Event('scopechange'));
}

export const allows = (given: string | null, needed: Need): boolean => given === null || RANKING.indexOf(given) >= RANKING.indexOf(needed);

/// Whether it makes sense to offer what needs this scope. The server decides in any case.
export const may = (needed: Need): boolean => allows(scope, needed);
