import * as format from '../../server/dashboard/src/lib/format';
import { EventStreamParser, type ServerEvent } from '../../server/dashboard/src/api/stream';
import { ALL_PARTS, partsOf } from '../../server/dashboard/src/data/run_data';
import {
  defaultView,
  hashOfRun,
  parseRoute,
  parseRunView,
  samePage,
  tabOf,
  tabsOf,
} from '../../server/dashboard/src/lib/routes';
import { ageMs, isSettled, staleForMs, takenSeconds } from '../../server/dashboard/src/data/runs';
import {
  alignOnFirst,
  appendTail,
  describeSampling,
  ema,
  emptySeries,
  nextStep,
  type Series,
  stack,
} from '../../server/dashboard/src/lib/series';
import { Refresher } from '../../server/dashboard/src/lib/work';
import { diffWords } from '../../server/dashboard/src/views/run_models';
import { toldOf, unraised, wantedBy } from '../../server/dashboard/src/views/webhooks';
import { seenMs, sortRuns } from '../../server/dashboard/src/views/away';
import type { DeliveryItem, Run, Webhook } from '../../server/dashboard/src/api/types';

function series(steps: number[], values: (number | null)[] = steps): Series {
  return { ...emptySeries(), step: steps, timeMs: steps, min: values, avg: values, max: values, total: steps.length };
}

describe('webhooks', () => {
  const webhook = { alert_kinds: [], runs: [], labels: [], cleared: false, digest_at: null } as unknown as Webhook;
  it('says what it tells of', () => {
    expect(wantedBy(webhook)).toBe('all alerts');
    const some = { ...webhook, alert_kinds: ['failed', 'silent'], labels: ['team=mt'], cleared: true } as Webhook;
    expect(wantedBy(some)).toBe('failed, silent of team=mt, and their ends');
    expect(wantedBy({ ...some, digest_at: '08:00' })).toBe('a digest at 08:00 of team=mt');
  });
  it('says how a delivery went', () => {
    expect(toldOf(null)).toBe('nothing sent yet');
    const waiting = { state: 'waiting', title: 'big: failed', tried_at: null, detail: null, tries: 0 } as DeliveryItem;
    expect(toldOf(waiting)).toBe('big: failed: waiting');
    expect(toldOf({ ...waiting, tries: 2, detail: '500' })).toBe('big: failed: waiting, 2 tries: 500');
  });
  it('names kinds that no rule raises', () => {
    const rules = [
      { name: 'a', kind: 'failed', threshold: 0 },
      { name: 'b', kind: 'finished', threshold: 0, enabled: false },
    ] as const;
    expect(unraised(['failed', 'finished', 'stall'], rules)).toEqual(['finished', 'stall']);
    expect(unraised([], rules)).toEqual([]);
  });
});

describe('while you were away', () => {
  const NOW = Date.parse('2026-11-30T08:00:00Z');
  const DAY = 86_400_000;
  const run = (id: string, state: string, level: string, hoursAgo: number): Run =>
    ({
      ...{ id, state, archived: false, health: { level } },
      updated_at: new Date(NOW - hoursAgo * 3_600_000).toISOString(),
      finished_at: state === 'running' ? null : new Date(NOW - hoursAgo * 3_600_000).toISOString(),
    }) as Run;
  it('begins where the reader has seen everything, at most a month ago', () => {
    expect(seenMs(String(NOW - 2 * DAY), NOW)).toBe(NOW - 2 * DAY);
    for (const stored of [null, '', 'x', String(NOW + 1), String(NOW - 31 * DAY)]) {
      expect(seenMs(stored, NOW)).toBe(NOW - DAY);
    }
  });
  it('names what needs a person, the worst first, and what ended well', () => {
    const runs = [
      run('slow', 'running', 'warning', 1),
      run('silent', 'running', 'bad', 60),
      run('well', 'running', 'good', 0),
      run('done', 'succeeded', 'good', 3),
      run('failed', 'failed', 'bad', 2),
      run('old', 'failed', 'bad', 30),
      run('done-before', 'succeeded', 'good', 30),
      { ...run('archived', 'failed', 'bad', 2), archived: true },
    ];
    const { needy, well } = sortRuns(runs, NOW - DAY);
    expect(needy.map(({ id }) => id)).toEqual(['failed', 'silent', 'slow']);
    expect(well.map(({ id }) => id)).toEqual(['done']);
  });
});

