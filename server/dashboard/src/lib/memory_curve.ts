/// The bytes in use at the end of one op.
export interface MemoryMoment {
  phase: string;
  layer: string;
  op: string;
  activations: number;
  scratch: number;
}

export interface MemoryOwner {
  layer: string;
  op: string;
  member: string;
  bytes: number;
}

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
export interface MemoryLayer {
  name: string;
  bytes: number[];
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

/// Rows of `texts` texts and then only numbers; others are left out.
function rowsOf(value: unknown, texts: number, width: number): (readonly unknown[])[] {
  if (!Array.isArray(value)) return [];
  return value.filter(
    (row): row is unknown[] =>
      Array.isArray(row) &&
      row.length === width &&
      row.every((cell, at) => typeof cell === (at < texts ? 'string' : 'number')),
  );
}

/// Reads the content of an artifact, which the server passes on unchecked. Null if it is not that of a memory trace.
export function readMemoryCurve(content: unknown): MemoryCurve | null {
  if (!isObject(content) || content['format'] !== 1) return null;
  const { update, rank, peak, device, precision, beside_arenas } = content;
  const moments = rowsOf(content['moments'], 3, 5).map(([phase, layer, op, activations, scratch]) => ({
    phase,
    layer,
    op,
    activations,
    scratch,
  })) as MemoryMoment[];
  if (typeof update !== 'number' || typeof rank !== 'number' || typeof peak !== 'number' || !moments[peak]) return null;
  return {
    update,
    rank,
    device: typeof device === 'string' ? device : '',
    precision: typeof precision === 'string' ? precision : '',
    beside: Object.entries(isObject(beside_arenas) ? beside_arenas : {}).filter(
      (entry): entry is [string, number] => typeof entry[1] === 'number' && entry[1] > 0,
    ),
    moments,
    peak,
    owners: rowsOf(content['owners'], 3, 4).map(([layer, op, member, bytes]) => ({
      layer,
      op,
      member,
      bytes,
    })) as MemoryOwner[],
  };
}

/// From the bottom of the stack to its top.
export function layersOf({ beside, moments }: MemoryCurve): MemoryLayer[] {
  return [
    ...beside.map(([name, bytes]) => ({ name, bytes: moments.map(() => bytes) })),
    { name: 'activations', bytes: moments.map(({ activations }) => activations) },
    { name: 'scratch', bytes: moments.map(({ scratch }) => scratch) },
  ];
}

/// All bytes at the peak.
export function peakBytes(curve: MemoryCurve): number {
  return layersOf(curve).reduce((sum, { bytes }) => sum + bytes[curve.peak]!, 0);
}

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
  const count = layers[0]?.bytes.length ?? 0;
  const top = Math.max(
    1,
    ...Array.from({ length: count }, (_, at) => layers.reduce((sum, { bytes }) => sum + bytes[at]!, 0)),
  );
  const x = (at: number): string => ((width * at) / Math.max(1, count - 1)).toFixed(1);
  const y = (bytes: number): string => (height * (1 - bytes / top)).toFixed(1);
  let below = Array.from({ length: count }, () => 0);
  return layers.map(({ bytes }) => {
    const above = bytes.map((own, at) => below[at]! + own);
    const points = [
      ...above.map((total, at) => `${x(at)},${y(total)}`),
      ...below.map((total, at) => `${x(at)},${y(total)}`).reverse(),
    ];
    below = above;
    return points.join(' ');
  });
}
