import { BASE, explain, fetchText } from '../api/client';
import type { Artifact } from '../api/types';
import { type Child, h, valueOf } from '../lib/dom';
import { formatBytes, formatCount, formatScientific, formatSignificant, formatTime } from '../lib/format';
import { Artifacts } from '../data/lab';
import * as probe from '../data/probe_compare';
import { artifactFile, labelled, type Owner, type RunContext, type Section, status, table } from './parts';

const NEWEST = 100;
const MAX_BYTES = 32e6; // of each file, which is read into memory
const WORDS: Record<probe.Sameness, string> = { same: 'same', differs: 'diff', missing: 'missing' };
const CAUSES: Partial<Record<probe.FirstCause, string>> = {
  weights: 'before the update',
  'not compared': 'not all of its inputs were compared',
  'not recorded': 'not all of its inputs were recorded',
  op: 'this op differs',
};

const placeOf = ({ layer, op, member }: probe.ProbeRecord): string => `${op}.${member} of ${layer}`;

function firstTable({ first, distance, cause, carriedOnFrom }: probe.ProbeComparison): Child {
  const record = (first!.a ?? first!.b)!;
  const from = carriedOnFrom?.a ?? carriedOnFrom?.b;
  const element = distance ? formatCount(distance.element) : 'none of those stored';
  const ulp = distance && (Number.isFinite(distance.ulp) ? formatCount(distance.ulp) : '∞');
  const row = [
    formatCount(record.update) + (record.micro_batch >= 0 ? `, micro-batch ${record.micro_batch}` : ''),
    record.phase,
    record.layer,
    record.occurrence > 0 ? `${record.op}, occurrence ${record.occurrence}` : record.op,
    record.member,
    first!.sameness === 'missing' ? `only in ${first!.a ? 'A' : 'B'}` : element,
    distance ? formatSignificant(distance.a, 9) : '',
    distance ? formatSignificant(distance.b, 9) : '',
    distance ? `at least ${ulp}` : '',
    distance ? formatScientific(distance.absolute) : '',
    from ? `carried on from ${placeOf(from)}` : (CAUSES[cause] ?? ''),
  ];
  const heads = ['Update', 'Phase', 'Layer', 'Op', 'Tensor', 'Element', '#A', '#B', '#ULP', '#Absolute', 'Where from'];
  return table('First divergence', heads, [row]);
}

function layerTable({ layers }: probe.ProbeComparison): Child {
  const differing = layers.filter(({ cells }) => Object.values(cells).some((cell) => cell !== 'same'));
  const same = layers.length - differing.length;
  const cellOf = (sameness?: probe.Sameness): Child => sameness && h(`span.probe-${sameness}`, WORDS[sameness]);
  return [
    table(
      'Layers that differ',
      ['Layer', ...probe.COLUMNS.map((name) => name.replace('_', ' '))],
      differing.map(({ layer, cells }) => [layer, ...probe.COLUMNS.map((name) => cellOf(cells[name]))]),
      differing.map(({ layer }) => layer),
    ),
    same === 1 && h('p.muted', 'Another layer is the same.'),
    same > 1 && h('p.muted', `${formatCount(same)} further layers are the same.`),
  ];
}

function summaryOf({ tensors, different, missing, ranksOnly }: probe.ProbeComparison): string {
  const what = ranksOnly
    ? ' Of two ranks only what must be equal on all is compared: weights, summed gradients, moments.'
    : '';
  if (different + missing === 0) return `The probes are the same in all ${formatCount(tensors)} tensors.${what}`;
  const gone = missing > 0 ? `, ${formatCount(missing)} are in one probe only` : '';
  return `The probes differ in ${formatCount(different)} of ${formatCount(tensors)} tensors${gone}.${what}`;
}

const resultOf = (comparison: probe.ProbeComparison): Child => [
  comparison.libraries.map((line) => h('p', `${line}.`)),
  comparison.first && [h('h3', 'First divergence'), firstTable(comparison)],
  comparison.environment.length > 0 && h('p.muted', `The environment differs: ${comparison.environment.join('; ')}.`),
  comparison.first && layerTable(comparison),
];

