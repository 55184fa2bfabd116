import type { Evaluation, MetricKey } from '../../server/dashboard/src/api/types';
import { axesOf, type Point, roundTicks, scaleOf, settingCharts } from '../../server/dashboard/src/views/compare_axes';
import { comparisonRows } from '../../server/dashboard/src/data/export';
import { evalsOf, ofOneSet } from '../../server/dashboard/src/data/runs';
import { formatOf, isEval } from '../../server/dashboard/src/lib/format';
import { emptySeries, type Series } from '../../server/dashboard/src/lib/series';
import {
  bestOf,
  bestsOf,
  betterOf,
  ComparedRun,
  compareQuery,
  configRows,
  cutText,
  DEFAULT_KEYS,
  differenceRows,
  evalKeys,
  fullRange,
  parseCompare,
  titleOf,
  winner,
} from '../../server/dashboard/src/views/compare_data';
import { drawnLanes, foldLines, lanesOf } from '../../server/dashboard/src/views/compare_groups';
import type { Line } from '../../server/dashboard/src/charts/plot';
import { chancesOf, chosenOf } from '../../server/dashboard/src/views/compare_choice';

const evaluation = (update: number, sacrebleu: number | null, loss: number): Evaluation => ({
  id: `e_${update}`,
  time_ms: 0,
  update,
  set: 'valid',
  loss,
  nll: loss,
  sacrebleu,
  chrf: null,
  accuracy: null,
  signature: '',
  seconds: 1,
  best: false,
  sample_count: 0,
});
const metric = (part: Partial<MetricKey>): MetricKey => ({
  key: 'loss',
  aggregate: 'mean',
  count: 3,
  first: 3,
  last: 2,
  min: 1,
  min_step: 5,
  max: 3,
  max_step: 1,
  ...part,
});

describe('the evaluations of a run', () => {
  it('are those of the set that training validates with', () => {
    const beside = { ...evaluation(2, 9, 1), set: 'test' };
    expect(ofOneSet([evaluation(1, 1, 3), beside, evaluation(3, 2, 2)]).map(({ update }) => update)).toEqual([1, 3]);
    expect(ofOneSet([evaluation(1, 1, 3), beside]).map(({ set }) => set)).toEqual(['valid']);
    expect(ofOneSet([])).toEqual([]);
  });
  it('are compared on another set by its name', () => {
    const general = { ...evaluation(1, 30, 2), set: 'general' };
    const later = { ...evaluation(2, null, 2.5), set: 'general' };
    const evals = [evaluation(1, 20, 3), general, evaluation(2, null, 2.9), later, evaluation(3, 22, 2.8)];
    expect(evalsOf(evals, 'eval:loss').map(({ loss }) => loss)).toEqual([3, 2.9, 2.8]);
    expect(evalsOf(evals, 'eval:loss@general')).toEqual([general, later]);
    expect(evalsOf(evals, 'eval:loss@none')).toEqual([]);
    const offered = evalKeys([{ evals }, { evals: [evaluation(1, 1, 1), { ...general, set: 'a,b' }] }]);
    expect(offered.filter((key) => key.includes('@'))).toEqual(
      expect.arrayContaining(['eval:loss@general', 'eval:sacrebleu@general']),
    );
    expect(offered.filter((key) => key.includes(',') || key.includes('@valid'))).toEqual([]);
    expect(offered.length).toBe(new Set(offered).size);
    const run = { evals, keys: new Map(), series: { get: () => emptySeries() } };
    expect(bestOf(run, 'eval:loss@general')).toEqual({ value: 2, update: 1 });
    expect(bestOf(run, 'eval:sacrebleu')).toEqual({ value: 22, update: 3 });
    expect(['eval:loss@general', 'eval:chrf@general'].map(betterOf)).toEqual(['less', 'more']);
    expect(['eval:sacrebleu@general', 'eval:loss@train'].map(titleOf)).toEqual([
      'sacreBLEU on general',
      'Validation loss on training sample',
    ]);
    expect(formatOf('eval:sacrebleu@a@b')(30.126)).toBe('30.13');
  });
  it('give the charts their range where nothing else is compared', () => {
    const run = new ComparedRun('r_A', () => new Set());
    run.evals = [evaluation(100, 20, 3), { ...evaluation(200, 30, 2), set: 'general' }];
    const { view } = parseCompare(new URLSearchParams());
    expect(fullRange([run], ['eval:loss', 'eval:loss@general'], view)).toEqual([0, 200]);
    expect(fullRange([run], ['eval:loss'], view)).toEqual([0, 100]);
    expect(fullRange([run], ['loss'], view)).toEqual([0, 1]);
  });
});

