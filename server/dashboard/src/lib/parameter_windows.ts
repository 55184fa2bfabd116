import { formatPercent, formatScientific } from './format';

/// A row of a parameter: a subword, a neuron or a part of a head.
export interface WindowRow {
  row: number;
  changed: number; // updates in which it changed
  ratio: number; // mean of rms(change) / rms(weights before)
  label: string; // a subword's text or the head; may be empty
}

interface Spread {
  min: number;
  mean: number;
  max: number;
}

export type CounterId = 'changed' | 'visible' | 'untouched' | 'changed_elements' | 'ratio' | 'max_ratio';

export interface WindowParameter extends Record<CounterId, Spread> {
  name: string;
  rows: number;
  width: number;
  rows_are: string;
  hottest: WindowRow[];
  coldest: WindowRow[];
}

/// The content of an artifact of kind parameters.
export interface ParameterWindow {
  first_update: number;
  last_update: number;
  updates: number; // that were counted
  cold: number; // shares of all rows, 0 to 1
  lost_in_rounding: number;
  untouched_share: number;
  parameters: WindowParameter[];
}

export const COUNTERS: readonly { id: CounterId; name: string; about: string }[] = [
  { id: 'changed', name: 'changed', about: 'updates in which a row changed; mean over the rows' },
  { id: 'visible', name: 'visible', about: 'updates in which a compute copy of a row changed; mean over the rows' },
  { id: 'untouched', name: 'untouched', about: 'updates in which a row had no gradient; mean over the rows' },
  { id: 'changed_elements', name: 'changed elements', about: 'elements that changed in an update; mean over the rows' },
  { id: 'ratio', name: 'ratio', about: 'rms of the change over rms of the weights; mean over rows and updates' },
  { id: 'max_ratio', name: 'largest ratio', about: 'the largest ratio of any row in any update' },
];

const SPREADS = COUNTERS.map(({ id }) => id);

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;
const isNumber = (value: unknown): value is number => typeof value === 'number';

const isSpread = (value: unknown): boolean =>
  isObject(value) && isNumber(value['min']) && isNumber(value['mean']) && isNumber(value['max']);

function rowsOf(value: unknown): WindowRow[] {
  if (!Array.isArray(value)) return [];
  return value
    .filter(isObject)
    .flatMap(({ row, changed, ratio, label }) =>
      isNumber(row) && isNumber(changed) && isNumber(ratio)
        ? [{ row, changed, ratio, label: typeof label === 'string' ? label : '' }]
        : [],
    );
}

function parameterOf(value: unknown): WindowParameter[] {
  if (!isObject(value) || typeof value['name'] !== 'string') return [];
  if (!isNumber(value['rows']) || !isNumber(value['width']) || !SPREADS.every((id) => isSpread(value[id]))) return [];
  const { rows_are, hottest, coldest } = value;
  return [
    {
      ...(value as unknown as WindowParameter),
      rows_are: typeof rows_are === 'string' ? rows_are : 'rows',
      hottest: rowsOf(hottest),
      coldest: rowsOf(coldest),
    },
  ];
}

/// Reads the content of an artifact, which the server passes on unchecked. Null if it is not that of a window.
export function readWindow(content: unknown): ParameterWindow | null {
  if (!isObject(content) || !Array.isArray(content['parameters'])) return null;
  const { first_update, last_update, updates } = content;
  if (!isNumber(first_update) || !isNumber(last_update) || !isNumber(updates) || updates < 1) return null;
  const share = (name: string): number => (isNumber(content[name]) ? content[name] : 0);
  return {
    first_update,
    last_update,
    updates,
    cold: share('cold'),
    lost_in_rounding: share('lost_in_rounding'),
    untouched_share: share('untouched_share'),
    parameters: content['parameters'].flatMap(parameterOf),
  };
}

const isRatio = (counter: CounterId): boolean => counter === 'ratio' || counter === 'max_ratio';

/// The value of a cell: a share from 0 to 1, or a ratio.
export function cellValue(counter: CounterId, window: ParameterWindow, parameter: WindowParameter): number {
  if (counter === 'max_ratio') return parameter.max_ratio.max;
  const { mean } = parameter[counter];
  if (counter === 'ratio') return mean;
  return mean / (window.updates * (counter === 'changed_elements' ? parameter.width : 1));
}

export const cellText = (counter: CounterId, value: number): string =>
  isRatio(counter) ? formatScientific(value) : formatPercent(value);

/// How strongly a cell is coloured, 0 to 1: shares as they are, ratios by their logarithm between the least and the largest.
export function heatOf(counter: CounterId, value: number, all: readonly number[]): number {
  if (!isRatio(counter)) return Math.min(1, Math.max(0, value));
  const positive = all.filter((each) => each > 0);
  if (value <= 0 || positive.length === 0) return 0;
  const [least, most] = [Math.log(Math.min(...positive)), Math.log(Math.max(...positive))];
  return most > least ? 0.1 + (0.9 * (Math.log(value) - least)) / (most - least) : 0.5;
}
