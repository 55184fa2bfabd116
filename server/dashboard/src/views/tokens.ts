import '../styles/tokens.css';
import { explain, getAll, sendJson } from '../api/client';
import { askSelf, rightsOf } from '../api/self';
import type { TokenItem } from '../api/types';
import { copyText } from '../lib/copy';
import { h, replaceChildren, setText, type Child } from '../lib/dom';
import { formatTime } from '../lib/format';
import { ask } from './ask';
import { ListPage } from './list_page';
import type { Status } from './page';
import { RunNames } from './run_names';
import { badge, table } from './tables';

const EVERY_MS = 10_000;
const SCOPES = ['read', 'ingest', 'operate', 'admin'] as const;
const DAY_S = 86_400;
const LIVES: readonly [string, number | null][] = [
  ['after a day', DAY_S],
  ['after 30 days', 30 * DAY_S],
  ['after a year', 365 * DAY_S],
  ['never', null],
];

/// The runs that a token may report for, by request member.
const REACHES: readonly [Reach, string][] = [
  ['run_prefix', 'runs with a name prefix'],
  ['run', 'one run'],
  ['any_run', 'any run that it begins'],
];
type Reach = 'run_prefix' | 'run' | 'any_run';

/// The body of the request for a new token. `reach` and `runs` (a name prefix or a run's id) apply to scope `ingest` only.
export function newToken(
  name: string,
  scope: string,
  reach: Reach,
  runs: string,
  seconds: string,
): Record<string, unknown> {
  return {
    name: name.trim(),
    scope,
    ...(scope === 'ingest' ? { [reach]: reach === 'any_run' ? true : reach === 'run' ? runs.trim() : runs } : {}),
    ...(seconds ? { expires_in_seconds: Number(seconds) } : {}),
  };
}

/// The tokens with scope and expiry. The secret of a new token is shown once.
export class TokensPage extends ListPage {
  private tokens: TokenItem[] = [];
  private own: string | null = null;
  private readonly names = new RunNames();
  private readonly made = h('section', { class: 'card section made', role: 'status', hidden: true });
  private readonly wrong = h('p', { class: 'problem', role: 'alert' });
  private readonly name = h('input', {
    id: 'token-name',
    required: true,
    maxlength: 100,
    autocomplete: 'off',
    placeholder: 'user or program',
  });
  private readonly scope = h(
    'select',
    { id: 'token-scope', onchange: () => this.chooseScope() },
    SCOPES.map((scope) => h('option', { value: scope }, `${scope}: ${rightsOf(scope)}`)),
  );
  private readonly reach = h(
    'select',
    { id: 'token-reach', onchange: () => this.chooseReach() },
    REACHES.map(([value, label]) => h('option', { value }, label)),
  );
  private readonly reachField = h(
    'div',
    { class: 'form-field', hidden: true },
    h('label', { for: 'token-reach' }, 'Reports for'),
    this.reach,
  );
  private readonly runs = h('input', { id: 'token-runs', maxlength: 100, autocomplete: 'off' });
  private readonly runsLabel = h('label', { for: 'token-runs' });
  private readonly runsField = h('div', { class: 'form-field', hidden: true }, this.runsLabel, this.runs);
  private readonly life = h(
    'select',
    { id: 'token-life' },
    LIVES.map(([label, seconds]) => h('option', { value: seconds ?? '', selected: seconds === 30 * DAY_S }, label)),
  );

  constructor(
    root: HTMLElement,
    status: Status,
    private readonly say: (text: string) => void,
  ) {
    super(root, status, 'Tokens');
    const field = (label: string, input: HTMLElement): HTMLElement =>
      h('div', { class: 'form-field' }, h('label', { for: input.id }, label), input);
    const form = h(
      'form',
      {
        class: 'card section',
        onsubmit: (event: Event) => {
          event.preventDefault();
          void this.make();
        },
      },
      h('h2', {}, 'New token'),
      h(
        'div',
        { class: 'fields' },
        field('Name', this.name),
        field('Scope', this.scope),
        this.reachField,
        this.runsField,
        field('Expires', this.life),
      ),
      this.wrong,
      h('div', { class: 'group' }, h('button', { type: 'submit', class: 'chip primary' }, 'create the token')),
    );
    this.start(EVERY_MS, this.made, form);
    void askSelf().then((self) => {
      this.own = self?.id ?? null;
      this.redraw();
    });
  }