describe('series', () => {
  it('appends only rows that are newer', () => {
    const joined = appendTail(series([1, 2, 3]), series([3, 4, 5]));
    expect(joined.step).toEqual([1, 2, 3, 4, 5]);
    expect(joined.total).toBe(5);
    expect(appendTail(joined, series([4, 5]))).toBe(joined);
    expect(appendTail(emptySeries(), series([7])).avg).toEqual([7]);
  });
  it('aligns on steps and leaves holes where a part is missing', () => {
    expect(alignOnFirst([series([1, 2, 3]), series([2, 3], [20, 30])])[1]).toEqual([null, 20, 30]);
  });
  it('stacks to running sums and never sums over a hole', () => {
    expect(
      stack([
        [1, 2, 3],
        [10, null, 30],
        [100, 200, 300],
      ]),
    ).toEqual([
      [1, 2, 3],
      [11, null, 33],
      [111, null, 333],
    ]);
  });
  it('asks on from where the shortest ends, whatever has no row yet', () => {
    expect(nextStep([series([1, 2, 3]), emptySeries(), series([1, 2])])).toBe(3);
    expect(nextStep([emptySeries()])).toBe(0);
  });
  it('says when it is sampled', () => {
    const sampled = { ...series([1, 2]), total: 100_000, sampled: true };
    expect(describeSampling(sampled, format.formatCount)).toBe('2 of 100,000, min/avg/max');
    expect(describeSampling(series([1, 2]), format.formatCount)).toBe('all 2 points');
  });
});

describe('ema', () => {
  it('keeps a constant from the first value on and passes over holes', () => {
    const smooth = ema([5, 5, null, 5], 0.9);
    expect(smooth[2]).toBeNull();
    [smooth[0], smooth[1], smooth[3]].forEach((value) => expect(value).toBeCloseTo(5, 12));
  });
  it('weighs as the debiased formula says', () => {
    expect(ema([1, 2], 0.5)[1]).toBeCloseTo((0.25 * 1 + 0.5 * 2) / 0.75, 12);
    expect(ema([3, 1], 0)).toEqual([3, 1]);
  });
});

describe('diffWords', () => {
  it('marks what differs and loses no word', () => {
    const diff = diffWords('Das ist ein Haus.', 'Das war ein Haus.');
    expect(diff.reference.filter(({ same }) => !same).map(({ text }) => text)).toEqual([' ist']);
    expect(diff.hypothesis.filter(({ same }) => !same).map(({ text }) => text)).toEqual([' war']);
    expect(diff.reference.map(({ text }) => text).join('')).toBe('Das ist ein Haus.');
  });
  it('marks words, not clauses, where no spaces separate them', () => {
    const diff = diffWords('私は犬が好きです。', '私は猫が好きです。');
    expect(diff.reference.filter(({ same }) => !same).map(({ text }) => text)).toEqual(['犬']);
    expect(diff.hypothesis.filter(({ same }) => !same).map(({ text }) => text)).toEqual(['猫']);
    expect(diff.hypothesis.map(({ text }) => text).join('')).toBe('私は猫が好きです。');
    expect(diffWords('Wir 看书 heute', 'Wir 看书 morgen').hypothesis.map(({ text }) => text)).toEqual([
      'Wir 看书',
      ' morgen',
    ]);
  });
  it('takes empty and disjoint texts', () => {
    expect(diffWords('', 'neu')).toEqual({ reference: [], hypothesis: [{ text: 'neu', same: false }] });
    expect(diffWords('a b', 'c d').hypothesis).toEqual([{ text: 'c d', same: false }]);
  });
});

describe('format', () => {
  it('never shows a missing number as zero', () => {
    for (const missing of [null, undefined, NaN, Infinity]) {
      expect(format.formatCount(missing)).toBe(format.DASH);
      expect(format.formatSi(missing)).toBe(format.DASH);
      expect(format.formatDuration(missing)).toBe(format.DASH);
      expect(format.formatPercent(missing)).toBe(format.DASH);
    }
  });
  it('writes numbers as people read them', () => {
    expect(format.formatCount(1234567)).toBe('1,234,567');
    expect(format.formatSignificant(3.21734)).toBe('3.217');
    expect(format.formatSignificant(0.00002)).toBe('2.00e-5');
    expect(format.formatSi(12345, 'B/s')).toBe('12.3 kB/s');
    expect(format.formatSi(999_600)).toBe('1.00 M');
    expect(format.formatDuration(245)).toBe('4 min 05 s');
    expect(format.formatDuration(7620)).toBe('2 h 07 min');
    expect([12345, 4002, 999.4].map(format.formatMs)).toEqual(['12.3 s', '4.00 s', '999 ms']);
    expect(format.formatFixed(-0.098, 3)).toBe('−0.098');
    expect(format.formatNames(['alder', 'birch', 'cedar', 'elder'])).toBe('alder, birch +2');
    expect(format.formatNames(['alder'])).toBe('alder');
    expect(format.formatNames([])).toBe(format.DASH);
  });
  it('tells of a GPU what its driver tells', () => {
    expect(format.formatGpu({ utilization_percent: 93, memory_used_bytes: 40e9, power_w: 412.5 })).toBe(
      '93 %, 40.0 GB, 413 W',
    );
    expect(format.formatGpu({ utilization_percent: null, memory_used_bytes: null, power_w: 75 })).toBe('75 W');
    expect(format.formatGpu({ utilization_percent: null, memory_used_bytes: null, power_w: null })).toBe(format.DASH);
    expect(format.formatGpu(null)).toBe(format.DASH);
  });
});

