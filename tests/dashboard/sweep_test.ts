import type { Run } from '../../server/dashboard/src/api/types';
import { parseRoute } from '../../server/dashboard/src/lib/routes';
import {
  axesOf,
  type Axis,
  bestOf,
  byMetric,
  cellsOf,
  chosenAxes,
  countStates,
  defaultMetric,
  figureOf,
  groupsOf,
  matching,
  meaningOfFields,
  parseSweep,
  shadeOf,
  sweepQuery,
} from '../../server/dashboard/src/data/sweep';
import { compareHash } from '../../server/dashboard/src/views/sweep_page';
import { describe, expect, it } from 'vitest';

const run = (id: string, cell: string, width: string, seed: string, excess: number | null, state = 'succeeded'): Run =>
  ({
    id,
    state,
    created_at: `2026-11-23T10:00:0${id.slice(-1)}.000Z`,
    labels: { sweep: 'toy', cell, 'model.width': width, 'training.seed': seed },
    best: excess === null ? null : { excess, loss: excess + 1, sacrebleu: null },
    last_eval: excess === null ? null : { excess: excess + 5, loss: 9, sacrebleu: null },
  }) as unknown as Run;

const RUNS = [
  run('r_1', 'a', '128', '0', 0.5),
  run('r_2', 'b', '16', '0', 1),
  run('r_3', 'c', '16', '1', 2),
  run('r_4', 'd', '128', '1', null, 'failed'),
];
const CELLS = cellsOf(RUNS);
const [WIDTH, SEED] = axesOf(CELLS) as [ReturnType<typeof axesOf>[0], ReturnType<typeof axesOf>[0]];

