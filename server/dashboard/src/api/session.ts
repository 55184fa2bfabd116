/// The bearer token. It comes once in the link the server prints (#token=…), or is typed at the log-in. By default this browser keeps
/// it for all tabs, until nobody has used it for KEPT_DAYS; where the reader wants, it is kept for one tab. It is sent with requests
/// and never written into a link.
const KEY = 'babelring.token';
export const KEPT_DAYS = 30;
const DAY_MS = 86_400_000;

type Listener = () => void;

let token: string | null = null;
let expired: Listener = () => undefined;
let tabs: BroadcastChannel | null = null;

/// The storage of this tab and that of all tabs; none in a browser that forbids storage: the token lives as long as the page.
function stores(): Storage[] {
  try {
    return [sessionStorage, localStorage];
  } catch {
    return [];
  }
}

/// The token as all tabs keep it, with the time after which it is forgotten.
export const keptText = (value: string, nowMs: number): string => JSON.stringify({ token: value, until: nowMs + KEPT_DAYS * DAY_MS });

/// The token in such a text; null if its time is over or it is something else.
export function keptToken(text: string | null, nowMs: number): string | null {
  try {
    const kept = JSON.parse(text ?? 'null') as { token?: unknown; until?: unknown } | null;
    return typeof kept?.token === 'string' && typeof kept.until === 'number' && nowMs < kept.until ? kept.token : null;
  } catch {
    return null;
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
  const [tab, browser] = stores();
  token = tab?.getItem(KEY) ?? null;
  const kept = keptToken(browser?.getItem(KEY) ?? null, Date.now());
  if (token === null && kept !== null) setToken(kept, true);  // used again: kept for longer
  const linked = splitToken(location.hash);
  if (!linked) return;
  history.replaceState(null, '', `${location.pathname}${location.search}${linked.rest}`);
  setToken(linked.token, true);
}

/// Sends this token from now on, without keeping it: the log-in asks the server about it first.
export function tryToken(value: string): void {
  token = value;
}

/// `keep`: for all tabs of this browser.
export function setToken(value: string, keep: boolean): void {
  token = value;
  const [tab, browser] = stores();
  if (keep) tab?.removeItem(KEY);
  else tab?.setItem(KEY, value);
  if (keep) browser?.setItem(KEY, keptText(value, Date.now()));
  else browser?.removeItem(KEY);
}

export function forgetToken(): void {
  token = null;
  stores().forEach((store) => store.removeItem(KEY));
}

/// Makes a log-out in one tab one in all of them: `work` is called in the others, after they have forgotten their tokens.
export function followLogOut(work: Listener): void {
  tabs = new BroadcastChannel(KEY);
  tabs.onmessage = () => {
    forgetToken();
    work();
  };
}

/// Forgets the token in every tab.
export function logOut(): void {
  forgetToken();
  tabs?.postMessage('log out');
}

/// `work` is called when another tab has logged in while this one wants a token; it is here then.
export function followLogIn(wants: () => boolean, work: Listener): void {
  window.addEventListener('storage', ({ key, newValue }) => {
    const kept = key === KEY && wants() ? keptToken(newValue, Date.now()) : null;
    if (kept === null) return;
    token = kept;
    work();
  });
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