  protected async fetch(): Promise<void> {
    this.tokens = await getAll<TokenItem>('/tokens');
    await this.names.learn(this.tokens.flatMap(({ run }) => run ?? []));
  }

  protected inputs(): readonly unknown[] {
    return [JSON.stringify(this.tokens), this.own];
  }

  protected draw(): HTMLElement {
    return table(
      'Tokens',
      ['Name', 'Scope', 'Runs', 'Created', 'Expires', 'Last used', ''],
      this.tokens.map((token): Child[] => [
        [token.name, token.id === this.own ? badge('this one') : null],
        h('span', { title: rightsOf(token.scope) }, token.scope),
        token.run
          ? this.names.link(token.run)
          : token.run_prefix
            ? [h('code', {}, token.run_prefix), '…']
            : token.scope === 'ingest'
              ? 'runs that it begins'
              : '',
        `${formatTime(token.created_at)} by ${token.created_by}`,
        token.expires_at ? formatTime(token.expires_at) : 'never',
        token.last_used_at ? formatTime(token.last_used_at) : 'not yet',
        h(
          'button',
          {
            type: 'button',
            class: 'chip',
            'aria-label': `Revoke ${token.name}`,
            onclick: () => void this.revoke(token),
          },
          'revoke',
        ),
      ]),
      this.tokens.map(({ id }) => id),
    );
  }

  private chooseScope(): void {
    this.chooseReach();
  }

  private chooseReach(): void {
    const one = this.reach.value === 'run';
    this.reachField.hidden = this.scope.value !== 'ingest';
    this.runsField.hidden = this.reachField.hidden || this.reach.value === 'any_run';
    this.runs.required = !this.runsField.hidden;
    this.runs.pattern = one ? '\\s*r_[0-9A-HJKMNP-TV-Z]{26}\\s*' : '.*';
    this.runs.placeholder = one ? 'r_…' : 'mt-';
    setText(this.runsLabel, one ? 'Run id' : 'Name prefix');
  }

  private async make(): Promise<void> {
    setText(this.wrong, '');
    try {
      const token = await sendJson<TokenItem>(
        'POST',
        '/tokens',
        newToken(this.name.value, this.scope.value, this.reach.value as Reach, this.runs.value, this.life.value),
      );
      this.show(token!);
      this.name.value = '';
    } catch (error) {
      setText(this.wrong, `Not created: ${explain(error)}`);
    }
    await this.load();
  }

  /// Shows the secret until the user dismisses it or leaves the page.
  private show({ name, scope, secret }: TokenItem): void {
    const done = h(
      'button',
      {
        type: 'button',
        class: 'chip',
        onclick: () => {
          this.made.hidden = true;
          replaceChildren(this.made);
        },
      },
      'done',
    );
    const line = (label: string, text: string): HTMLElement =>
      h(
        'p',
        { class: 'field-row' },
        h('span', {}, label),
        h('code', { class: 'secret' }, text),
        h(
          'button',
          {
            type: 'button',
            class: 'chip',
            'aria-label': `Copy the ${label.toLowerCase()}`,
            onclick: async (event: Event) => {
              setText(event.target as HTMLElement, (await copyText(text)) ? 'copied' : 'copy manually');
            },
          },
          'copy',
        ),
      );
    replaceChildren(
      this.made,
      h('h2', {}, `Token “${name}”`),
      secret
        ? [
            h('p', {}, 'Copy it now: the server keeps only a digest, so it cannot be shown again.'),
            line('Token', secret),
            scope === 'ingest' ? null : line('Log-in link', `${location.origin}/#token=${secret}`),
          ]
        : h(
            'p',
            { class: 'problem' },
            'The token was created, but the response with its secret was lost. Revoke it and create another one.',
          ),
      h('div', {}, done),
    );
    this.made.hidden = false;
  }

  private async revoke(token: TokenItem): Promise<void> {
    const own = token.id === this.own;
    const form = await ask({
      title: `Revoke “${token.name}”?`,
      confirm: 'Revoke',
      danger: true,
      about: own
        ? 'This page uses it: you will be logged out.'
        : 'Requests with this token are refused from now on, and its open streams end within 15 s.',
    });
    if (!form) return;
    try {
      await sendJson('DELETE', `/tokens/${token.id}`);
      this.say(`Token “${token.name}” is revoked.`);
    } catch (error) {
      this.say(`Not revoked: ${explain(error)}`);
    }
    await this.load();
  }
}
