import { RunWatch } from '../../server/dashboard/src/lib/news';
import { hashOf, parseRoute } from '../../server/dashboard/src/lib/routes';
import { nextTheme, themeOf } from '../../server/dashboard/src/lib/theme_choice';
import { describeRule } from '../../server/dashboard/src/views/alerts';
import { rightsOf } from '../../server/dashboard/src/views/login';

describe('addresses', () => {
  it('name their page, and anything unknown is the list', () => {
    expect(parseRoute('#/runs/r_0A?x=wall')).toMatchObject({ page: 'run', id: 'r_0A', view: { x: 'wall' } });
    expect(parseRoute('#/compare?runs=a,b').page).toBe('compare');
    for (const page of ['submit', 'nodes', 'alerts']) expect(parseRoute(`#/${page}`).page).toBe(page);
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

describe('words', () => {
  it('for rules and rights', () => {
    expect(describeRule({ rule: 'stall', enabled: true, after_s: 60, window: null })).toBe('after s 60');
    expect(rightsOf('operate')).toBe('look, start and stop runs');
    expect(rightsOf('other')).toBe('other');
  });
});