describe('freshness', () => {
  const run = { state: 'running', record_age_ms: 2000 };
  it('lets a silent run turn stale without another word from the server', () => {
    expect(staleForMs(run, 1_000_000, 1_000_000)).toBeNull();
    expect(staleForMs(run, 1_000_000, 1_057_000)).toBeNull();
    expect(staleForMs(run, 1_000_000, 1_059_000)).toBe(61_000);
    expect(staleForMs({ ...run, state: 'succeeded' }, 1_000_000, 9_000_000)).toBeNull();
  });
  it('tells when an ended run is left alone', () => {
    const ended = { finished_at: '2026-11-28T00:00:00Z', record_age_ms: 3000 };
    expect(isSettled(ended, 1_000_000, 1_001_000)).toBe(false);
    expect(isSettled(ended, 1_000_000, 1_003_000)).toBe(true);
    expect(isSettled({ finished_at: null, record_age_ms: 3_600_000 }, 0, 0)).toBe(false);
    expect(isSettled(null, 0, 0)).toBe(false);
  });
  it('takes a run by its records, and adds their age while it goes on', () => {
    const late = { elapsed_seconds: 372, record_age_ms: 4000, finished_at: '2026-11-28T00:00:00Z' };
    expect(takenSeconds(late, 1_000_000, 9_000_000)).toBe(372);
    expect(takenSeconds({ ...late, finished_at: null }, 1_000_000, 1_001_000)).toBe(377);
    expect(takenSeconds({ elapsed_seconds: null, record_age_ms: 4000, finished_at: null }, 0, 0)).toBe(4);
  });
  it('counts on from the age that was told, whatever the clocks say', () => {
    expect(ageMs(300, 5000, 7000)).toBe(2300);
    expect(ageMs(300, 5000, 1000)).toBe(300);
  });
});

describe('Refresher', () => {
  afterEach(() => {
    vi.useRealTimers();
  });
  function refresher(round: (parts: ReadonlySet<string>) => Promise<void>) {
    vi.useFakeTimers();
    const results: boolean[] = [];
    return { results, it: new Refresher<string>(round, (failed) => results.push(failed), 500) };
  }
  it('keeps what is asked for during a round for the next one', async () => {
    const rounds: string[][] = [];
    const { it: refresh } = refresher(async (parts) => {
      rounds.push([...parts].sort());
      await new Promise((resolve) => setTimeout(resolve, 100));
    });
    refresh.ask(['tail']);
    await vi.advanceTimersByTimeAsync(50);
    refresh.ask(['series', 'logs']); // a reset, while the tail is on its way
    await vi.advanceTimersByTimeAsync(449);
    expect(rounds).toEqual([['tail']]);
    await vi.advanceTimersByTimeAsync(1);
    expect(rounds).toEqual([['tail'], ['logs', 'series']]);
  });
  it('does as many rounds a second as wanted, and gives a slow server a rest', async () => {
    let tookMs = 100;
    let rounds = 0;
    const { it: refresh } = refresher(async () => {
      rounds += 1;
      refresh.ask(['tail']);
      await new Promise((resolve) => setTimeout(resolve, tookMs));
    });
    refresh.ask(['tail']);
    await vi.advanceTimersByTimeAsync(5000);
    expect(rounds).toBe(11);
    tookMs = 900;
    await vi.advanceTimersByTimeAsync(100 + 1000); // the requests in flight, and the first slow round
    rounds = 0;
    await vi.advanceTimersByTimeAsync(10_000);
    expect(rounds).toBe(10);
    refresh.close();
  });
  it('asks again for what failed, and is quiet when nothing is due', async () => {
    let rounds = 0;
    const { it: refresh, results } = refresher(async () => {
      rounds += 1;
      if (rounds === 1) throw new Error('no server');
    });
    refresh.ask(['run']);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(results).toEqual([true, false]);
  });
  it('ends when it is closed', async () => {
    let rounds = 0;
    const { it: refresh } = refresher(async () => {
      rounds += 1;
    });
    refresh.ask(['run']);
    refresh.ask(['run']);
    refresh.close();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(rounds).toBe(1);
  });
});

