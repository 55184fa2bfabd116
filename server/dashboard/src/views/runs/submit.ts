import '../../styles/list.css';
import { ApiError, explain, getAll, getJson, type ProblemPlace, sendJson } from '../../api/client';
import { may } from '../../api/session';
import type { Profile, Run } from '../../api/types';
import { h, instead, patchChildren, replaceChildren, setText } from '../../lib/dom';
import { formatBytes, formatCount, formatNames, formatSi, formatSignificant } from '../../lib/format';
import { hashOfRun } from '../../lib/routes';
import { Life } from '../../lib/work';
import { formField, options, type Page, type Place } from '../parts';
import { parseLabels } from '../run_ask';

/// The 1-based line of an error, from its member or from its text ("config:12:3: …", "line 12"); null if unknown.
export function lineOf({ line, detail }: ProblemPlace): number | null {
  if (line !== undefined) return line;
  const found = /(?:^|[\s:])(?:line )?(\d+):\d+:/.exec(detail) ?? /line (\d+)/.exec(detail);
  return found ? Number(found[1]) : null;
}

/// The range of characters of line `line` in the text.
export function lineRange(text: string, line: number): [number, number] {
  let from = 0;
  for (let at = 1; at < line; at += 1) {
    const end = text.indexOf('\n', from);
    if (end < 0) break;
    from = end + 1;
  }
  const end = text.indexOf('\n', from);
  return [from, end < 0 ? text.length : end];
}

/// A text area with line numbers and errors that link to their lines.
class ConfigEditor {
  readonly element: HTMLElement;
  private readonly text: HTMLTextAreaElement;
  private readonly numbers = h('pre.line-numbers', { 'aria-hidden': 'true' });
  private readonly list = h('ul.problems');

  constructor(id: string, value: string) {
    const scroll = (): void => {
      this.numbers.scrollTop = this.text.scrollTop;
    };
    this.text = h('textarea', {
      ...{ id, rows: 22, spellcheck: 'false', wrap: 'off', autocomplete: 'off', 'aria-describedby': `${id}-problems` },
      oninput: () => this.number(),
      onscroll: scroll,
    });
    const problems = h('div', { id: `${id}-problems`, role: 'alert' }, this.list);
    this.element = h('div', h('div.editor', this.numbers, this.text), problems);
    this.value = value;
  }

  get value(): string {
    return this.text.value;
  }

  set value(value: string) {
    this.text.value = value;
    this.number();
  }

  show(problems: readonly ProblemPlace[]): void {
    const item = (problem: ProblemPlace): HTMLElement => {
      const line = lineOf(problem);
      const pointer = problem.pointer !== '/config' && problem.pointer;
      const place = line !== null ? `line ${line}` : pointer || '';
      const link = line !== null && h('button.link', { onclick: () => this.goTo(line) }, place);
      return h('li', link || place, place ? ': ' : '', problem.detail);
    };
    replaceChildren(this.list, problems.map(item));
    this.text.setAttribute('aria-invalid', String(problems.length > 0));
    this.number(new Set(problems.map(lineOf)));
  }

  private goTo(line: number): void {
    const [from, to] = lineRange(this.text.value, line);
    this.text.focus();
    this.text.setSelectionRange(from, to);
    this.text.scrollTop = (line - 5) * (this.text.scrollHeight / Math.max(1, this.text.value.split('\n').length));
  }

  private number(bad: ReadonlySet<number | null> = new Set()): void {
    const numberOf = (_: string, at: number): HTMLElement =>
      h('span', { class: bad.has(at + 1) ? 'bad' : '' }, `${at + 1}\n`);
    patchChildren(this.numbers, this.text.value.split('\n').map(numberOf));
  }
}

const EXAMPLE = `name: my-run
preset: transformer-tiny
data:
  folder: data/my-corpus
training:
  stop_after: 20e
`;

const RANKS = { type: 'number', min: 1, max: 4096 };

function field(label: string, input: HTMLElement, help: string): HTMLElement {
  input.setAttribute('aria-describedby', `${input.id}-help`);
  return formField(label, input, h('small.muted', { id: `${input.id}-help` }, help));
}

/// A form to submit a run. #/submit?from=RUN starts with that run's configuration, &checkpoint=ID with a checkpoint to go on from.
class SubmitPage extends Life {
  private readonly editor = new ConfigEditor('config', EXAMPLE);
  private readonly name = h('input', { id: 'name', maxlength: 200, autocomplete: 'off' });
  private readonly profile = h('select', { id: 'profile', required: true, onchange: () => this.chooseProfile() });
  private readonly ranks = h('input', { id: 'world-size', value: 1, required: true, ...RANKS });
  private readonly restarts = h('input', { id: 'restarts', type: 'number', min: 0, max: 100, value: 3 });
  private readonly labels = h('input', { id: 'labels-new', placeholder: 'team=mt, trial', autocomplete: 'off' });
  private readonly checkpoint = h('input', { id: 'resume-from', autocomplete: 'off', spellcheck: 'false' });
  private readonly problem = h('p.problem', { role: 'alert' });
  private readonly outcome = h('pre.outcome', { tabindex: 0, 'aria-label': 'Result of the check', hidden: true });
  private readonly startButton = h('button.chip.primary', { type: 'submit' }, 'start the run');
  private readonly checkButton = h('button.chip', { onclick: () => void this.send(() => this.check()) }, 'check only');
  private readonly rights = h('p.muted', { role: 'status' });
  private sending = false;
  private profiles: readonly Profile[] = [];

