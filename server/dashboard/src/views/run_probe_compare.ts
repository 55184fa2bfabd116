import { explain } from '../api/client';
import { BASE } from '../api/request';
import type { Artifact } from '../api/types';
import { h, replaceChildren, setText, type Child } from '../lib/dom';
import { formatBytes, formatCount, formatScientific, formatSignificant } from '../lib/format';
import {
  COLUMNS,
  compareProbes,
  type FirstCause,
  parseProbe,
  type Probe,
  type ProbeComparison,
  type ProbeRecord,
  type Sameness,
} from '../lib/probe_compare';
import { table } from './tables';

const MAX_BYTES = 32e6; // of each file, which is read into memory

const WORDS: Record<Sameness, string> = { same: 'same', differs: 'diff', missing: 'missing' };
const cellOf = (sameness: Sameness | undefined): Child =>
  sameness ? h('span', { class: `probe-${sameness}` }, WORDS[sameness]) : '';

const placeOf = ({ layer, op, member }: ProbeRecord): string => `${op}.${member} of ${layer}`;

const CAUSES: Record<FirstCause, string> = {
  none: '',
  weights: 'before the update',
  missing: '',
  'carried on': '',
  'not compared': 'not all of its inputs were compared',
  'not recorded': 'not all of its inputs were recorded',
  op: 'this op differs',
};

function firstTable({ first, distance, cause, carriedOnFrom }: ProbeComparison): Child {
  const record = (first!.a ?? first!.b)!;
  const from = carriedOnFrom?.a ?? carriedOnFrom?.b;
  return table(
    'First divergence',
    ['Update', 'Phase', 'Layer', 'Op', 'Tensor', 'Element', '#A', '#B', '#ULP', '#Absolute', 'Where from'],
    [
      [
        record.micro_batch >= 0
          ? `${formatCount(record.update)}, micro-batch ${record.micro_batch}`
          : formatCount(record.update),
        record.phase,
        record.layer,
        record.occurrence > 0 ? `${record.op}, occurrence ${record.occurrence}` : record.op,
        record.member,
        first!.sameness === 'missing'
          ? `only in ${first!.a ? 'A' : 'B'}`
          : distance
            ? formatCount(distance.element)
            : 'none of those stored',
        distance ? formatSignificant(distance.a, 9) : '',
        distance ? formatSignificant(distance.b, 9) : '',
        distance ? `at least ${Number.isFinite(distance.ulp) ? formatCount(distance.ulp) : '∞'}` : '',
        distance ? formatScientific(distance.absolute) : '',
        from ? `carried on from ${placeOf(from)}` : CAUSES[cause],
      ],
    ],
  );
}

function layerTable({ layers }: ProbeComparison): Child {
  const differing = layers.filter(({ cells }) => Object.values(cells).some((cell) => cell !== 'same'));
  const same = layers.length - differing.length;
  return [
    table(
      'Layers that differ',
      ['Layer', ...COLUMNS.map((name) => name.replace('_', ' '))],
      differing.map(({ layer, cells }) => [layer, ...COLUMNS.map((name) => cellOf(cells[name]))]),
      differing.map(({ layer }) => layer),
    ),
    same > 0
      ? h(
          'p',
          { class: 'muted' },
          same === 1 ? 'Another layer is the same.' : `${formatCount(same)} further layers are the same.`,
        )
      : null,
  ];
}

function summaryOf({ tensors, different, missing, ranksOnly }: ProbeComparison): string {
  const what = ranksOnly
    ? ' Of two ranks only what must be equal on all is compared: weights, summed gradients, moments.'
    : '';
  if (different + missing === 0) return `The probes are the same in all ${formatCount(tensors)} tensors.${what}`;
  const gone = missing > 0 ? `, ${formatCount(missing)} are in one probe only` : '';
  return `The probes differ in ${formatCount(different)} of ${formatCount(tensors)} tensors${gone}.${what}`;
}

/// Compares two of the listed probes. Reads both files into memory when the user asks for it.
export class ProbeCompare {
  readonly element: HTMLElement;
  private readonly said = h('p', { role: 'status' });
  private readonly result = h('div', { class: 'lab' });
  private readonly selects: readonly HTMLSelectElement[];
  private readonly button: HTMLButtonElement;
  private readonly read = new Map<string, Probe>(); // by id and digest
  private items: readonly Artifact[] = [];

  constructor() {
    this.selects = ['a', 'b'].map((side) => h('select', { id: `probe-${side}` }));
    this.button = h('button', { type: 'button', class: 'chip', onclick: () => void this.compare() }, 'Compare');
    this.element = h(
      'div',
      { class: 'lab', hidden: true },
      h(
        'p',
        { class: 'field-row' },
        this.selects.map((select, at) => [h('label', { for: select.id }, at === 0 ? 'Compare' : 'with'), select]),
        this.button,
      ),
      this.said,
      this.result,
    );
  }

  /// `items`: the artifacts of probes, newest first.
  update(items: readonly Artifact[]): void {
    this.items = items.filter(({ name }) => name.endsWith('.jsonl'));
    this.element.hidden = this.items.length < 2;
    this.selects.forEach((select, at) => {
      const chosen = select.value;
      replaceChildren(
        select,
        this.items.map(({ id, update, rank }) =>
          h('option', { value: id }, `update ${formatCount(update)}, rank ${rank}`),
        ),
      );
      const known = this.items.some(({ id }) => id === chosen);
      select.value = known ? chosen : (this.items[at]?.id ?? '');
    });
  }

  private async compare(): Promise<void> {
    const chosen = this.selects.map(({ value }) => this.items.find(({ id }) => id === value));
    replaceChildren(this.result);
    if (chosen[0] === undefined || chosen[1] === undefined) return;
    this.button.disabled = true;
    setText(this.said, 'Comparing …');
    try {
      const [a, b] = await Promise.all([this.probe(chosen[0]), this.probe(chosen[1])]);
      this.show(compareProbes(a, b));
    } catch (error) {
      setText(this.said, error instanceof Error && error.constructor === Error ? error.message : explain(error));
    } finally {
      this.button.disabled = false;
    }
  }

  private async probe({ id, sha256, name, bytes }: Artifact): Promise<Probe> {
    const key = `${id} ${sha256}`;
    const known = this.read.get(key);
    if (known) return known;
    if (bytes > MAX_BYTES)
      throw new Error(
        `${name} has ${formatBytes(bytes)}, this page reads up to ${formatBytes(MAX_BYTES)}: nmt probe compare reads any.`,
      );
    const { fetchText } = await import('../api/download');
    const probe = parseProbe(await fetchText(`${BASE}/artifacts/${id}/file`), name);
    this.read.set(key, probe);
    return probe;
  }

  private show(comparison: ProbeComparison): void {
    setText(this.said, summaryOf(comparison));
    replaceChildren(
      this.result,
      comparison.libraries.map((line) => h('p', {}, `${line}.`)),
      comparison.first ? [h('h3', {}, 'First divergence'), firstTable(comparison)] : null,
      comparison.environment.length > 0
        ? h('p', { class: 'muted' }, `The environment differs: ${comparison.environment.join('; ')}.`)
        : null,
      comparison.first ? layerTable(comparison) : null,
    );
  }
}
