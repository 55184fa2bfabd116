import { isObject } from './lab';

const TEXTS = ['phase', 'layer', 'op', 'member', 'role', 'dtype', 'sha256', 'elements'] as const;
const NUMBERS = ['record', 'update', 'micro_batch', 'occurrence'] as const;
const LISTS = ['shape', 'inputs'] as const;

/// A tensor that an op wrote, as a line of a probe describes it (docs/formats.md, "Probes"). `elements`: bits of up to 64 elements in
/// hexadecimal digits. `left_out`: inputs also come from ops without records, of other layers or ranks; absent from older probes.
export type ProbeRecord = Record<(typeof TEXTS)[number], string> &
  Record<(typeof NUMBERS)[number], number> &
  Record<(typeof LISTS)[number], number[]> & { left_out?: boolean };

export type Probe = { header: Record<string, unknown>; batch: string; records: ProbeRecord[] };
export type Sameness = 'same' | 'differs' | 'missing';

/// One tensor of two probes; null where a probe lacks it.
export type ProbePair = { a: ProbeRecord | null; b: ProbeRecord | null; sameness: Sameness };
export const COLUMNS = ['output', 'grad_output', 'grad_input', 'weight_grad', 'weight'] as const;
export type LayerRow = { layer: string; cells: Partial<Record<(typeof COLUMNS)[number], Sameness>> };

/// The stored element with the largest distance; `ulp`: steps between neighbouring values of the type, through zero.
export type Distance = { element: number; a: number; b: number; absolute: number; ulp: number };

/// Why the first pair differs. An op is at fault only if everything that it read was recorded, compared and the same.
export type FirstCause = 'none' | 'weights' | 'missing' | 'carried on' | 'not compared' | 'not recorded' | 'op';

export interface ProbeComparison {
  ranksOnly: boolean; // only what must be equal on all ranks was compared
  tensors: number;
  different: number;
  missing: number;
  first: ProbePair | null; // the first pair that is not the same
  distance: Distance | null; // of `first`; null if no stored element differs
  cause: FirstCause;
  carriedOnFrom: ProbePair | null; // an input of `first` that was not the same either
  libraries: string[]; // "oneDNN differs: 2.6.3 / 3.7.2": they may explain all other differences
  environment: string[]; // other differences of the headers: "threads: 1 and 2"
  layers: LayerRow[]; // in the order of the forward pass
}

const VERSION = 2;
const SAMPLED = 64;
const textOf = (value: unknown): string => (typeof value === 'string' || typeof value === 'number' ? `${value}` : '');

function parsed(line: string, name: string, number: number): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line);
    if (isObject(value)) return value;
  } catch {
    // told below
  }
  throw new Error(`${name}:${number}: expected a JSON object`);
}

/// Reads a probe. Throws Error naming the file, the line and what was expected.
export function parseProbe(text: string, name: string): Probe {
  const lines = text.split('\n').filter((line) => line !== '');
  const [header, ...rest] = lines.map((line, at) => parsed(line, name, at + 1));
  if (header?.['format'] !== 'babelring-probe') throw new Error(`${name}:1: no probe`);
  if (header['version'] !== VERSION)
    throw new Error(`${name}:1: probe format version ${textOf(header['version'])}, this page reads version ${VERSION}`);
  const end = rest.pop();
  if (end?.['end'] !== true || end['records'] !== rest.length)
    throw new Error(`${name}: expected an end with the number of records, the file is torn`);
  rest.forEach((record, at) => {
    const wrong =
      TEXTS.find((member) => typeof record[member] !== 'string') ??
      NUMBERS.find((member) => typeof record[member] !== 'number') ??
      LISTS.find((member) => !Array.isArray(record[member]));
    if (wrong !== undefined) throw new Error(`${name}:${at + 2}: member '${wrong}' is missing or of another type`);
  });
  return { header, batch: textOf(end['batch']), records: rest as unknown as ProbeRecord[] };
}

const keyOf = ({ update, micro_batch, phase, layer, op, member, occurrence }: ProbeRecord): string =>
  [update, micro_batch, phase, layer, op, member, occurrence].join('/');

const contentOf = ({ sha256, dtype, shape }: ProbeRecord): string => [sha256, dtype, ...shape].join();

const equalOnRanks = ({ phase, op }: ProbeRecord): boolean =>
  phase === 'start' || op === 'gradient_sum' || op === 'adam_update';

const mask = (1n << 64n) - 1n;

function mix64(word: bigint): bigint {
  let x = word;
  x = ((x ^ (x >> 33n)) * 0xff51afd7ed558ccdn) & mask;
  x = ((x ^ (x >> 33n)) * 0xc4ceb9fe1a85ec53n) & mask;
  return x ^ (x >> 33n);
}

