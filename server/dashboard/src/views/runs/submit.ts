import '../../styles/submit.css';
import { ApiError, explain, getAll, getJson, sendJson } from '../../api/client';
import type { Profile, Run } from '../../api/types';
import { h, replaceChildren, setText } from '../../lib/dom';
import { formatBytes, formatCount, formatNames, formatSi, formatSignificant } from '../../lib/format';
import { hashOfRun } from '../../lib/routes';
import type { Page, Status } from '../page';
import { ConfigEditor } from './config_editor';

const EXAMPLE = `name: my-run
preset: transformer-tiny
data:
  folder: data/my-corpus
training:
  stop_after: 20e
`;

/// Parses labels: "team=mt, trial".
export function parseLabels(text: string): Record<string, string> {
  return Object.fromEntries(
    text
      .split(',')
      .map((part) => part.trim())
      .filter(Boolean)
      .map((part) => {
        const at = part.indexOf('=');
        return at < 0 ? [part, ''] : [part.slice(0, at).trim(), part.slice(at + 1).trim()];
      }),
  );
}

interface Fields {
  name: HTMLInputElement;
  profile: HTMLSelectElement;
  worldSize: HTMLInputElement;
  restarts: HTMLInputElement;
  labels: HTMLInputElement;
}

/// A form to submit a run. #/submit?from=RUN starts with that run's configuration.
export class SubmitPage implements Page {
  private readonly editor = new ConfigEditor('config', EXAMPLE);
  private readonly fields: Fields = {
    name: h('input', { id: 'name', maxlength: 200, autocomplete: 'off' }),
    profile: h('select', { id: 'profile', required: true, onchange: () => this.chooseProfile() }),
    worldSize: h('input', { id: 'world-size', type: 'number', min: 1, max: 4096, value: 1, required: true }),
    restarts: h('input', { id: 'restarts', type: 'number', min: 0, max: 100, value: 3 }),
    labels: h('input', { id: 'labels-new', placeholder: 'team=mt, trial', autocomplete: 'off' }),
  };
  private profiles: readonly Profile[] = [];
  private readonly problem = h('p', { class: 'problem', role: 'alert' });
  private readonly outcome = h('pre', {
    class: 'outcome',
    tabindex: 0,
    'aria-label': 'Result of the check',
    hidden: true,
  });
  private readonly buttons: HTMLButtonElement[];
  private closed = false;

  constructor(
    private readonly root: HTMLElement,
    query: URLSearchParams,
    status: Status,
  ) {
    document.title = 'New run · Babelring';
    status('finished', 'new run');
    const field = (label: string, input: HTMLElement, help: string): HTMLElement => {
      input.setAttribute('aria-describedby', `${input.id}-help`);
      return h(
        'div',
        { class: 'form-field' },
        h('label', { for: input.id }, label),
        input,
        h('small', { id: `${input.id}-help`, class: 'muted' }, help),
      );
    };
    const { name, profile, worldSize, restarts, labels } = this.fields;
    this.buttons = [
      h('button', { type: 'submit', class: 'chip primary' }, 'start the run'),
      h('button', { type: 'button', class: 'chip', onclick: () => void this.check() }, 'check only'),
    ];
    const form = h(
      'form',
      { class: 'card section' },
      h('h1', {}, 'New run'),
      h(
        'div',
        { class: 'fields' },
        field('Name', name, 'display name; empty: the name in the configuration'),
        field('Profile', profile, 'how the run is launched; the administrator defines profiles'),
        field('Ranks', worldSize, 'number of training processes'),
        field('Restarts', restarts, 'max automatic restarts after a fault, from the last checkpoint'),
        field('Labels', labels, 'separated by commas'),
      ),
      h('label', { for: 'config' }, 'Configuration (YAML)'),
      this.editor.element,
      this.problem,
      h('div', { class: 'group' }, this.buttons),
      this.outcome,
    );
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.submit();
    });
    replaceChildren(root, form);
    void this.prefill(query.get('from'));
    void this.offer();
  }

  close(): void {
    this.closed = true;
    this.root.replaceChildren();
  }

  private async prefill(from: string | null): Promise<void> {
    if (!from) return;
    try {
      const run = await getJson<Run>(`/runs/${encodeURIComponent(from)}`);
      if (this.closed) return;
      this.editor.value = run.config ?? '';
      this.fields.worldSize.value = String(run.world_size);
    } catch (error) {
      setText(this.problem, `the configuration of ${from} could not be loaded: ${explain(error)}`);
    }
  }

  private async offer(): Promise<void> {
    try {
      this.profiles = await getAll<Profile>('/profiles');
      if (this.closed) return;
      replaceChildren(
        this.fields.profile,
        this.profiles.map(({ name, launcher, hosts }) =>
          h('option', { value: name }, `${name} (${launcher}${hosts.length > 0 ? ` on ${formatNames(hosts)}` : ''})`),
        ),
      );
      this.chooseProfile();
    } catch (error) {
      setText(this.problem, `the profiles could not be loaded: ${explain(error)}`);
    }
  }

  private chooseProfile(): void {
    const chosen = this.profiles.find(({ name }) => name === this.fields.profile.value);
    if (chosen) this.fields.worldSize.max = String(chosen.max_ranks);
  }

  private body(): Record<string, unknown> {
    const { name, profile, worldSize, restarts, labels } = this.fields;
    return {
      config: this.editor.value,
      profile: profile.value,
      world_size: worldSize.valueAsNumber,
      ...(name.value.trim() ? { name: name.value.trim() } : {}),
      ...(Number.isNaN(restarts.valueAsNumber) ? {} : { max_restarts: restarts.valueAsNumber }),
      ...(labels.value.trim() ? { labels: parseLabels(labels.value) } : {}),
    };
  }

  private async ask(work: () => Promise<void>): Promise<void> {
    this.buttons.forEach((button) => {
      button.disabled = true;
    });
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
    this.buttons.forEach((button) => {
      button.disabled = false;
    });
  }

  private submit(): Promise<void> {
    return this.ask(async () => {
      const run = await sendJson<Run>('POST', '/runs', this.body());
      if (run && !this.closed) location.hash = hashOfRun(run.id);
    });
  }

  private check(): Promise<void> {
    return this.ask(async () => {
      const answer = await sendJson<Record<string, unknown>>('POST', '/runs:validate', this.body());
      this.outcome.hidden = false;
      setText(this.outcome, describeCheck(answer ?? {}));
    });
  }
}

/// The memory by purpose with its sum, and the model and batch size of the estimate.
function memoryText({
  parameters,
  source_tokens: source,
  target_tokens: target,
  total,
  ...purposes
}: Record<string, number>): string {
  const parts = Object.entries(purposes).map(([purpose, bytes]) => `${purpose} ${formatBytes(bytes)}`);
  return `${formatBytes(total)} per rank (${parts.join(', ')}) for ${formatSi(parameters)} parameters and ${formatCount(source)} + ${formatCount(target)} tokens at a time`;
}

/// The result of a check as text.
export function describeCheck(answer: Record<string, unknown>): string {
  const lines = ['The configuration is valid.'];
  for (const [key, value] of Object.entries(answer)) {
    if (value === null || key === 'config' || key === 'valid') continue;
    const text =
      Array.isArray(value) && value.every((item) => typeof item === 'string')
        ? value.join(' ')
        : key === 'memory'
          ? memoryText(value as Record<string, number>)
          : typeof value === 'number'
            ? formatSignificant(value)
            : typeof value === 'string'
              ? value
              : JSON.stringify(value);
    lines.push(`${key.replaceAll('_', ' ')}: ${text}`);
  }
  return lines.join('\n');
}
