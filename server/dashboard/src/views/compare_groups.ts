import type { Difference } from '../api/types';
import { groupsOf, settingsOf, type Stats, statsOf } from '../data/choice';
import type { ChartData, Line } from '../charts/plot';
import { type Child, COLORS, h, swatch } from '../lib/dom';
import { cutMiddle, DASH, formatCount, formatDuration, formatOf } from '../lib/format';
import { hashOf, hashOfRun, MAX_COMPARED, type ViewState } from '../lib/routes';
import type { Column } from '../lib/series';
import * as compare from './compare_data';
import type { ComparedRun, CompareState } from './compare_data';
import { badge, stateBadge, table } from './parts';

/// Compared runs of one configuration, with one line in each chart. `label` says what differs from the others.
export type Lane = {
  label: string;
  name: string;
  color: string;
  runs: ComparedRun[];
  values: ReadonlyMap<string, string>;
};

const MAX_SEEDS = 5; // of a lane whose series are fetched
export const LABEL_LETTERS = 40;

/// Ready runs as lanes: that of the baseline first, the others in their order, or by their score if there are more than have colours.
export function lanesOf(runs: readonly ComparedRun[], fold: boolean): Lane[] {
  const byId = new Map(runs.map((run) => [run.id, run]));
  const candidates = runs.map(({ run, config }) => ({ run: run!, settings: settingsOf(run!, config) }));
  const groups = groupsOf(candidates, fold);
  const unique = new Set(groups.map(({ label }) => label)).size === groups.length && groups.length > 1;
  const lanes = groups.map(({ label, runs: members, values }) => {
    const compared = members.map(({ id }) => byId.get(id)!);
    const name = compared.length === 1 ? compared[0]!.name : `${compared[0]!.name} and ${compared.length - 1} more`;
    return { label: unique && label !== '' ? label : name, name, runs: compared, values };
  });
  if (lanes.length > MAX_COMPARED) {
    const [first, ...others] = lanes;
    const { key, more } = scoreOf(runs);
    const meanOf = ({ runs: members }: { runs: ComparedRun[] }): number =>
      scores(members, key).mean ?? (more ? -Infinity : Infinity);
    others.sort((a, b) => (more ? meanOf(b) - meanOf(a) : meanOf(a) - meanOf(b)) || 0);
    lanes.splice(0, lanes.length, first!, ...others);
  }
  return lanes.map((lane, at) => ({ ...lane, color: COLORS[at] ?? 'gray' }));
}

/// The lanes that have lines, and their runs whose series these need.
export const drawnLanes = (lanes: readonly Lane[]): readonly Lane[] => lanes.slice(0, MAX_COMPARED);
export const drawnRuns = (lanes: readonly Lane[]): ComparedRun[] =>
  drawnLanes(lanes).flatMap(({ runs }) => runs.slice(0, MAX_SEEDS));

function interpolated({ x, y }: Line, at: number): number | null {
  if (x.length === 0 || at < x[0]! || at > x.at(-1)!) return null;
  let [low, high] = [0, x.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle]! < at) low = middle + 1;
    else high = middle;
  }
  const [after, before] = [y[low], y[low - 1]];
  if (after === null || after === undefined || x[low] === at) return after ?? null;
  if (before === null || before === undefined) return null;
  return before + ((after - before) * (at - x[low - 1]!)) / (x[low]! - x[low - 1]!);
}

/// The mean of the lines of several seeds, at the places of the longest, with a band of one standard deviation.
export function foldLines(lines: readonly Line[]): Line[] {
  const longest = lines.reduce((most, line) => (line.x.length > most.x.length ? line : most));
  const at = longest.x.map((x) => statsOf(lines.map((line) => interpolated(line, x))));
  const edge = (kind: 'low' | 'high', sign: number): Line => ({
    ...{ ...longest, kind, legend: false },
    y: at.map(({ mean, spread }): number | null => (mean === null || spread === null ? null : mean + sign * spread)),
  });
  const mean: Column = at.map((each) => each.mean);
  return [edge('low', -1), edge('high', 1), { ...longest, y: mean }];
}

