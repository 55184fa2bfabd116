import { ApiError, explain, getJson } from '../api/client';
import type { StepParts, WhatIfAnswer } from '../api/types';
import type { RunData } from '../data/run_data';
import { h, replaceChildren, setText, Slot, type Child } from '../lib/dom';
import { formatCount, formatDuration, formatFixed, formatMs, formatPercent } from '../lib/format';
import { oneAtATime } from '../lib/one_at_a_time';
import type { ViewState } from '../lib/run_view';
import {
  CHOICES,
  parseSettings,
  PARTS,
  settingsText,
  SLIDERS,
  stopsOf,
  type Choice,
  type Slider,
} from '../lib/what_if';
import type { FoldContent } from './fold';
import { table } from './tables';

interface Step {
  name: string;
  step_ms: number;
  parts: StepParts;
  target_tokens_per_second: number;
  seconds_left: number | null;
  efficiency?: number;
  range?: string;
}

/// The parts of an update, on a scale on which the longest update fills the width.
function barOf({ step_ms, parts }: Step, longestMs: number): HTMLElement {
  const piece = (kind: string, ms: number): HTMLElement => {
    const part = h('span', { class: `part ${kind}` });
    part.style.flexGrow = String(Math.max(0, ms));
    return part;
  };
  return h(
    'span',
    { class: 'split-bar what-if-bar', 'aria-hidden': 'true' },
    PARTS.map(([, color, key]) => piece(`swatch-${color}`, parts[key])),
    piece('', longestMs - step_ms),
  );
}

const legend = (): Child =>
  h(
    'p',
    { class: 'trace-legend muted' },
    PARTS.map(([name, color]) =>
      h('span', { class: 'legend-item' }, h('span', { class: `swatch swatch-${color}` }), name),
    ),
  );

function stepTable(steps: readonly Step[]): Child {
  const longest = Math.max(...steps.map(({ step_ms }) => step_ms));
  const parts = PARTS.map(([name]) => `#${name[0]!.toUpperCase()}${name.slice(1)}`);
  return table(
    'Update measured and predicted',
    ['Run', 'Update', '#Time', '#Target tokens/s', '#Efficiency', '#Left to the end', ...parts],
    steps.map((step) => [
      step.name,
      barOf(step, longest),
      [formatMs(step.step_ms), step.range ? h('span', { class: 'muted' }, ` ${step.range}`) : null],
      formatCount(step.target_tokens_per_second),
      formatPercent(step.efficiency),
      formatDuration(step.seconds_left),
      ...PARTS.map(([, , key]) => formatMs(step.parts[key])),
    ]),
  );
}

const lines = (name: string, texts: readonly string[]): Child =>
  texts.length > 0
    ? h(
        'ul',
        { class: 'what-if-notes', 'aria-label': name },
        texts.map((text) => h('li', {}, text)),
      )
    : null;

/// The answer: measured and predicted updates. Where the model does not fit the run, its error instead of a prediction.
function resultOf({ measured, baseline, predicted, warnings, assumed }: WhatIfAnswer, changed: boolean): Child {
  const error = `${baseline.error < 0 ? '−' : '+'}${formatFixed(Math.abs(100 * baseline.error), 1)} %`;
  const steps: Step[] = [{ name: 'measured', ...measured }];
  if (predicted) {
    steps.push({ name: `predicted as it is, error ${error}`, ...baseline });
    const range = `${formatMs(predicted.low_ms)} to ${formatMs(predicted.high_ms)}`;
    if (changed) steps.push({ name: 'predicted with the changes', ...predicted, range });
  }
  return [
    legend(),
    stepTable(steps),
    predicted
      ? null
      : h(
          'p',
          { class: 'problem' },
          `The model does not fit this run: for the run as it is, its update is wrong by ${error}. Nothing is predicted.`,
        ),
    predicted ? lines('Warnings', warnings) : null,
    assumed.length > 0
      ? h('details', {}, h('summary', { class: 'muted' }, 'Assumed'), lines('Assumptions', assumed))
      : null,
  ];
}

