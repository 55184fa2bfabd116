import {
  isolatedRows,
  nearestRow,
  readLine,
  spread,
  zoomed,
  type Line,
} from '../../server/dashboard/src/charts/chart_data';
import { logLabels, logTicks } from '../../server/dashboard/src/charts/plot_options';
import { chartCsv } from '../../server/dashboard/src/data/export';
import { SeriesStore } from '../../server/dashboard/src/data/series_store';
import { differences, flatten, search } from '../../server/dashboard/src/lib/config_tree';
import { ema } from '../../server/dashboard/src/lib/ema';
import { heatLevel, heatMap, lowerMedian } from '../../server/dashboard/src/lib/heat';
import { defaultView, parseRunView, runViewQuery } from '../../server/dashboard/src/lib/run_view';
import { emptySeries, stack, type Series } from '../../server/dashboard/src/lib/series';
import { fileStem } from '../../server/dashboard/src/lib/format';
import {
  clockTicks,
  decimalsOf,
  logStep,
  msTick,
  percentTick,
  plainTick,
  siTick,
  TIME_STEPS,
} from '../../server/dashboard/src/lib/ticks';
import { trendOf } from '../../server/dashboard/src/lib/trend';
import {
  interpolate,
  rangeOnServer,
  TokenClock,
  xOfStep,
  xOfTime,
  xTick,
  xValue,
  type XAxis,
} from '../../server/dashboard/src/lib/x_axis';
import { downloadCommand } from '../../server/dashboard/src/views/run_checkpoints';
import { matches } from '../../server/dashboard/src/views/run_metrics';
import { rankState } from '../../server/dashboard/src/views/run_ranks';
import { chosenOf, linesOf } from '../../server/dashboard/src/views/run_translate';

function series(step: number[], avg: (number | null)[] = step, timeMs = step.map((at) => at * 1000)): Series {
  return { ...emptySeries(), step, timeMs, avg, min: avg, max: avg, total: step.length };
}

describe('TokenClock', () => {
  const clock = new TokenClock(series([10, 20, 40], [100, 200, 50])); // 1000, 2000 and 1000 tokens
  it('adds up the tokens of the updates that a row sums up', () => {
    expect(clock.at(10)).toBe(1000);
    expect(clock.at(20)).toBe(3000);
    expect(clock.at(40)).toBe(4000);
  });
  it('goes linearly between rows and on beyond the last', () => {
    expect(clock.at(15)).toBe(2000);
    expect(clock.at(50)).toBe(4500);
    expect(clock.at(0)).toBe(0);
  });
  it('finds the step of a count again', () => {
    for (const step of [5, 10, 33, 60]) expect(clock.stepAt(clock.at(step))).toBeCloseTo(step, 9);
  });
  it('knows nothing of an empty run', () => {
    expect(new TokenClock(emptySeries()).at(7)).toBe(0);
  });
});

describe('x axis', () => {
  const axis = (mode: XAxis['mode']): XAxis => ({ mode, startMs: 5000, clock: new TokenClock(series([10], [100])) });
  it('reads a row in each unit', () => {
    expect(xValue(axis('update'), 7, 9000)).toBe(7);
    expect(xValue(axis('elapsed'), 7, 9000)).toBe(4);
    expect(xValue(axis('wall'), 7, 9000)).toBe(9);
    expect(xValue(axis('tokens'), 7, 9000)).toBe(700);
  });
  it('asks the server for what a zoom covers', () => {
    expect(rangeOnServer(axis('update'), [-3, 7.2])).toEqual({ x: 'step', from: 0, to: 8 });
    expect(rangeOnServer(axis('elapsed'), [1, 2])).toEqual({ x: 'wall', from: 6000, to: 7000 });
    expect(rangeOnServer(axis('wall'), [1, 2])).toEqual({ x: 'wall', from: 1000, to: 2000 });
    expect(rangeOnServer(axis('tokens'), [250, 410])).toEqual({ x: 'step', from: 2, to: 5 });
  });
  it('places steps between the rows of a sampled series, and nothing outside them', () => {
    const rows = series([10, 20], [1, 1], [15_000, 25_000]);
    expect(xOfStep(axis('elapsed'), rows, 15)).toBe(15);
    expect(xOfStep(axis('update'), rows, 3)).toBe(3);
    expect(xOfStep(axis('update'), rows, 21)).toBeNull();
    expect(xOfTime(axis('update'), rows, 20_000)).toBe(15);
    expect(xOfTime(axis('update'), rows, 26_000)).toBeNull();
    expect(xOfStep(axis('update'), emptySeries(), 1)).toBeNull();
  });
  it('interpolates at the ends too', () => {
    expect(interpolate([0, 10], [5, 25], 20)).toBe(45);
    expect(interpolate([], [], 3)).toBe(0);
  });
  it('labels ticks with their unit', () => {
    expect(xTick('update', 1.5)).toBe('');
    expect(xTick('update', 1500)).toBe('1,500');
    expect(xTick('elapsed', 90)).toBe('1 min 30 s');
    expect([
      xTick('elapsed', 300, 300),
      xTick('elapsed', 7200, 1800),
      xTick('elapsed', 2 * 86_400, 86_400),
      xTick('elapsed', 0.25, 0.05),
    ]).toEqual(['5 min', '2 h', '2 d', '0.25 s']);
    const at = (hour: number, minute: number, second = 0): number =>
      new Date(2026, 10, 22, hour, minute, second).getTime() / 1000;
    expect([xTick('wall', at(8, 45), 300), xTick('wall', at(8, 46, 40), 10), xTick('wall', at(0, 0), 3600)]).toEqual([
      '08:45',
      '08:46:40',
      '11-22',
    ]);
    expect(xTick('tokens', 2_500_000)).toBe('2.50 M');
  });
});

