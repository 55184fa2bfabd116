import { getJson } from '../api/client';
import type { Artifact } from '../api/types';
import { formatPercent, formatScientific } from '../lib/format';

/// The artifacts of one kind of a run, with their contents. Keeps the contents, so that each is fetched once.
export class Artifacts<T> {
  private readonly contents = new Map<string, T | null>(); // by id and digest

  /// `read` turns the content, which the server passes on unchecked, into a value; null if it is not one.
  constructor(
    private readonly run: string,
    private readonly kind: Artifact['kind'],
    private readonly read: (content: unknown) => T | null,
  ) {}

  /// The newest artifacts of the kind, newest first.
  async newest(limit: number): Promise<Artifact[]> {
    const path = `/runs/${this.run}/artifacts?kind=${this.kind}&limit=${limit}`;
    const { items } = await getJson<{ items: Artifact[] }>(path);
    await Promise.all(items.filter(({ content_bytes }) => content_bytes > 0).map((item) => this.fetch(item)));
    return items;
  }

  /// Null if the artifact has no content or none that can be read.
  content({ id, sha256 }: Artifact): T | null {
    return this.contents.get(`${id} ${sha256}`) ?? null;
  }

  private async fetch({ id, sha256 }: Artifact): Promise<void> {
    const key = `${id} ${sha256}`;
    if (this.contents.has(key)) return;
    const { content } = await getJson<Artifact>(`/artifacts/${id}`);
    this.contents.set(key, this.read(content));
  }
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;
const isNumber = (value: unknown): value is number => typeof value === 'number';
const textOf = (value: unknown, other = ''): string => (typeof value === 'string' ? value : other);

/// The parts of an update: name, colour, and the part's ms.
export const SHARES = [
  ['compute', 'blue', 'compute_ms'],
  ['exposed communication', 'orange', 'exposed_ms'],
  ['waiting for data', 'violet', 'data_ms'],
  ['other', 'gray', 'other_ms'],
] as const;

const SHARE_NUMBERS = ['rank', 'total_ms', 'hidden_ms', ...SHARES.map(([, , key]) => key)] as const;

/// How one rank spent the updates of a trace, in ms. The parts but `hidden_ms` add up to the total.
export type RankShares = Record<(typeof SHARE_NUMBERS)[number], number> & { host: string };

/// The content of a trace's artifact. `request` 0: the configuration asked for the trace; `ranks` empty if there are too many.
export type TraceContent = {
  first_update: number;
  updates: number;
  ops: boolean;
  request: number;
  ranks: RankShares[];
};

const isShares = (value: unknown): value is RankShares =>
  isObject(value) && SHARE_NUMBERS.every((name) => isNumber(value[name]));

/// Reads the content of an artifact, which the server passes on unchecked. Null if it is not that of a trace.
export function readTraceContent(content: unknown): TraceContent | null {
  if (!isObject(content)) return null;
  const { first_update, updates, ops, request, ranks } = content;
  if (!isNumber(first_update) || !isNumber(updates) || !Array.isArray(ranks)) return null;
  const shares = ranks.filter(isShares);
  return { first_update, updates, ops: ops === true, request: isNumber(request) ? request : 0, ranks: shares };
}

/// A part of the rank's time, from 0 to 1.
export const shareOf = (rank: RankShares, ms: number): number =>
  rank.total_ms > 0 ? Math.min(1, Math.max(0, ms / rank.total_ms)) : 0;

/// The bytes in use at the end of one op.
export type MemoryMoment = { phase: string; layer: string; op: string; activations: number; scratch: number };
export type MemoryOwner = { layer: string; op: string; member: string; bytes: number };

/// The content of an artifact of kind memory: one rank's memory inside one update.
export interface MemoryCurve {
  update: number;
  rank: number;
  device: string;
  precision: string;
  beside: [string, number][]; // purposes that do not change during an update: weights, gradients, …
  moments: MemoryMoment[];
  peak: number; // index of the moment with the most bytes
  owners: MemoryOwner[]; // at the peak, the largest first
}

/// A layer of the stack: its name and its bytes after each op.
export type MemoryLayer = { name: string; bytes: number[] };

/// Rows of `texts` texts and then only numbers, with these names; others are left out.
function rowsOf<Row>(value: unknown, texts: number, names: readonly (keyof Row & string)[]): Row[] {
  if (!Array.isArray(value)) return [];
  const fits = (row: unknown): row is unknown[] =>
    Array.isArray(row) &&
    row.length === names.length &&
    row.every((cell, at) => typeof cell === (at < texts ? 'string' : 'number'));
  return value.filter(fits).map((row) => Object.fromEntries(names.map((name, at) => [name, row[at]])) as Row);
}

/// Reads the content of an artifact, which the server passes on unchecked. Null if it is not that of a memory trace.
export function readMemoryCurve(content: unknown): MemoryCurve | null {
  if (!isObject(content) || content['format'] !== 1) return null;
  const { update, rank, peak, device, precision, beside_arenas } = content;
  const numbers: (keyof MemoryMoment)[] = ['phase', 'layer', 'op', 'activations', 'scratch'];
  const moments = rowsOf<MemoryMoment>(content['moments'], 3, numbers);
  const owners = rowsOf<MemoryOwner>(content['owners'], 3, ['layer', 'op', 'member', 'bytes']);
  if (!isNumber(update) || !isNumber(rank) || !isNumber(peak) || !moments[peak]) return null;
  const beside = Object.entries(isObject(beside_arenas) ? beside_arenas : {}).filter(
    (entry): entry is [string, number] => isNumber(entry[1]) && entry[1] > 0,
  );
  return { update, rank, device: textOf(device), precision: textOf(precision), beside, moments, peak, owners };
}

/// From the bottom of the stack to its top.
export const layersOf = ({ beside, moments }: MemoryCurve): MemoryLayer[] => [
  ...beside.map(([name, bytes]) => ({ name, bytes: moments.map(() => bytes) })),
  { name: 'activations', bytes: moments.map(({ activations }) => activations) },
  { name: 'scratch', bytes: moments.map(({ scratch }) => scratch) },
];

/// All bytes at the peak.
export const peakBytes = (curve: MemoryCurve): number =>
  layersOf(curve).reduce((sum, { bytes }) => sum + bytes[curve.peak]!, 0);

/// Runs of moments of one phase: [name, number of ops].
export function phasesOf({ moments }: MemoryCurve): [string, number][] {
  const phases: [string, number][] = [];
  for (const { phase } of moments) {
    const last = phases.at(-1);
    if (last && last[0] === phase) last[1] += 1;
    else phases.push([phase, 1]);
  }
  return phases;
}

/// The polygons of a stack in a drawing of the given size, as texts for SVG's `points`.
export function stackOf(layers: readonly MemoryLayer[], width: number, height: number): string[] {
  const moments = (layers[0]?.bytes ?? []).map((_, at) => at);
  const top = Math.max(1, ...moments.map((at) => layers.reduce((sum, { bytes }) => sum + bytes[at]!, 0)));
  const x = (at: number): string => ((width * at) / Math.max(1, moments.length - 1)).toFixed(1);
  const y = (bytes: number): string => (height * (1 - bytes / top)).toFixed(1);
  const edge = (totals: readonly number[]): string[] => totals.map((total, at) => `${x(at)},${y(total)}`);
  let below = moments.map(() => 0);
  return layers.map(({ bytes }) => {
    const above = bytes.map((own, at) => below[at]! + own);
    const points = [...edge(above), ...edge(below).reverse()];
    below = above;
    return points.join(' ');
  });
}

/// A row of a parameter: a subword, a neuron or a part of a head, with the updates in which it changed and the mean of
/// rms(change) / rms(weights before). `label`: a subword's text or the head; may be empty.
export type WindowRow = { row: number; changed: number; ratio: number; label: string };

type Spread = { min: number; mean: number; max: number };
export type CounterId = 'changed' | 'visible' | 'untouched' | 'changed_elements' | 'ratio' | 'max_ratio';

type ParameterRows = { rows: number; width: number; rows_are: string; hottest: WindowRow[]; coldest: WindowRow[] };
export type WindowParameter = Record<CounterId, Spread> & { name: string } & ParameterRows;

const WINDOW_NUMBERS = ['first_update', 'last_update', 'updates'] as const;
const WINDOW_SHARES = ['cold', 'lost_in_rounding', 'untouched_share'] as const; // of all rows, 0 to 1

/// The content of an artifact of kind parameters; `updates` that were counted.
export type ParameterWindow = Record<(typeof WINDOW_NUMBERS)[number] | (typeof WINDOW_SHARES)[number], number> & {
  parameters: WindowParameter[];
};

export const COUNTERS: readonly { id: CounterId; name: string; about: string }[] = [
  { id: 'changed', name: 'changed', about: 'updates in which a row changed; mean over the rows' },
  { id: 'visible', name: 'visible', about: 'updates in which a compute copy of a row changed; mean over the rows' },
  { id: 'untouched', name: 'untouched', about: 'updates in which a row had no gradient; mean over the rows' },
  { id: 'changed_elements', name: 'changed elements', about: 'elements that changed in an update; mean over the rows' },
  { id: 'ratio', name: 'ratio', about: 'rms of the change over rms of the weights; mean over rows and updates' },
  { id: 'max_ratio', name: 'largest ratio', about: 'the largest ratio of any row in any update' },
];

const isSpread = (value: unknown): boolean =>
  isObject(value) && isNumber(value['min']) && isNumber(value['mean']) && isNumber(value['max']);

const windowRows = (value: unknown): WindowRow[] =>
  (Array.isArray(value) ? value.filter(isObject) : []).flatMap(({ row, changed, ratio, label }) => {
    const known = isNumber(row) && isNumber(changed) && isNumber(ratio);
    return known ? [{ row, changed, ratio, label: textOf(label) }] : [];
  });

function parameterOf(value: unknown): WindowParameter[] {
  if (!isObject(value) || typeof value['name'] !== 'string') return [];
  if (!isNumber(value['rows']) || !isNumber(value['width'])) return [];
  if (!COUNTERS.every(({ id }) => isSpread(value[id]))) return [];
  const [hottest, coldest] = [windowRows(value['hottest']), windowRows(value['coldest'])];
  const known = value as unknown as WindowParameter;
  return [{ ...known, rows_are: textOf(value['rows_are'], 'rows'), hottest, coldest }];
}

/// Reads the content of an artifact, which the server passes on unchecked. Null if it is not that of a window.
export function readWindow(content: unknown): ParameterWindow | null {
  if (!isObject(content) || !Array.isArray(content['parameters'])) return null;
  if (!WINDOW_NUMBERS.every((name) => isNumber(content[name])) || Number(content['updates']) < 1) return null;
  const shares = WINDOW_SHARES.map((name) => [name, isNumber(content[name]) ? content[name] : 0] as const);
  const parameters = content['parameters'].flatMap(parameterOf);
  return { ...(content as unknown as ParameterWindow), ...Object.fromEntries(shares), parameters };
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
