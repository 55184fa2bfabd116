import * as lab from '../data/lab';
import { getJson, request, withRetries } from '../api/client';
import { may } from '../api/session';
import type { Artifact, End, TraceRequest } from '../api/types';
import { type Child, h, saveText, svg, valueOf } from '../lib/dom';
import { capital, DASH, formatBytes, formatCount, formatMs, formatPercent, formatScientific } from '../lib/format';
import {
  artifactFile,
  labelled,
  legendItems,
  options,
  type Owner,
  type RunContext,
  type Section,
  splitBar,
  status,
  table,
} from './parts';
import { shareRun } from './run_share';
import { ENDED_BADLY, endItem, endsOf } from './run_ends';

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
  const onchange = (event: Event): void => choose(valueOf(event));
  const select = h('select', { id: 'memory-of', onchange }, items.map(option));
  const unshown =
    'The curve is not shown: it exceeds 256 KiB or is of another version. nmt trace memory shows the file.';
  return [
    h('div', h('p.field-row', labelled('Memory of', select))),
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
  const below = splitBar(Object.entries({ teal: hidden, '': 1 - hidden }));
  return h('span.trace-bars', { 'aria-hidden': 'true' }, splitBar(parts), below);
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

const updatesText = (first: number, count: number): string =>
  count === 1 ? `Update ${formatCount(first)}` : `Updates ${formatCount(first)} to ${formatCount(first + count - 1)}`;

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
  const choose = (id: string): void => owner.set(() => (chosen = id));
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

const WINDOWS = 12;
const UNSHOWN = 'not shown: they exceed 256 KiB or are of another version. nmt trace parameters shows their files.';
const NONE = 'No window yet. A run counts changes of its parameters if lab.parameters.window is set.';
const STRONGEST_PERCENT = 45; // of the colour in a cell, so that its text stays legible

type Window = lab.ParameterWindow & { artifact: Artifact };

function heatCell(counter: lab.CounterId, value: number | null, all: readonly number[]): Child {
  if (value === null) return '';
  const cell = h('span.heat-cell', lab.cellText(counter, value));
  cell.style.setProperty('--heat', `${(STRONGEST_PERCENT * lab.heatOf(counter, value, all)).toFixed(1)}%`);
  return cell;
}

/// The newest window's parameters by all windows; `nameOf` shows the name of a parameter.
function heatMap(windows: readonly Window[], counter: lab.CounterId, nameOf: (name: string) => Child): Child {
  const { parameters } = windows.at(-1)!;
  const values = parameters.map(({ name }) =>
    windows.map((window) => {
      const parameter = window.parameters.find((each) => each.name === name);
      return parameter ? lab.cellValue(counter, window, parameter) : null;
    }),
  );
  const all = values.flat().filter((value) => value !== null);
  return table(
    'Parameters by window',
    ['Parameter', '#Rows', ...windows.map(({ last_update }) => `#to ${formatCount(last_update)}`)],
    parameters.map(({ name, rows, rows_are }, at) => [
      nameOf(name),
      `${formatCount(rows)} ${rows_are}`,
      ...values[at]!.map((value) => heatCell(counter, value, all)),
    ]),
    parameters.map(({ name }) => name),
  );
}

function rowsOf({ first_update, last_update, updates, artifact }: Window, parameter: lab.WindowParameter): Child {
  const { name, hottest, coldest } = parameter;
  const list = (label: string, rows: readonly lab.WindowRow[]): Child =>
    table(
      `${label} rows of ${name}`,
      [`${label} rows`, '#Changed', '#Ratio'],
      rows.map(({ row, label: text, changed, ratio }) => [
        text === '' ? `row ${formatCount(row)}` : `${formatCount(row)} ${text}`,
        formatPercent(changed / updates),
        formatScientific(ratio),
      ]),
    );
  const title = `${name}, updates ${formatCount(first_update)} to ${formatCount(last_update)} · `;
  return h(
    'div.lab',
    h('h3', title, artifactFile(artifact, 'download'), ` ${formatBytes(artifact.bytes)}`),
    hottest.length === 0
      ? h('p.muted', 'It is one row.')
      : h('div.lab-rows', list('Hottest', hottest), list('Coldest', coldest)),
  );
}

function summaryOf(newest: Window | undefined, unread: number): string {
  const unshown = unread > 0 ? `${unread === 1 ? '1 window is' : `${unread} windows are`} ${UNSHOWN}` : '';
  if (!newest) return unshown || NONE;
  const shares = [newest.cold, newest.lost_in_rounding, newest.untouched_share];
  const [cold, lost, untouched] = shares.map((share) => formatPercent(share));
  return (
    `Updates ${formatCount(newest.first_update)} to ${formatCount(newest.last_update)}: ${cold} of the rows are cold, ` +
    `${lost} of the changes are lost in rounding, ${untouched} had no gradient. ${unshown}`
  );
}

/// Which rows of the parameters the optimizer changed: a heat map of parameters by windows, and the rows of one parameter.
export function parameters({ data }: RunContext, owner: Owner): Section {
  const artifacts = new lab.Artifacts(data.id, 'parameters', lab.readWindow);
  let windows: Window[] = []; // oldest first
  let unread = 0; // windows without a content that can be read
  let counter: lab.CounterId = lab.COUNTERS[0]!.id;
  let chosen = ''; // the parameter whose rows are shown
  const choose = (event: Event): void => owner.set(() => (counter = valueOf(event) as lab.CounterId));
  const nameOf = (name: string): Child => {
    const toggle = (): void => owner.set(() => (chosen = name === chosen ? '' : name));
    return h('button.link', { 'aria-expanded': String(name === chosen), onclick: toggle }, name);
  };
  return {
    load: async () => {
      const items = await artifacts.newest(2 * WINDOWS); // each window has two files
      unread = items.filter((item) => item.name.endsWith('.json') && !artifacts.content(item)).length;
      const read = items.flatMap((artifact): Window[] => {
        const window = artifacts.content(artifact);
        return window ? [{ ...window, artifact }] : [];
      });
      windows = read.slice(0, WINDOWS).reverse();
      owner.said = '';
    },
    render: () => {
      const newest = windows.at(-1);
      const parameter = newest?.parameters.find(({ name }) => name === chosen);
      const choices = options(lab.COUNTERS.map(({ id, name }) => [id, name]));
      return [
        h(
          'p.field-row',
          h('label', { for: 'parameter-counter' }, 'Counter'),
          h('select', { id: 'parameter-counter', onchange: choose }, choices),
          h('p.muted', lab.COUNTERS.find(({ id }) => id === counter)!.about),
        ),
        status(owner.said || summaryOf(newest, unread)),
        h('div', newest && heatMap(windows, counter, nameOf)),
        h('div', newest && parameter && rowsOf(newest, parameter)),
      ];
    },
  };
}

/// The report on the run, in the words and plots of its HTML file. It is made again on request only: it reads the whole run.
export function report({ data }: RunContext, owner: Owner): Section {
  const path = `/runs/${data.id}/report?format=html`;
  let html = '';
  let answers: Child = null;
  let ends: readonly End[] = [];
  let wanted = true;
  const save = (): void => saveText(html, `report-${data.id}.html`, 'text/html');
  const again = (): void => {
    wanted = true;
    owner.load();
  };
  const share = (): void => void owner.act(async () => shareRun(data.run ?? { id: data.id, name: '' }));
  return {
    load: async () => {
      if (!wanted) return;
      wanted = false;
      owner.say('Reading the run …');
      ends = await endsOf(data.id).catch(() => []);
      html = await withRetries(async () => (await request(path, { headers: { Accept: 'text/html' } })).text());
      owner.said = '';
      // The page's content security policy reports styles even where they are only parsed.
      const unstyled = html.replace(/<style>[^<]*<\/style>/, '');
      const page = new DOMParser().parseFromString(unstyled, 'text/html');
      answers = [...page.querySelectorAll('article')].map(answer);
    },
    inputs: () => [html, ends, may('admin')],
    render: () => [
      h(
        'p',
        h('button.chip', { onclick: save }, 'Save as a file'),
        ' ',
        h('button.chip', { onclick: again }, 'Make it again'),
        ' ',
        may('admin') && h('button.chip', { onclick: share }, 'Share a link …'),
      ),
      status(owner.said),
      h(
        'div',
        ends.map((end, at) => endItem(end, at === 0 && ENDED_BADLY.has(data.run?.state ?? ''))),
      ),
      h('div.report', answers),
    ],
  };
}

/// One answer of the report's HTML, made anew: texts as texts, plots as pictures.
function answer(article: HTMLElement): Child {
  const children = [...article.children].map((part): Child => {
    const svg = part.querySelector('svg');
    if (part instanceof HTMLHeadingElement) return h('h3', part.textContent);
    if (svg) return picture(svg);
    if (part.querySelector('table')) return copiedTable(part);
    return h('p', { class: part.classList.contains('quiet') && 'muted' }, part.textContent);
  });
  return h('article', children);
}

function picture(svg: SVGElement): Child {
  const source = `data:image/svg+xml,${encodeURIComponent(svg.outerHTML)}`;
  const [, , width, height] = (svg.getAttribute('viewBox') ?? '').split(' ');
  return h('img', { src: source, alt: svg.querySelector('title')?.textContent ?? '', width, height });
}

function copiedTable(part: Element): Child {
  const texts = (row: Element, kind: string): string[] =>
    [...row.querySelectorAll(kind)].map(({ textContent }) => textContent ?? '');
  const caption = part.querySelector('caption')?.textContent ?? '';
  const rows = [...part.querySelectorAll('tr')];
  const cells = rows.slice(1).map((row) => texts(row, 'td'));
  return [h('p.muted', caption), table(caption, texts(rows[0]!, 'th'), cells)];
}