describe('the series of a run', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });
  it('are not joined with newer rows that were asked for before a zoom', async () => {
    let clocks = 0;
    let release = (): void => undefined;
    vi.stubGlobal('fetch', (path: string) => {
      const query = new URLSearchParams(path.split('?')[1]);
      const step = [1, 2, 3, 4].filter(
        (at) => at >= Number(query.get('from')) && at <= Number(query.get('to') ?? Math.min(3 + clocks, 4)),
      );
      const answer = new Response(
        JSON.stringify({
          items: [{ step, time_ms: step, value: step, total: step.length, sampled: false, non_finite: [] }],
        }),
      );
      if (query.get('keys') !== 'update_target_tokens' || ++clocks < 2) return Promise.resolve(answer);
      return new Promise((done) => {
        release = () => done(answer);
      });
    });
    const store = new SeriesStore('r_1', () => new Set(['loss']), []);
    const tokens: XAxis = { mode: 'tokens', startMs: 0, clock: store.clock };
    await store.load({ axis: tokens, range: null }, 3);
    const tail = store.loadTail({ axis: tokens, range: null }, 5); // waits for the clock
    await store.load({ axis: { ...tokens, mode: 'update' }, range: [1, 2] }, 5);
    release();
    await tail;
    expect(store.get('loss').step).toEqual([1, 2]);
  });
});

describe('the split of a step', () => {
  it('still adds up when all layers are smoothed alike', () => {
    const parts = [
      [2, 3, 9, 4],
      [50, 55, 90, 51],
      [100, 90, 140, 99],
    ];
    const whole = parts[0]!.map((_, row) => parts.reduce((sum, part) => sum + part[row]!, 0));
    const top = stack(parts.map((part) => ema(part, 0.7))).at(-1)!;
    ema(whole, 0.7).forEach((value, row) => expect(top[row]).toBeCloseTo(value!, 9));
  });
});