/// The index of the stored element number `at` of a tensor, as sampled_places() of lab/probe/tensor_distance.cc.
export function sampledPlace(elements: number, at: number): number {
  if (elements <= SAMPLED) return at;
  if (at === 0) return 0;
  if (at === SAMPLED - 1) return elements - 1;
  const begin = Math.floor((at * elements) / SAMPLED);
  const end = Math.floor(((at + 1) * elements) / SAMPLED);
  return begin + Number(mix64(BigInt(elements) ^ mix64(BigInt(at))) % BigInt(end - begin));
}

function valueOf(bits: number, dtype: string): number {
  if (dtype === 'i32') return bits | 0;
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, dtype === 'bf16' ? (bits << 16) >>> 0 : bits);
  return view.getFloat32(0);
}

/// The bits as integers in the order of the values; +0 and -0 both 0.
function ordered(bits: number, dtype: string): number {
  if (dtype === 'i32') return bits | 0;
  const sign = dtype === 'bf16' ? 0x8000 : 0x80000000;
  return bits >= sign ? -(bits - sign) : bits;
}

export function distanceOf(a: ProbeRecord, b: ProbeRecord): Distance | null {
  const digits = a.dtype === 'bf16' ? 4 : 8;
  const elements = a.shape.reduce((product, extent) => product * extent, 1);
  let worst: Distance | null = null;
  for (let at = 0; at < Math.min(a.elements.length, b.elements.length) / digits; at += 1) {
    const bitsOf = (record: ProbeRecord): number => parseInt(record.elements.slice(at * digits, (at + 1) * digits), 16);
    const [bitsA, bitsB] = [bitsOf(a), bitsOf(b)];
    const [valueA, valueB] = [valueOf(bitsA, a.dtype), valueOf(bitsB, a.dtype)];
    if (Object.is(valueA, valueB) || valueA === valueB) continue;
    const absolute = Math.abs(valueA - valueB);
    const apart = Math.abs(ordered(bitsA, a.dtype) - ordered(bitsB, a.dtype));
    const ulp = Number.isNaN(absolute) ? Infinity : apart;
    if (worst === null || ulp > worst.ulp)
      worst = { element: sampledPlace(elements, at), a: valueA, b: valueB, absolute, ulp };
  }
  return worst;
}

const LIBRARIES = ['oneDNN', 'Open MPI', 'SentencePiece', 'glibc'];

/// The libraries whose versions both probes name, and which differ.
function librariesOf(a: Probe, b: Probe): string[] {
  const version = ({ header: { environment } }: Probe, name: string): string =>
    isObject(environment) ? textOf(environment[name]) : '';
  return LIBRARIES.filter((name) => {
    const [first, second] = [version(a, name), version(b, name)];
    return first !== '' && second !== '' && first !== second;
  }).map((name) => `${name} differs: ${version(a, name)} / ${version(b, name)}`);
}

function environmentOf(a: Probe, b: Probe, libraries: readonly string[]): string[] {
  const flat = ({ header: { environment, ...others } }: Probe): Record<string, unknown> => {
    return { ...others, ...(isObject(environment) ? environment : {}) };
  };
  const [first, second] = [flat(a), flat(b)];
  const shorter = (text: string): string => (/^[0-9a-f]{64}$/.test(text) ? text.slice(0, 12) : text) || 'none';
  return [...new Set([...Object.keys(first), ...Object.keys(second)])]
    .filter((name) => name !== 'rank' && !libraries.some((line) => line.startsWith(`${name} differs: `)))
    .filter((name) => textOf(first[name]) !== textOf(second[name]))
    .map((name) => `${name}: ${shorter(textOf(first[name]))} and ${shorter(textOf(second[name]))}`);
}

/// Throws Error if the probes cannot be compared.
function requireAlike(a: Probe, b: Probe, ranksOnly: boolean): void {
  const differ = (what: string, one: unknown, other: unknown): void => {
    if (textOf(one) !== textOf(other)) throw new Error(`The probes are of different ${what}.`);
  };
  differ('models', a.header['model'], b.header['model']);
  differ('modes', a.header['mode'], b.header['mode']);
  differ('updates', a.header['first_update'], b.header['first_update']);
  if (!ranksOnly) differ('batches', a.batch, b.batch);
}