/// One metric of all drawn lanes, each in its own colour.
export function laneLines(lanes: readonly Lane[], key: string, view: ViewState): ChartData {
  const drawn = drawnLanes(lanes);
  const parts = drawn.map(({ runs, label, color }) => {
    const look = { label: cutMiddle(label, LABEL_LETTERS), color, alone: drawn.length <= 3 && runs.length === 1 };
    const members = runs.slice(0, MAX_SEEDS).map((run) => compare.compareLine(run, key, view, look));
    const lines = members.map((member) => member.lines).filter((each) => each.length > 0);
    const folded = lines.length > 1 ? foldLines(lines.map((each) => each.at(-1)!)) : lines.flat();
    return { lines: folded, marks: members.flatMap(({ marks }) => marks), notes: members.map(({ note }) => note) };
  });
  const notes = [...new Set(parts.flatMap((part) => part.notes))].filter(Boolean);
  const seeds = drawn.some(({ runs }) => runs.length > 1) ? ['mean ± standard deviation over seeds'] : [];
  const smooth = view.smoothing > 0 && notes.length > 0 ? [`smoothed ${view.smoothing}`] : [];
  const [marks, lines] = [parts.flatMap((part) => part.marks), parts.flatMap((part) => part.lines)];
  return { lines, marks, note: [...notes.slice(0, 3), ...seeds, ...smooth].join(' · ') };
}

/// The measure that decides which configuration is best: BLEU if any run has it, else the loss.
export function scoreOf(runs: readonly ComparedRun[]): { key: 'sacrebleu' | 'loss'; more: boolean } {
  const more = runs.some(({ run }) => typeof run?.best?.sacrebleu === 'number');
  return { key: more ? 'sacrebleu' : 'loss', more };
}

export const scores = (runs: readonly ComparedRun[], key: 'sacrebleu' | 'loss'): Stats =>
  statsOf(runs.map(({ run }) => run?.best?.[key]));

/// "28.78 ± 0.21".
export const around = ({ mean, spread }: Stats, write: (value: number | null) => string): Child =>
  mean === null ? DASH : [write(mean), spread !== null && h('small.at', ` ± ${write(spread)}`)];

/// The difference to the baseline, green where it is better.
export function offOf(
  value: number | null,
  base: number | null,
  better: 'less' | 'more' | null,
  write: (value: number) => string,
): Child {
  if (value === null || base === null || value === base) return null;
  const by = value - base;
  const kind = better === null ? '' : by > 0 === (better === 'more') ? ' good' : ' bad';
  return h('small', { class: `off${kind}` }, `${by > 0 ? '+' : '−'}${write(Math.abs(by))}`);
}

export const laneHead = (lane: Lane, scope: string): HTMLTableCellElement => {
  const ids = lane.runs.map(({ id }) => id);
  const href = ids.length === 1 ? hashOfRun(ids[0]!) : hashOf('compare', new URLSearchParams({ runs: ids.join() }));
  const title = lane.label === lane.name ? lane.name : `${lane.label}\n${lane.name}`;
  return h('th', { scope }, swatch(lane.color), ' ', h('a', { href, title }, cutMiddle(lane.label, LABEL_LETTERS)));
};