describe('heat strip', () => {
  const rank = (number: number, value: (step: number) => number | null) => ({
    rank: number,
    series: series(
      Array.from({ length: 100 }, (_, at) => at + 1),
      Array.from({ length: 100 }, (_, at) => value(at + 1)),
    ),
  });
  it('takes the faster of two ranks as the measure', () => {
    expect(lowerMedian([3, 1])).toBe(1);
    expect(lowerMedian([3, 1, 2])).toBe(2);
    expect(lowerMedian([])).toBeNull();
  });
  it('finds the rank that is slower for a while, and only it', () => {
    const map = heatMap(
      [rank(0, () => 50), rank(1, () => 51), rank(2, (step) => (step > 60 && step <= 80 ? 75 : 50))],
      [1, 100],
      50,
    );
    expect(map.columns).toBe(50);
    expect(map.rows.map(({ straggling }) => straggling)).toEqual([0, 0, 0.2]);
    expect(map.rows[2]!.ratios[35]).toBeCloseTo(1.47, 2);
    expect(heatLevel(map.rows[2]!.ratios[35]!)).toBe(3);
    expect(map.rows[2]!.ratios[0]).toBe(1);
    expect([map.rows[2]!.lastSlow, map.rows[2]!.slowNow, map.rows[0]!.lastSlow]).toEqual([80, false, null]);
  });
  it('says that a rank straggles now', () => {
    const map = heatMap([rank(0, () => 50), rank(1, (step) => (step > 90 ? 80 : 50))], [1, 100], 50);
    expect([map.rows[1]!.slowNow, map.rows[1]!.lastSlow]).toEqual([true, 100]);
  });
  it('lets a row of a sampled series stand for all steps since the row before', () => {
    const sampled = { ...series([5, 22, 23, 33], [50, 50, 50, 50]), sampled: true };
    expect(heatMap([{ rank: 0, series: sampled }], [1, 33], 30).rows[0]!.ratios.every((ratio) => ratio === 1)).toBe(
      true,
    );
  });
  it('leaves holes where a rank said nothing', () => {
    const map = heatMap([rank(0, () => 50), rank(1, (step) => (step > 50 ? null : 50))], [1, 100], 10);
    expect(map.rows[1]!.ratios[9]).toBeNull();
    expect(map.rows[0]!.ratios[9]).toBe(1);
    expect(heatLevel(null)).toBeNull();
  });
  it('has no more columns than there are steps', () => {
    expect(heatMap([{ rank: 0, series: series([5, 6, 7]) }], [5, 7], 160).columns).toBe(3);
    expect(heatMap([{ rank: 0, series: emptySeries() }], [0, 0], 160).rows[0]!.meanRatio).toBeNull();
  });
});

describe('configuration', () => {
  const yaml =
    'run:\n  name: a\nmodel:\n  layers: 6\n  sizes:\n    - 512\n    - 2048\n# a remark\nlanguages:\n- en\n- no\nsets:\n  - name: valid\n    lines: 3000\n  - name: test\n';
  it('gives every leaf its path', () => {
    expect([...flatten(yaml)]).toEqual([
      ['run.name', 'a'],
      ['model.layers', '6'],
      ['model.sizes.0', '512'],
      ['model.sizes.1', '2048'],
      ['languages.0', 'en'],
      ['languages.1', 'no'],
      ['sets.0.name', 'valid'],
      ['sets.0.lines', '3000'],
      ['sets.1.name', 'test'],
    ]);
  });
  it('tells what differs, and what only one has', () => {
    expect(differences(yaml, yaml)).toEqual([]);
    expect(differences('a: 1\nb:\n  c: 2\n', 'a: 1\nb:\n  c: 3\n  d: 4\n')).toEqual([
      { path: 'b.c', left: '2', right: '3' },
      { path: 'b.d', left: null, right: '4' },
    ]);
  });
  it('shows the lines that were searched for under what they belong to', () => {
    expect(search(yaml, '2048').map(({ line }) => line)).toEqual(['model:', '  sizes:', '    - 2048']);
    expect(search(yaml, 'LAYERS').filter(({ hit }) => hit)).toHaveLength(1);
    expect(search('a: 1\nb: 2', '')).toHaveLength(2);
    expect(search(yaml, 'absent')).toEqual([]);
  });
});

describe('the view in the address', () => {
  const changed = {
    ...defaultView(),
    x: 'tokens' as const,
    logX: true,
    smoothing: 0,
    range: [0, 12.5] as [number, number],
    log: new Set(['loss', 'key-a']),
    linkGbit: 25,
    find: 'memory',
    all: true,
    heat: 'data_ms',
    evaluation: 'e_1',
    against: 'r_2',
    logLevel: 'warn',
    logRank: '3',
    logText: 'a & b',
  };
  it('comes back as it was', () => {
    expect(parseRunView(new URLSearchParams(runViewQuery(changed)))).toEqual(changed);
    expect(runViewQuery(defaultView())).toBe('');
  });
  it('refuses what makes no sense', () => {
    const view = parseRunView(new URLSearchParams('x=wall&logx=1&smooth=2&range=9_3&link=-4'));
    expect(view).toEqual({ ...defaultView(), x: 'wall' });
    expect(parseRunView(new URLSearchParams('smooth=&range=a_b'))).toEqual(defaultView());
  });
});

describe('trend', () => {
  it('says whether the loss falls, rises or stays', () => {
    const noise = (at: number): number => 0.1 * Math.sin(at * 7.3);
    const column = (slope: number): number[] => Array.from({ length: 400 }, (_, at) => 5 + slope * at + noise(at));
    expect(trendOf(column(-0.01))).toMatchObject({ certain: true, rows: 40 });
    expect(trendOf(column(-0.01))!.change).toBeLessThan(0);
    expect(trendOf(column(0.01))!.change).toBeGreaterThan(0);
    expect(trendOf(column(0))!.certain).toBe(false);
  });
  it('says nothing of a few rows', () => {
    expect(trendOf([1, 2, null, 3])).toBeNull();
  });
});

