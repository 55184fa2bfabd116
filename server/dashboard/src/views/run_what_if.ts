import { ApiError, explain, getJson } from '../api/client';
import type { StepParts, StepSetup, WhatIfAnswer } from '../api/types';
import { type Child, h, swatch, valueOf } from '../lib/dom';
import * as format from '../lib/format';
import { formatCount, formatMs, formatPercent } from '../lib/format';
import { STEP_PARTS } from '../data/runs';
import { labelled, options, type Owner, type RunContext, type Section, splitBar, status, table } from './parts';

/// Settings of a prediction by name, as the server takes them; absent settings stay as the run has them.
export type Settings = ReadonlyMap<string, string>;

export interface Slider {
  name: 'hosts' | 'ranks_per_host' | 'link_gbit' | 'latency_us' | 'bucket_mb' | 'accumulate' | 'straggler';
  label: string;
  unit: string;
  values: readonly number[];
}

const slider = (name: Slider['name'], label: string, unit: string, values: readonly number[]): Slider => {
  return { name, label, unit, values };
};

export const SLIDERS: readonly Slider[] = [
  slider('hosts', 'Hosts', '', [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]),
  slider('ranks_per_host', 'Ranks on each host', '', [1, 2, 3, 4, 6, 8]),
  slider('link_gbit', 'Link between hosts', 'Gbit/s', [1, 2, 2.5, 5, 10, 20, 25, 40, 50, 100, 200, 400]),
  slider('latency_us', 'Latency between hosts', 'µs', [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]),
  slider('bucket_mb', 'Bucket', 'MB', [0.5, 1, 2, 4, 8, 16, 25, 32, 64, 128]),
  slider('accumulate', 'Micro-batches in an update', '', [1, 2, 3, 4, 6, 8, 12, 16]),
  slider('straggler', 'One rank slower by', '%', [0, 5, 10, 20, 50, 100]),
];

export type Choice = { name: 'wire' | 'algorithm' | 'optimizer'; label: string; words: Record<string, string> };

const ALGORITHMS = {
  shared_memory: 'shared memory, one host',
  ring: 'ring',
  two_level: 'two levels',
  staged: 'staged ring, of GPUs without NCCL',
  tree: 'tree (not offered by the worker)',
};

export const CHOICES: readonly Choice[] = [
  { name: 'wire', label: 'Gradients in messages', words: { f32: 'f32', bf16: 'bf16', int8: 'int8 (not by NCCL)' } },
  { name: 'algorithm', label: 'Sum of gradients', words: ALGORITHMS },
  {
    name: 'optimizer',
    label: "Optimizer's state",
    words: { replicated: 'on every host', sharded: 'a share on each host' },
  },
];

const NAMES: readonly string[] = [...SLIDERS, ...CHOICES].map(({ name }) => name);

/// Reads 'hosts:4,link_gbit:25'. Leaves out other keys.
export function parseSettings(text: string): Map<string, string> {
  const pairs = text.split(',').map((part) => part.split(':'));
  return new Map(
    pairs.flatMap(([name = '', value = '']) => (NAMES.includes(name) && value !== '' ? [[name, value] as const] : [])),
  );
}

/// The inverse of parseSettings().
export const settingsText = (settings: Settings): string =>
  NAMES.flatMap((name) => (settings.has(name) ? [`${name}:${settings.get(name)}`] : [])).join(',');

/// A position of a slider. `value` is '' where the run stays as it is.
export type Stop = { value: string; text: string };

/// The positions of a slider: its values, with what the run has in between.
export function stopsOf(slider: Slider, own: StepSetup): Stop[] {
  const unit = slider.unit && ` ${slider.unit}`;
  const has = own[slider.name];
  const others = slider.values.filter((value) => value !== has);
  const stops = others.map((value) => ({ value: String(value), text: `${value}${unit}` }));
  const before = has === null ? others.length : others.filter((value) => value < has).length;
  const text = `as it is${has === null ? '' : `: ${format.formatSignificant(has, 3)}${unit}`}`;
  stops.splice(before, 0, { value: '', text });
  return stops;
}

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
  const pieces = STEP_PARTS.map(({ key, color }) => [color, parts[key]] as const);
  return splitBar([...pieces, ['', longestMs - step_ms]], '.what-if-bar');
}

function stepTable(steps: readonly Step[]): Child {
  const longest = Math.max(...steps.map(({ step_ms }) => step_ms));
  return table(
    'Update measured and predicted',
    ['Run', 'Update', '#Time', '#Target tokens/s', '#Efficiency', '#Left to the end'],
    steps.map((step) => [
      step.name,
      barOf(step, longest),
      [formatMs(step.step_ms), step.range && h('span.muted', ` ${step.range}`)],
      formatCount(step.target_tokens_per_second),
      formatPercent(step.efficiency),
      format.formatDuration(step.seconds_left),
    ]),
  );
}

