import { ApiError, explain, getItems, outcome, sendJson } from '../api/client';
import type { AlertRule, DeliveryItem, Webhook } from '../api/types';
import { type Child, copyText, h, instead, replaceChildren, setText } from '../lib/dom';
import { formatTime } from '../lib/format';
import { formField, options, Owner, type Section, table } from './parts';
import { ask } from './run_ask';

const KINDS = [
  ['json', 'JSON, signed'],
  ['slack', 'Slack'],
  ['mattermost', 'Mattermost'],
  ['ntfy', 'ntfy'],
] as const;
const HINTS: Record<string, string> = {
  json: 'https://host/path',
  slack: 'https://hooks.slack.com/services/…',
  mattermost: 'https://host/hooks/…',
  ntfy: 'https://ntfy.sh/TOPIC',
};
const TEST_MS = 500;
const MAX_ASKED = 120; // each stage of a request has 5 s, and other receivers may come before

const wordsOf = (text: string): string[] =>
  text
    .split(',')
    .map((word) => word.trim())
    .filter(Boolean);

/// The outcome of a delivery, in one line.
export function toldOf(delivery: DeliveryItem | null): string {
  if (!delivery) return 'nothing sent yet';
  const { state, title, tried_at, detail, tries } = delivery;
  const when = tried_at ? ` ${formatTime(tried_at)}` : '';
  const why = detail ? `: ${detail}` : '';
  const again = state === 'waiting' && tries > 0 ? `, ${tries} ${tries === 1 ? 'try' : 'tries'}` : '';
  return `${title}: ${state}${when}${again}${why}`;
}

/// The alerts that a webhook tells of, in one line.
export function wantedBy({ alert_kinds, runs, labels, cleared, digest_at }: Webhook): string {
  const kinds = alert_kinds.length > 0 ? alert_kinds.join(', ') : 'all alerts';
  const alerts = digest_at ? `a digest at ${digest_at}` : kinds;
  const where = [...runs.map((id) => `…${id.slice(-6)}`), ...labels].join(', ');
  return `${alerts}${where ? ` of ${where}` : ''}${cleared && !digest_at ? ', and their ends' : ''}`;
}

/// Kinds that are asked for by name, but that no enabled rule raises.
export const unraised = (kinds: readonly string[], rules: readonly AlertRule[]): string[] =>
  kinds.filter((kind) => !rules.some((rule) => rule.kind === kind && rule.enabled !== false));

/// A form for a new webhook; `made` gets the answer, which alone has the secret.
function webhookForm(made: (webhook: Webhook) => void): HTMLElement {
  const wrong = h('p.problem', { role: 'alert' });
  const text = { autocomplete: 'off', spellcheck: 'false' };
  const name = h('input', { id: 'webhook-name', required: true, maxlength: 100, placeholder: 'ops channel', ...text });
  const onchange = (): void => void (url.placeholder = HINTS[kind.value] ?? '');
  const kind = h('select', { id: 'webhook-kind', onchange }, options(KINDS));
  const url = h('input', { id: 'webhook-url', inputmode: 'url', required: true, maxlength: 2000, ...text });
  const alerts = h('input', { id: 'webhook-alerts', placeholder: 'all, or failed, silent', ...text });
  const labels = h('input', { id: 'webhook-labels', placeholder: 'any, or team=mt', ...text });
  const digest = h('input', { id: 'webhook-digest', placeholder: 'never, or 08:00', ...text });
  const cleared = h(
    'select',
    { id: 'webhook-cleared' },
    options([
      ['', 'no'],
      ['yes', 'yes'],
    ]),
  );
  const make = async (): Promise<void> => {
    setText(wrong, '');
    const body = {
      ...{ name: name.value.trim(), kind: kind.value, url: url.value.trim(), cleared: cleared.value !== '' },
      ...{ alert_kinds: wordsOf(alerts.value), labels: wordsOf(labels.value), digest_at: digest.value.trim() },
    };
    try {
      made((await sendJson<Webhook>('POST', '/webhooks', body))!);
      name.value = url.value = '';
    } catch (error) {
      setText(wrong, `Not created: ${explain(error)}`);
    }
  };
  onchange();
  return h(
    'form',
    { onsubmit: instead(() => void make()) },
    h('h3', 'New webhook'),
    h(
      'div.fields',
      formField('Name', name),
      formField('Kind', kind),
      formField('URL', url),
      formField('Alerts', alerts),
      formField('Labels of runs', labels),
      formField('Tell of their ends', cleared),
      formField('Once a day instead, at', digest),
    ),
    wrong,
    h('div.group', h('button.chip.primary', { type: 'submit' }, 'create the webhook')),
  );
}

