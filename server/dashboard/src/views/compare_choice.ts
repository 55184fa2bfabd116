import { BASE, getAll } from '../api/client';
import type { Checkpoint } from '../api/types';
import { type Stats, statsOf } from '../data/choice';
import { type Child, copyText, h, swatch } from '../lib/dom';
import { cutMiddle, DASH, formatBytes, formatCount, formatDuration, formatOf, formatPercent } from '../lib/format';
import { hashOfRun } from '../lib/routes';
import type { ComparedRun } from './compare_data';
import { around, type Lane, laneHead, offOf, scoreOf, scores } from './compare_groups';
import { settingCharts } from './compare_axes';
import { badge, table } from './parts';

/// Abramowitz and Stegun, 26.2.17: the normal distribution, error below 7.5e-8.
function normalCdf(z: number): number {
  const t = 1 / (1 + 0.2316419 * Math.abs(z));
  const poly = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  const tail = (Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)) * poly;
  return z > 0 ? 1 - tail : tail;
}

const QUANTILES = 16; // of the variance
const STEPS = 240; // of the integral over the best mean

/// A quantile of the standard normal distribution, by bisection.
function normalQuantile(chance: number): number {
  let [low, high] = [-8, 8];
  for (let step = 0; step < 50; step += 1) {
    const middle = (low + high) / 2;
    if (normalCdf(middle) < chance) low = middle;
    else high = middle;
  }
  return low;
}

/// The chance that each group's true mean is the best, if all share one variance, which is estimated from the spread within groups, and no
/// value was likelier before: the mean of a group is then Student's t around its sample mean (Box and Tiao, Bayesian Inference in
/// Statistical Analysis, 1973, 2.4). The variance's quantiles are those of Wilson and Hilferty. Null for all without any spread; for a group
/// without a value.
export function chancesOf(groups: readonly Stats[], more: boolean): (number | null)[] {
  const freedom = groups.reduce((sum, { count }) => sum + Math.max(0, count - 1), 0);
  const squares = groups.reduce((sum, { count, spread }) => sum + (count - 1) * (spread ?? 0) ** 2, 0);
  const known = groups.filter(({ mean }) => mean !== null);
  if (freedom === 0 || squares === 0 || known.length < 2) return groups.map(() => null);
  const means = known.map(({ mean }) => (more ? mean! : -mean!));
  const chances = known.map(() => 0);
  for (let quantile = 0; quantile < QUANTILES; quantile += 1) {
    const z = normalQuantile((quantile + 0.5) / QUANTILES);
    const chiSquare = freedom * Math.max(1e-3, 1 - 2 / (9 * freedom) + z * Math.sqrt(2 / (9 * freedom))) ** 3;
    const sigma = Math.sqrt(squares / chiSquare);
    const errors = known.map(({ count }) => sigma / Math.sqrt(count));
    const from = Math.min(...means.map((mean, at) => mean - 5 * errors[at]!));
    const to = Math.max(...means.map((mean, at) => mean + 5 * errors[at]!));
    const inside = known.map(() => 0);
    for (let step = 0; step <= STEPS; step += 1) {
      const x = from + ((to - from) * step) / STEPS;
      const below = means.map((mean, at) => Math.log(Math.max(1e-300, normalCdf((x - mean) / errors[at]!))));
      const all = below.reduce((sum, each) => sum + each, 0);
      means.forEach((mean, at) => {
        const z = (x - mean) / errors[at]!;
        inside[at]! += (Math.exp((-z * z) / 2) / errors[at]!) * Math.exp(all - below[at]!);
      });
    }
    const total = inside.reduce((sum, each) => sum + each, 0);
    inside.forEach((each, at) => (chances[at]! += each / total / QUANTILES));
  }
  let next = 0;
  return groups.map(({ mean }) => (mean === null ? null : chances[next++]!));
}

/// The best checkpoint of a run, of its best validation if it is kept.
export async function bestCheckpoint({ id, run }: ComparedRun): Promise<Checkpoint | null> {
  const all = await getAll<Checkpoint>(`/runs/${id}/checkpoints`);
  return all.find(({ update }) => update === run?.best?.update) ?? all.find(({ best }) => best) ?? all[0] ?? null;
}

/// The best run of a lane.
function bestRun(lane: Lane, key: 'sacrebleu' | 'loss', more: boolean): ComparedRun {
  const value = ({ run }: ComparedRun): number => run?.best?.[key] ?? (more ? -Infinity : Infinity);
  return lane.runs.reduce((best, run) => ((more ? value(run) > value(best) : value(run) < value(best)) ? run : best));
}

/// "94 %"; never none and never all, which a chance that is estimated cannot be.
const chanceText = (chance: number): string =>
  chance > 0.99 ? '> 99 %' : chance < 0.01 ? '< 1 %' : formatPercent(chance, 0);

export type Chosen = { lane: Lane; run: ComparedRun; text: string };
type Judged = { lane: Lane; stats: Stats; chance: number | null; seconds: Stats };

