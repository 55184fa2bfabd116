import { explain, getJson } from '../api/client';
import { BASE } from '../api/request';
import { may } from '../api/session';
import type { Artifact, TraceRequest } from '../api/types';
import { Artifacts } from '../data/artifacts';
import type { RunData } from '../data/run_data';
import { h, setText, Slot, type Child } from '../lib/dom';
import { formatBytes, formatCount, formatMs, formatPercent } from '../lib/format';
import { oneAtATime } from '../lib/one_at_a_time';
import { readTraceContent, shareOf, SHARES, type RankShares, type TraceContent } from '../lib/trace_shares';
import type { FoldContent } from './fold';
import { MemoryCurves } from './run_memory';
import { table } from './tables';

const NEWEST = 5; // traces that are shown
const MAX_RANKS = 64;
const POLL_MS = 2000; // while a trace is under way

const fileOf = (trace: Artifact): string => `${BASE}/artifacts/${trace.id}/file`;

const updatesText = (first: number, count: number): string =>
  count === 1 ? `Update ${formatCount(first)}` : `Updates ${formatCount(first)} to ${formatCount(first + count - 1)}`;

function piece(kind: string, share: number): HTMLElement {
  const part = h('span', { class: `part ${kind}` });
  part.style.flexGrow = String(share);
  return part;
}

/// The parts of a rank's time, and below them the part with hidden communication.
function barsOf(rank: RankShares): HTMLElement {
  const hidden = shareOf(rank, rank.hidden_ms);
  return h(
    'span',
    { class: 'trace-bars', 'aria-hidden': 'true' },
    h(
      'span',
      { class: 'split-bar' },
      SHARES.map(([, color, key]) => piece(`swatch-${color}`, shareOf(rank, rank[key]))),
    ),
    h('span', { class: 'split-bar' }, piece('swatch-teal', hidden), piece('', 1 - hidden)),
  );
}

const legend = (): Child =>
  h(
    'p',
    { class: 'trace-legend muted' },
    [...SHARES.map(([name, color]) => [name, color]), ['hidden communication, beside the rest', 'teal']].map(
      ([name, color]) => h('span', { class: 'legend-item' }, h('span', { class: `swatch swatch-${color}` }), name),
    ),
  );

const rankTable = (label: string, { ranks, updates }: TraceContent): Child =>
  table(
    label,
    ['Rank', 'Shares', '#An update', ...SHARES.map(([name]) => `#${name}`), '#hidden communication'].map((head) =>
      head.replace(/^(#?)(.)/, (_, mark: string, first: string) => mark + first.toUpperCase()),
    ),
    ranks
      .slice(0, MAX_RANKS)
      .map((rank) => [
        `${rank.rank} ${rank.host}`,
        barsOf(rank),
        formatMs(rank.total_ms / updates),
        ...SHARES.map(([, , key]) => formatPercent(shareOf(rank, rank[key]))),
        formatPercent(shareOf(rank, rank.hidden_ms)),
      ]),
  );

/// Timelines of the run (shares of each rank, downloads, requests for another one), and the memory inside updates.
export class Traces implements FoldContent {
  readonly element: HTMLElement;
  private readonly requests = new Slot();
  private readonly list = new Slot();
  private readonly said = h('p', { class: 'muted', role: 'status' });
  readonly refresh: () => void;
  private readonly artifacts: Artifacts<TraceContent>;
  private readonly memory: MemoryCurves;
  private newest: TraceRequest | null = null;
  private traces: readonly Artifact[] = [];
  private timer: ReturnType<typeof setTimeout> | null = null;
  private closed = false;

  private constructor(
    private readonly data: RunData,
    private readonly request: () => void,
  ) {
    this.artifacts = new Artifacts(data.id, 'trace', readTraceContent);
    this.refresh = oneAtATime(
      () => this.fetch(),
      (error) => setText(this.said, `Not loaded: ${explain(error)}`),
    );
    this.memory = new MemoryCurves(data.id);
    this.element = h('div', { class: 'lab' }, this.requests.element, this.said, this.list.element, this.memory.element);
  }

  /// `request` asks the user for a trace of the next updates.
  static async load(data: RunData, request: () => void): Promise<Traces> {
    const traces = new Traces(data, request);
    await traces.fetch();
    return traces;
  }

  close(): void {
    this.closed = true;
    if (this.timer !== null) clearTimeout(this.timer);
  }

  private async fetch(): Promise<void> {
    const [newest, traces] = await Promise.all([
      getJson<TraceRequest>(`/runs/${this.data.id}/trace`),
      this.artifacts.newest(NEWEST),
      this.memory.fetch(),
    ]);
    if (this.closed) return;
    this.newest = newest;
    this.traces = traces;
    this.draw();
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = newest.under_way ? setTimeout(this.refresh, POLL_MS) : null;
  }

  private draw(): void {
    const { newest, traces } = this;
    const running = this.data.run?.state === 'running';
    setText(
      this.said,
      newest?.under_way
        ? `Tracing ${newest.updates} ${newest.updates === 1 ? 'update' : 'updates'} …`
        : traces.length === 0
          ? 'No trace yet. A trace shows how each rank spends the next updates.'
          : '',
    );
    this.requests.show([running, newest?.under_way, may('operate')], () =>
      running && may('operate')
        ? h(
            'button',
            { type: 'button', class: 'chip', disabled: newest?.under_way === true, onclick: this.request },
            'Request a trace …',
          )
        : null,
    );
    this.list.show([traces], () =>
      traces.length === 0 ? null : [legend(), ...traces.map((trace) => this.traceItem(trace))],
    );
  }

  private traceItem(trace: Artifact): Child {
    const content = this.artifacts.content(trace);
    const title = content ? updatesText(content.first_update, content.updates) : `Update ${formatCount(trace.update)}`;
    const ranks = content?.ranks ?? [];
    return h(
      'div',
      { class: 'trace', 'data-key': trace.id },
      h(
        'h3',
        {},
        title,
        content && !content.ops ? ' without ops' : '',
        ' · ',
        h('a', { href: fileOf(trace), download: trace.name }, 'download'),
        ` ${formatBytes(trace.bytes)}`,
      ),
      content && ranks.length > 0
        ? rankTable(`Shares of ${title.toLowerCase()} by rank`, content)
        : h('p', { class: 'muted' }, 'The file has no summary: it is of too many ranks or of an older version.'),
      ranks.length > MAX_RANKS
        ? h('p', { class: 'muted' }, `the first ${MAX_RANKS} of ${formatCount(ranks.length)} ranks`)
        : null,
    );
  }
}