/// The secret of a new webhook, until it is dismissed.
function showSecret(box: HTMLElement, { name, secret }: Webhook): void {
  box.hidden = !secret;
  const copy = async (event: Event): Promise<void> =>
    setText(event.target as HTMLElement, (await copyText(secret ?? '')) ? 'copied' : 'copy manually');
  const about = 'It signs each message (X-Babelring-Signature) and is not shown again: copy it now.';
  replaceChildren(
    box,
    h('h3', `Secret of “${name}”`),
    h('p', about),
    h('p.field-row', h('code.secret', secret ?? ''), h('button.chip', { onclick: copy }, 'copy')),
    h('div', h('button.chip', { onclick: () => (box.hidden = true) }, 'done')),
  );
}

/// Sends a test and waits for its outcome.
async function test({ id, name }: Webhook): Promise<string> {
  const sent = (await sendJson<DeliveryItem>('POST', `/webhooks/${id}/test`, {}))!;
  for (let tried = 0; tried < MAX_ASKED; tried += 1) {
    await new Promise((resolve) => setTimeout(resolve, TEST_MS));
    const found = (await getItems<DeliveryItem>(`/webhooks/${id}/deliveries`)).find((each) => each.id === sent.id);
    if (!found) break;
    if (found.state === 'delivered') return `The test of “${name}” was delivered.`;
    if (found.state === 'failed') return `The test of “${name}” failed: ${found.detail ?? ''}`;
  }
  return `The test of “${name}” has no outcome yet.`;
}

/// The list of webhooks. `refused`: the token does not permit it.
const webhookList =
  (say: (text: string) => void, refused: () => void) =>
  (owner: Owner): Section => {
    let items: readonly Webhook[] = [];
    let rules: readonly AlertRule[] = [];
    let problem = '';
    const change = async (done: Promise<unknown>, said: string): Promise<void> => {
      say(await outcome(done, said, 'Not changed'));
      owner.load();
    };
    const tryOut = async (webhook: Webhook): Promise<void> => {
      say(`Testing “${webhook.name}” …`);
      say(await test(webhook).catch((error: unknown) => `Not tested: ${explain(error)}`));
      owner.load();
    };
    const remove = async ({ id, name }: Webhook): Promise<void> => {
      const form = await ask({ title: `Remove “${name}”?`, confirm: 'Remove', danger: true });
      if (form) await change(sendJson('DELETE', `/webhooks/${id}`), `The webhook “${name}” is removed.`);
    };
    const enable = ({ id, name }: Webhook, enabled: boolean): Promise<void> =>
      change(sendJson('PATCH', `/webhooks/${id}`, { enabled }), `“${name}” is ${enabled ? 'on' : 'off'}.`);
    const row = (webhook: Webhook): Child[] => {
      const { name, kind, url, enabled, alert_kinds, waiting, dropped, last } = webhook;
      const off = unraised(alert_kinds, rules);
      const onchange = (event: Event): void => void enable(webhook, (event.currentTarget as HTMLInputElement).checked);
      return [
        h('th', { scope: 'row' }, name),
        h('input', { type: 'checkbox', checked: enabled, 'aria-label': `${name}: on`, onchange }),
        kind,
        h('span.wrap', url),
        [wantedBy(webhook), off.length > 0 && h('p.problem', `No rule is on for ${off.join(', ')}`)],
        `${waiting}${dropped > 0 ? ` (${dropped} dropped)` : ''}`,
        h('span.wrap', toldOf(last)),
        [
          h('button.chip', { 'aria-label': `Test ${name}`, onclick: () => void tryOut(webhook) }, 'test'),
          ' ',
          h('button.chip', { 'aria-label': `Remove ${name}`, onclick: () => void remove(webhook) }, 'remove'),
        ],
      ];
    };
    const heads = ['Name', 'On', 'Kind', 'URL', 'Tells of', '#Waiting', 'Last', ''];
    owner.every(5000, () => document.visibilityState === 'visible' && owner.load());
    return {
      load: async () => {
        [items, rules] = await Promise.all([getItems<Webhook>('/webhooks'), getItems<AlertRule>('/alert-rules')]);
        problem = '';
      },
      failed: (error) => {
        if (error instanceof ApiError && error.status === 403) refused();
        owner.set(() => (problem = explain(error)));
      },
      inputs: () => [JSON.stringify(items), JSON.stringify(rules), problem],
      render: () => {
        const keys = items.map(({ id }) => id);
        return [table('Webhooks', heads, items.map(row), keys), h('p.problem', { role: 'alert' }, problem)];
      },
    };
  };

/// The addresses that are told of alerts, for administrators.
export function webhookCard(say: (text: string) => void): { element: HTMLElement; close: () => void } {
  const made = h('section.made', { role: 'status', hidden: true });
  const list = new Owner(webhookList(say, () => (element.hidden = true)));
  const form = webhookForm((webhook) => {
    showSecret(made, webhook);
    list.load();
  });
  const element = h('section.card.section', h('h2', 'Webhooks'), list.element, made, form);
  list.load();
  return { element, close: () => list.close() };
}
