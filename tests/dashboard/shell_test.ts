import { answered, unanswered } from '../../server/dashboard/src/api/client';
import { rightsOf } from '../../server/dashboard/src/api/session';
import type { AlertRule, Run, Verdict } from '../../server/dashboard/src/api/types';
import { formatTime } from '../../server/dashboard/src/lib/format';
import { hashOf, parseRoute } from '../../server/dashboard/src/lib/routes';
import {
  isLive,
  localTimes,
  otherSets,
  percentDone,
  setName,
  timeLeft,
  timeLeftUntil,
} from '../../server/dashboard/src/data/runs';
import { Slices } from '../../server/dashboard/src/lib/work';
import { meaningOf, withChange } from '../../server/dashboard/src/views/alerts';
import { auditQuery, runOf, shortRoute } from '../../server/dashboard/src/views/audit';
import { runsOf } from '../../server/dashboard/src/views/nodes';
import { editDistance } from '../../server/dashboard/src/lib/nearest';
import { similarRuns } from '../../server/dashboard/src/views/not_found';
import { RunWatch } from '../../server/dashboard/src/views/notifier';
import { actionsOf, offersResume, speedPartOf, splitOf } from '../../server/dashboard/src/views/run_summary';
import { mayReload, nextTheme, themeOf, watchConnection } from '../../server/dashboard/src/views/site_header';
import { newToken } from '../../server/dashboard/src/views/tokens';

describe('addresses', () => {
  it('name their page, none is the list, and anything else is told', () => {
    expect(parseRoute('#/runs/r_0A?x=wall')).toMatchObject({ page: 'run', id: 'r_0A', view: { x: 'wall' } });
    expect(parseRoute('#/compare?runs=a,b').page).toBe('compare');
    for (const page of ['submit', 'nodes', 'alerts', 'tokens', 'audit'])
      expect(parseRoute(`#/${page}`).page).toBe(page);
    for (const hash of ['', '#', '#/', '#/runs', '#/runs?q=x']) expect(parseRoute(hash).page).toBe('runs');
    for (const path of ['/elsewhere', '/runs/../x', '/runs/', 'runs', '/foo/bar', '/runs/my-run'])
      expect(parseRoute(`#${path}?q=1`)).toEqual({ page: 'unknown', path });
    expect(parseRoute('#/runs/my%20run%2')).toEqual({ page: 'unknown', path: '/runs/my%20run%2' });
    expect(parseRoute('#/runs/mein%20Lauf')).toEqual({ page: 'unknown', path: '/runs/mein Lauf' });
  });
  it('stay readable and make the round trip', () => {
    const hash = hashOf('compare', new URLSearchParams({ runs: 'a,b', keys: 'eval:loss,loss@1', q: 'x & y' }));
    expect(hash).toBe('#/compare?runs=a,b&keys=eval:loss,loss@1&q=x+%26+y');
    const route = parseRoute(hash);
    expect('query' in route && route.query.get('q')).toBe('x & y');
    expect(hashOf('runs', new URLSearchParams())).toBe('#/runs');
  });
});

describe('runs that may be meant', () => {
  const runs = [
    { id: 'r_01ARZ3NDEKTSV4RRFFQ69G5FAV', name: 'wmt16-base' },
    { id: 'r_01ARZ3NDEKTSV4RRFFQ69G5FAW', name: 'quickstart' },
    { id: 'r_0Z', name: '' },
  ];
  const names = (sought: string): string[] => similarRuns(sought, runs).map(({ name }) => name);
  it('are those of a similar name or id, the most alike first', () => {
    expect(names('quickstart')).toEqual(['quickstart']);
    expect(names('Quikstart')).toEqual(['quickstart']);
    expect(names('wmt16')).toEqual(['wmt16-base']);
    expect(names('r_01ARZ3NDEKTSV4RRFFQ69G5FAW')).toEqual(['quickstart', 'wmt16-base']);
    expect(names('r_01ARZ3NDEKTSV4RR')).toEqual(['wmt16-base', 'quickstart']); // a link that was cut
    expect(names('something else')).toEqual([]);
    expect(names('')).toEqual([]);
  });
  it('differ by letters', () => {
    expect([editDistance('kitten', 'sitting'), editDistance('', 'abc'), editDistance('a', 'a')]).toEqual([3, 3, 0]);
  });
});

