import { request } from '../api/request';
import { may, type Need } from '../api/session';
import type { TokenSelf } from '../api/types';
import { h, patchChildren, replaceChildren } from '../lib/dom';
import { applyTheme, nextTheme, readTheme } from '../lib/theme_choice';
import { NotifyButton } from './notify_button';
import { showSession } from './session_badge';

const LINKS: readonly [page: string, label: string, needed: Need][] = [
  ['runs', 'Runs', 'read'],
  ['compare', 'Compare', 'read'],
  ['nodes', 'Nodes', 'read'],
  ['alerts', 'Alerts', 'read'],
  ['tokens', 'Tokens', 'admin'],
  ['audit', 'Audit', 'admin'],
];
const ALERTS_MS = 15_000;

/// The header: navigation, session, theme, notifications and help.
export class SiteHeader {
  private readonly session = h('span', { class: 'group' });
  private readonly theme = h('button', { type: 'button', class: 'chip', onclick: () => this.switchTheme() });
  private readonly notify: NotifyButton;
  private openAlerts = 0;
  private timer: ReturnType<typeof setInterval> | null = null;
  private current = 'runs';
  private known = false; // the token's scope is known; until then only links that need scope `read` are shown

  constructor(
    private readonly nav: HTMLElement,
    tools: HTMLElement,
    say: (text: string) => void,
  ) {
    this.notify = new NotifyButton(say);
    replaceChildren(
      tools,
      this.notify.element,
      this.theme,
      h(
        'button',
        {
          type: 'button',
          class: 'chip',
          'aria-label': 'Keyboard shortcuts',
          title: 'Keyboard shortcuts',
          onclick: () => void this.openHelp(),
        },
        '?',
      ),
      this.session,
    );
    this.drawTheme();
    this.drawNav();
  }

  /// Fetches and shows the help.
  async openHelp(): Promise<void> {
    (await import('./help')).showHelp();
  }

  /// Marks the open page in the navigation.
  mark(page: string): void {
    this.current = ['run', 'submit', 'sweep'].includes(page) ? 'runs' : page;
    this.drawNav();
  }

  /// Called after the log-in.
  start(self: TokenSelf | null): void {
    this.known = true;
    showSession(this.session, self);
    void this.notify.set(true);
    this.drawNav();
    if (this.timer !== null) return;
    this.timer = setInterval(() => void this.countAlerts(), ALERTS_MS);
    void this.countAlerts();
  }

  /// Counts open alerts that nobody has acknowledged. The open page shows if the server does not answer.
  private async countAlerts(): Promise<void> {
    try {
      const answer = await request('/alerts?state=open&limit=100', { signal: AbortSignal.timeout(ALERTS_MS) });
      const { items } = (await answer.json()) as { items: { acknowledged_at: string | null }[] };
      this.openAlerts = items.filter(({ acknowledged_at }) => !acknowledged_at).length;
      this.drawNav();
    } catch {
      // the count stays
    }
  }

  /// Called when the user is logged out.
  stop(): void {
    this.known = false;
    this.openAlerts = 0;
    showSession(this.session, null);
    void this.notify.set(false);
    this.drawNav();
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
  }

  switchTheme(): void {
    applyTheme(nextTheme(readTheme()));
    this.drawTheme();
  }

  private drawTheme(): void {
    const choice = readTheme();
    this.theme.textContent = { system: '◐', light: '☀', dark: '☾' }[choice];
    this.theme.title = `Theme: ${choice === 'system' ? 'follow the system' : choice}`;
    this.theme.setAttribute('aria-label', this.theme.title);
  }

  private drawNav(): void {
    patchChildren(
      this.nav,
      LINKS.filter(([, , needed]) => (this.known ? may(needed) : needed === 'read')).map(([page, label]) =>
        h(
          'a',
          { href: `#/${page}`, 'aria-current': page === this.current ? 'page' : null },
          label,
          page === 'alerts' && this.openAlerts > 0 ? h('span', { class: 'count' }, this.openAlerts) : null,
        ),
      ),
    );
  }
}
