import { type Connection, onConnection, request } from '../api/client';
import { hasToken, logOut, may, type Need, rightsOf } from '../api/session';
import type { TokenSelf } from '../api/types';
import { type Child, h, patchChildren, readStored, replaceChildren, setText, writeStored } from '../lib/dom';
import { formatClock, formatTime } from '../lib/format';
import { Life } from '../lib/work';
import { closeDialog, type Page, type Place, showDialog } from './parts';

/// `keys`: values of KeyboardEvent.key. Without `run` it is handled elsewhere, and listed for the help only.
export type Shortcut = { keys: readonly string[]; what: string; run?: (event: KeyboardEvent) => void };

const groups = new Map<string, readonly Shortcut[]>();

/// Whether the focused element takes text input, so that keys are not shortcuts.
const typing = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable ||
    target instanceof HTMLTextAreaElement ||
    target instanceof HTMLSelectElement ||
    (target instanceof HTMLInputElement && !['checkbox', 'radio', 'button'].includes(target.type)));

/// Registers shortcuts and lists them under `title` in the help. The returned function removes them.
export function addShortcuts(title: string, shortcuts: readonly Shortcut[]): () => void {
  groups.set(title, shortcuts);
  return () => {
    if (groups.get(title) === shortcuts) groups.delete(title);
  };
}

export function onShortcutKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (document.querySelector('dialog[open]')) return;
  for (const shortcuts of groups.values()) {
    const found = shortcuts.find(({ keys, run }) => run && keys.includes(event.key));
    if (!found) continue;
    found.run!(event);
    return;
  }
}

/// The theme: light, dark, or that of the system. Stored in this browser.
export type ThemeChoice = 'system' | 'light' | 'dark';
const THEME_KEY = 'babelring.theme';
const ORDER: readonly ThemeChoice[] = ['system', 'light', 'dark'];
export const themeOf = (stored: string | null): ThemeChoice => ORDER.find((choice) => choice === stored) ?? 'system';
export const nextTheme = (choice: ThemeChoice): ThemeChoice => ORDER[(ORDER.indexOf(choice) + 1) % ORDER.length]!;
export const readTheme = (): ThemeChoice => themeOf(readStored(THEME_KEY));

/// Applies the theme to the document and fires "themechange" on window, for canvases.
export function applyTheme(choice: ThemeChoice): void {
  if (choice === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = choice;
  writeStored(THEME_KEY, choice);
  window.dispatchEvent(new Event('themechange'));
}

const LINKS: readonly [page: string, label: string, needed: Need][] = [
  ['runs', 'Runs', 'read'],
  ['compare', 'Compare', 'read'],
  ['nodes', 'Nodes', 'read'],
  ['alerts', 'Alerts', 'read'],
  ['tokens', 'Tokens', 'admin'],
  ['audit', 'Audit', 'admin'],
];
const ALERTS_MS = 15_000;
const PATIENCE_MS = 3000; // a single lost request is not reported
const NOTIFY_KEY = 'babelring.notify';
const NOTIFY = 'Browser notification when a run fails or stops reporting while this page is open';
const SIGNS = { system: '◐', light: '☀', dark: '☾' };
const KEY_LABELS: Record<string, string> = {
  ArrowLeft: '←',
  ArrowRight: '→',
  ArrowUp: '↑',
  ArrowDown: '↓',
  ' ': 'space',
};

/// "No connection to the server since 09:21:05, showing data until 09:21:02. Retrying …"
function offlineText({ awaySinceMs, answeredAtMs }: Connection): string {
  if (awaySinceMs === null) return '';
  const until = answeredAtMs === null ? '' : `, showing data until ${formatClock(answeredAtMs)}`;
  return `No connection to the server since ${formatClock(awaySinceMs)}${until}. Retrying …`;
}

/// Shows a banner while the server does not answer, with the time of the newest data.
export function watchConnection(banner: HTMLElement): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  onConnection((connection) => {
    clearTimeout(timer);
    if (connection.awaySinceMs === null) setText(banner, '');
    else timer = setTimeout(() => setText(banner, offlineText(connection)), PATIENCE_MS);
  });
}

/// Shows all keyboard shortcuts of the current page, by group.
export function showHelp(): void {
  const keysOf = (keys: readonly string[]): Child =>
    keys.map((key, at) => [at > 0 ? ' or ' : null, h('kbd', KEY_LABELS[key] ?? key)]);
  const listed = [...groups].map(([title, shortcuts]) => [
    h('h3', title),
    h('dl.keys', ...[shortcuts.map(({ keys, what }) => [h('dt', keysOf(keys)), h('dd', what)])]),
  ]);
  const close = h('button.chip', { onclick: closeDialog }, 'close');
  const head = h('div.dialog-head', h('h2', { id: 'help-title' }, 'Keyboard shortcuts'), close);
  showDialog('dialog.help', 'help-title', [head, listed]);
}

function sessionOf(self: TokenSelf | null): Child {
  const until = self?.expires_at ? `, until ${formatTime(self.expires_at)}` : '';
  const what = self ? `Token “${self.name}” may ${rightsOf(self.scope)}${until}` : 'Logged in';
  const leave = (): void => {
    logOut();
    location.reload();
  };
  return [
    self && h('span.scope', { title: what }, h('span.visually-hidden', 'Token: '), self.scope),
    h('button.chip', { title: `${what}. Log out in every tab`, onclick: leave }, 'log out'),
  ];
}

