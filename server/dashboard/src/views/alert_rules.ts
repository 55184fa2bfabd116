import { ApiError, explain, getJson, sendJson } from '../api/client';
import { may } from '../api/session';
import type { AlertRule } from '../api/types';
import { h, replaceChildren, setText } from '../lib/dom';

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

/// Returns the rules with one member of one rule changed. A value that is not a number changes nothing.
export function withChange(
  rules: readonly AlertRule[],
  at: number,
  member: 'enabled' | 'threshold' | 'hold_s' | 'clear_s',
  value: boolean | number,
): AlertRule[] {
  if (typeof value === 'number' && !Number.isFinite(value)) return [...rules];
  return rules.map((rule, index) => (index === at ? { ...rule, [member]: value } : rule));
}

/// The alert rules as a form, editable with scope `operate`.
export class AlertRules {
  readonly element = h('div', {});
  private rules: AlertRule[] = [];
  private readonly problem = h('p', { class: 'problem', role: 'alert' });
  private readonly body = h('tbody');
  private readonly save = h(
    'button',
    { type: 'button', class: 'chip primary', disabled: true, onclick: () => void this.store() },
    'save the rules',
  );

  constructor(private readonly say: (text: string) => void) {
    replaceChildren(
      this.element,
      h(
        'div',
        { class: 'table-box', tabindex: 0, role: 'region', 'aria-label': 'Rules' },
        h(
          'table',
          {},
          h(
            'thead',
            {},
            h(
              'tr',
              {},
              ['Rule', 'On', 'Threshold', 'Raised after', 'Cleared after', 'Runs'].map((head) =>
                h('th', { scope: 'col' }, head),
              ),
            ),
          ),
          this.body,
        ),
      ),
      this.problem,
      this.save,
    );
  }

  async load(): Promise<void> {
    this.rules = (await getJson<{ items: AlertRule[] }>('/alert-rules')).items;
    this.draw();
  }

  private draw(): void {
    const fixed = !may('operate');
    this.save.hidden = fixed;
    const number = (
      rule: AlertRule,
      at: number,
      member: 'threshold' | 'hold_s' | 'clear_s',
      label: string,
    ): HTMLElement => {
      const input = h('input', {
        type: 'number',
        min: 0,
        step: 'any',
        class: 'short',
        value: rule[member] ?? 0,
        disabled: fixed || (member === 'hold_s' && EVENTS.has(rule.kind)),
        'aria-label': `${rule.name}: ${label}`,
        oninput: () => this.change(withChange(this.rules, at, member, input.valueAsNumber)),
      });
      return input;
    };
    replaceChildren(
      this.body,
      this.rules.map((rule, at) => {
        const box = h('input', {
          type: 'checkbox',
          disabled: fixed,
          'aria-label': `${rule.name}: on`,
          onchange: () => this.change(withChange(this.rules, at, 'enabled', box.checked)),
        });
        box.checked = rule.enabled !== false;
        return h(
          'tr',
          {},
          h('th', { scope: 'row' }, rule.name),
          h('td', {}, box),
          h(
            'td',
            {},
            number(rule, at, 'threshold', meaningOf(rule.kind)),
            ' ',
            h('span', { class: 'muted' }, meaningOf(rule.kind)),
          ),
          h('td', {}, number(rule, at, 'hold_s', 'seconds until it is raised'), ' s'),
          h('td', {}, number(rule, at, 'clear_s', 'seconds until it is cleared'), ' s'),
          h('td', {}, rule.run ?? 'all'),
        );
      }),
    );
  }

  private change(rules: AlertRule[]): void {
    this.rules = rules;
    this.save.disabled = false;
  }

  private async store(): Promise<void> {
    this.save.disabled = true;
    try {
      const answer = await sendJson<{ items: AlertRule[] }>('PUT', '/alert-rules', { items: this.rules });
      this.rules = answer?.items ?? this.rules;
      setText(this.problem, '');
      this.say('The rules are saved.');
      this.draw();
    } catch (error) {
      this.save.disabled = false;
      const places =
        error instanceof ApiError ? error.errors.map(({ pointer, detail }) => `${pointer ?? ''} ${detail}`.trim()) : [];
      setText(this.problem, [explain(error), ...places].join('; '));
    }
  }
}
