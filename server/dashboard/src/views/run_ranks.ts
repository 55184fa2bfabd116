import { getSeries } from '../api/client';
import type { Rank } from '../api/types';
import type { HeatMap, HeatStrip, HeatText } from '../charts/heat_strip';
import type { RunData } from '../data/run_data';
import { rangeOnServer } from '../lib/axes';
import { type Child, h, keep, valueOf } from '../lib/dom';
import * as format from '../lib/format';
import { DEFAULT_HEAT, type ViewState } from '../lib/routes';
import { ageMs, STEP_PARTS } from '../data/runs';
import { type Owner, type RunContext, type Section, table } from './parts';

const LABELS = new Map<string, string>(STEP_PARTS.map(({ key, label }) => [key, label]));
const PHASES = ['forward_ms', 'backward_ms', 'data_ms', 'optimizer_ms'];
const KEYS: readonly (readonly [key: string, label: string])[] = [
  ...PHASES.map((key) => [key, LABELS.get(key)!] as const),
  ['step_ms', 'whole step'],
  ['exposed_communication_ms', 'waiting for others'],
];
const MAX_RANKS = 96;
const COLUMNS = 160;
const REFRESH_MS = 4000;
const LONG_UPDATE_S = 60;
const NEAR_PX = 200;

/// The rank's state from the server, or "no update for …". A rank that sends heartbeats but finishes no update may be validating or
/// hanging: a separate thread sends the heartbeats.
export function rankState({ state, since_update_s: sinceUpdateS }: Pick<Rank, 'state' | 'since_update_s'>): string {
  const long = state === 'training' && (sinceUpdateS ?? 0) > LONG_UPDATE_S;
  return long ? `no update for ${format.formatDuration(sinceUpdateS)}` : state;
}

const LIBRARIES = [
  ['onednn', 'oneDNN'],
  ['open_mpi', 'Open MPI'],
  ['sentencepiece', 'SentencePiece'],
  ['glibc', 'glibc'],
] as const;

/// "oneDNN 2.6.3, Open MPI 4.1.4", with "2.6.3 / 3.7.2" where ranks differ; empty if no rank has told its versions.
export const librariesText = (ranks: readonly Pick<Rank, 'libraries'>[]): string =>
  LIBRARIES.flatMap(([key, name]) => {
    const versions = new Set(ranks.flatMap(({ libraries }) => libraries[key] ?? []));
    return versions.size > 0 ? [`${name} ${[...versions].join(' / ')}`] : [];
  }).join(', ');

function ranksTable({ ranks, ranksAtMs }: RunData, nowMs: number): HTMLElement {
  const gpus = ranks.some(({ gpu }) => gpu);
  const gpuHead = gpus ? ['GPU now'] : [];
  const figures = ['#Update', 'Last report', '#Step', '#Exposed', '#Tokens/s', '#Busy', '#Lost records'];
  const rows = ranks.map((rank): Child[] => {
    const state = rankState(rank);
    return [
      rank.rank,
      h(`span.rank-state.rank-${state.split(' ')[0]}`, state),
      rank.host,
      rank.pid,
      rank.device,
      ...(gpus ? [format.formatGpu(rank.gpu)] : []),
      format.formatCount(rank.update),
      format.formatAge(ageMs(rank.heartbeat_age_ms ?? rank.record_age_ms, ranksAtMs, nowMs) / 1000),
      format.formatMs(rank.step_ms),
      format.formatMs(rank.exposed_communication_ms),
      format.formatSi(rank.target_tokens_per_second),
      format.formatPercent(rank.busy_fraction, 0),
      rank.missing > 0 ? format.formatCount(rank.missing) : '',
    ];
  });
  return table('Ranks', ['#Rank', 'State', 'Host', '#Pid', 'Device', ...gpuHead, ...figures], rows);
}

/// The content of the heat map: the chosen key of the first ranks, over the range of the charts.
async function heatOf(data: RunData, view: ViewState): Promise<[HeatMap, HeatText]> {
  const shown = data.ranks.slice(0, MAX_RANKS);
  const range = view.range ? rangeOnServer(data.axis, view.range) : { x: 'step' as const };
  const names = shown.map(({ rank }) => `${view.heat}@${rank}`);
  const { heatMap } = await import('../charts/heat_strip');
  const found = await getSeries(data.id, names, { ...range, points: COLUMNS });
  const series = shown.map(({ rank }, at) => ({ rank, series: found.get(names[at]!)! }));
  const steps = series.flatMap(({ series: { step } }) => (step.length > 0 ? [step[0]!, step.at(-1)!] : []));
  const hosts = new Map(shown.map(({ rank, host }) => [rank, host]));
  const text: HeatText = {
    name: (rank) => `${rank} ${hosts.get(rank) ?? ''}`,
    value: view.heat.endsWith('_ms') ? format.formatMs : format.formatSignificant,
  };
  return [heatMap(series, steps.length > 0 ? [Math.min(...steps), Math.max(...steps)] : [0, 0], COLUMNS), text];
}

/// The ranks with their hosts and devices, and a heat map that shows which ranks are slow: fetched while it is near the window, and
/// again when the range or the run has changed.
export function ranks({ data, view, remember }: RunContext, owner: Owner): Section {
  const place = h('div.heat-place');
  let strip: HeatStrip | null = null;
  let near = false;
  let asked = '';
  let askedAt = -Infinity;
  if (!KEYS.some(([key]) => key === view.heat)) view.heat = DEFAULT_HEAT;
  owner.whenNear(owner.element, NEAR_PX, (is) => {
    near = is;
    owner.load();
  });
  const choose = (event: Event): void => {
    view.heat = valueOf(event);
    remember();
    owner.load();
  };
  const show = async (): Promise<void> => {
    const heat = await heatOf(data, view);
    const { HeatStrip: Strip } = await import('../charts/heat_strip');
    strip ??= new Strip(place, 'Ranks over time, compared with the median');
    strip.show(...heat);
    const all = data.ranks.length;
    owner.said = all > MAX_RANKS ? `the first ${MAX_RANKS} of ${all} ranks` : '';
  };
  return {
    load: async () => {
      const wanted = JSON.stringify([view.heat, view.range, view.x, data.ranks.length]);
      const due = performance.now() - askedAt > REFRESH_MS && !view.range && data.run?.state === 'running';
      if (!near || data.ranks.length === 0 || (wanted === asked && !due)) return;
      asked = wanted;
      askedAt = performance.now();
      await show();
    },
    failed: (error) => {
      asked = '';
      owner.say(`not loaded: ${error instanceof Error ? error.message : String(error)}`);
    },
    inputs: () => [data.ranks, data.run?.state, Math.floor(Date.now() / 1000)],
    render: () => {
      const libraries = librariesText(data.ranks);
      const choices = KEYS.map(([value, label]) => h('option', { value, selected: value === view.heat }, label));
      return [
        h(
          'p.field-row',
          h('label', { for: 'heat-key' }, 'Time of '),
          h('select', { id: 'heat-key', onchange: choose }, choices),
          h('span.muted', 'per rank, relative to the median, over the range of the charts'),
        ),
        keep(place),
        h('p.muted', owner.said),
        h('div', ranksTable(data, Date.now())),
        h('p.muted', libraries && `Libraries: ${libraries}`),
      ];
    },
    close: () => strip?.close(),
  };
}
