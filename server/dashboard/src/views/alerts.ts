import { explain, getJson, sendJson } from '../api/client';
import { may } from '../api/session';
import { h, replaceChildren, setText, Slot, type Child } from '../lib/dom';
import { DASH, formatCount, formatDateTime } from '../lib/format';
import { hashOfRun } from '../lib/view_state';
import type { Page, Status } from './page';
import { table } from './tables';

/// Something that went wrong with a run (server/api/openapi.yaml).
export interface AlertItem {
  id: string;
  rule: string;
  severity?: string;
  run: string | null;
  message: string;
  update?: number | null;
  raised_at: string;
  resolved_at: string | null;
  acknowledged_at: string | null;
  acknowledged_by?: string | null;
}

export interface AlertRule {
  id?: string;
  rule?: string;
  kind?: string;
  name?: string;
  enabled?: boolean;
  [parameter: string]: unknown;
}

const EVERY_MS = 5000;
const NAMING = new Set(['id', 'rule', 'kind', 'name', 'enabled']);

/// "threshold 0.5 · window 20": the numbers of a rule.
export function describeRule(rule: AlertRule): string {
  return Object.entries(rule).filter(([key, value]) => !NAMING.has(key) && value !== null && value !== undefined && value !== '')
    .map(([key, value]) => `${key.replaceAll('_', ' ')} ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`).join(' · ');
}

/// Alerts of all runs, newest first, to be acknowledged; and the rules that raise them.
export class AlertsPage implements Page {
  private readonly slots = { alerts: new Slot(), rules: new Slot() };
  private readonly problem = h('p', { class: 'problem', role: 'alert' });
  private alerts: AlertItem[] = [];
  private rules: AlertRule[] = [];
  private readonly timer: ReturnType<typeof setInterval>;
  private closed = false;

  constructor(private readonly root: HTMLElement, private readonly status: Status, private readonly say: (text: string) => void) {
    document.title = 'Alerts · Babelring';
    status('loading', 'loading');
    this.slots.alerts.element.addEventListener('click', (event) => {
      const { alert } = (event.target as HTMLElement).dataset;
      if (alert) void this.acknowledge(alert);
    });
    replaceChildren(root, h('h1', {}, 'Alerts'), this.problem, h('section', { class: 'card', 'aria-label': 'Alerts' }, this.slots.alerts.element),
      h('section', { class: 'card section' }, h('h2', {}, 'Rules'), this.slots.rules.element));
    this.timer = setInterval(() => void this.load(), EVERY_MS);
    void this.load();
  }

  close(): void {
    this.closed = true;
    clearInterval(this.timer);
    this.root.replaceChildren();
  }

  private async load(): Promise<void> {
    try {
      const [alerts, rules] = await Promise.all([getJson<{ items: AlertItem[] }>('/alerts?limit=200'), getJson<{ items: AlertRule[] }>('/alert-rules')]);
      if (this.closed) return;
      this.alerts = alerts.items;
      this.rules = rules.items;
      this.status('live', 'live');
      setText(this.problem, '');
    } catch (error) {
      if (this.closed) return;
      this.status('reconnecting', 'reconnecting');
      setText(this.problem, explain(error));
    }
    this.slots.alerts.show([this.alerts, may('operate')], () => this.alertTable());
    this.slots.rules.show([this.rules], () => table('Rules', ['Rule', 'On', 'Parameters'],
      this.rules.map((rule) => [rule.name ?? rule.rule ?? rule.kind ?? rule.id ?? '', rule.enabled === false ? 'off' : 'on', describeRule(rule) || DASH])));
  }

  private alertTable(): HTMLElement {
    const answer = (alert: AlertItem): Child => {
      if (alert.acknowledged_at) return `${formatDateTime(Date.parse(alert.acknowledged_at))}${alert.acknowledged_by ? ` by ${alert.acknowledged_by}` : ''}`;
      return may('operate') ? h('button', { type: 'button', class: 'chip', 'data-alert': alert.id, 'aria-label': `Acknowledge: ${alert.message}` }, 'acknowledge') : 'open';
    };
    return table('Alerts', ['Raised', 'Rule', 'Run', '#Update', 'What', 'Over', 'Acknowledged'], this.alerts.map((alert) => [
      formatDateTime(Date.parse(alert.raised_at)), h('span', { class: `severity-${alert.severity ?? 'warning'}` }, alert.rule),
      alert.run ? h('a', { href: hashOfRun(alert.run) }, `…${alert.run.slice(-6)}`) : DASH, formatCount(alert.update),
      h('span', { class: 'wrap' }, alert.message), alert.resolved_at ? formatDateTime(Date.parse(alert.resolved_at)) : 'not yet', answer(alert)]));
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