describe('a server that is away', () => {
  it('is told with the time of the last answer, once it has lasted', () => {
    vi.useFakeTimers();
    const banner = { textContent: '' } as HTMLElement;
    watchConnection(banner);
    const nine = new Date(2026, 10, 22, 9, 21, 0).getTime();
    answered(nine);
    unanswered(nine + 5000);
    unanswered(nine + 6000);
    vi.advanceTimersByTime(2000);
    expect(banner.textContent).toBe('');
    vi.advanceTimersByTime(2000);
    expect(banner.textContent).toBe(
      'No connection to the server since 09:21:05, showing data until 09:21:00. Retrying …',
    );
    answered(nine + 60_000);
    expect(banner.textContent).toBe('');
    vi.useRealTimers();
  });
  it('is waited for, and everything is loaded again, but not over and over', () => {
    expect([mayReload(0, 1_000_000), mayReload(990_000, 1_000_000)]).toEqual([true, false]);
  });
});

describe('the end of a run', () => {
  const run = (fraction: number | null, left: number | null, atLatest = false) => ({
    progress: { fraction, seconds_left: left, end: '', at_latest: atLatest },
  });
  it('is told as far as it is known, and is not there before it is', () => {
    expect([
      percentDone(run(0.623, null)),
      percentDone(run(0.9999, null)),
      percentDone(run(1, null)),
      percentDone(run(null, null)),
    ]).toEqual(['62 %', '99 %', '100 %', '']);
    expect([
      timeLeft(run(0.5, 45)),
      timeLeft(run(0.5, 400)),
      timeLeft(run(0.5, 7200)),
      timeLeft(run(0.5, 7320, true)),
      timeLeft(run(0.5, null)),
    ]).toEqual(['45 s left', '7 min left', '2 h left', 'at most 2 h 02 min left', '']);
    const noon = new Date(2026, 10, 22, 12, 0).getTime();
    expect([
      timeLeftUntil(run(0.5, 400), noon),
      timeLeftUntil(run(0.5, 2 * 86_400), noon),
      timeLeftUntil(run(0.5, null), noon),
    ]).toEqual(['7 min left (12:06)', '2 d left (2026-11-24 12:00)', '']);
  });
  it('says nothing of a run that is over or silent', () => {
    const live = (state: string, age: number) => isLive({ state, record_age_ms: age } as Run, 1000, 1000);
    expect([live('running', 500), live('running', 61_000), live('failed', 500)]).toEqual([true, false, false]);
  });
  it("has the reader's time in the server's words", () => {
    const text = 'Silent since 2026-11-22T11:58:01.123Z: the last record';
    const local = formatTime('2026-11-22T11:58:01.123Z');
    const then = Date.parse('2026-11-22T11:58:01.123Z');
    expect(localTimes(text, then + 2 * 86_400_000)).toBe(`Silent since ${local}: the last record`);
    expect(localTimes(text, then)).toBe(`Silent since ${local.slice(-5)}: the last record`);
  });
});

describe('what the server resumes', () => {
  const health = (topic: 'state' | 'alerts', action: string | null) => ({
    level: 'bad' as const,
    headline: 'x',
    action,
    parts: [{ topic, level: 'bad' as const, text: 'x', action }],
  });
  it("is told by the run's state", () => {
    expect([
      offersResume(health('state', 'Resume')),
      offersResume(health('state', 'Run its command again')),
      offersResume(health('alerts', 'Resume')),
      offersResume(health('state', null)),
    ]).toEqual([true, false, false, false]);
  });
});

