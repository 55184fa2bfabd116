import { explain, getJson, sendJson } from '../api/client';
import { may } from '../api/session';
import type { AlertItem } from '../api/types';
import { h, type Child } from '../lib/dom';
import { DASH, formatSignificant, formatTime } from '../lib/format';
import { AlertRules } from './alert_rules';
import { ListPage } from './list_page';
import type { Status } from './page';
import { RunNames } from './run_names';
import { table } from './tables';

const EVERY_MS = 5000;
const MOST = 500;

/// The alerts of all runs, newest first, with buttons to acknowledge them, and the alert rules.
export class AlertsPage extends ListPage {
  private alerts: AlertItem[] = [];
  private readonly names = new RunNames();

  constructor(
    root: HTMLElement,
    status: Status,
    private readonly say: (text: string) => void,
  ) {
    super(root, status, 'Alerts');
    const rules = new AlertRules(say);
    this.start(EVERY_MS, null, h('section', { class: 'card section' }, h('h2', {}, 'Rules'), rules.element));
    void rules.load().catch((error: unknown) => this.complain(error));
  }

  protected async fetch(): Promise<void> {
    this.alerts = (await getJson<{ items: AlertItem[] }>(`/alerts?limit=${MOST}`)).items;
    await this.names.learn(this.alerts.flatMap(({ run }) => run ?? []));
  }

  protected inputs(): readonly unknown[] {
    return [JSON.stringify(this.alerts), may('operate')];
  }

  protected draw(): HTMLElement {
    const answer = (alert: AlertItem): Child => {
      if (alert.acknowledged_at)
        return `${formatTime(alert.acknowledged_at)}${alert.acknowledged_by ? ` by ${alert.acknowledged_by}` : ''}`;
      if (!may('operate')) return 'no';
      return h(
        'button',
        {
          type: 'button',
          class: 'chip',
          'data-alert': alert.id,
          'aria-label': `Acknowledge: ${alert.message}`,
          onclick: () => void this.acknowledge(alert.id),
        },
        'acknowledge',
      );
    };
    return table(
      'Alerts',
      ['State', 'Raised', 'Rule', 'Run', 'Message', '#Value', 'Cleared', 'Acknowledged'],
      this.alerts.map((alert) => [
        h('span', { class: `state state-${alert.state === 'open' ? 'failed' : 'succeeded'}` }, alert.state),
        formatTime(alert.raised_at),
        alert.rule,
        alert.run ? this.names.link(alert.run) : 'server',
        h('span', { class: 'wrap' }, alert.message),
        formatSignificant(alert.value),
        alert.cleared_at ? formatTime(alert.cleared_at) : DASH,
        answer(alert),
      ]),
      this.alerts.map(({ id }) => id),
    );
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