describe('the difference of the best validations', () => {
  const run = (id: string, best: string | null): Pick<ComparedRun, 'id' | 'name' | 'run'> => ({
    id,
    name: id.toUpperCase(),
    run: { best: best === null ? null : { ...evaluation(1, 20, 3), id: best } } as ComparedRun['run'],
  });
  it('is asked for again where a best validation or a run has changed', () => {
    expect(bestsOf([run('a', 'e_1')])).toBe('');
    const before = bestsOf([run('a', 'e_1'), run('b', null)]);
    expect(bestsOf([run('a', 'e_1'), run('b', null)])).toBe(before);
    expect(bestsOf([run('a', 'e_1'), run('b', 'e_2')])).not.toBe(before);
    expect(bestsOf([run('b', null), run('a', 'e_1')])).not.toBe(before);
  });
  it('is said of the runs that are still compared', () => {
    const items = ['b', 'gone', 'c'].map((id) => ({ run: id, text: '0.30 BLEU better than A (p = 0.41)' }));
    expect(differenceRows([run('a', null), run('b', null), run('c', null)], items)).toEqual([
      { at: 1, text: 'B: 0.30 BLEU better than A (p = 0.41)' },
      { at: 2, text: 'C: 0.30 BLEU better than A (p = 0.41)' },
    ]);
  });
});

describe('the link of a comparison', () => {
  it('makes the round trip', () => {
    const state = parseCompare(
      new URLSearchParams(
        'runs=r_A,r_B&keys=loss,eval:sacrebleu&x=tokens&smooth=0.5&range=10_200&log=loss&same=1&fold=0',
      ),
    );
    expect(state.runs).toEqual(['r_A', 'r_B']);
    expect(state.view).toMatchObject({ x: 'tokens', smoothing: 0.5, range: [10, 200] });
    expect(parseCompare(compareQuery(state))).toEqual(state);
  });
  it('is short for the default, and takes no nonsense', () => {
    expect(compareQuery(parseCompare(new URLSearchParams('runs=r_A'))).toString()).toBe('runs=r_A');
    const many = Array.from({ length: 600 }, (_, at) => `r${at}`).join();
    const state = parseCompare(new URLSearchParams(`runs=r_A,r_A,../x,r_B,${many}`));
    expect([state.runs.length, ...state.runs.slice(0, 3)]).toEqual([500, 'r_A', 'r_B', 'r0']);
    expect(state.keys).toEqual(DEFAULT_KEYS);
    expect(cutText(state.asked)).toBe('The first 500 of 602 runs.');
    expect(cutText(500)).toBe('');
  });
});

describe('best values', () => {
  const series = (step: number[], values: (number | null)[]): Series => ({
    ...emptySeries(),
    step,
    timeMs: step,
    min: values,
    avg: values,
    max: values,
    total: step.length,
  });
  const all: Record<string, Series> = {
    loss: { ...series([4, 8], [1.5, 2]), min: [1, 1.2], sampled: true },
    step_ms: series([4, 8], [7, 9]),
    target_tokens_per_second: series([4, 8], [900, 1800]),
    learning_rate: series([4, 8, 12], [1, 0.1, null]),
  };
  const run = {
    evals: [evaluation(100, 20, 4), evaluation(200, 25, 3.5), evaluation(300, null, 3.8)],
    keys: new Map([
      ['loss', metric({})],
      ['target_tokens_per_second', metric({ max: 900, max_step: 8 })],
    ]),
    series: { get: (key: string) => all[key] ?? emptySeries() },
  };
  it('are the max or min with their update, or the last value if neither is better', () => {
    expect(bestOf(run, 'eval:sacrebleu')).toMatchObject({ value: 25, update: 200 });
    expect(bestOf(run, 'eval:loss')).toMatchObject({ value: 3.5, update: 200 });
    expect(bestOf(run, 'loss')).toEqual({ value: 1, update: 5 });
    expect(bestOf(run, 'step_ms')).toEqual({ value: 7, update: 4 });
    expect(bestOf(run, 'target_tokens_per_second')).toEqual({ value: 1800, update: 8 });
    expect(bestOf(run, 'learning_rate')).toEqual({ value: 0.1, update: 8 });
    expect(bestOf(run, 'eval:chrf')).toBeNull();
    expect(bestOf(run, 'absent')).toBeNull();
  });
  it('have a winner only where one can be told', () => {
    const at = (value: number) => ({ value, update: 1 });
    expect(winner('loss', [at(2), at(1), null])).toBe(1);
    expect(winner('eval:sacrebleu', [at(2), at(1)])).toBe(0);
    expect(winner('loss', [at(2), at(2)])).toBe(-1);
    expect(winner('learning_rate', [at(2), at(1)])).toBe(-1);
    expect(winner('loss', [null, null])).toBe(-1);
  });
  it('know which way is better', () => {
    expect(['loss', 'eval:loss', 'step_ms', 'eval:chrf', 'target_tokens_per_second', 'power_w'].map(betterOf)).toEqual([
      'less',
      'less',
      'less',
      'more',
      'more',
      null,
    ]);
    expect(isEval('eval:loss')).toBe(true);
    expect(titleOf('exposed_communication_ms')).toBe('Exposed communication');
    expect(titleOf('eval:sacrebleu')).toBe('sacreBLEU');
  });
});