describe('the speed in the health', () => {
  const parts = [
    { topic: 'state', level: 'good', text: 'Running', action: null },
    { topic: 'speed', level: 'warning', text: 'Network-bound: 64 % of each step waits', action: null },
  ];
  const health = { level: 'warning', headline: parts[1]!.text, action: null, parts } as Run['health'];
  const verdict = { verdict: 'network_bound', level: 'warning', sentence: 'network-bound: 63 % of each step waits' };
  it('is told once, in the words of the verdict whose evidence the page shows', () => {
    expect(speedPartOf(health, verdict as Verdict)?.text).toBe('Network-bound: 63 % of each step waits');
  });
  it('keeps its words where the verdict has changed since', () => {
    const healed = { ...verdict, level: 'good', sentence: 'healthy' } as Verdict;
    expect(speedPartOf(health, healed)?.text).toBe('Network-bound: 64 % of each step waits');
  });
  it('is no part of a run that is over, or whose verdict is not known yet', () => {
    expect(speedPartOf({ ...health, parts: [parts[0]] } as Run['health'], verdict as Verdict)).toBeUndefined();
    expect(speedPartOf(health, null)).toBeUndefined();
  });
});

describe('the split of an update', () => {
  const part = (key: string, value: number, share: number | null) => ({ key, value, unit: 'ms', share });
  const verdict = {
    verdict: 'network_bound',
    level: 'warning',
    sentence: '',
    advice: '',
    confidence: 1,
    window: { first_update: 273, last_update: 1400 },
    evidence: [
      part('update_ms', 320, 1),
      part('forward_ms', 160, 0.5),
      part('network_wait_ms', 96, 0.3),
      part('straggler_wait_ms', 32, 0.1),
      part('communication_ms', 200, null),
    ],
  } as Verdict;
  it('is that of the verdict, so that a page has one number for one thing', () => {
    const split = splitOf(verdict)!;
    expect([split.updateMs, split.exposed.toFixed(3), split.basis]).toEqual([320, '0.400', 'updates 273 to 1,400']);
    expect([...split.shares.keys()]).toEqual(['forward_ms', 'network_wait_ms', 'straggler_wait_ms']);
    expect(splitOf({ ...verdict, window: null })).toBeNull();
    expect(splitOf(null)).toBeNull();
  });
});

describe('evaluations on other sets', () => {
  const row = (set: string, time_ms: number) => ({ set, time_ms });
  it('are the newest of each set but that of the first evaluation', () => {
    const evals = [row('valid', 100), row('test', 900), row('valid', 200), row('test', 800), row('news', 200)];
    expect(otherSets(evals)).toEqual([row('news', 200), row('test', 900)]);
    expect(otherSets([row('valid', 1)])).toEqual([]);
    expect(otherSets([])).toEqual([]);
  });
  it('are named by their set, the sample of the training set in words', () => {
    expect(['valid', 'train'].map(setName)).toEqual(['valid', 'training sample']);
  });
});

describe('the theme', () => {
  it("goes round, and what is not known is the system's", () => {
    expect(nextTheme(nextTheme(nextTheme('system')))).toBe('system');
    expect([themeOf('dark'), themeOf('blue'), themeOf(null)]).toEqual(['dark', 'system', 'system']);
  });
});

