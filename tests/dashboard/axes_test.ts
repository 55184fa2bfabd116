import {
  isolatedRows,
  type Line,
  logLabels,
  logTicks,
  nearestRow,
  readLine,
  spread,
  zoomed,
} from '../../server/dashboard/src/charts/plot';
import { chartCsv } from '../../server/dashboard/src/data/export';
import {
  clockTicks,
  decimalsOf,
  interpolate,
  logStep,
  msTick,
  percentTick,
  plainTick,
  rangeOnServer,
  siTick,
  TIME_STEPS,
  TokenClock,
  type XAxis,
  xOfStep,
  xOfTime,
  xTick,
  xValue,
} from '../../server/dashboard/src/lib/axes';
import { fileStem } from '../../server/dashboard/src/lib/format';
import { emptySeries, type Series, trendOf } from '../../server/dashboard/src/lib/series';

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