describe('partsOf', () => {
  it('fetches what an event is about, and everything after a reset', () => {
    expect(partsOf('metrics')).toEqual(['run', 'tail']);
    expect(partsOf('eval')).toContain('evals');
    expect(partsOf('state')).toContain('verdict'); // a run that has ended is no longer polled
    expect(partsOf('reset')).toBe(ALL_PARTS);
    expect(ALL_PARTS).toContain('series');
  });
});

describe('EventStreamParser', () => {
  const text =
    'retry: 2000\n\n: alive\n\nid: 3-1\r\nevent: metrics\r\ndata: {"a":\r\ndata: 1}\r\n\r\nid: 3-2\ndata:x\n\nevent: empty\n\n';
  it('gives the same events however the text is cut', () => {
    for (const size of [1, 2, 3, 7, text.length]) {
      const events: ServerEvent[] = [];
      const parser = new EventStreamParser((event) => events.push(event));
      for (let at = 0; at < text.length; at += size) parser.feed(text.slice(at, at + size));
      expect(events).toEqual([
        { id: '3-1', event: 'metrics', data: '{"a":\n1}' },
        { id: '3-2', event: 'message', data: 'x' },
      ]);
      expect(parser.retryMs).toBe(2000);
      expect(parser.lastId).toBe('3-2');
    }
  });
});

describe('address', () => {
  it('carries the view there and back', () => {
    const view = {
      ...defaultView(),
      x: 'wall' as const,
      smoothing: 0.5,
      range: [10, 20.5] as [number, number],
      log: new Set(['loss']),
    };
    expect(parseRoute(hashOfRun('r_01', view))).toEqual({ page: 'run', id: 'r_01', view });
    expect(hashOfRun('r_01')).toBe('#/runs/r_01');
  });
  it('falls back on nonsense', () => {
    expect(parseRoute('#/runs/r_01?range=5_1&smooth=7&x=q')).toEqual({ page: 'run', id: 'r_01', view: defaultView() });
    expect(parseRoute('').page).toBe('runs');
  });
  it('tells addresses of one page from those of another', () => {
    expect(samePage('#/runs/r_01?x=wall', '#/runs/r_01')).toBe(true);
    expect(samePage('#/runs/r_01', '#/tokens')).toBe(false);
    expect(samePage('#/runs/r_01', '#/runs/r_02?x=wall')).toBe(false);
    expect([samePage('#/runs?q=a', ''), samePage('#/runs?q=a', '#/')]).toEqual([true, true]);
    expect(samePage('#/sweep/a%20b%2F1?x=1', '#/sweep/a b%2F1')).toBe(true);
  });
});

describe("the tabs of a run's page", () => {
  const at = (query: string, ended: boolean, update = 9): string =>
    tabOf(parseRunView(new URLSearchParams(query)), { finished_at: ended ? '2026-11-21T10:00:00Z' : null, update });
  it('begin with the report once the run has ended, with the log if it never trained', () => {
    expect([at('', false), at('', true), at('', true, 0)]).toEqual(['charts', 'report', 'log']);
    expect([tabsOf(true)[0], tabsOf(true)[1], tabsOf(false)[0]]).toEqual(['report', 'charts', 'charts']);
    expect(tabsOf(false).toSorted()).toEqual(tabsOf(true).toSorted());
  });
  it('are opened by their name, and by what else the address asks for', () => {
    expect([at('tab=ranks&range=1_2', true), at('tab=constructor', false)]).toEqual(['ranks', 'charts']);
    const addresses = [
      'range=3_9',
      'eval=e_1',
      'level=error',
      'against=r_2',
      'whatif=hosts:4',
      'heat=data_ms',
      'x=tokens',
    ];
    expect(addresses.map((address) => at(address, true))).toEqual([
      'charts',
      'translations',
      'log',
      'config',
      'whatif',
      'ranks',
      'charts',
    ]);
  });
});