describe('news of runs', () => {
  const run = (id: string, state: string, stale: string | null = null) => ({
    id,
    name: `run ${id}`,
    state,
    detail: 'why',
    stale_since: stale,
    restarts: 0,
    health: { headline: 'Restarted 2 of 3 times' },
  });
  it('are what went wrong since the last look, once', () => {
    const watch = new RunWatch();
    expect(watch.look([run('a', 'failed'), run('b', 'running')])).toEqual([]);
    expect(watch.look([run('a', 'failed'), run('b', 'failed')])).toEqual([
      { run: 'b', title: 'run b failed', text: 'why' },
    ]);
    expect(watch.look([run('a', 'failed'), run('b', 'failed')])).toEqual([]);
  });
  it('tell of each restart once, and not of those before the first look', () => {
    const watch = new RunWatch();
    const restarted = (restarts: number) => ({ ...run('a', 'running'), restarts });
    expect(watch.look([restarted(1)])).toEqual([]);
    expect(watch.look([restarted(2)])).toEqual([
      { run: 'a', title: 'run a was restarted after a fault', text: 'Restarted 2 of 3 times' },
    ]);
    expect(watch.look([restarted(2)])).toEqual([]);
    expect(watch.look([restarted(0)])).toEqual([]); // resumed
    expect(watch.look([restarted(1)]).length).toBe(1);
  });
  it('tell of silence, of runs that are new and of runs that were out of sight', () => {
    const watch = new RunWatch();
    watch.look([run('a', 'running')]);
    expect(watch.look([run('a', 'running', '2026-11-21')]).map(({ title }) => title)).toEqual([
      'run a stopped reporting',
    ]);
    expect(watch.look([run('c', 'lost')]).map(({ title }) => title)).toEqual(['run c was lost']);
    expect(watch.look([run('a', 'running'), run('c', 'lost')])).toEqual([]);
    expect(watch.look([run('a', 'running', '2026-11-21')]).length).toBe(1);
  });
});

describe('rules of alerts', () => {
  const rules: AlertRule[] = [
    { name: 'stall', kind: 'stall', threshold: 60 } as AlertRule,
    { name: 'nan', kind: 'nan', threshold: 1, enabled: true } as AlertRule,
  ];
  it('change one at a time, and only to numbers', () => {
    expect(withChange(rules, 1, 'enabled', false)).toEqual([rules[0], { ...rules[1], enabled: false }]);
    expect(withChange(rules, 0, 'hold_s', 5)[0]).toEqual({ name: 'stall', kind: 'stall', threshold: 60, hold_s: 5 });
    expect(withChange(rules, 0, 'threshold', NaN)).toEqual(rules);
    expect(meaningOf('disk_low')).toBe('bytes free');
    expect(meaningOf('restarted')).toBe('restarts after a fault');
    expect(meaningOf('ranks_differ')).toBe('updates whose weights differ between ranks');
  });
});

describe('what can be done with a run', () => {
  const ids = (run: Parameters<typeof actionsOf>[0]): string[] => actionsOf(run).map(([id]) => id);
  it('follows its state', () => {
    expect(ids({ state: 'queued' })).toEqual(['stop']);
    expect(ids({ state: 'running' })).toEqual(['checkpoint', 'trace', 'stop']);
    expect(ids({ state: 'running', emulated: true })).toEqual(['trace', 'stop']);
    expect(ids({ state: 'restarting' })).toEqual(['stop']);
    expect(ids({ state: 'stopped' })).toEqual(['resume', 'delete']);
  });
  it('is less for one that was started by hand, and only to take it back for a deleted one', () => {
    expect(ids({ state: 'failed', profile: 'external' })).toEqual(['delete']);
    expect(ids({ state: 'running', profile: 'external' })).toEqual(['checkpoint', 'trace', 'stop']);
    expect(ids({ state: 'running', profile: 'external', stale_since: '2026-11-21T10:00:00.000Z' })).toEqual([
      'checkpoint',
      'trace',
      'stop',
      'delete',
    ]);
    expect(ids({ state: 'stopped', deleted_at: '2026-11-21T10:00:00.000Z' })).toEqual(['restore']);
  });
});

