import { getJson } from '../api/client';
import { may } from '../api/session';
import type { Artifact, TraceRequest } from '../api/types';
import { type Child, h, svg, valueOf } from '../lib/dom';
import { capital, DASH, formatBytes, formatCount, formatMs, formatPercent } from '../lib/format';
import * as lab from '../lib/lab';
import { artifactFile, legendItems, type Owner, type Section, splitBar, status, table } from './parts';
import type { RunContext } from './run_sections';

const NEWEST = 5; // traces that are shown
const NEWEST_CURVES = 64; // one of each rank
const MAX_RANKS = 64;
const POLL_MS = 2000; // while a trace is under way
const [WIDTH, HEIGHT] = [1000, 220];
const COLORS = ['gray', 'navy', 'blue', 'teal', 'violet'];
const OWN_COLORS: Record<string, string> = {
  activations: 'orange',
  scratch: 'violet',
  weights: 'blue',
  gradients: 'navy',
  moments: 'teal',
};

const colorOf = ({ name }: lab.MemoryLayer, at: number): string => OWN_COLORS[name] ?? COLORS[at % COLORS.length]!;

/// The stack of purposes after each op, with a line at the peak.
function drawingOf(curve: lab.MemoryCurve, layers: readonly lab.MemoryLayer[], label: string): SVGElement {
  const areas = lab.stackOf(layers, WIDTH, HEIGHT).map((points, at) => {
    const area = svg('polygon', { points });
    area.style.fill = `var(--${colorOf(layers[at]!, at)})`;
    return area;
  });
  const x = (WIDTH * curve.peak) / Math.max(1, curve.moments.length - 1);
  const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label };
  return svg('svg.memory-curve', box, areas, svg('line', { x1: x, x2: x, y1: 0, y2: HEIGHT }));
}

function phaseBar(curve: lab.MemoryCurve): HTMLElement {
  const phases = lab.phasesOf(curve).map(([name, ops]) => {
    const part = h('span', name || DASH);
    part.style.flexGrow = String(ops);
    return part;
  });
  return h('div.memory-phases.muted', { 'aria-hidden': 'true' }, phases);
}

function peakText(curve: lab.MemoryCurve): string {
  const { op, layer, phase } = curve.moments[curve.peak]!;
  const where = `${op}${layer ? ` of ${layer}` : ''}${phase ? ` in ${phase}` : ''}`;
  const count = formatCount(curve.moments.length);
  const peak = `Peak: ${formatBytes(lab.peakBytes(curve))} after op ${formatCount(curve.peak + 1)} of ${count}, ${where}.`;
  const owner = curve.owners[0];
  if (!owner) return peak;
  const layerName = owner.layer || 'no layer';
  return `${peak} Its largest owner is ${owner.op}.${owner.member} of ${layerName}, ${formatBytes(owner.bytes)}.`;
}

function ownerTable({ moments, peak, owners }: lab.MemoryCurve): HTMLElement {
  const { activations, scratch } = moments[peak]!;
  const share = (bytes: number): string => formatPercent(bytes / Math.max(1, activations + scratch));
  return table(
    'Largest owners at the peak',
    ['Layer', 'Op', 'Tensor', '#Bytes', '#Of both arenas'],
    owners.map(({ layer, op, member, bytes }) => [layer || DASH, op, member, formatBytes(bytes), share(bytes)]),
  );
}

function curveItem(curve: lab.MemoryCurve): Child {
  const layers = lab.layersOf(curve);
  const named = layers.map((layer, at) => {
    return [`${layer.name} ${formatBytes(layer.bytes[curve.peak]!)}`, colorOf(layer, at)] as const;
  });
  const peak = peakText(curve);
  return [
    h('p.trace-legend.muted', legendItems(named)),
    drawingOf(curve, layers, `Bytes in use after each op, stacked by purpose. ${peak}`),
    phaseBar(curve),
    h('p', peak),
    ownerTable(curve),
  ];
}

/// The memory inside updates, one curve at a time.
function memory(
  items: readonly Artifact[],
  item: Artifact,
  curve: lab.MemoryCurve | null,
  choose: (id: string) => void,
): Child {
  const option = ({ id, update, rank }: Artifact): HTMLElement =>
    h('option', { value: id, selected: id === item.id, 'data-key': id }, `update ${formatCount(update)}, rank ${rank}`);
  const select = h(
    'select',
    { id: 'memory-of', onchange: (event: Event) => choose(valueOf(event)) },
    items.map(option),
  );
  const unshown =
    'The curve is not shown: it exceeds 256 KiB or is of another version. nmt trace memory shows the file.';
  return [
    h('div', h('p.field-row', h('label', { for: 'memory-of' }, 'Memory of'), select)),
    h(
      'div',
      h(
        'div.lab',
        { 'data-key': item.id },
        curve ? curveItem(curve) : h('p.muted', unshown),
        h('p', artifactFile(item), ` ${formatBytes(item.bytes)}`),
      ),
    ),
  ];
}

