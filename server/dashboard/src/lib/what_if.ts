import type { StepParts, StepSetup } from '../api/types';
import { formatSignificant } from './format';

/// Settings of a prediction by name, as the server takes them; absent settings stay as the run has them.
export type Settings = ReadonlyMap<string, string>;

export interface Slider {
  name: 'hosts' | 'ranks_per_host' | 'link_gbit' | 'latency_us' | 'bucket_mb' | 'accumulate' | 'straggler';
  label: string;
  unit: string;
  values: readonly number[];
}

export const SLIDERS: readonly Slider[] = [
  { name: 'hosts', label: 'Hosts', unit: '', values: [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128] },
  { name: 'ranks_per_host', label: 'Ranks on each host', unit: '', values: [1, 2, 3, 4, 6, 8] },
  {
    name: 'link_gbit',
    label: 'Link between hosts',
    unit: 'Gbit/s',
    values: [1, 2, 2.5, 5, 10, 20, 25, 40, 50, 100, 200, 400],
  },
  {
    name: 'latency_us',
    label: 'Latency between hosts',
    unit: 'µs',
    values: [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
  },
  { name: 'bucket_mb', label: 'Bucket', unit: 'MB', values: [0.5, 1, 2, 4, 8, 16, 25, 32, 64, 128] },
  { name: 'accumulate', label: 'Micro-batches in an update', unit: '', values: [1, 2, 3, 4, 6, 8, 12, 16] },
  { name: 'straggler', label: 'One rank slower by', unit: '%', values: [0, 5, 10, 20, 50, 100] },
];

export interface Choice {
  name: 'wire' | 'algorithm' | 'optimizer';
  label: string;
  words: readonly (readonly [word: string, text: string])[];
}

export const CHOICES: readonly Choice[] = [
  {
    name: 'wire',
    label: 'Gradients in messages',
    words: [
      ['f32', 'f32'],
      ['bf16', 'bf16'],
      ['int8', 'int8 (not by NCCL)'],
    ],
  },
  {
    name: 'algorithm',
    label: 'Sum of gradients',
    words: [
      ['one-copy', 'shared memory, one host'],
      ['ring', 'ring'],
      ['two_level', 'two levels'],
      ['staged', 'staged ring, of GPUs without NCCL'],
      ['tree', 'tree (not offered by the worker)'],
    ],
  },
  {
    name: 'optimizer',
    label: "Optimizer's state",
    words: [
      ['replicated', 'on every host'],
      ['sharded', 'a share on each host'],
    ],
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
export interface Stop {
  value: string;
  text: string;
}

/// The positions of a slider: its values, with what the run has in between.
export function stopsOf(slider: Slider, own: StepSetup): Stop[] {
  const unit = slider.unit && ` ${slider.unit}`;
  const has = own[slider.name];
  const others = slider.values.filter((value) => value !== has);
  const stops = others.map((value) => ({ value: String(value), text: `${value}${unit}` }));
  const before = has === null ? others.length : others.filter((value) => value < has).length;
  const text = `as it is${has === null ? '' : `: ${formatSignificant(has, 3)}${unit}`}`;
  stops.splice(before, 0, { value: '', text });
  return stops;
}

/// The parts of an update: name, colour, and the part's ms.
export const PARTS = [
  ['waiting for data', 'violet', 'data_ms'],
  ['forward', 'blue', 'forward_ms'],
  ['backward', 'navy', 'backward_ms'],
  ['exposed communication', 'orange', 'exposed_communication_ms'],
  ['optimizer', 'teal', 'optimizer_ms'],
  ['other', 'gray', 'other_ms'],
] as const satisfies readonly (readonly [string, string, keyof StepParts])[];