function pairUp(a: Probe, b: Probe, ranksOnly: boolean): ProbePair[] {
  const taken = ({ records }: Probe): ProbeRecord[] => records.filter((record) => !ranksOnly || equalOnRanks(record));
  const others = new Map(taken(b).map((record) => [keyOf(record), record]));
  const pairs: ProbePair[] = taken(a).map((record) => {
    const other = others.get(keyOf(record)) ?? null;
    others.delete(keyOf(record));
    const same = other !== null && contentOf(other) === contentOf(record);
    return { a: record, b: other, sameness: other === null ? 'missing' : same ? 'same' : 'differs' };
  });
  return [...pairs, ...[...others.values()].map((b): ProbePair => ({ a: null, b, sameness: 'missing' }))];
}

const worse = (one: Sameness | undefined, other: Sameness): Sameness => {
  const order: (Sameness | undefined)[] = [undefined, 'same', 'differs', 'missing'];
  return order.indexOf(one) > order.indexOf(other) ? one! : other;
};

function layersOf(pairs: readonly ProbePair[], byNumber: ReadonlyMap<number, ProbePair>): LayerRow[] {
  const rows = new Map<string, LayerRow>();
  const isForward = ({ a, b }: ProbePair): boolean => (a ?? b)!.phase !== 'start' && (a ?? b)!.role === 'output';
  for (const pair of [...pairs.filter(isForward), ...pairs.filter((pair) => !isForward(pair))]) {
    const { layer, role, op, inputs } = (pair.a ?? pair.b)!;
    const row = rows.get(layer) ?? { layer, cells: {} };
    rows.set(layer, row);
    const column = COLUMNS.find((name) => name === role);
    if (column) row.cells[column] = worse(row.cells[column], pair.sameness);
    if ((role !== 'grad_input' && role !== 'weight_grad') || !pair.a || op === 'gradient_sum') continue;
    for (const from of inputs.map((number) => byNumber.get(number)))
      if (from?.a?.role === 'grad_input' && from.a.layer !== layer)
        row.cells.grad_output = worse(row.cells.grad_output, from.sameness);
  }
  return [...rows.values()];
}

/// True if some inputs of the record may have no records; older probes do not say.
function leavesOut({ header }: Probe, record: ProbeRecord | null): boolean {
  if (record === null) return false;
  const sums = record.op === 'gradient_sum' || record.op === 'adam_update';
  return record.left_out ?? (textOf(header['layers'] ?? 'all') !== 'all' || (sums && Number(header['ranks']) > 1));
}

function causeOf(a: Probe, b: Probe, first: ProbePair | null, inputs: readonly (ProbePair | undefined)[]): FirstCause {
  if (first === null) return 'none';
  if (first.sameness === 'missing') return 'missing';
  if (first.a?.phase === 'start') return 'weights';
  if (inputs.some((pair) => pair && pair.sameness !== 'same')) return 'carried on';
  if (inputs.some((pair) => pair === undefined)) return 'not compared';
  return leavesOut(a, first.a) || leavesOut(b, first.b) ? 'not recorded' : 'op';
}

/// Compares two probes bit by bit. Of different ranks only what must be equal on all of them: weights, summed gradients, moments.
/// Throws Error if they cannot be compared.
export function compareProbes(a: Probe, b: Probe): ProbeComparison {
  const ranksOnly = a.header['rank'] !== b.header['rank'] || a.header['ranks'] !== b.header['ranks'];
  requireAlike(a, b, ranksOnly);
  const pairs = pairUp(a, b, ranksOnly);
  if (pairs.length === 0) throw new Error('The probes have no tensors that can be compared.');
  const byNumber = new Map(pairs.flatMap((pair) => (pair.a ? [[pair.a.record, pair] as const] : [])));
  const byOther = new Map(pairs.flatMap((pair) => (pair.b ? [[pair.b.record, pair] as const] : [])));
  const libraries = librariesOf(a, b);
  const first = pairs.find(({ sameness }) => sameness !== 'same') ?? null;
  const inputs = [
    ...(first?.a?.inputs ?? []).map((number) => byNumber.get(number)),
    ...(first?.b?.inputs ?? []).map((number) => byOther.get(number)),
  ];
  return {
    ranksOnly,
    tensors: pairs.length,
    different: pairs.filter(({ sameness }) => sameness === 'differs').length,
    missing: pairs.filter(({ sameness }) => sameness === 'missing').length,
    first,
    distance: first?.a && first.b && first.a.dtype === first.b.dtype ? distanceOf(first.a, first.b) : null,
    cause: causeOf(a, b, first, inputs),
    carriedOnFrom: inputs.find((pair) => pair && pair.sameness !== 'same') ?? null,
    libraries,
    environment: environmentOf(a, b, libraries),
    layers: layersOf(pairs, byNumber),
  };
}
