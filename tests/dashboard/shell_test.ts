import type { AlertRule } from '../../server/dashboard/src/api/types';
import { rightsOf } from '../../server/dashboard/src/api/self';
import { RunWatch } from '../../server/dashboard/src/lib/news';
import { hashOf, parseRoute } from '../../server/dashboard/src/lib/routes';
import { Slices } from '../../server/dashboard/src/lib/slices';
import { nextTheme, themeOf } from '../../server/dashboard/src/lib/theme_choice';
import { meaningOf, withChange } from '../../server/dashboard/src/views/alert_rules';
import { runOf, shortRoute } from '../../server/dashboard/src/views/audit';
import { runsOf } from '../../server/dashboard/src/views/nodes';
import { actionsOf } from '../../server/dashboard/src/views/run_actions';
import { newToken } from '../../server/dashboard/src/views/tokens';

describe('addresses', () => {
  it('name their page, and anything unknown is the list', () => {
    expect(parseRoute('#/runs/r_0A?x=wall')).toMatchObject({ page: 'run', id: 'r_0A', view: { x: 'wall' } });
    expect(parseRoute('#/compare?runs=a,b').page).toBe('compare');
    for (const page of ['submit', 'nodes', 'alerts', 'tokens', 'audit']) expect(parseRoute(`#/${page}`).page).toBe(page);
    for (const hash of ['', '#/', '#/runs', '#/runs?q=x', '#/elsewhere', '#/runs/../x']) expect(parseRoute(hash).page).toBe('runs');
  });
  it('stay readable and make the round trip', () => {
    const hash = hashOf('compare', new URLSearchParams({ runs: 'a,b', keys: 'eval:loss,loss@1', q: 'x & y' }));
    expect(hash).toBe('#/compare?runs=a,b&keys=eval:loss,loss@1&q=x+%26+y');
    const route = parseRoute(hash);
    expect(route.page !== 'run' && route.query.get('q')).toBe('x & y');
    expect(hashOf('runs', new URLSearchParams())).toBe('#/runs');
  });
});

describe('the theme', () => {
  it('goes round, and what is not known is the system\'s', () => {
    expect(nextTheme(nextTheme(nextTheme('system')))).toBe('system');
    expect([themeOf('dark'), themeOf('blue'), themeOf(null)]).toEqual(['dark', 'system', 'system']);
  });
});

describe('news of runs', () => {
  const run = (id: string, state: string, stale: string | null = null) => ({ id, name: `run ${id}`, state, detail: 'why', stale_since: stale });
  it('are what went wrong since the last look, once', () => {
    const watch = new RunWatch();
    expect(watch.look([run('a', 'failed'), run('b', 'running')])).toEqual([]);
    expect(watch.look([run('a', 'failed'), run('b', 'failed')])).toEqual([{ run: 'b', title: 'run b failed', text: 'why' }]);
    expect(watch.look([run('a', 'failed'), run('b', 'failed')])).toEqual([]);
  });
  it('tell of silence, of runs that are new and of runs that were out of sight', () => {
    const watch = new RunWatch();
    watch.look([run('a', 'running')]);
    expect(watch.look([run('a', 'running', '2026-11-21')]).map(({ title }) => title)).toEqual(['run a says nothing any more']);
    expect(watch.look([run('c', 'lost')]).map(({ title }) => title)).toEqual(['run c was lost']);
    expect(watch.look([run('a', 'running'), run('c', 'lost')])).toEqual([]);
    expect(watch.look([run('a', 'running', '2026-11-21')]).length).toBe(1);
  });
});

describe('rules of alerts', () => {
  const rules: AlertRule[] = [{ name: 'stall', kind: 'stall', threshold: 60 } as AlertRule, { name: 'nan', kind: 'nan', threshold: 1, enabled: true } as AlertRule];
  it('change one at a time, and only to numbers', () => {
    expect(withChange(rules, 1, 'enabled', false)).toEqual([rules[0], { ...rules[1], enabled: false }]);
    expect(withChange(rules, 0, 'hold_s', 5)[0]).toEqual({ name: 'stall', kind: 'stall', threshold: 60, hold_s: 5 });
    expect(withChange(rules, 0, 'threshold', NaN)).toEqual(rules);
    expect(meaningOf('disk_low')).toBe('bytes free');
  });
});

describe('what can be done with a run', () => {
  const ids = (run: Parameters<typeof actionsOf>[0]): string[] => actionsOf(run).map(([id]) => id);
  it('follows its state', () => {
    expect(ids({ state: 'queued' })).toEqual(['stop']);
    expect(ids({ state: 'running' })).toEqual(['checkpoint', 'stop']);
    expect(ids({ state: 'restarting' })).toEqual(['stop']);
    expect(ids({ state: 'stopped' })).toEqual(['resume', 'delete']);
  });
  it('is less for one that was started by hand, and only to take it back for a deleted one', () => {
    expect(ids({ state: 'failed', profile: 'external' })).toEqual(['delete']);
    expect(ids({ state: 'running', profile: 'external' })).toEqual(['checkpoint', 'stop']);
    expect(ids({ state: 'running', profile: 'external', stale_since: '2026-11-21T10:00:00.000Z' })).toEqual(['checkpoint', 'stop', 'delete']);
    expect(ids({ state: 'stopped', deleted_at: '2026-11-21T10:00:00.000Z' })).toEqual(['restore']);
  });
});

describe('tokens and the audit', () => {
  it('ask for what was filled in', () => {
    expect(newToken(' laptop ', 'read', 'r_0', '86400')).toEqual({ name: 'laptop', scope: 'read', expires_in_seconds: 86400 });
    expect(newToken('ci', 'ingest', ' r_0 ', '')).toEqual({ name: 'ci', scope: 'ingest', run: 'r_0' });
    expect(newToken('ci', 'ingest', '', '')).toEqual({ name: 'ci', scope: 'ingest' });
  });
  it('name the run that a write was about', () => {
    const run = `r_${'0'.repeat(26)}`;
    expect([runOf(`/api/v1/runs/${run}/stop`), runOf(`/api/v1/runs/${run}`), runOf('/api/v1/runs'), runOf(`/api/v1/tokens/${run}`)]).toEqual([run, run, null, null]);
    expect(shortRoute('/api/v1/runs/{run}/stop')).toBe('/runs/{run}/stop');
  });
});

describe('hosts', () => {
  it('name each run once, with its ranks', () => {
    expect(runsOf({ ranks: [{ run: 'a', rank: 10 }, { run: 'b', rank: 0 }, { run: 'a', rank: 9 }] }))
      .toEqual([{ run: 'a', ranks: [9, 10] }, { run: 'b', ranks: [0] }]);
  });
});

describe('words', () => {
  it('for rights', () => {
    expect(rightsOf('operate')).toBe('look, start and stop runs');
    expect(rightsOf('other')).toBe('other');
  });
});

describe('work in slices', () => {
  it('gives way when its time is over, keeps places and starves nothing', async () => {
    let now = 0;
    const done: string[] = [];
    const turns: (() => void)[] = [];
    const slices = new Slices<string>(() => new Promise((resolve) => turns.push(resolve)), () => now);
    const piece = (name: string) => (): void => { done.push(name); now += 8; };
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
    slices.add(1, () => { throw new Error('broken'); });
    slices.add(2, () => done.push(2));
    await vi.waitFor(() => expect(done).toEqual([2]), 60_000);
    expect(reported.length).toBe(1);
    vi.unstubAllGlobals();
  });
});