  constructor({ root, status }: Place, query: URLSearchParams) {
    super();
    document.title = 'New run · Babelring';
    status('finished', 'new run');
    const from = query.get('from');
    const told = (what: string) => (error: unknown) =>
      setText(this.problem, `${what} could not be loaded: ${explain(error)}`);
    this.checkpoint.value = query.get('checkpoint') ?? '';
    replaceChildren(root, this.form());
    if (from) void this.prefill(from).catch(told(`the configuration of ${from}`));
    void this.offer().catch(told('the profiles'));
    this.enable();
    window.addEventListener('scopechange', this.enable);
    this.atEnd(
      () => window.removeEventListener('scopechange', this.enable),
      () => root.replaceChildren(),
    );
  }

  private readonly enable = (): void => {
    this.checkButton.disabled = this.sending;
    this.startButton.disabled = this.sending || !may('operate');
    setText(
      this.rights,
      may('operate') ? '' : 'This token may check a configuration, but start no run: that needs the scope operate.',
    );
  };

  private form(): HTMLElement {
    const onsubmit = instead(() => void this.send(() => this.submit()));
    return h(
      'form.card.section',
      { onsubmit },
      h('h1', 'New run'),
      h(
        'div.fields',
        field('Name', this.name, 'display name; empty: the name in the configuration'),
        field('Profile', this.profile, 'how the run is launched; the administrator defines profiles'),
        field('Ranks', this.ranks, 'number of training processes'),
        field('Restarts', this.restarts, 'max automatic restarts after a fault, from the last checkpoint'),
        field('Labels', this.labels, 'separated by commas'),
        field(
          'From checkpoint',
          this.checkpoint,
          'id of the one to go on from: raise the end of training; empty: from scratch',
        ),
      ),
      h('label', { for: 'config' }, 'Configuration (YAML)'),
      this.editor.element,
      this.problem,
      h('div.group', this.startButton, this.checkButton),
      this.rights,
      this.outcome,
    );
  }

  private async prefill(from: string): Promise<void> {
    const run = await getJson<Run>(`/runs/${encodeURIComponent(from)}`);
    this.editor.value = run.config ?? '';
    this.ranks.value = String(run.world_size);
  }

  private async offer(): Promise<void> {
    this.profiles = await getAll<Profile>('/profiles');
    const textOf = ({ name, launcher, hosts }: Profile): string =>
      `${name} (${launcher}${hosts.length > 0 ? ` on ${formatNames(hosts)}` : ''})`;
    replaceChildren(this.profile, options(this.profiles.map((each) => [each.name, textOf(each)])));
    this.chooseProfile();
  }

  private chooseProfile(): void {
    const chosen = this.profiles.find(({ name }) => name === this.profile.value);
    if (chosen) this.ranks.max = String(chosen.max_ranks);
  }

  private body(): Record<string, unknown> {
    const [name, labels, restarts] = [this.name.value.trim(), this.labels.value, this.restarts.valueAsNumber];
    const checkpoint = this.checkpoint.value.trim();
    return {
      config: this.editor.value,
      profile: this.profile.value,
      world_size: this.ranks.valueAsNumber,
      ...(name ? { name } : {}),
      ...(Number.isNaN(restarts) ? {} : { max_restarts: restarts }),
      ...(checkpoint ? { resume_from: checkpoint } : {}),
      ...(labels.trim() ? { labels: parseLabels(labels) } : {}),
    };
  }

  private async send(work: () => Promise<void>): Promise<void> {
    this.sending = true;
    this.enable();
    this.outcome.hidden = true;
    setText(this.problem, '');
    this.editor.show([]);
    try {
      await work();
    } catch (error) {
      const places = error instanceof ApiError ? error.errors : [];
      this.editor.show(places);
      if (places.length === 0) setText(this.problem, explain(error));
    }
    this.sending = false;
    this.enable();
  }

  private async submit(): Promise<void> {
    const run = await sendJson<Run>('POST', '/runs', this.body());
    const go = this.open((id: string) => {
      location.hash = hashOfRun(id);
    });
    if (run) go(run.id);
  }

  private async check(): Promise<void> {
    const answer = await sendJson<Record<string, unknown>>('POST', '/runs:validate', this.body());
    this.outcome.hidden = false;
    setText(this.outcome, describeCheck(answer ?? {}));
  }
}

export const open = (place: Place, { query }: { query: URLSearchParams }): Page => new SubmitPage(place, query);

/// The memory by purpose with its sum, and the model and batch size of the estimate.
function memoryText(memory: Record<string, number>): string {
  const { parameters, source_tokens: source, target_tokens: target, total, ...purposes } = memory;
  const parts = Object.entries(purposes).map(([purpose, bytes]) => `${purpose} ${formatBytes(bytes)}`);
  return `${formatBytes(total)} per rank (${parts.join(', ')}) for ${formatSi(parameters)} parameters and ${formatCount(source)} + ${formatCount(target)} tokens at a time`;
}

function checkText(key: string, value: unknown): string {
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value.join(' ');
  if (key === 'memory') return memoryText(value as Record<string, number>);
  if (typeof value === 'number') return formatSignificant(value);
  return typeof value === 'string' ? value : JSON.stringify(value);
}

export function describeCheck(answer: Record<string, unknown>): string {
  const told = Object.entries(answer).filter(([key, value]) => value !== null && key !== 'config' && key !== 'valid');
  const lines = told.map(([key, value]) => `${key.replaceAll('_', ' ')}: ${checkText(key, value)}`);
  return ['The configuration is valid.', ...lines].join('\n');
}
