import { request } from '../api/request';
import { h, patchChildren, replaceChildren } from '../lib/dom';
import { showHelp } from '../lib/keys';
import { applyTheme, nextTheme, readTheme } from '../lib/theme_choice';
import type { TokenSelf } from './login';
import { Notifier } from './notifier';
import { showSession } from './session_badge';

const OPTIONAL = [['nodes', 'Nodes'], ['alerts', 'Alerts']] as const;

/// Where one can go, who is asking, theme, notifications and help.
export class SiteHeader {
  private readonly session = h('span', { class: 'group' });
  private readonly theme = h('button', { type: 'button', class: 'chip', onclick: () => this.switchTheme() });
  private readonly notifier: Notifier;
  private readonly answered = new Set<string>();
  private current = 'runs';
  private asked = false;

  constructor(private readonly nav: HTMLElement, tools: HTMLElement, say: (text: string) => void) {
    this.notifier = new Notifier(say, () => this.drawNav());
    replaceChildren(tools, this.notifier.button, this.theme,
      h('button', { type: 'button', class: 'chip', 'aria-label': 'Keyboard shortcuts', title: 'Keyboard shortcuts', onclick: showHelp }, '?'),
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
    this.notifier.start();
    if (this.asked) return;
    this.asked = true;
    for (const [page] of OPTIONAL) {
      void request(`/${page}?limit=1`).then(() => {
        this.answered.add(page);
        this.drawNav();
      }, () => undefined);
    }
  }

  /// While nobody is logged in.
  stop(): void {
    showSession(this.session, null);
    this.notifier.stop();
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
      page === 'alerts' && this.notifier.openAlerts > 0 ? h('span', { class: 'count' }, this.notifier.openAlerts) : null)));
  }
}