/// The parts of a rank's time, and below them the part with hidden communication.
function barsOf(rank: lab.RankShares): HTMLElement {
  const hidden = lab.shareOf(rank, rank.hidden_ms);
  const parts = lab.SHARES.map(([, color, key]) => [color, lab.shareOf(rank, rank[key])] as const);
  const bars = [splitBar(parts), splitBar([['teal', hidden], ['', 1 - hidden]])]; // prettier-ignore
  return h('span.trace-bars', { 'aria-hidden': 'true' }, bars);
}

const rankTable = (label: string, { ranks, updates }: lab.TraceContent): Child =>
  table(
    label,
    ['Rank', 'Shares', '#An update', ...lab.SHARES.map(([name]) => `#${capital(name)}`), '#Hidden communication'],
    ranks
      .slice(0, MAX_RANKS)
      .map((rank) => [
        `${rank.rank} ${rank.host}`,
        barsOf(rank),
        formatMs(rank.total_ms / updates),
        ...lab.SHARES.map(([, , key]) => formatPercent(lab.shareOf(rank, rank[key]))),
        formatPercent(lab.shareOf(rank, rank.hidden_ms)),
      ]),
  );

function updatesText(first: number, count: number): string {
  return count === 1
    ? `Update ${formatCount(first)}`
    : `Updates ${formatCount(first)} to ${formatCount(first + count - 1)}`;
}

function traceItem(trace: Artifact, content: lab.TraceContent | null): Child {
  const title = content ? updatesText(content.first_update, content.updates) : `Update ${formatCount(trace.update)}`;
  const ranks = content?.ranks ?? [];
  const without = content && !content.ops ? ' without ops' : '';
  return h(
    'div.trace',
    { 'data-key': trace.id },
    h('h3', title, without, ' · ', artifactFile(trace, 'download'), ` ${formatBytes(trace.bytes)}`),
    content && ranks.length > 0
      ? rankTable(`Shares of ${title.toLowerCase()} by rank`, content)
      : h('p.muted', 'The file has no summary: it is of too many ranks or of an older version.'),
    ranks.length > MAX_RANKS && h('p.muted', `the first ${MAX_RANKS} of ${formatCount(ranks.length)} ranks`),
  );
}

const LEGEND = [...lab.SHARES, ['hidden communication, beside the rest', 'teal']] as const;

/// Timelines of the run (shares of each rank, downloads, requests for another one), and the memory inside updates.
export function traces({ data, requestTrace }: RunContext, owner: Owner): Section {
  const found = new lab.Artifacts(data.id, 'trace', lab.readTraceContent);
  const curves = new lab.Artifacts(data.id, 'memory', lab.readMemoryCurve);
  const again = owner.later(POLL_MS, owner.load);
  let request: TraceRequest | null = null;
  let items: readonly Artifact[] = [];
  let memories: readonly Artifact[] = [];
  let chosen = ''; // the id of the curve that is shown
  const choose = (id: string): void => {
    chosen = id;
    owner.draw();
  };
  const about = (): string => {
    if (request?.under_way) return `Tracing ${request.updates} ${request.updates === 1 ? 'update' : 'updates'} …`;
    return owner.said || (items.length > 0 ? '' : 'No trace yet. A trace shows how each rank spends the next updates.');
  };
  return {
    load: async () => {
      [request, items, memories] = await Promise.all([
        getJson<TraceRequest>(`/runs/${data.id}/trace`),
        found.newest(NEWEST),
        curves.newest(NEWEST_CURVES),
      ]);
      owner.said = '';
      if (request.under_way) again();
    },
    render: () => {
      const asking = { disabled: request?.under_way === true, onclick: requestTrace };
      const curve = memories.find(({ id }) => id === chosen) ?? memories[0];
      const legend = h('p.trace-legend.muted', legendItems(LEGEND.map(([name, color]) => [name, color])));
      const list = items.map((trace) => traceItem(trace, found.content(trace)));
      const offered = data.run?.state === 'running' && may('operate');
      return [
        h('div', offered && h('button.chip', asking, 'Request a trace …')),
        status(about()),
        h('div', items.length > 0 && [legend, list]),
        h('div.lab', curve && memory(memories, curve, curves.content(curve), choose)),
      ];
    },
  };
}
