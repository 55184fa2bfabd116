import { getSeries } from '../api/client';
import type { Rank } from '../api/types';
import type { HeatStrip } from '../charts/heat_strip';
import type { RunData } from '../data/run_data';
import { h, replaceChildren, setText, Slot } from '../lib/dom';
import {
  formatAge,
  formatCount,
  formatDuration,
  formatGpu,
  formatMs,
  formatPercent,
  formatSi,
  formatSignificant,
} from '../lib/format';
import { ageMs } from '../lib/freshness';
import { DEFAULT_HEAT, type ViewState } from '../lib/run_view';
import { rangeOnServer } from '../lib/x_axis';
import { table } from './tables';

const KEYS: readonly [string, string][] = [
  ['forward_ms', 'forward'],
  ['backward_ms', 'backward'],
  ['data_ms', 'data'],
  ['optimizer_ms', 'optimizer'],
  ['step_ms', 'whole step'],
  ['exposed_communication_ms', 'waiting for others'],
];
const MAX_RANKS = 96;
const COLUMNS = 160;
const REFRESH_MS = 4000;
const LONG_UPDATE_S = 60;

/// The rank's state from the server, or "no update for …". A rank that sends heartbeats but finishes no update may be validating or
/// hanging: a separate thread sends the heartbeats.
export function rankState({ state, since_update_s: sinceUpdateS }: Pick<Rank, 'state' | 'since_update_s'>): string {
  return state === 'training' && (sinceUpdateS ?? 0) > LONG_UPDATE_S
    ? `no update for ${formatDuration(sinceUpdateS)}`
    : state;
}

const LIBRARIES = [
  ['onednn', 'oneDNN'],
  ['open_mpi', 'Open MPI'],
  ['sentencepiece', 'SentencePiece'],
  ['glibc', 'glibc'],
] as const;

/// "oneDNN 2.6.3, Open MPI 4.1.4", with "2.6.3 / 3.7.2" where ranks differ; empty if no rank has told its versions.
export function librariesText(ranks: readonly Pick<Rank, 'libraries'>[]): string {
  return LIBRARIES.flatMap(([key, name]) => {
    const versions = new Set(ranks.flatMap(({ libraries }) => libraries[key] ?? []));
    return versions.size > 0 ? [`${name} ${[...versions].join(' / ')}`] : [];
  }).join(', ');
}

function ranksTable(data: RunData, nowMs: number): HTMLElement {
  const gpus = data.ranks.some(({ gpu }) => gpu);
  return table(
    'Ranks',
    [
      '#Rank',
      'State',
      'Host',
      '#Pid',
      'Device',
      ...(gpus ? ['GPU now'] : []),
      '#Update',
      'Last report',
      '#Step',
      '#Exposed',
      '#Tokens/s',
      '#Busy',
      '#Lost records',
    ],
    data.ranks.map((rank) => {
      const state = rankState(rank);
      return [
        rank.rank,
        h('span', { class: `rank-state rank-${state.split(' ')[0]}` }, state),
        rank.host,
        rank.pid,
        rank.device,
        ...(gpus ? [formatGpu(rank.gpu)] : []),
        formatCount(rank.update),
        formatAge(ageMs(rank.heartbeat_age_ms ?? rank.record_age_ms, data.ranksAtMs, nowMs) / 1000),
        formatMs(rank.step_ms),
        formatMs(rank.exposed_communication_ms),
        formatSi(rank.target_tokens_per_second),
        formatPercent(rank.busy_fraction, 0),
        rank.missing > 0 ? formatCount(rank.missing) : '',
      ];
    }),
  );
}

