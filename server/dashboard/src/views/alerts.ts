import '../styles/list.css';
import { ApiError, explain, getItems, outcome, sendJson } from '../api/client';
import { may } from '../api/session';
import type { AlertItem, AlertRule } from '../api/types';
import { type Child, h } from '../lib/dom';
import { DASH, formatSignificant, formatTime } from '../lib/format';
import { ListPage, RunNames } from './list_page';
import { Owner, type Page, type Place, type Section, table } from './parts';
import { awayCard } from './away';
import { webhookCard } from './webhooks';

const MOST = 500;

/// The unit of each kind's threshold, shown after the number.
const MEANINGS: Record<string, string> = {
  nan: 'non-finite updates in the last 100',
  stall: 'seconds without an update',
  throughput_drop: 'times the usual tokens per second',
  loss_spike: 'times the usual loss',
  disk_low: 'bytes free',
  worker_lost: 'seconds without a record or heartbeat',
  ranks_differ: 'updates whose weights differ between ranks',
  silent: 'seconds without a record or heartbeat of any rank',
  restarted: 'restarts after a fault',
  failed: 'updates before it failed or was lost',
  finished: 'updates before it completed its training',
};

/// Kinds that tell of events, which do not last: they are raised at once.
const EVENTS = new Set(['restarted', 'failed', 'finished']);
export const meaningOf = (kind: string): string => MEANINGS[kind] ?? '';
type Figure = 'threshold' | 'hold_s' | 'clear_s';
type Member = 'enabled' | Figure;
type Rules = readonly AlertRule[];

/// Returns the rules with one member of one rule changed. A value that is not a number changes nothing.
export function withChange(rules: Rules, at: number, member: Member, value: boolean | number): AlertRule[] {
  if (typeof value === 'number' && !Number.isFinite(value)) return [...rules];
  return rules.map((rule, index) => (index === at ? { ...rule, [member]: value } : rule));
}

/// The alert rules as a form, editable with scope `operate`.
const alertRules =
  (say: (text: string) => void) =>
  (owner: Owner): Section => {
    let rules: Rules = [];
    let dirty = false;
    let problem = '';
    const change = (at: number, member: Member, value: boolean | number): void => {
      rules = withChange(rules, at, member, value);
      dirty = true;
      owner.draw();
    };
    const fieldOf = (event: Event): HTMLInputElement => event.currentTarget as HTMLInputElement;
    const number = (rule: AlertRule, at: number, member: Figure, label: string): HTMLElement =>
      h('input.short', {
        ...{ type: 'number', min: 0, step: 'any', value: rule[member] ?? 0 },
        disabled: !may('operate') || (member === 'hold_s' && EVENTS.has(rule.kind)),
        'aria-label': `${rule.name}: ${label}`,
        oninput: (event: Event) => change(at, member, fieldOf(event).valueAsNumber),
      });
    const row = (rule: AlertRule, at: number): Child[] => {
      const onchange = (event: Event): void => change(at, 'enabled', fieldOf(event).checked);
      const box = { type: 'checkbox', checked: rule.enabled !== false, disabled: !may('operate'), onchange };
      const meaning = meaningOf(rule.kind);
      return [
        h('th', { scope: 'row' }, rule.name),
        h('input', { ...box, 'aria-label': `${rule.name}: on` }),
        [number(rule, at, 'threshold', meaning), ' ', h('span.muted', meaning)],
        [number(rule, at, 'hold_s', 'seconds until it is raised'), ' s'],
        [number(rule, at, 'clear_s', 'seconds until it is cleared'), ' s'],
        rule.run ?? 'all',
      ];
    };
    const store = async (): Promise<void> => {
      dirty = false;
      owner.draw();
      try {
        const answer = await sendJson<{ items: AlertRule[] }>('PUT', '/alert-rules', { items: rules });
        rules = answer?.items ?? rules;
        problem = '';
        say('The rules are saved.');
      } catch (error) {
        dirty = true;
        const places = error instanceof ApiError ? error.errors : [];
        const told = places.map(({ pointer, detail }) => `${pointer ?? ''} ${detail}`.trim());
        problem = [explain(error), ...told].join('; ');
      }
      owner.draw();
    };
    return {
      load: async () => {
        rules = await getItems<AlertRule>('/alert-rules');
      },
      failed: (error) => owner.set(() => (problem = explain(error))),
      render: () => [
        table('Rules', ['Rule', 'On', 'Threshold', 'Raised after', 'Cleared after', 'Runs'], rules.map(row)),
        h('p.problem', { role: 'alert' }, problem),
        h(
          'button.chip.primary',
          { disabled: !dirty, hidden: !may('operate'), onclick: () => void store() },
          'save the rules',
        ),
      ],
    };
  };

/// The card of what needs a person, the alerts of all runs, newest first, with buttons to acknowledge them, the alert rules, and for administrators the webhooks.
export const open = (place: Place): Page =>
  new ListPage(place, (page) => {
    const names = new RunNames();
    const rules = new Owner(alertRules(place.say));
    const away = awayCard();
    const hooks = may('admin') ? webhookCard(place.say) : null;
    let alerts: AlertItem[] = [];
    const acknowledge = async (id: string): Promise<void> => {
      place.say(await outcome(sendJson('POST', `/alerts/${id}/ack`), 'Acknowledged.', 'Not acknowledged'));
      page.load();
    };
    const answer = ({ id, message, acknowledged_at, acknowledged_by }: AlertItem): Child => {
      if (acknowledged_at) return `${formatTime(acknowledged_at)}${acknowledged_by ? ` by ${acknowledged_by}` : ''}`;
      if (!may('operate')) return 'no';
      const attributes = { 'data-alert': id, 'aria-label': `Acknowledge: ${message}` };
      return h('button.chip', { ...attributes, onclick: () => void acknowledge(id) }, 'acknowledge');
    };
    const row = (alert: AlertItem): Child[] => [
      h(`span.state.state-${alert.state === 'open' ? 'failed' : 'succeeded'}`, alert.state),
      formatTime(alert.raised_at),
      alert.rule,
      alert.run ? names.link(alert.run) : 'server',
      h('span.wrap', alert.message),
      formatSignificant(alert.value),
      alert.cleared_at ? formatTime(alert.cleared_at) : DASH,
      answer(alert),
    ];
    const heads = ['State', 'Raised', 'Rule', 'Run', 'Message', '#Value', 'Cleared', 'Acknowledged'];
    rules.load();
    return {
      title: 'Alerts',
      everyMs: 5000,
      above: away.element,
      below: [h('section.card.section', h('h2', 'Rules'), rules.element), hooks?.element],
      load: async () => {
        alerts = await getItems<AlertItem>(`/alerts?limit=${MOST}`);
        await names.learn(alerts.flatMap(({ run }) => run ?? []));
      },
      inputs: () => [JSON.stringify(alerts), may('operate')],
      render: () => {
        const keys = alerts.map(({ id }) => id);
        return table('Alerts', heads, alerts.map(row), keys);
      },
      close: () => {
        rules.close();
        hooks?.close();
        away.close();
      },
    };
  });