/// One row per lane, one column per metric: its best value with the update, or the mean over seeds; with the difference to the baseline's.
export function bestTable(lanes: readonly Lane[], keys: readonly string[]): HTMLElement {
  const drawn = drawnLanes(lanes);
  const columns = keys.map((key) => {
    const values = drawn.map(({ runs }) => runs.slice(0, MAX_SEEDS).map((run) => compare.bestOf(run, key)));
    const stats = values.map((each) => statsOf(each.map((value) => value?.value)));
    const best = compare.winner(
      key,
      stats.map(({ mean }) => (mean === null ? null : { value: mean, update: 0 })),
    );
    return stats.map((each, at): Child => {
      const [only] = values[at]!;
      const place = values[at]!.length === 1 && only && h('small.at', ` @${formatCount(only.update)}`);
      const off = at > 0 && offOf(each.mean, stats[0]!.mean, compare.betterOf(key), formatOf(key));
      return [around(each, formatOf(key)), place, best === at && badge('best'), off];
    });
  });
  const kindOf = (key: string): string => ({ less: ' (min)', more: ' (max)' })[compare.betterOf(key)!] ?? ' (last)';
  const heads = ['Run', 'State', '#Update', '#Ran for', ...keys.map((key) => `#${compare.titleOf(key)}${kindOf(key)}`)];
  const rows = drawn.map((lane, at): Child[] => {
    const [first] = lane.runs;
    const ran = statsOf(lane.runs.map(({ run }) => run?.elapsed_seconds));
    return [
      laneHead(lane, 'row'),
      lane.runs.length > 1 ? `${lane.runs.length} seeds` : stateBadge(first!.run!, first!.atMs, Date.now()),
      formatCount(Math.max(...lane.runs.map(({ run }) => run?.update ?? 0))),
      formatDuration(ran.mean),
      ...columns.map((cells) => cells[at]!),
    ];
  });
  return table('Best values', heads, rows);
}

/// The configurations side by side, of the first run of each drawn lane. Marks values that differ from the baseline's.
export function configTable(lanes: readonly Lane[], same: boolean): HTMLElement {
  const drawn = drawnLanes(lanes);
  const shown = compare.configRows(drawn.map(({ runs }) => runs[0]!.config)).filter(({ differs }) => differs || same);
  const rows = shown.map(({ path, values, differs }) => {
    const cell = (value: string | null, at: number): Child => {
      if (value === null) return h('span.muted', 'not set');
      return differs && at > 0 && value !== values[0] ? h('mark.extra', value) : value;
    };
    const kind = differs ? null : 'muted';
    const cells = values.map((value, at) => h('td', { class: kind }, cell(value, at)));
    return [h('th', { scope: 'row', class: kind }, path), ...cells];
  });
  const heads = ['Key', ...drawn.map((lane) => laneHead(lane, 'col'))];
  return table('Configuration', heads, rows, [], { kind: 'config-diff', none: 'The configurations are the same.' });
}

export function differenceList(lanes: readonly Lane[], differences: readonly Difference[]): Child {
  const rows = compare
    .differenceRows(
      drawnLanes(lanes).map(({ runs }) => runs[0]!),
      differences,
    )
    .map(({ at, text }) => h('li', swatch(lanes[at]!.color), text));
  return rows.length > 0 ? h('ul.differences', { 'aria-label': 'Best validations against the baseline' }, rows) : null;
}

/// One legend for all charts, which stays in sight: the lanes with lines, by what differs.
export function legend(
  lanes: readonly Lane[],
  state: CompareState,
  setRuns: (ids: readonly string[]) => void,
): HTMLElement {
  const item = (lane: Lane, at: number): HTMLElement => {
    const own = lane.runs.map(({ id }) => id);
    const others = state.runs.filter((each) => !own.includes(each));
    const first = (): void => setRuns([...own, ...others]);
    const title = `${lane.label}\n${lane.runs.map(({ name }) => name).join('\n')}`;
    const href = own.length === 1 ? hashOfRun(own[0]!) : hashOf('compare', new URLSearchParams({ runs: own.join() }));
    return h(
      'li',
      swatch(lane.color),
      h('a', { href, title }, cutMiddle(lane.label, LABEL_LETTERS)),
      own.length > 1 && h('span.muted', `×${own.length}`),
      at === 0
        ? h('span.best', 'baseline')
        : h(
            'button.chip',
            { onclick: first, title: 'Make it the baseline', 'aria-label': `Make ${lane.label} the baseline` },
            '☆',
          ),
      h('button.chip', { 'aria-label': `Remove ${lane.label}`, onclick: () => setRuns(others) }, '×'),
    );
  };
  const left = lanes.length - MAX_COMPARED;
  const more = left > 0 && h('li.muted', `and ${left} more without lines: the best ${MAX_COMPARED} have them`);
  return h('ul.run-legend', drawnLanes(lanes).map(item), more);
}