describe('tokens and the audit', () => {
  it('ask for what was filled in', () => {
    expect(newToken(' laptop ', 'read', 'run', 'r_0', '86400')).toEqual({
      name: 'laptop',
      scope: 'read',
      expires_in_seconds: 86400,
    });
    expect(newToken('ci', 'ingest', 'run', ' r_0 ', '')).toEqual({ name: 'ci', scope: 'ingest', run: 'r_0' });
    expect(newToken('ci', 'ingest', 'run_prefix', 'mt ', '')).toEqual({
      name: 'ci',
      scope: 'ingest',
      run_prefix: 'mt ',
    });
    expect(newToken('ci', 'ingest', 'any_run', 'x', '')).toEqual({ name: 'ci', scope: 'ingest', any_run: true });
  });
  it('name the run that a write was about', () => {
    const run = `r_${'0'.repeat(26)}`;
    expect([
      runOf(`/api/v1/runs/${run}/stop`),
      runOf(`/api/v1/runs/${run}`),
      runOf('/api/v1/runs'),
      runOf(`/api/v1/tokens/${run}`),
    ]).toEqual([run, run, null, null]);
    expect(shortRoute('/api/v1/runs/{run}/stop')).toBe('/runs/{run}/stop');
  });
  it('ask the server for what the filters say', () => {
    expect(auditQuery({ actor: '', object: '', status: '', from: '', to: '' }).toString()).toBe('');
    expect([
      ...auditQuery({ actor: 'a b', object: 'r_0', status: '4xx', from: '2026-11-30', to: '2026-11-30' }),
    ]).toEqual([
      ['actor', 'a b'],
      ['object', '/api/v1/runs/r_0'],
      ['status', '4xx'],
      ['from', '2026-11-30'],
      ['to', '2026-12-01'],
    ]);
    expect([
      auditQuery({ object: '/tokens' }).get('object'),
      auditQuery({ object: '/api/v1/tokens' }).get('object'),
    ]).toEqual(['/api/v1/tokens', '/api/v1/tokens']);
  });
});

describe('hosts', () => {
  it('name each run once, with its ranks', () => {
    expect(
      runsOf({
        ranks: [
          { run: 'a', rank: 10 },
          { run: 'b', rank: 0 },
          { run: 'a', rank: 9 },
        ],
      }),
    ).toEqual([
      { run: 'a', ranks: [9, 10] },
      { run: 'b', ranks: [0] },
    ]);
  });
});

describe('words', () => {
  it('for rights', () => {
    expect(rightsOf('operate')).toBe('read, start and stop runs');
    expect(rightsOf('other')).toBe('other');
  });
});

describe('work in slices', () => {
  it('gives way when its time is over, keeps places and starves nothing', async () => {
    let now = 0;
    const done: string[] = [];
    const turns: (() => void)[] = [];
    const slices = new Slices<string>(
      () => new Promise((resolve) => turns.push(resolve)),
      () => now,
    );
    const piece = (name: string) => (): void => {
      done.push(name);
      now += 8;
    };
    for (const key of ['a', 'b', 'c']) slices.add(key, piece(key));
    await new Promise((resolve) => setTimeout(resolve));
    expect(done).toEqual(['a', 'b']);
    slices.add('a', piece('a again'));
    slices.add('c', piece('c newer'));
    turns.shift()!();
    await new Promise((resolve) => setTimeout(resolve));
    expect(done).toEqual(['a', 'b', 'c newer', 'a again']);
    slices.add('d', piece('d'));
    slices.clear();
    turns.shift()!();
    await new Promise((resolve) => setTimeout(resolve));
    slices.add('e', piece('e'));
    await new Promise((resolve) => setTimeout(resolve));
    expect(done).toEqual(['a', 'b', 'c newer', 'a again', 'e']);
  });
  it('goes on after a piece that fails', async () => {
    const reported: unknown[] = [];
    vi.stubGlobal('reportError', (error: unknown) => reported.push(error));
    const done: number[] = [];
    const slices = new Slices<number>();
    slices.add(1, () => {
      throw new Error('broken');
    });
    slices.add(2, () => done.push(2));
    await vi.waitFor(() => expect(done).toEqual([2]), 60_000);
    expect(reported.length).toBe(1);
    vi.unstubAllGlobals();
  });
});
