import { explain, sendJson } from '../api/client';
import { may } from '../api/session';
import type { AlertItem, Attempt } from '../api/types';
import type { RunData } from '../data/run_data';
import { h, setText, Slot, type Child } from '../lib/dom';
import { DASH, formatCount, formatTime } from '../lib/format';
import { table } from './tables';

/// The run's alerts, state changes (with cause and actor) and attempts.
export class RunHistory {
  readonly element: HTMLElement;
  private readonly alerts = new Slot();
  private readonly changes = new Slot();
  private readonly attempts = new Slot();
  private readonly said = h('p', { class: 'muted', role: 'status' });

  constructor(
    private readonly data: RunData,
    private readonly changed: () => void,
  ) {
    this.element = h(
      'div',
      { class: 'history' },
      this.alerts.element,
      this.said,
      this.changes.element,
      this.attempts.element,
    );
  }

  update(): void {
    const { alerts, transitions, attempts } = this.data;
    this.alerts.show([alerts, may('operate')], () =>
      alerts.length === 0
        ? h('p', { class: 'muted' }, 'No alerts.')
        : table(
            'Alerts',
            ['Raised', 'Kind', 'Message', 'Cleared', ''],
            alerts.map((alert) => this.alertRow(alert)),
            alerts.map(({ id }) => id),
          ),
    );
    this.changes.show([transitions], () =>
      transitions.length === 0
        ? null
        : table(
            'State history',
            ['Time', 'State', '#Attempt', 'Cause', 'Actor'],
            [...transitions]
              .reverse()
              .map((change) => [
                formatTime(change.time),
                h('span', { class: `state state-${change.to}` }, change.to),
                change.attempt || '',
                change.cause,
                change.actor,
              ]),
          ),
    );
    this.attempts.show([attempts], () =>
      attempts.length === 0
        ? null
        : table(
            'Attempts',
            [
              '#Attempt',
              'Launcher',
              '#Ranks',
              'From checkpoint',
              'Started',
              'Ended',
              '#Exit code',
              'Reason for the end',
            ],
            [...attempts].reverse().map((row) => this.attemptRow(row)),
          ),
    );
  }

  private attemptRow(row: Attempt): Child[] {
    return [
      row.attempt,
      row.launcher,
      row.world_size === null ? '' : formatCount(row.world_size),
      row.resumed_from?.split('/').at(-1) ?? '',
      formatTime(row.started_at),
      formatTime(row.ended_at),
      row.exit_code ?? DASH,
      row.cause,
    ];
  }

  private alertRow(alert: AlertItem): Child[] {
    return [
      formatTime(alert.raised_at),
      h('span', { class: `severity severity-${alert.state}` }, alert.kind.replaceAll('_', ' ')),
      alert.message,
      alert.cleared_at ? formatTime(alert.cleared_at) : 'still open',
      alert.acknowledged_at
        ? h('span', { class: 'muted' }, `acknowledged by ${alert.acknowledged_by ?? 'someone'}`)
        : may('operate')
          ? h('button', { type: 'button', class: 'chip', onclick: () => void this.acknowledge(alert) }, 'acknowledge')
          : null,
    ];
  }

  private async acknowledge(alert: AlertItem): Promise<void> {
    try {
      await sendJson('POST', `/alerts/${alert.id}/ack`);
      this.changed();
    } catch (error) {
      setText(this.said, `Failed: ${explain(error)}`);
    }
  }
}