/// Predictions of the run on other hosts, links and settings, chosen by sliders.
export class WhatIf implements FoldContent {
  readonly element: HTMLElement;
  private readonly controls = h('div', { class: 'what-if-controls' });
  private readonly result = new Slot();
  private readonly said = h('p', { class: 'muted', role: 'status' });
  private readonly settings: Map<string, string>;
  private asked = false;
  private closed = false;
  readonly refresh: () => void;

  private constructor(
    private readonly data: RunData,
    private readonly view: ViewState,
    private readonly onView: () => void,
  ) {
    this.settings = parseSettings(view.whatIf);
    this.refresh = oneAtATime(
      () => this.fetch(),
      (error) => this.showRefusal(error),
    );
    this.element = h('div', { class: 'lab what-if' }, this.controls, this.said, this.result.element);
  }

  static async load(data: RunData, view: ViewState, onView: () => void): Promise<WhatIf> {
    const section = new WhatIf(data, view, onView);
    try {
      await section.fetch();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      section.showRefusal(error);
    }
    return section;
  }

  close(): void {
    this.closed = true;
  }

  private async fetch(): Promise<void> {
    const answer = await getJson<WhatIfAnswer>(
      `/runs/${this.data.id}/what-if?${new URLSearchParams([...this.settings])}`,
    );
    if (this.closed) return;
    if (!this.asked) this.showControls(answer);
    this.asked = true;
    const { predicted } = answer;
    const changed = this.settings.size > 0;
    setText(
      this.said,
      !predicted
        ? 'The model does not fit this run.'
        : changed
          ? `With the changes an update takes ${formatMs(predicted.step_ms)}, ${formatCount(predicted.target_tokens_per_second)} target tokens per second.`
          : 'Move a slider to predict another setup.',
    );
    this.result.show([answer], () => resultOf(answer, changed));
  }

  /// Before the first answer nothing is known of the run's setup: a refused setting of the address is then left out.
  private showRefusal(error: unknown): void {
    if (this.closed) return;
    if (!this.asked && this.settings.size > 0 && error instanceof ApiError && [400, 422].includes(error.status)) {
      this.settings.clear();
      this.changed();
      return;
    }
    setText(this.said, `Not predicted: ${explain(error)}`);
    this.result.show([error], () => null);
  }

  private set(name: string, value: string): void {
    if (value === '') this.settings.delete(name);
    else this.settings.set(name, value);
    this.changed();
  }

  private changed(): void {
    this.view.whatIf = settingsText(this.settings);
    this.onView();
    this.refresh();
  }

  private showControls(answer: WhatIfAnswer): void {
    const { setup } = answer.baseline;
    const reset = (): void => {
      this.settings.clear();
      this.showControls(answer);
      this.changed();
    };
    replaceChildren(
      this.controls,
      SLIDERS.map((slider) => this.slider(slider, answer)),
      CHOICES.map((choice) => this.choice(choice, setup[choice.name])),
      h('button', { type: 'button', class: 'chip', onclick: reset }, 'Everything as it is'),
    );
  }

  private slider(slider: Slider, { baseline }: WhatIfAnswer): Child {
    const stops = stopsOf(slider, baseline.setup);
    const id = `what-if-${slider.name}`;
    const own = stops.findIndex(({ value }) => value === '');
    const at = stops.findIndex(({ value }) => value === (this.settings.get(slider.name) ?? ''));
    const input = h('input', { type: 'range', id, min: 0, max: stops.length - 1, step: 1, value: at < 0 ? own : at });
    const shown = h('output', { for: id });
    const show = (): void => {
      const { text } = stops[Number(input.value)]!;
      setText(shown, text);
      input.setAttribute('aria-valuetext', text);
    };
    input.oninput = () => {
      show();
      this.set(slider.name, stops[Number(input.value)]!.value);
    };
    show();
    return h('p', {}, h('label', { for: id }, slider.label), input, shown);
  }

  private choice({ name, label, words }: Choice, own: string): Child {
    const id = `what-if-${name}`;
    const chosen = this.settings.get(name) ?? own;
    const select = h(
      'select',
      { id, onchange: () => this.set(name, select.value === own ? '' : select.value) },
      words.map(([word, text]) =>
        h('option', { value: word, selected: word === chosen }, `${text}${word === own ? ', as it is' : ''}`),
      ),
    );
    return h('p', {}, h('label', { for: id }, label), select);
  }
}
