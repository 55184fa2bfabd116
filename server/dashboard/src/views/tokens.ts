import '../styles/list.css';
import { askSelf, explain, getAll, outcome, sendJson } from '../api/client';
import { rightsOf } from '../api/session';
import type { TokenItem } from '../api/types';
import { type Child, copyText, h, instead, replaceChildren, setText } from '../lib/dom';
import { formatTime } from '../lib/format';
import { ListPage, RunNames } from './list_page';
import { badge, formField, options, type Page, type Place, table } from './parts';
import { ask } from './run_ask';

const SCOPES = ['read', 'ingest', 'operate', 'admin'] as const;
const DAY_S = 86_400;
const USUAL_LIFE = String(30 * DAY_S);
const LIVES: readonly [seconds: string, label: string][] = [
  [String(DAY_S), 'after a day'],
  [USUAL_LIFE, 'after 30 days'],
  [String(365 * DAY_S), 'after a year'],
  ['', 'never'],
];

/// The runs that a token may report for, by request member.
const REACHES: readonly [Reach, string][] = [
  ['run_prefix', 'runs with a name prefix'],
  ['run', 'one run'],
  ['any_run', 'any run that it begins'],
];
type Reach = 'run_prefix' | 'run' | 'any_run';
type Body = Record<string, unknown>;

/// The body of the request for a new token. `reach` and `runs` (a name prefix or a run's id) apply to scope `ingest` only.
export const newToken = (name: string, scope: string, reach: Reach, runs: string, seconds: string): Body => ({
  name: name.trim(),
  scope,
  ...(scope === 'ingest' ? { [reach]: reach === 'any_run' ? true : reach === 'run' ? runs.trim() : runs } : {}),
  ...(seconds ? { expires_in_seconds: Number(seconds) } : {}),
});

function secretLine(label: string, text: string): HTMLElement {
  const copy = async (event: Event): Promise<void> =>
    setText(event.target as HTMLElement, (await copyText(text)) ? 'copied' : 'copy manually');
  const button = h('button.chip', { 'aria-label': `Copy the ${label.toLowerCase()}`, onclick: copy }, 'copy');
  return h('p.field-row', h('span', label), h('code.secret', text), button);
}

/// A form for a new token; `made` gets the answer.
function tokenForm(made: (token: TokenItem) => void, after: () => void): HTMLElement {
  const wrong = h('p.problem', { role: 'alert' });
  const text = { maxlength: 100, autocomplete: 'off' };
  const name = h('input', { id: 'token-name', required: true, placeholder: 'user or program', ...text });
  const rights = SCOPES.map((each) => [each, `${each}: ${rightsOf(each)}`] as const);
  const scope = h('select', { id: 'token-scope', onchange: () => choose() }, options(rights));
  const reach = h('select', { id: 'token-reach', onchange: () => choose() }, options(REACHES));
  const runs = h('input', { id: 'token-runs', ...text });
  const runsLabel = h('label', { for: 'token-runs' });
  const life = h('select', { id: 'token-life' }, options(LIVES, USUAL_LIFE));
  const reachField = formField('Reports for', reach);
  const lifeField = formField('Expires', life);
  const runsField = h('div.form-field', runsLabel, runs);
  const choose = (): void => {
    const one = reach.value === 'run';
    reachField.hidden = scope.value !== 'ingest';
    runsField.hidden = reachField.hidden || reach.value === 'any_run';
    runs.required = !runsField.hidden;
    runs.pattern = one ? '\\s*r_[0-9A-HJKMNP-TV-Z]{26}\\s*' : '.*';
    runs.placeholder = one ? 'r_…' : 'mt-';
    setText(runsLabel, one ? 'Run id' : 'Name prefix');
  };
  const make = async (): Promise<void> => {
    setText(wrong, '');
    try {
      const body = newToken(name.value, scope.value, reach.value as Reach, runs.value, life.value);
      made((await sendJson<TokenItem>('POST', '/tokens', body))!);
      name.value = '';
    } catch (error) {
      setText(wrong, `Not created: ${explain(error)}`);
    }
    after();
  };
  const onsubmit = instead(() => void make());
  choose();
  return h(
    'form.card.section',
    { onsubmit },
    h('h2', 'New token'),
    h('div.fields', formField('Name', name), formField('Scope', scope), reachField, runsField, lifeField),
    wrong,
    h('div.group', h('button.chip.primary', { type: 'submit' }, 'create the token')),
  );
}

const LOST = 'The token was created, but the response with its secret was lost. Revoke it and create another one.';
const ONCE = 'Copy it now: the server keeps only a digest, so it cannot be shown again.';

function madeToken({ name, scope, secret }: TokenItem): Child {
  const title = h('h2', `Token “${name}”`);
  if (!secret) return [title, h('p.problem', LOST)];
  const link = scope !== 'ingest' && secretLine('Log-in link', `${location.origin}/#token=${secret}`);
  return [title, h('p', ONCE), secretLine('Token', secret), link];
}

function reachOf({ run, run_prefix, scope }: TokenItem, names: RunNames): Child {
  if (run) return names.link(run);
  return run_prefix ? [h('code', run_prefix), '…'] : scope === 'ingest' && 'runs that it begins';
}

/// The tokens with scope and expiry. The secret of a new token is shown once, until the user dismisses it or leaves the page.
export const open = (place: Place): Page =>
  new ListPage(place, (page) => {
    const names = new RunNames();
    const made = h('section.card.section.made', { role: 'status', hidden: true });
    let tokens: TokenItem[] = [];
    let own: string | null = null;
    const show = (token: TokenItem): void => {
      const dismiss = (): void => {
        made.hidden = true;
        replaceChildren(made);
      };
      replaceChildren(made, madeToken(token), h('div', h('button.chip', { onclick: dismiss }, 'done')));
      made.hidden = false;
    };
    const revoke = async ({ id, name }: TokenItem): Promise<void> => {
      const others = 'Requests with this token are refused from now on, and its open streams end within 15 s.';
      const about = id === own ? 'This page uses it: you will be logged out.' : others;
      const form = await ask({ title: `Revoke “${name}”?`, confirm: 'Revoke', danger: true, about });
      if (!form) return;
      const sent = sendJson('DELETE', `/tokens/${id}`);
      place.say(await outcome(sent, `Token “${name}” is revoked.`, 'Not revoked'));
      page.load();
    };
    const row = (token: TokenItem): Child[] => [
      [token.name, token.id === own && badge('this one')],
      h('span', { title: rightsOf(token.scope) }, token.scope),
      reachOf(token, names),
      `${formatTime(token.created_at)} by ${token.created_by}`,
      token.expires_at ? formatTime(token.expires_at) : 'never',
      token.last_used_at ? formatTime(token.last_used_at) : 'not yet',
      h('button.chip', { 'aria-label': `Revoke ${token.name}`, onclick: () => void revoke(token) }, 'revoke'),
    ];
    const heads = ['Name', 'Scope', 'Runs', 'Created', 'Expires', 'Last used', ''];
    void askSelf().then((self) => {
      own = self?.id ?? null;
      page.draw();
    });
    return {
      title: 'Tokens',
      everyMs: 10_000,
      above: made,
      below: tokenForm(show, () => page.load()),
      load: async () => {
        tokens = await getAll<TokenItem>('/tokens');
        await names.learn(tokens.flatMap(({ run }) => run ?? []));
      },
      inputs: () => [JSON.stringify(tokens), own],
      render: () => {
        const keys = tokens.map(({ id }) => id);
        return table('Tokens', heads, tokens.map(row), keys);
      },
    };
  });