describe('configurations side by side', () => {
  it('show what differs first, and what is missing', () => {
    const rows = configRows([
      new Map([
        ['a', '1'],
        ['b', '2'],
        ['c', '3'],
      ]),
      new Map([
        ['a', '1'],
        ['b', '4'],
      ]),
    ]);
    expect(rows).toEqual([
      { path: 'b', values: ['2', '4'], differs: true },
      { path: 'c', values: ['3', null], differs: true },
      { path: 'a', values: ['1', '1'], differs: false },
    ]);
  });
});

describe('the CSV of a comparison', () => {
  it("keeps the server's digits and quotes names", () => {
    expect(
      comparisonRows({ id: 'r_1', name: 'a,"b"' }, 'loss', 'step,time_ms,value\r\n1,5,0.1000000000000001\r\n2,6,\r\n'),
    ).toBe('r_1,"a,""b""",loss,1,5,0.1000000000000001\nr_1,"a,""b""",loss,2,6,\n');
  });
});

describe('lanes of a comparison', () => {
  const line = (x: number[], y: (number | null)[]): Line => {
    return { label: '', color: 'blue', kind: 'line', x, y, legend: true, format: String };
  };
  const compared = (id: string, rate: string, seed: string, bleu: number): ComparedRun => {
    const run = new ComparedRun(id, () => new Set());
    run.run = {
      id,
      name: id,
      version: '',
      world_size: 2,
      elapsed_seconds: 60,
      labels: {},
      state: 'succeeded',
    } as ComparedRun['run'];
    run.run!.best = { ...evaluation(7, bleu, 2), id: `e_${id}` };
    run.config = new Map([
      ['optimizer.learning_rate', rate],
      ['training.seed', seed],
    ]);
    return run;
  };
  const grid = ['1e-4', '3e-4', '5e-4'].flatMap((rate, at) =>
    ['1', '2', '3'].map((seed) => compared(`r${at}${seed}`, rate, seed, 20 + at + 0.1 * Number(seed))),
  );
  it('fold seeds to a mean with a band', () => {
    const [low, high, mean] = foldLines([line([0, 10, 20], [1, 3, null]), line([0, 20], [3, 5])]);
    expect(mean!.y).toEqual([2, 3.5, 5]);
    expect([low!.y[2], high!.y[2], low!.kind, high!.legend]).toEqual([null, null, 'low', false]);
    expect(high!.y[0]! - mean!.y[0]!).toBeCloseTo(Math.SQRT2);
  });
  it('are named by what differs, each with its colour', () => {
    const lanes = lanesOf(grid, true);
    expect(lanes.map(({ label, color, runs }) => [label, color, runs.length])).toEqual([
      ['lr 1e-4', 'blue', 3],
      ['lr 3e-4', 'orange', 3],
      ['lr 5e-4', 'teal', 3],
    ]);
    expect(lanesOf(grid, false).length).toBe(9);
    expect(lanesOf(grid.slice(0, 1), true)[0]!.label).toBe('r01');
    expect(drawnLanes(lanesOf(grid, false)).length).toBe(8);
    expect(lanesOf(grid, false)[1]!.runs[0]!.id).toBe('r23');
  });
  it('say which configuration to take, how sure that is and what it costs', () => {
    const chosen = chosenOf(lanesOf(grid, true))!;
    expect([chosen.lane.label, chosen.run.id]).toEqual(['lr 5e-4', 'r23']);
    expect(chosen.text).toBe(
      'sacreBLEU 22.20 ± 0.10 of 3 seeds; > 99 % chance to be the best; cost: 2 min 00 s of a rank each, 6 min 00 s in all.',
    );
    expect(chosenOf(lanesOf(grid.slice(0, 3), true))).toBeNull();
    expect(chosenOf(lanesOf([grid[0]!, grid[3]!], true))!.text).toMatch(/no seeds to tell chance from skill/);
  });
});

