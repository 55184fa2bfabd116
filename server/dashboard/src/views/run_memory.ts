import { BASE } from '../api/request';
import type { Artifact } from '../api/types';
import { Artifacts } from '../data/artifacts';
import { h, Slot, type Child } from '../lib/dom';
import { formatBytes, formatCount, formatPercent } from '../lib/format';
import {
  layersOf,
  peakBytes,
  phasesOf,
  readMemoryCurve,
  stackOf,
  type MemoryCurve,
  type MemoryLayer,
} from '../lib/memory_curve';
import { table } from './tables';

const NEWEST = 64; // artifacts, one of each rank
const [WIDTH, HEIGHT] = [1000, 220];
const COLORS = ['gray', 'navy', 'blue', 'teal', 'violet'];
const OWN_COLORS: Record<string, string> = {
  activations: 'orange',
  scratch: 'violet',
  weights: 'blue',
  gradients: 'navy',
  moments: 'teal',
};

const colorOf = ({ name }: MemoryLayer, at: number): string => OWN_COLORS[name] ?? COLORS[at % COLORS.length]!;

const whereOf = ({ op, layer, phase }: { op: string; layer: string; phase: string }): string =>
  `${op}${layer ? ` of ${layer}` : ''}${phase ? ` in ${phase}` : ''}`;

function shape(name: 'svg' | 'polygon' | 'line', attributes: Record<string, string | number>): SVGElement {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}

/// The stack of purposes after each op, with a line at the peak.
function drawingOf(curve: MemoryCurve, layers: readonly MemoryLayer[], label: string): SVGElement {
  const svg = shape('svg', {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    preserveAspectRatio: 'none',
    class: 'memory-curve',
    role: 'img',
    'aria-label': label,
  });
  stackOf(layers, WIDTH, HEIGHT).forEach((points, at) => {
    const area = shape('polygon', { points });
    area.style.fill = `var(--${colorOf(layers[at]!, at)})`;
    svg.append(area);
  });
  const x = (WIDTH * curve.peak) / Math.max(1, curve.moments.length - 1);
  svg.append(shape('line', { x1: x, x2: x, y1: 0, y2: HEIGHT }));
  return svg;
}

function phaseBar(curve: MemoryCurve): HTMLElement {
  return h(
    'div',
    { class: 'memory-phases muted', 'aria-hidden': 'true' },
    phasesOf(curve).map(([name, ops]) => {
      const part = h('span', {}, name || '–');
      part.style.flexGrow = String(ops);
      return part;
    }),
  );
}

function ownerTable(curve: MemoryCurve): HTMLElement {
  const { activations, scratch } = curve.moments[curve.peak]!;
  return table(
    'Largest owners at the peak',
    ['Layer', 'Op', 'Tensor', '#Bytes', '#Of both arenas'],
    curve.owners.map(({ layer, op, member, bytes }) => [
      layer || '–',
      op,
      member,
      formatBytes(bytes),
      formatPercent(bytes / Math.max(1, activations + scratch)),
    ]),
  );
}

function curveItem(curve: MemoryCurve): Child {
  const layers = layersOf(curve);
  const moment = curve.moments[curve.peak]!;
  const owner = curve.owners[0];
  const peak =
    `Peak: ${formatBytes(peakBytes(curve))} after op ${formatCount(curve.peak + 1)} of ${formatCount(curve.moments.length)}, ${whereOf(moment)}.` +
    (owner
      ? ` Its largest owner is ${owner.op}.${owner.member} of ${owner.layer || 'no layer'}, ${formatBytes(owner.bytes)}.`
      : '');
  return [
    h(
      'p',
      { class: 'trace-legend muted' },
      layers.map((layer, at) =>
        h(
          'span',
          { class: 'legend-item' },
          h('span', { class: `swatch swatch-${colorOf(layer, at)}` }),
          `${layer.name} ${formatBytes(layer.bytes[curve.peak]!)}`,
        ),
      ),
    ),
    drawingOf(curve, layers, `Bytes in use after each op, stacked by purpose. ${peak}`),
    phaseBar(curve),
    h('p', {}, peak),
    ownerTable(curve),
  ];
}

/// The memory inside updates, one curve at a time.
export class MemoryCurves {
  readonly element = h('div', { class: 'lab' });
  private readonly artifacts: Artifacts<MemoryCurve>;
  private readonly slot = new Slot();
  private readonly choice = new Slot();
  private items: readonly Artifact[] = [];
  private chosen = '';

  constructor(run: string) {
    this.artifacts = new Artifacts(run, 'memory', readMemoryCurve);
    this.element.append(this.choice.element, this.slot.element);
  }

  async fetch(): Promise<void> {
    this.items = await this.artifacts.newest(NEWEST);
    if (!this.items.some(({ id }) => id === this.chosen)) this.chosen = this.items[0]?.id ?? '';
    this.draw();
  }

  private draw(): void {
    const { items, chosen } = this;
    this.choice.show([items], () => (items.length === 0 ? null : this.select()));
    this.slot.show([items, chosen], () => {
      const item = items.find(({ id }) => id === chosen);
      return item ? this.itemOf(item) : null;
    });
  }

  private select(): Child {
    const select = h(
      'select',
      {
        id: 'memory-of',
        onchange: () => {
          this.chosen = select.value;
          this.draw();
        },
      },
      this.items.map(({ id, update, rank }) =>
        h('option', { value: id, selected: id === this.chosen }, `update ${formatCount(update)}, rank ${rank}`),
      ),
    );
    return h('p', { class: 'field-row' }, h('label', { for: 'memory-of' }, 'Memory of'), select);
  }

  private itemOf(item: Artifact): Child {
    const curve = this.artifacts.content(item);
    return h(
      'div',
      { class: 'lab', 'data-key': item.id },
      curve
        ? curveItem(curve)
        : h(
            'p',
            { class: 'muted' },
            'The curve is not shown: it exceeds 256 KiB or is of another version. nmt trace memory shows the file.',
          ),
      h(
        'p',
        {},
        h('a', { href: `${BASE}/artifacts/${item.id}/file`, download: item.name }, item.name),
        ` ${formatBytes(item.bytes)}`,
      ),
    );
  }
}