async function readProbe({ id, name, bytes }: Artifact): Promise<probe.Probe> {
  const limit = `this page reads up to ${formatBytes(MAX_BYTES)}: nmt probe compare reads any.`;
  if (bytes > MAX_BYTES) throw new Error(`${name} has ${formatBytes(bytes)}, ${limit}`);
  return probe.parseProbe(await fetchText(`${BASE}/artifacts/${id}/file`), name);
}

const listOf = (items: readonly Artifact[]): Child =>
  table(
    'Probes',
    ['#Update', '#Rank', 'Written', '#Size', 'File'],
    items.map((item) => [
      formatCount(item.update),
      formatCount(item.rank),
      formatTime(item.created_at),
      formatBytes(item.bytes),
      artifactFile(item),
    ]),
    items.map(({ id }) => id),
  );

/// Comparisons of two probes, whose files are then read into memory.
class Comparison {
  private readonly read = new Map<string, probe.Probe>(); // by id and digest
  private readonly chosen = ['', ''];
  private items: readonly Artifact[] = [];
  private told = '';
  private busy = false;
  private result: probe.ProbeComparison | null = null;

  constructor(private readonly owner: Owner) {}

  offer(items: readonly Artifact[]): void {
    this.items = items.filter(({ name }) => name.endsWith('.jsonl'));
  }

  render(): Child {
    const button = h('button.chip', { disabled: this.busy, onclick: () => void this.compare() }, 'Compare');
    return h(
      'div.lab',
      { hidden: this.items.length < 2 },
      h('p.field-row', this.select(0, 'probe-a', 'Compare'), this.select(1, 'probe-b', 'with'), button),
      h('p', { role: 'status' }, this.told),
      h('div.lab', this.result && resultOf(this.result)),
    );
  }

  private pick(side: number): Artifact | undefined {
    return this.items.find(({ id }) => id === this.chosen[side]) ?? this.items[side];
  }

  private select(side: number, id: string, label: string): Child {
    const onchange = (event: Event): void => {
      this.chosen[side] = valueOf(event);
    };
    const option = (item: Artifact): Child => {
      const attributes = { value: item.id, selected: item === this.pick(side), 'data-key': item.id };
      return h('option', attributes, `update ${formatCount(item.update)}, rank ${item.rank}`);
    };
    return labelled(label, h('select', { id, onchange }, this.items.map(option)));
  }

  private show(told: string, result: probe.ProbeComparison | null = null): void {
    this.owner.set(() => ([this.told, this.result] = [told, result]));
  }

  private async compare(): Promise<void> {
    const [first, second] = [this.pick(0), this.pick(1)];
    if (!first || !second) return;
    this.busy = true;
    this.show('Comparing …');
    const comparing = Promise.all([this.probe(first), this.probe(second)]).then(([a, b]) => probe.compareProbes(a, b));
    const found = await comparing.catch((error: unknown) => explain(error));
    this.busy = false;
    if (typeof found === 'string') this.show(found);
    else this.show(summaryOf(found), found);
  }

  private async probe(artifact: Artifact): Promise<probe.Probe> {
    const key = `${artifact.id} ${artifact.sha256}`;
    const found = this.read.get(key) ?? (await readProbe(artifact));
    this.read.set(key, found);
    return found;
  }
}

/// The files that probes of the run wrote, one of each rank, and comparisons of two of them.
export function probes({ data }: RunContext, owner: Owner): Section {
  const artifacts = new Artifacts(data.id, 'probe', () => null);
  const comparison = new Comparison(owner);
  let items: readonly Artifact[] = [];
  return {
    load: async () => {
      items = await artifacts.newest(NEWEST);
      comparison.offer(items);
      owner.said = items.length > 0 ? '' : 'No probe yet. A run records every tensor of the update lab.probe.at.';
    },
    render: () => [status(owner.said), comparison.render(), h('div', items.length > 0 && listOf(items))],
  };
}