/// The parts of each update, and the meaning of the bars' colours.
const partTable = (steps: readonly Step[]): Child =>
  table(
    'Parts of an update',
    ['Part', ...steps.map(({ name }) => `#${name}`)],
    STEP_PARTS.map(({ key, name, color }) => [
      h('span.legend-item', swatch(color), name),
      ...steps.map(({ parts }) => formatMs(parts[key])),
    ]),
  );

const lines = (name: string, texts: readonly string[]): Child =>
  texts.length > 0 && h('ul.what-if-notes', { 'aria-label': name }, ...texts.map((text) => h('li', text)));

/// The answer: measured and predicted updates. Where the model does not fit the run, its error instead of a prediction.
function resultOf({ measured, baseline, predicted, warnings, assumed }: WhatIfAnswer, changed: boolean): Child {
  const error = `${baseline.error < 0 ? '−' : '+'}${format.formatFixed(Math.abs(100 * baseline.error), 1)} %`;
  const steps: Step[] = [{ name: 'measured', ...measured }];
  if (predicted) {
    steps.push({ name: `predicted as it is, error ${error}`, ...baseline });
    const range = `${formatMs(predicted.low_ms)} to ${formatMs(predicted.high_ms)}`;
    if (changed) steps.push({ name: 'predicted with the changes', ...predicted, range });
  }
  const misfit = `The model does not fit this run: for the run as it is, its update is wrong by ${error}. Nothing is predicted.`;
  return [
    stepTable(steps),
    partTable(steps),
    predicted ? lines('Warnings', warnings) : h('p.problem', misfit),
    assumed.length > 0 && h('details', h('summary.muted', 'Assumed'), lines('Assumptions', assumed)),
  ];
}

function summaryOf({ predicted }: WhatIfAnswer, changed: boolean): string {
  if (!predicted) return 'The model does not fit this run.';
  if (!changed) return 'Move a slider to predict another setup.';
  const rate = formatCount(predicted.target_tokens_per_second);
  return `With the changes an update takes ${formatMs(predicted.step_ms)}, ${rate} target tokens per second.`;
}

type Set = (name: string, value: string) => void;

function sliderOf(slider: Slider, setup: StepSetup, settings: Settings, set: Set): Child {
  const id = `what-if-${slider.name}`;
  const stops = stopsOf(slider, setup);
  const placeOf = (wanted: string): number => stops.findIndex(({ value }) => value === wanted);
  const found = placeOf(settings.get(slider.name) ?? '');
  const at = found < 0 ? placeOf('') : found;
  const { text } = stops[at]!;
  const input = h('input', {
    ...{ type: 'range', id, min: 0, max: stops.length - 1, step: 1, value: at, 'aria-valuetext': text },
    oninput: (event: Event) => set(slider.name, stops[Number(valueOf(event))]!.value),
  });
  return h('p', labelled(slider.label, input), h('output', { for: id }, text));
}

function choiceOf({ name, label, words }: Choice, own: string, settings: Settings, set: Set): Child {
  const id = `what-if-${name}`;
  const chosen = settings.get(name) ?? own;
  const choose = (event: Event): void => set(name, valueOf(event) === own ? '' : valueOf(event));
  const items = Object.entries(words).map(
    ([word, text]) => [word, `${text}${word === own ? ', as it is' : ''}`] as const,
  );
  return h('p', labelled(label, h('select', { id, onchange: choose }, options(items, chosen))));
}

/// Predictions of the run on other hosts, links and settings, chosen by sliders.
export function whatIf({ data, view, remember }: RunContext, owner: Owner): Section {
  const settings = parseSettings(view.whatIf);
  let setup: StepSetup | null = null; // what the run has; known from the first answer on
  let answer: WhatIfAnswer | null = null;
  const changed = (): void => {
    view.whatIf = settingsText(settings);
    remember();
    owner.load();
    owner.draw();
  };
  const set = (name: string, value: string): void => {
    if (value === '') settings.delete(name);
    else settings.set(name, value);
    changed();
  };
  const reset = (): void => {
    settings.clear();
    changed();
  };
  return {
    load: async () => {
      answer = await getJson<WhatIfAnswer>(`/runs/${data.id}/what-if?${new URLSearchParams([...settings])}`);
      setup ??= answer.baseline.setup;
      owner.said = summaryOf(answer, settings.size > 0);
    },
    // Before the first answer nothing is known of the run's setup: a refused setting of the address is then left out.
    failed: (error) => {
      if (!setup && settings.size > 0 && error instanceof ApiError && [400, 422].includes(error.status)) return reset();
      answer = null;
      owner.say(`Not predicted: ${explain(error)}`);
    },
    render: () =>
      h(
        'div.lab.what-if',
        h(
          'div.what-if-controls',
          setup && SLIDERS.map((slider) => sliderOf(slider, setup!, settings, set)),
          setup && CHOICES.map((choice) => choiceOf(choice, setup![choice.name], settings, set)),
          setup && h('button.chip', { onclick: reset }, 'Everything as it is'),
        ),
        status(owner.said),
        h('div', answer && resultOf(answer, settings.size > 0)),
      ),
  };
}