describe('ticks', () => {
  it('have as many decimals as tell neighbours apart', () => {
    expect([0.725, 0.73, 0.735].map((value) => percentTick(value, 0.005))).toEqual(['72.5 %', '73.0 %', '73.5 %']);
    expect([0.72, 0.73].map((value) => percentTick(value, 0.01))).toEqual(['72 %', '73 %']);
    expect([1000, 1000.25, 0].map((value) => plainTick(value, 0.25))).toEqual(['1,000.00', '1,000.25', '0']);
    expect([-0.5, 12_000_000, 0.00025].map((value) => plainTick(value, value === 0.00025 ? 0.00005 : 0.5))).toEqual([
      '−0.5',
      '12,000,000.0',
      '2.5e-4',
    ]);
    expect([1_250_000, 1_300_000, 950_000].map((value) => siTick('B')(value, 50_000))).toEqual([
      '1.25 MB',
      '1.30 MB',
      '950 kB',
    ]);
    expect([4002.5, 250].map((value) => msTick(value, 2.5))).toEqual(['4.0025 s', '250.0 ms']);
    expect([decimalsOf(1), decimalsOf(0.25), decimalsOf(0.0002), decimalsOf(2500), decimalsOf(0)]).toEqual([
      0, 2, 4, 0, 0,
    ]);
  });
  it('of a logarithmic axis stand for themselves', () => {
    expect(
      logTicks(0.02, 500)
        .filter((tick) => [0.02, 0.5, 3, 500].includes(tick))
        .map((tick) => plainTick(tick, logStep(tick))),
    ).toEqual(['0.02', '0.5', '3', '500']);
  });
  it('of times are at steps that people count in, in local time', () => {
    for (const minutes of [1, 2, 5, 10, 15, 30]) expect(TIME_STEPS).toContain(60 * minutes);
    expect(TIME_STEPS).not.toContain(100);
    const offset = 5.5 * 3600;
    const from = Date.UTC(2026, 10, 22, 0, 10) / 1000;
    expect(clockTicks(from, from + 7200, 3600, offset).map((at) => (at + offset) % 3600)).toEqual([0, 0]);
    expect(clockTicks(10, 20, 5, 0)).toEqual([10, 15, 20]);
  });
});

describe('logarithmic axes', () => {
  it('have ticks at whole digits within the range', () => {
    expect(logTicks(2.4, 12)).toEqual([3, 4, 5, 6, 7, 8, 9, 10]);
    expect(logTicks(0.0002, 0.0004)).toEqual([0.0002, 0.0003, 0.0004]);
  });
  it('label all of a short range and powers of ten of a long one', () => {
    expect(logLabels([3, 4, 5])).toEqual([3, 4, 5]);
    expect(logLabels(logTicks(1, 20)).filter((tick) => tick !== null)).toEqual([1, 2, 5, 10, 20]);
    expect(logLabels(logTicks(1, 5000)).filter((tick) => tick !== null)).toEqual([1, 10, 100, 1000]);
  });
});

describe('chart tables', () => {
  it('spread over all rows with the last among them', () => {
    expect(spread(3)).toEqual([0, 1, 2]);
    const rows = spread(1200, 12);
    expect([rows.length, rows[0], rows.at(-1)]).toEqual([12, 0, 1199]);
  });
  it('read every line at its value nearest to the cursor, and say where another one is', () => {
    const xs = [600, 741, 800];
    expect(nearestRow(xs, [1, null, 3], 741)).toBe(2);
    expect(nearestRow(xs, [1, undefined, 3], 690)).toBe(0);
    expect(nearestRow(xs, [1, 2, 3], 9999)).toBe(2);
    expect(nearestRow(xs, [null, null, null], 700)).toBeNull();
    const line = (kind: Line['kind']): Line => ({
      kind,
      label: '',
      color: 'blue',
      x: xs,
      y: [],
      legend: true,
      format: (value) => `v${value}`,
    });
    const read = (kind: Line['kind'], column: (number | null)[], x: number): string =>
      readLine(line(kind), xs, column, x, 2, String);
    expect(read('line', [1, 2, 3], 741)).toBe('v2');
    expect(read('points', [1, null, 3], 741)).toBe('v3 @800');
    expect(read('points', [1, null, 3], 799)).toBe('v3');
    expect(read('limit', [7, null, 7], 741)).toBe('v7');
    expect(read('line', [null, null, null], 741)).toBe('vnull');
  });
  it('mark what stands alone: a line of one point cannot be seen', () => {
    expect(isolatedRows([5])).toEqual([0]);
    expect(isolatedRows([1, 2, null, 4, null, 6, 7])).toEqual([3]);
    expect(isolatedRows([undefined, 1, undefined, undefined, 2])).toEqual([]);
    expect(isolatedRows([null, undefined, 1, undefined, null, 3])).toEqual([2, 5]);
    expect(isolatedRows([])).toEqual([]);
  });
  it('zoom around a point and out to everything', () => {
    expect(zoomed([0, 100], 50, 0.5, [0, 100])).toEqual([25, 75]);
    expect(zoomed([25, 75], 50, 2, [0, 100])).toBeNull();
    expect(zoomed([0, 20], 10, 2, [0, 100])).toEqual([0, 30]);
  });
});

