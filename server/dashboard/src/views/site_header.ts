import { request } from '../api/request';
import type { TokenSelf } from '../api/self';
import { h, patchChildren, replaceChildren } from '../lib/dom';
import { openHelp } from '../lib/keys';
import { applyTheme, nextTheme, readTheme } from '../lib/theme_choice';
import { NotifyButton } from './notify_button';
import { showSession } from './session_badge';

const OPTIONAL = [['nodes', 'Nodes'], ['alerts', 'Alerts']] as const;
const ALERTS_MS = 15_000;

/// Where one can go, who is asking, theme, notifications and help.
export class SiteHeader {
  private readonly session = h('span', { class: 'group' });
  private readonly theme = h('button', { type: 'button', class: 'chip', onclick: () => this.switchTheme() });
  private readonly notify: NotifyButton;
  private openAlerts = 0;
  private timer: ReturnType<typeof setInterval> | null = null;
  private readonly answered = new Set<string>();
  private current = 'runs';
  private asked = false;

  constructor(private readonly nav: HTMLElement, tools: HTMLElement, say: (text: string) => void) {
    this.notify = new NotifyButton(say);
    replaceChildren(tools, this.notify.element, this.theme,
      h('button', { type: 'button', class: 'chip', 'aria-label': 'Keyboard shortcuts', title: 'Keyboard shortcuts', onclick: () => void openHelp() }, '?'),
      this.session);
    this.drawTheme();
    this.drawNav();
  }

  /// The page that is open, for the navigation.
  mark(page: string): void {
    this.current = page === 'run' || page === 'submit' ? 'runs' : page;
    this.drawNav();
  }

  /// After the log-in; asks once which of the optional pages this server has.
  start(self: TokenSelf | null): void {
    showSession(this.session, self);
    this.notify.start();
    if (this.asked) return;
    this.asked = true;
    void request('/nodes', { signal: AbortSignal.timeout(ALERTS_MS) }).then(() => this.add('nodes'), () => undefined);
    void this.countAlerts().then(() => {
      this.add('alerts');
      this.timer = setInterval(() => void this.countAlerts().catch(() => undefined), ALERTS_MS);
    }, () => undefined);
  }

  private add(page: string): void {
    this.answered.add(page);
    this.drawNav();
  }

  /// Those that nobody has acknowledged.
  private async countAlerts(): Promise<void> {
    const answer = await request('/alerts?state=open&limit=100', { signal: AbortSignal.timeout(ALERTS_MS) });
    const { items } = (await answer.json()) as { items: { acknowledged_at: string | null }[] };
    this.openAlerts = items.filter(({ acknowledged_at }) => !acknowledged_at).length;
    this.drawNav();
  }

  /// While nobody is logged in.
  stop(): void {
    showSession(this.session, null);
    this.notify.stop();
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
    this.asked = false;
  }

  switchTheme(): void {
    applyTheme(nextTheme(readTheme()));
    this.drawTheme();
  }

  private drawTheme(): void {
    const choice = readTheme();
    this.theme.textContent = { system: '◐', light: '☀', dark: '☾' }[choice];
    this.theme.title = `Theme: ${choice === 'system' ? 'as the system' : choice}`;
    this.theme.setAttribute('aria-label', this.theme.title);
  }

  private drawNav(): void {
    const links = [['runs', 'Runs'], ['compare', 'Compare'], ...OPTIONAL.filter(([page]) => this.answered.has(page))] as const;
    patchChildren(this.nav, links.map(([page, label]) => h('a', { href: `#/${page}`, 'aria-current': page === this.current ? 'page' : null }, label,
      page === 'alerts' && this.openAlerts > 0 ? h('span', { class: 'count' }, this.openAlerts) : null)));
  }
}
