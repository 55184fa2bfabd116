import { explain, getAll, sendJson } from '../api/client';
import { may } from '../api/session';
import type { AlertItem } from '../api/types';
import { h, replaceChildren, setText, Slot, type Child } from '../lib/dom';
import { DASH, formatDateTime, formatSignificant } from '../lib/format';
import { hashOfRun } from '../lib/view_state';
import { AlertRules } from './alert_rules';
import type { Page, Status } from './page';
import { table } from './tables';

const EVERY_MS = 5000;
const MOST = 500;

const when = (time: string | null): string => (time ? formatDateTime(Date.parse(time)) : DASH);

/// Alerts of all runs, newest first, to be acknowledged; and the rules that raise them.
export class AlertsPage implements Page {
  private readonly slot = new Slot();
  private readonly problem = h('p', { class: 'problem', role: 'alert' });
  private readonly rules: AlertRules;
  private alerts: AlertItem[] = [];
  private readonly timer: ReturnType<typeof setInterval>;
  private closed = false;

  constructor(private readonly root: HTMLElement, private readonly status: Status, private readonly say: (text: string) => void) {
    document.title = 'Alerts · Babelring';
    status('loading', 'loading');
    this.rules = new AlertRules(say);
    this.slot.element.addEventListener('click', (event) => {
      const { alert } = (event.target as HTMLElement).dataset;
      if (alert) void this.acknowledge(alert);
    });
    replaceChildren(root, h('h1', {}, 'Alerts'), this.problem, h('section', { class: 'card', 'aria-label': 'Alerts' }, this.slot.element),
      h('section', { class: 'card section' }, h('h2', {}, 'Rules'), this.rules.element));
    this.timer = setInterval(() => void this.load(), EVERY_MS);
    void this.load();
    void this.rules.load().catch((error: unknown) => setText(this.problem, explain(error)));
  }

  close(): void {
    this.closed = true;
    clearInterval(this.timer);
    this.root.replaceChildren();
  }

  private async load(): Promise<void> {
    try {
      const alerts = await getAll<AlertItem>('/alerts');
      if (this.closed) return;
      this.alerts = alerts.slice(0, MOST);
      this.status('live', 'live');
      setText(this.problem, '');
    } catch (error) {
      if (this.closed) return;
      this.status('reconnecting', 'reconnecting');
      setText(this.problem, explain(error));
    }
    this.slot.show([JSON.stringify(this.alerts), may('operate')], () => this.alertTable());
  }

  private alertTable(): HTMLElement {
    const answer = (alert: AlertItem): Child => {
      if (alert.acknowledged_at) return `${when(alert.acknowledged_at)}${alert.acknowledged_by ? ` by ${alert.acknowledged_by}` : ''}`;
      if (!may('operate')) return 'no';
      return h('button', { type: 'button', class: 'chip', 'data-alert': alert.id, 'aria-label': `Acknowledge: ${alert.message}` }, 'acknowledge');
    };
    return table('Alerts', ['State', 'Raised', 'Rule', 'Run', 'What', '#Value', 'Cleared', 'Acknowledged'], this.alerts.map((alert) => [
      h('span', { class: `state state-${alert.state === 'open' ? 'failed' : 'succeeded'}` }, alert.state), when(alert.raised_at), alert.rule,
      alert.run ? h('a', { href: hashOfRun(alert.run) }, `…${alert.run.slice(-6)}`) : 'server', h('span', { class: 'wrap' }, alert.message),
      formatSignificant(alert.value), when(alert.cleared_at), answer(alert)]));
  }

  private async acknowledge(id: string): Promise<void> {
    try {
      await sendJson('POST', `/alerts/${id}/ack`);
      this.say('Acknowledged.');
    } catch (error) {
      this.say(`Not acknowledged: ${explain(error)}`);
    }
    await this.load();
  }
}