describe('the CSV of a chart', () => {
  const evaluation = (update: number, set: string, loss: number | null) => ({
    id: 'e',
    update,
    time_ms: 10 * update,
    set,
    loss,
    nll: null,
    sacrebleu: 31.25,
    chrf: null,
    accuracy: null,
    signature: '',
    seconds: 1,
    best: true,
    sample_count: 0,
  });
  it("has a column for each series, with the server's digits", () => {
    expect(
      chartCsv(
        [
          { name: 'a', csv: 'step,time_ms,value\r\n1,5,0.1000000000000001\r\n3,7,2\r\n' },
          { name: 'b@2', csv: 'step,time_ms,value\n1,5,nan\n2,6,4\n' },
        ],
        [],
        [],
      ),
    ).toBe('step,time_ms,a,b@2\n1,5,0.1000000000000001,nan\n2,6,,4\n3,7,2,\n');
  });
  it('has what evaluations measured beside them, by set', () => {
    expect(
      chartCsv(
        [{ name: 'loss', csv: 'step,time_ms,value\n1,5,3\n2,6,2.5\n' }],
        [evaluation(2, 'valid', 2.75), evaluation(4, 'te,st', null)],
        ['loss', 'sacrebleu'],
      ),
    ).toBe(
      'step,time_ms,loss,eval:loss@valid,"eval:loss@te,st",eval:sacrebleu@valid,"eval:sacrebleu@te,st"\n1,5,3,,,,\n2,6,2.5,2.75,,31.25,\n4,40,,,,,31.25\n',
    );
    expect(chartCsv([], [], ['sacrebleu'])).toBe('step,time_ms\n');
  });
  it('is named as the run', () => {
    expect([fileStem('wmt16 base/größer: 2'), fileStem('../..'), fileStem('r_1'), fileStem('')]).toEqual([
      'wmt16-base-größer-2',
      'run',
      'r_1',
      'run',
    ]);
  });
});

describe('state of a rank', () => {
  it('tells a silent rank from one that finishes no update', () => {
    expect(rankState({ state: 'training', since_update_s: 1 })).toBe('training');
    expect(rankState({ state: 'training', since_update_s: null })).toBe('training');
    expect(rankState({ state: 'training', since_update_s: 90 })).toBe('no update for 1 min 30 s');
    expect(rankState({ state: 'silent', since_update_s: 90 })).toBe('silent');
    expect(rankState({ state: 'ended', since_update_s: 90 })).toBe('ended');
  });
});

describe('small parts', () => {
  it('find a key by any of its words', () => {
    expect(matches('memory_bytes.weights', 'weights MEM')).toBe(true);
    expect(matches('memory_bytes.weights', 'loss')).toBe(false);
    expect(matches('anything', '')).toBe(true);
  });
  it('send lines, not empty ones', () => {
    expect(linesOf(' a \n\n b\n')).toEqual(['a', 'b']);
    expect(chosenOf('c_2', ['c_3', 'c_2'], 'c_3')).toBe('c_2');
    expect(chosenOf('c_1', ['c_3', 'c_2'], 'c_2')).toBe('c_2'); // c_1 was removed
    expect([chosenOf('', ['c_3'], undefined), chosenOf('c_1', [], undefined)]).toEqual(['c_3', '']);
  });
  it('give a command that can be typed', () => {
    expect(downloadCommand('http://h:8080', 'r_1', 'c_2')).toBe(
      'nmt run download r_1 --checkpoint c_2 --server http://h:8080',
    );
  });
});