/// The lanes by their score, the best first.
export function judge(lanes: readonly Lane[]): { key: 'sacrebleu' | 'loss'; more: boolean; rows: Judged[] } {
  const { key, more } = scoreOf(lanes.flatMap(({ runs }) => runs));
  const stats = lanes.map(({ runs }) => scores(runs, key));
  const chances = chancesOf(stats, more);
  const rows = lanes.map((lane, at): Judged => {
    const seconds = statsOf(
      lane.runs.map(({ run }) => (run?.elapsed_seconds ?? 0) * Math.max(1, run?.world_size ?? 1)),
    );
    return { lane, stats: stats[at]!, chance: chances[at]!, seconds };
  });
  const value = ({ stats: { mean } }: Judged): number => (mean === null ? Infinity : more ? -mean : mean);
  return { key, more, rows: rows.toSorted((a, b) => value(a) - value(b) || 0) };
}

/// The configuration to take, with its run and the reason; null without a score.
export function chosenOf(lanes: readonly Lane[]): Chosen | null {
  const { key, more, rows } = judge(lanes);
  const [best] = rows;
  if (!best || best.stats.mean === null || rows.length < 2) return null;
  const write = formatOf(`eval:${key}`);
  const { mean, spread, count } = best.stats;
  const score = `${key === 'loss' ? 'validation loss' : 'sacreBLEU'} ${write(mean)}${spread === null ? '' : ` ± ${write(spread)}`}`;
  const sure =
    best.chance === null
      ? 'no seeds to tell chance from skill: run each configuration with several'
      : `${chanceText(best.chance)} chance to be the best${best.chance < 0.95 ? '; more seeds would settle it' : ''}`;
  const cost = `${formatDuration(best.seconds.mean)} of a rank${count > 1 ? ` each, ${formatDuration((best.seconds.mean ?? 0) * count)} in all` : ''}`;
  return {
    lane: best.lane,
    run: bestRun(best.lane, key, more),
    text: `${score} of ${count} ${count === 1 ? 'run' : 'seeds'}; ${sure}; cost: ${cost}.`,
  };
}

/// All lanes with score, difference to the baseline, cost and chance to be best.
export function choiceTable(lanes: readonly Lane[]): Child {
  const { key, more, rows } = judge(lanes);
  const base = lanes[0] ? scores(lanes[0].runs, key).mean : null;
  const write = formatOf(`eval:${key}`);
  const means = rows.flatMap(({ stats: { mean } }) => (mean === null ? [] : [mean]));
  const [low, high] = [Math.min(...means), Math.max(...means)];
  const bar = (mean: number | null): Child =>
    mean !== null &&
    high > low &&
    h('progress', { max: 1, value: (mean - low) / (high - low), 'aria-label': 'between the least and the greatest' });
  const cells = rows.map(({ lane, stats, chance, seconds }, at): Child[] => [
    laneHead(lane, 'row'),
    formatCount(lane.runs.length),
    [around(stats, write), at === 0 && stats.mean !== null && badge('best')],
    bar(stats.mean),
    lane === lanes[0] ? 'baseline' : (offOf(stats.mean, base, more ? 'more' : 'less', write) ?? DASH),
    formatDuration(seconds.mean),
    chance === null ? DASH : chanceText(chance),
  ]);
  const title = key === 'loss' ? 'Validation loss' : 'sacreBLEU';
  const heads = ['Configuration', '#Runs', `#${title}`, '', '#Difference', '#Rank time', '#Chance to be best'];
  return table('Choice', heads, cells);
}

/// The score over the settings in which the lanes differ, and both as parallel coordinates.
export function settingsPart(lanes: readonly Lane[], key: string, choose: (key: string) => void): Child {
  const { key: score, rows } = judge(lanes);
  const title = score === 'loss' ? 'Validation loss' : 'sacreBLEU';
  const points = rows.map(({ lane, stats }) => ({ lane, score: stats }));
  return settingCharts(points, { title, score, key }, choose);
}

/// The chosen configuration with its checkpoint and the command that fetches it. `say` tells that the command was copied.
export function thisOne(chosen: Chosen, checkpoint: Checkpoint | null, say: (text: string) => void): Child {
  const command =
    checkpoint && `nmt run download ${chosen.run.id} --checkpoint ${checkpoint.id} --server ${location.origin}`;
  const copy = async (): Promise<void> => say((await copyText(command!)) ? 'Copied.' : 'Not copied: select it.');
  return h(
    'div.this-one',
    h(
      'p',
      h('strong', 'This one: '),
      swatch(chosen.lane.color),
      ' ',
      h('a', { href: hashOfRun(chosen.run.id), title: chosen.run.name }, cutMiddle(chosen.lane.label, 60)),
      ' · ',
      chosen.text,
    ),
    checkpoint &&
      h(
        'p.field-row',
        h(
          'a.chip',
          { href: `${BASE}/checkpoints/${checkpoint.id}/archive.tar`, download: `${checkpoint.name}.tar` },
          `Download the checkpoint of update ${formatCount(checkpoint.update)}, ${formatBytes(checkpoint.bytes)}`,
        ),
        h('a.chip', { href: `#/runs/${chosen.run.id}?tab=checkpoints` }, 'Translate with it'),
        h('a.chip', { href: `#/submit?from=${chosen.run.id}&checkpoint=${checkpoint.id}` }, 'Train longer …'),
        h('code', command),
        h('button.chip', { onclick: () => void copy() }, 'copy'),
      ),
    chosen.lane.runs.length > 1 &&
      h('p.muted', `That of ${chosen.run.name}, the best of its ${chosen.lane.runs.length} seeds.`),
  );
}