describe('the chance to be the best', () => {
  const stats = (mean: number, spread: number, count: number) => ({ mean, spread, count });
  it('is shared by equals, and adds up to one', () => {
    const equal = chancesOf([stats(5, 1, 4), stats(5, 1, 4), stats(5, 1, 4)], true);
    equal.forEach((chance) => expect(chance).toBeCloseTo(1 / 3, 3));
    const mixed = chancesOf([stats(28.8, 0.2, 5), stats(28.6, 0.24, 5), { mean: null, spread: null, count: 0 }], true);
    expect(mixed[0]! + mixed[1]!).toBeCloseTo(1, 6);
    expect(mixed[2]).toBeNull();
    expect(chancesOf([stats(28.8, 0.2, 5), stats(28.6, 0.24, 5)], false)[1]).toBeCloseTo(mixed[0]!, 6);
  });
  it("is that of Student's t for two groups", () => {
    // t = 0.2 / (s √(2/5)) with s² = (0.2² + 0.24²)/2 = 1.43 at 8 degrees of freedom: P(T < t) = 0.905
    expect(chancesOf([stats(28.8, 0.2, 5), stats(28.6, 0.24, 5)], true)[0]).toBeCloseTo(0.905, 2);
  });
  it('is unknown without any spread', () => {
    expect(
      chancesOf(
        [
          { mean: 1, spread: null, count: 1 },
          { mean: 2, spread: null, count: 1 },
        ],
        true,
      ),
    ).toEqual([null, null]);
  });
});

describe('the score over settings', () => {
  const point = (lr: string, preset: string, mean: number | null): Point => ({
    lane: {
      label: `lr ${lr}`,
      color: 'blue',
      values: new Map([...(lr ? [['lr', lr] as const] : []), ['preset', preset]]),
    },
    score: { count: 2, mean, spread: 0.1 },
  });
  it('stands by size, by the logarithm where numbers lie far apart, or evenly', () => {
    const linear = scaleOf(['0.3', '0.1', '0.2', '0.1']);
    expect([linear.kind, linear.ticks]).toEqual(['linear', ['0.1', '0.2', '0.3']]);
    expect(linear.at('0.2')).toBeCloseTo(0.5);
    const log = scaleOf(['1e-5', '0.001', '1e-4']);
    expect(log.kind).toBe('log');
    expect(log.at('1e-4')).toBeCloseTo(0.5);
    expect(scaleOf(['0', '100']).kind).toBe('linear');
    const named = scaleOf(['small', 'base', '3']);
    expect([named.kind, named.at('3'), named.at('small')]).toEqual(['named', 0, 1]);
    expect(scaleOf(['7', '7']).at('7')).toBe(0.5);
  });
  it('has round ticks', () => {
    const read = (low: number, high: number): string[] => roundTicks(low, high).map((tick) => tick.toPrecision(3));
    expect(read(1.18, 1.59)).toEqual(['1.20', '1.30', '1.40', '1.50']);
    expect(read(18.2, 31)).toEqual(['20.0', '25.0', '30.0']);
    expect(read(-0.9, 0.9).length).toBe(3);
  });
  it('has axes of the settings that all have', () => {
    expect(axesOf([point('1', 'a', 1), point('2', 'b', 2)])).toEqual(['lr', 'preset']);
    expect(axesOf([point('', 'a', 1), point('2', 'b', 2)])).toEqual(['preset']);
    expect(axesOf([point('–', 'a', 1), point('2', 'b', 2)])).toEqual(['preset']);
    expect(axesOf([])).toEqual([]);
  });
  it('is not drawn of fewer than two scores', () => {
    const look = { title: 'sacreBLEU', score: 'sacrebleu', key: '' };
    expect(settingCharts([point('1', 'a', 1), point('2', 'b', null)], look, () => undefined)).toBeNull();
  });
});