const wantsNotices = (): boolean =>
  'Notification' in window && Notification.permission === 'granted' && localStorage.getItem(NOTIFY_KEY) === '1';

/// The header: navigation, session, theme, notifications and help. Notifications are fetched on first use.
export class SiteHeader {
  private openAlerts = 0;
  private current = 'runs';
  private self: TokenSelf | null = null;
  private session: Life | null = null; // from the log-in to the log-out; until then only links that need scope `read` are shown

  constructor(
    private readonly nav: HTMLElement,
    private readonly tools: HTMLElement,
    private readonly say: (text: string) => void,
  ) {
    this.draw();
  }

  mark(page: string): void {
    this.current = ['run', 'submit', 'sweep'].includes(page) ? 'runs' : page;
    this.draw();
  }

  start(self: TokenSelf | null): void {
    this.self = self;
    this.watchRuns(true);
    if (this.session === null) {
      this.session = new Life();
      if (!self?.run) {
        this.session.every(ALERTS_MS, () => void this.countAlerts());
        void this.countAlerts();
      }
    }
    this.draw();
  }

  stop(): void {
    this.session?.close();
    this.session = this.self = null;
    this.openAlerts = 0;
    this.watchRuns(false);
    this.draw();
  }

  switchTheme(): void {
    applyTheme(nextTheme(readTheme()));
    this.draw();
  }

  /// Counts open alerts that nobody has acknowledged. The open page shows if the server does not answer.
  private async countAlerts(): Promise<void> {
    try {
      const answer = await request('/alerts?state=open&limit=100', { signal: AbortSignal.timeout(ALERTS_MS) });
      const { items } = (await answer.json()) as { items: { acknowledged_at: string | null }[] };
      this.openAlerts = items.filter(({ acknowledged_at }) => !acknowledged_at).length;
      this.draw();
    } catch {
      // the count stays
    }
  }

  private watchRuns(on: boolean): void {
    if (wantsNotices()) void import('./notifier').then(({ watchRuns }) => watchRuns(on));
  }

  private async switchNotices(): Promise<void> {
    const { switchNotifications } = await import('./notifier');
    if (await switchNotifications(this.say)) localStorage.setItem(NOTIFY_KEY, '1');
    else localStorage.removeItem(NOTIFY_KEY);
    this.draw();
  }

  private draw(): void {
    // Who has a link to one run may read nothing else.
    const offered = LINKS.filter(([, , needed]) => (this.session ? may(needed) && !this.self?.run : needed === 'read'));
    const link = ([page, label]: (typeof LINKS)[number]): HTMLElement => {
      const count = page === 'alerts' && this.openAlerts > 0 && h('span.count', this.openAlerts);
      return h('a', { href: `#/${page}`, 'aria-current': page === this.current ? 'page' : null }, label, count);
    };
    patchChildren(this.nav, offered.map(link));
    const notices = wantsNotices() ? 'on' : 'off';
    const switching = { title: `${NOTIFY}: ${notices}`, onclick: () => void this.switchNotices() };
    const notify = { hidden: this.session === null, 'aria-pressed': String(notices === 'on'), ...switching };
    const theme = readTheme();
    const themeName = `Theme: ${theme === 'system' ? 'follow the system' : theme}`;
    const help = 'Keyboard shortcuts';
    patchChildren(
      this.tools,
      h('button.chip', notify, `notify: ${notices}`),
      h('button.chip', { title: themeName, 'aria-label': themeName, onclick: () => this.switchTheme() }, SIGNS[theme]),
      h('button.chip', { 'aria-label': help, title: help, onclick: showHelp }, '?'),
      h('span.group', hasToken() && this.session && sessionOf(this.self)),
    );
  }
}

const AGAIN_MS = 2000;
const RELOADED = 'babelring.loaded-again';
const LOOP_MS = 20_000;

/// Whether to reload: not if the last reload was less than LOOP_MS ago.
export const mayReload = (lastMs: number, nowMs: number): boolean => nowMs - lastMs > LOOP_MS;

/// Shown if the file of a page could not be fetched. Reloads the address as soon as the server answers: the server may have been
/// updated, and its files may have new names.
export function openWaiting({ root, status }: Place): Page {
  const life = new Life();
  const text = h('p', { role: 'status' }, 'The server does not answer. This page opens as soon as it does.');
  const look = async (): Promise<void> => {
    const answer = await fetch(location.pathname, { cache: 'no-store' }).catch(() => null);
    if (!answer?.ok) return;
    life.close();
    const nowMs = Date.now();
    if (mayReload(Number(sessionStorage.getItem(RELOADED)), nowMs)) {
      sessionStorage.setItem(RELOADED, String(nowMs));
      return location.reload();
    }
    const again = h('a', { href: location.href, onclick: () => location.reload() }, 'Reload');
    replaceChildren(text, 'A file of this page is missing on the server. ', again);
  };
  status('reconnecting', 'waiting for the server');
  replaceChildren(root, h('h1', 'Not loaded yet'), text);
  life.every(AGAIN_MS, () => void look());
  return {
    close: () => {
      life.close();
      root.replaceChildren();
    },
  };
}