describe('a sweep', () => {
  it('has the newest run of each cell, sorted by coordinates as numbers', () => {
    const again = cellsOf([...RUNS, run('r_5', 'd', '128', '1', 3)]);
    expect(again.map(({ run }) => run.id)).toEqual(['r_2', 'r_3', 'r_1', 'r_5']);
    expect(cellsOf([{ ...RUNS[0]!, labels: { sweep: 'toy' } }])).toEqual([]);
    expect(axesOf(CELLS)).toEqual([
      { key: 'model.width', values: ['16', '128'] },
      { key: 'training.seed', values: ['0', '1'] },
    ]);
    expect(countStates(CELLS)).toBe('3 succeeded, 1 failed');
  });

  it('takes figures of the best or the newest evaluation', () => {
    expect(CELLS.map((cell) => figureOf(cell, 'excess', 'best'))).toEqual([1, 2, 0.5, null]);
    expect(figureOf(CELLS[0]!, 'excess', 'last')).toBe(6);
    expect(defaultMetric(CELLS)).toBe('excess');
    expect(defaultMetric([])).toBe('loss');
  });

  /// Two learning rates by three widths by three seeds; the seeds differ by 0.2, the rates by 5.
  const grid = cellsOf(
    ['1e-3', '1e-2'].flatMap((rate, r) =>
      ['16', '32', '64'].flatMap((width, w) =>
        ['0', '1', '2'].map((seed, s) => {
          const made = run(`r_${r}${w}${s}`, `${rate} ${width} ${seed}`, width, seed, 10 - 5 * r - w + 0.2 * s);
          return { ...made, labels: { ...made.labels, 'optimizer.learning_rate': rate } };
        }),
      ),
    ),
  );
  const [gridWidth, gridRate] = axesOf(grid) as [Axis, Axis];

  it('takes the deviation over seeds only, of axes that are not shown at their best', () => {
    const [row] = groupsOf(grid, gridWidth, null, 'excess', 'best');
    expect(row!.groups.map(({ mean, spread, count }) => [mean?.toFixed(2), spread?.toFixed(2), count])).toEqual([
      ['5.20', '0.20', 3],
      ['4.20', '0.20', 3],
      ['3.20', '0.20', 3],
    ]);
    expect(row!.groups.map(({ cells }) => cells[0]!.coordinates.get('optimizer.learning_rate'))).toEqual(
      Array(3).fill('1e-2'),
    );
    const [worse] = groupsOf(grid, gridWidth, null, 'accuracy', 'best');
    expect(worse!.groups[0]).toMatchObject({ count: 0, mean: null, spread: null });
    const chosen = matching(grid, new Map([['optimizer.learning_rate', '1e-3']]));
    expect(groupsOf(chosen, gridWidth, null, 'excess', 'best')[0]!.groups[2]!.mean).toBeCloseTo(8.2);
    expect(bestOf(row!.groups, 'excess')).toBe(row!.groups[2]);
    expect(bestOf(row!.groups, 'sacrebleu')).toBe(row!.groups[0]);
    expect(bestOf([], 'excess')).toBeNull();
  });

  it('does not take one lucky seed for the best', () => {
    const lucky = run('r_9', 'lucky', '64', '0', 0.1);
    const cells = [...grid, ...cellsOf([{ ...lucky, labels: { ...lucky.labels, 'optimizer.learning_rate': '1' } }])];
    expect(groupsOf(cells, gridWidth, null, 'excess', 'best')[0]!.groups[2]!.mean).toBeCloseTo(3.2);
  });

  it('says what its fields are', () => {
    const say = (y: Axis | null, fixed: [string, string][] = []): string =>
      meaningOfFields(axesOf(grid), gridWidth, y, new Map(fixed), 'excess', 'best');
    const metric = 'Excess over entropy of the best evaluation, less is better';
    const mean = 'mean ± standard deviation over training.seed';
    expect(say(gridRate)).toBe(`${metric}; ${mean}.`);
    expect(say(null)).toBe(`${metric}; ${mean}; optimizer.learning_rate at its best in each field.`);
    expect(say(null, [['optimizer.learning_rate', '1e-3']])).toBe(
      `${metric}; ${mean}; only optimizer.learning_rate 1e-3.`,
    );
    expect(say(gridRate, [['training.seed', '0']])).toBe(`${metric}; one run in a field; only training.seed 0.`);
  });

  it('has means and spreads over the seeds of a group', () => {
    const [row] = groupsOf(CELLS, WIDTH, null, 'excess', 'best');
    expect(row!.groups.map(({ mean, spread, count }) => [mean, spread, count])).toEqual([
      [1.5, Math.sqrt(0.5), 2],
      [0.5, null, 1],
    ]);
    const rows = groupsOf(CELLS, SEED, WIDTH, 'excess', 'best');
    expect(rows.map(({ label, groups }) => [label, ...groups.map(({ mean }) => mean)])).toEqual([
      ['16', 1, 2],
      ['128', 0.5, null],
    ]);
    expect(matching(CELLS, new Map([['model.width', '16']]))).toHaveLength(2);
  });

  it('shades better values darker', () => {
    expect([0.5, 1, 2].map((value) => shadeOf(value, [0.5, 1, 2], 'excess'))).toEqual([4, 3, 0]);
    expect(shadeOf(2, [0.5, 1, 2], 'sacrebleu')).toBe(4);
    expect(shadeOf(null, [1], 'excess')).toBeNull();
    expect(shadeOf(1, [1], 'excess')).toBe(2);
  });

  it('compares the best runs', () => {
    const sorted = byMetric(CELLS, 'excess', 'best');
    expect(compareHash(sorted)).toBe('#/compare?runs=r_1,r_2,r_3,r_4');
  });

  it('keeps its view in the address', () => {
    const text = 'metric=loss&at=last&x=model.width&y=&only.training.seed=1&sort=metric';
    expect(sweepQuery(parseSweep(new URLSearchParams(text))).toString()).toBe(text);
    expect(sweepQuery(parseSweep(new URLSearchParams('metric=bogus&at=x'))).toString()).toBe('');
    expect(parseRoute('#/sweep/small_z?at=last')).toMatchObject({ page: 'sweep', name: 'small_z' });
  });

  it('chooses axes with several values, the seed last', () => {
    const axes = [...axesOf(CELLS), { key: 'model.heads', values: ['4', '12'] }, { key: 'preset', values: ['lm-288'] }];
    const chosen = (text: string): (string | null)[] => {
      const { x, y } = chosenAxes(parseSweep(new URLSearchParams(text)), axes);
      return [x?.key ?? null, y?.key ?? null];
    };
    expect(chosen('')).toEqual(['model.width', 'model.heads']);
    expect(chosen('x=model.heads')).toEqual(['model.heads', 'model.width']);
    expect(chosen('y=')).toEqual(['model.width', null]);
    expect(chosen('x=training.seed&y=training.seed')).toEqual(['training.seed', null]);
    expect(chosenAxes(parseSweep(new URLSearchParams()), [])).toEqual({ x: null, y: null });
  });
});