/// The ranks with their hosts and devices, and a heat map that shows which ranks are slow.
export class Ranks {
  readonly element: HTMLElement;
  private strip: HeatStrip | null = null; // created when first visible
  private readonly place = h('div', { class: 'heat-place' });
  private readonly rows = new Slot();
  private readonly select: HTMLSelectElement;
  private readonly problem = h('p', { class: 'muted' });
  private readonly libraries = h('p', { class: 'muted' });
  private askedAt = -Infinity;
  private asked = '';
  private visible = false;
  private readonly watcher = new IntersectionObserver(
    ([entry]) => {
      this.visible = entry!.isIntersecting;
      void this.refresh();
    },
    { rootMargin: '200px' },
  );

  constructor(
    private readonly data: RunData,
    private readonly view: ViewState,
    onView: () => void,
  ) {
    this.select = h(
      'select',
      {
        id: 'heat-key',
        onchange: () => {
          this.view.heat = this.select.value;
          onView();
          void this.refresh();
        },
      },
      KEYS.map(([key, label]) => h('option', { value: key }, label)),
    );
    this.select.value = view.heat;
    if (this.select.value === '') this.select.value = view.heat = DEFAULT_HEAT;
    this.element = h(
      'div',
      { class: 'ranks' },
      h(
        'p',
        { class: 'field-row' },
        h('label', { for: 'heat-key' }, 'Time of '),
        this.select,
        h('span', { class: 'muted' }, 'per rank, relative to the median, over the range of the charts'),
      ),
      this.place,
      this.problem,
      this.rows.element,
      this.libraries,
    );
    this.watcher.observe(this.element);
  }

  close(): void {
    this.watcher.disconnect();
    this.strip?.close();
  }

  redraw(): void {
    this.strip?.draw();
  }

  update(nowMs: number): void {
    this.rows.show([this.data.ranks, this.data.run?.state, Math.floor(nowMs / 1000)], () =>
      ranksTable(this.data, nowMs),
    );
    const libraries = librariesText(this.data.ranks);
    setText(this.libraries, libraries === '' ? '' : `Libraries: ${libraries}`);
    void this.refresh();
  }

  /// Fetches the ranks' series if they are visible and the range or the run has changed.
  private async refresh(): Promise<void> {
    const { data, view } = this;
    if (!this.visible || data.ranks.length === 0) return;
    const asked = JSON.stringify([view.heat, view.range, view.x, data.ranks.length]);
    const due = performance.now() - this.askedAt > REFRESH_MS && !view.range && data.run?.state === 'running';
    if (asked === this.asked && !due) return;
    this.asked = asked;
    this.askedAt = performance.now();
    const ranks = data.ranks.slice(0, MAX_RANKS);
    const range = view.range ? rangeOnServer(data.axis, view.range) : { x: 'step' as const };
    try {
      const { heatMap, HeatStrip: Strip } = await import('../charts/heat_strip');
      const found = await getSeries(
        data.id,
        ranks.map(({ rank }) => `${view.heat}@${rank}`),
        { ...range, points: COLUMNS },
      );
      if (asked !== this.asked) return;
      const series = ranks.map(({ rank }) => ({ rank, series: found.get(`${view.heat}@${rank}`)! }));
      const steps = series.flatMap(({ series: { step } }) => (step.length > 0 ? [step[0]!, step.at(-1)!] : []));
      const hosts = new Map(ranks.map(({ rank, host }) => [rank, host]));
      if (!this.strip) {
        this.strip = new Strip('Ranks over time, compared with the median');
        this.place.append(this.strip.element);
      }
      this.strip.show(heatMap(series, steps.length > 0 ? [Math.min(...steps), Math.max(...steps)] : [0, 0], COLUMNS), {
        name: (rank) => `${rank} ${hosts.get(rank) ?? ''}`,
        value: view.heat.endsWith('_ms') ? formatMs : formatSignificant,
      });
      setText(
        this.problem,
        data.ranks.length > MAX_RANKS ? `the first ${MAX_RANKS} of ${data.ranks.length} ranks` : '',
      );
    } catch (error) {
      this.asked = '';
      replaceChildren(this.problem, `not loaded: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}
