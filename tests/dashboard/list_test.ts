import type { MetricKey, Run } from '../../server/dashboard/src/api/types';
import { groupsOf, settingsOf, shortNames, statsOf } from '../../server/dashboard/src/data/choice';
import { parseFilter } from '../../server/dashboard/src/data/filter';
import { RunDetails, RunIndex } from '../../server/dashboard/src/data/run_index';
import { columnOf, compareValues, type Details, difference } from '../../server/dashboard/src/views/runs/columns';
import {
  arrange,
  defaultListState,
  listQuery,
  type ListState,
  matches,
  narrow,
  offers,
  parseListState,
  suggestions,
} from '../../server/dashboard/src/views/runs/list_controls';
import { labelsText, parseLabels } from '../../server/dashboard/src/views/run_ask';
import { describeCheck, lineOf, lineRange } from '../../server/dashboard/src/views/runs/submit';

const run = (part: Partial<Run>): Run => ({
  id: 'r_1',
  name: 'base',
  state: 'running',
  detail: '',
  version: '',
  attempt: 1,
  created_at: '2026-11-21T10:00:00Z',
  started_at: '2026-11-21T10:00:00Z',
  updated_at: '2026-11-21T11:00:00Z',
  finished_at: null,
  stale_since: null,
  record_age_ms: 0,
  elapsed_seconds: 3600,
  world_size: 2,
  hosts: ['alder'],
  parameters: 1,
  max_updates: 100,
  update: 10,
  epoch: null,
  loss: null,
  learning_rate: null,
  step_ms: null,
  target_tokens_per_second: null,
  eta_seconds: null,
  best: null,
  progress: { fraction: 0.1, seconds_left: null, end: '100 updates', at_latest: false },
  health: { level: 'good', headline: 'Running', action: null, parts: [] },
  last_eval: null,
  ...part,
});

const none: Details = { config: () => null, metrics: () => null };
const state = (part: Partial<ListState> = {}): ListState => ({ ...defaultListState(), ...part });

describe('the column of durations', () => {
  it('has what the records say, not the times of two clocks', () => {
    const late = run({ updated_at: '2026-11-21T23:00:00Z', finished_at: '2026-11-21T10:03:00Z', elapsed_seconds: 180 });
    expect(columnOf('ran')!.cell(late, none, 0)).toBe('3 min 00 s');
    expect(columnOf('ran')!.cell(run({ state: 'queued', elapsed_seconds: null }), none, 0)).toBe('–');
  });
});

describe('the state of the list in the address', () => {
  it('makes the round trip, and the default is empty', () => {
    expect(listQuery(state()).toString()).toBe('');
    const wanted = state({
      text: 'big model',
      states: ['failed', 'running'],
      archived: true,
      group: true,
      pinned: 'r_2',
      sort: { column: 'min:loss', descending: true },
      columns: ['state', 'config:model.layers', 'max:memory_bytes.peak'],
    });
    expect(parseListState(new URLSearchParams(listQuery(wanted).toString()))).toEqual(wanted);
  });
  it('tells both directions of the default column apart', () => {
    const up = state({ sort: { column: 'started', descending: false } });
    expect(parseListState(listQuery(up)).sort).toEqual({ column: 'started', descending: false });
  });
});

const found = (each: Run, part: Partial<ListState>): boolean => {
  const keys = new Set(Object.keys(each.labels ?? {}));
  return matches(each, state(part), parseFilter(part.text ?? '', keys), none);
};

describe('filters', () => {
  const tagged = run({ labels: { team: 'mt', trial: '' }, hosts: ['alder', 'birch'] });
  it('want every word somewhere', () => {
    expect(found(tagged, { text: 'BASE birch' })).toBe(true);
    expect(found(tagged, { text: 'base cedar' })).toBe(false);
    expect(found(tagged, { text: '"team=mt"' })).toBe(true);
  });
  it('know states and labels, with a value and without', () => {
    expect(found(tagged, { states: ['failed'] })).toBe(false);
    expect(found(tagged, { states: ['failed', 'running'] })).toBe(true);
    expect(found(tagged, { text: 'label:trial' })).toBe(true);
    expect(found(tagged, { text: 'label:team=asr' })).toBe(false);
    const all = ['label:team=asr', 'label:team=mt', 'label:trial'];
    expect(suggestions([tagged, run({ labels: { team: 'asr' } })])).toEqual(all);
    expect(parseListState(new URLSearchParams('q=big&label=team=mt')).text).toBe('big label:team=mt');
  });
  it('leave out what was archived unless it is wanted', () => {
    expect(found(run({ archived: true }), {})).toBe(false);
    expect(found(run({ archived: true }), { archived: true })).toBe(true);
  });
});

describe('filters by value', () => {
  const config = new Map([
    ['optimizer.learning_rate', '0.0005'],
    ['data.file', 'wmt.en'],
  ]);
  const best = { sacrebleu: 28.5, chrf: 55, loss: 2 } as Run['best'];
  const one = run({ labels: { team: 'mt', 'model.width': '512' }, state: 'failed', best, elapsed_seconds: 7300 });
  const keys = new Set(['team', 'model.width']);
  const passes = (text: string): boolean => parseFilter(text, keys).test(one, () => config);
  it('compare numbers, times, texts, labels and settings', () => {
    for (const text of [
      ...['bleu>27', 'bleu>=28.5', 'bleu<28.6', 'lr>3e-4', 'lr<=5e-4', 'progress=10%', 'ran>2h', 'update<1k'],
      ...['state:failed', 'state:lost,failed', 'label:team=mt', 'label:team', 'team=mt', 'width>=512', 'width=512'],
      ...['started>2026-11-20', 'name:as', 'name=base', '-name:big', '-state:running', 'data.file:wmt', 'host!=birch'],
      ...['bleu>27 lr>3e-4 label:team=mt state:failed base', '"mt"', 'optimizer.learning_rate=5e-4', 'health:good'],
    ])
      expect([text, passes(text), parseFilter(text, keys).problem]).toEqual([text, true, '']);
    for (const text of [
      'bleu>28.5',
      'epoch>1',
      'lr>5e-4',
      'ran<2h',
      'label:team=asr',
      '-base',
      'name=as',
      'seed=1',
      'valid_loss>2',
    ])
      expect([text, passes(text)]).toEqual([text, false]);
    expect([parseFilter('lr>1').settings, parseFilter('bleu>1').settings]).toEqual([true, false]);
    expect(parseFilter('lr>1').test(one, () => null)).toBe(false);
  });
  it('say in one line what is wrong, and then hide nothing', () => {
    const problems = [
      ['blue>27', 'blue>27: nothing is called blue; did you mean bleu. Quote'],
      ['bleu>abc', 'bleu>abc: found abc, expected a number such as 27, 3e-4, 10k or 40%'],
      ['ran>5x', 'ran>5x: found 5x, expected a time such as 90s, 5min or 2h'],
      ['state:faild', 'state:faild: found faild, expected failed'],
      ['name>x', 'name>x: name is a text, expected name:x'],
      ['started>soon', 'started>soon: found soon, expected a day such as 2026-11-30'],
    ];
    for (const [text, problem] of problems) expect(parseFilter(text!, keys).problem).toContain(problem!);
    expect(parseFilter('zzz:1').problem).toMatch(/^zzz:1: nothing is called zzz; known are bleu, /);
    expect(passes('blue>27')).toBe(true);
  });
});

describe('groups by what differs', () => {
  const make = (id: string, rate: string, seed: string, more: Partial<Run> = {}) => {
    const each = run({ id, ...more });
    const config = new Map([
      ...[['optimizer.learning_rate', rate] as const, ['training.seed', seed] as const, ['model.width', '8'] as const],
      ...[['run.name', id] as const],
    ]);
    return { run: each, settings: settingsOf(each, config) };
  };
  const candidates = [make('a', '1e-3', '1'), make('b', '5e-4', '1'), make('c', '1e-3', '2'), make('d', '1e-3', '2')];
  it('fold seeds, and leave repetitions apart', () => {
    const groups = groupsOf(candidates, true);
    expect(groups.map(({ label, runs }) => [label, runs.map(({ id }) => id).join('')])).toEqual([
      ['lr 1e-3', 'ac'],
      ['lr 5e-4', 'b'],
      ['lr 1e-3', 'd'],
    ]);
    expect(groupsOf(candidates, false).length).toBe(4);
    expect(groupsOf(candidates.slice(0, 1), true)[0]!.label).toBe('');
  });
  it('tell ranks and the coordinates of sweeps apart', () => {
    const swept = ['1', '2'].map((width) =>
      make('s', '1', '1', { labels: { sweep: 'x', cell: width, 'model.width': width } }),
    );
    expect(groupsOf(swept, true).map(({ label }) => label)).toEqual(['width 1', 'width 2']);
    const ranked = [make('a', '1', '1'), make('b', '1', '1', { world_size: 4 })];
    expect(groupsOf(ranked, true).map(({ label }) => label)).toEqual(['ranks 2', 'ranks 4']);
    expect([...shortNames(['a.beam', 'b.beam', 'c.width']).values()]).toEqual(['a.beam', 'b.beam', 'width']);
  });
  it('have means with standard deviations', () => {
    expect(statsOf([1, null, 3, undefined])).toEqual({ count: 2, mean: 2, spread: Math.SQRT2 });
    expect([statsOf([]), statsOf([7])]).toEqual([
      { count: 0, mean: null, spread: null },
      { count: 1, mean: 7, spread: null },
    ]);
  });
});

describe('order', () => {
  const runs = [
    run({ id: 'r_a', loss: 3, created_at: '2026-01-01' }),
    run({ id: 'r_b', loss: null, created_at: '2026-01-02' }),
    run({ id: 'r_c', loss: 1, created_at: '2026-01-03' }),
    run({ id: 'r_d', loss: 3, created_at: '2026-01-04' }),
  ];
  const ids = (part: Partial<ListState>): string[] =>
    arrange(runs, state(part), columnOf(part.sort?.column ?? 'loss')!, none).map(({ id }) => id);
  it('puts missing values last either way, and newer runs first among equals', () => {
    expect(ids({ sort: { column: 'loss', descending: false } })).toEqual(['r_c', 'r_d', 'r_a', 'r_b']);
    expect(ids({ sort: { column: 'loss', descending: true } })).toEqual(['r_d', 'r_a', 'r_c', 'r_b']);
  });
  it('keeps the pinned run on top, whatever the filters say', () => {
    expect(ids({ sort: { column: 'loss', descending: false }, pinned: 'r_b', states: ['failed'] })).toEqual(['r_b']);
    expect(ids({ sort: { column: 'loss', descending: false }, pinned: 'r_a' })[0]).toBe('r_a');
  });
  it('compares numbers in texts as numbers', () => {
    expect(['v10', 'v9', 'v1'].sort((a, b) => compareValues(a, b, false))).toEqual(['v1', 'v9', 'v10']);
  });
});

describe('columns', () => {
  const metric: MetricKey = {
    key: 'loss',
    aggregate: 'mean',
    count: 9,
    first: 9,
    last: 2,
    min: 1.5,
    min_step: 7,
    max: 9,
    max_step: 1,
  };
  const details: Details = {
    config: () =>
      new Map([
        ['model.layers', '6'],
        ['preset', 'base'],
      ]),
    metrics: () => new Map([['loss', metric]]),
  };
  it('take configuration keys as numbers where they are', () => {
    expect(columnOf('config:model.layers')!.value(run({}), details)).toBe(6);
    expect(columnOf('config:preset')!.value(run({}), details)).toBe('base');
    expect(columnOf('config:nothing')!.value(run({}), details)).toBeNull();
    expect([
      columnOf('config:nothing')!.known!(run({}), details),
      columnOf('config:nothing')!.known!(run({}), none),
    ]).toEqual([true, false]);
  });
  it('take the last, min and max value of a metric', () => {
    expect(columnOf('min:loss')!.value(run({}), details)).toBe(1.5);
    expect(columnOf('max:loss')!.value(run({}), details)).toBe(9);
    expect(columnOf('last:loss')!.value(run({}), details)).toBe(2);
    expect(columnOf('mean:loss')).toBeNull();
    expect(columnOf('')).toBeNull();
  });
  it('say how far a value is from the pinned one, and whether that is good', () => {
    const bleu = columnOf('sacrebleu')!;
    expect(difference(bleu, 31.5, 30)).toEqual({ text: '+1.50', good: true });
    expect(difference(columnOf('loss')!, 2.5, 2)).toEqual({ text: '+0.500', good: false });
    expect(difference(columnOf('update')!, 5, 7)).toEqual({ text: '−2', good: null });
    expect(difference(bleu, null, 30)).toBeNull();
    expect(difference(bleu, 30, 30)).toBeNull();
  });
});

describe('numbers of a column', () => {
  const cells = (id: string, values: Partial<Run>[]): unknown[] =>
    values.map((value) => columnOf(id)!.cell(run(value), none, 0));
  it('have the same decimals, so that they line up', () => {
    expect(cells('loss', [{ loss: 2.45 }, { loss: 2.4061 }, { loss: 10 }, { loss: null }])).toEqual([
      '2.450',
      '2.406',
      '10.000',
      '–',
    ]);
    expect(cells('step_ms', [{ step_ms: 4002 }, { step_ms: 99.94 }])).toEqual(['4002.0', '99.9']);
    expect(cells('rate', [{ learning_rate: 0.0007 }, { learning_rate: 0.00012345 }])).toEqual(['7.00e-4', '1.23e-4']);
  });
});

describe('the default columns', () => {
  it('tell the state, how far the run is, and how well it learns', () => {
    expect(defaultListState().columns.slice(0, 5)).toEqual(['state', 'progress', 'update', 'loss', 'sacrebleu']);
    const failed = run({
      state: 'failed',
      health: { level: 'bad', headline: 'Failed at update 900: out of memory', action: null, parts: [] },
      progress: { fraction: 0.25, seconds_left: 90, end: '', at_latest: true },
    });
    expect(columnOf('state')!.value(failed, none)).toBe('failed Failed at update 900: out of memory');
    expect([columnOf('progress')!.value(failed, none), columnOf('eta')!.cell(failed, none, 0)]).toEqual([
      0.25,
      'at most 2 min',
    ]);
    expect(columnOf('health')!.value(failed, none)).toBe('3 Failed at update 900: out of memory');
  });
});

describe('the choice of columns', () => {
  const all = offers(['model.layers'], ['loss', 'power_w']);
  it('offers every fixed column, metric and configuration key', () => {
    expect(all.map(({ id }) => id)).toEqual(
      expect.arrayContaining(['state', 'last:loss', 'min:power_w', 'config:model.layers']),
    );
  });
  it('is narrowed by words, with what is chosen first and in its order', () => {
    expect(narrow(all, 'power min', []).map(({ id }) => id)).toEqual(['min:power_w']);
    expect(
      narrow(all, '', ['tokens', 'state'])
        .slice(0, 2)
        .map(({ id }) => id),
    ).toEqual(['tokens', 'state']);
    expect(narrow(all, 'gone', ['config:gone']).map(({ id }) => id)).toEqual(['config:gone']);
  });
});

describe('details of runs', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });
  it('are fetched once, a few at a time, and again when the run has gone on for a while', async () => {
    const asked: string[] = [];
    let now = 100_000;
    vi.stubGlobal('fetch', (path: string) => {
      asked.push(path);
      return Promise.resolve(new Response(JSON.stringify({ items: [{ key: 'loss', last: asked.length }] })));
    });
    const details = new RunDetails(
      () => undefined,
      () => now,
    );
    expect(details.metrics(run({}))).toBeNull();
    expect(details.metrics(run({}))).toBeNull();
    await details.settled();
    expect(details.metrics(run({}))!.get('loss')!.last).toBe(1);
    expect(details.metrics(run({ update: 11 }))!.get('loss')!.last).toBe(1);
    expect(asked).toEqual(['api/v1/runs/r_1/metrics']);
    now += 10_000;
    expect(details.metrics(run({ update: 11 }))!.get('loss')!.last).toBe(1);
    await details.settled();
    expect(details.metrics(run({ update: 11 }))!.get('loss')!.last).toBe(2);
    expect(asked.length).toBe(2);
  });
  it('that cannot be had are asked for again only after a while', async () => {
    let asked = 0;
    let now = 100_000;
    vi.stubGlobal('fetch', () => {
      asked += 1;
      return Promise.resolve(new Response('{}', { status: 404 }));
    });
    const details = new RunDetails(
      () => undefined,
      () => now,
    );
    details.config(run({}));
    await details.settled();
    details.config(run({}));
    await details.settled();
    expect(asked).toBe(1);
    now += 10_000;
    details.config(run({}));
    await details.settled();
    expect(asked).toBe(2);
  });
});

describe('all runs', () => {
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });
  it('are loaded to the end though the server fails in between', async () => {
    vi.useFakeTimers();
    vi.stubGlobal('document', Object.assign(new EventTarget(), { hidden: true, visibilityState: 'hidden' }));
    let failures = 1;
    vi.stubGlobal('fetch', (path: string) => {
      if (path.includes('/events')) return new Promise(() => undefined);
      if (!path.includes('cursor='))
        return Promise.resolve(new Response(JSON.stringify({ items: [run({ id: 'r_2' })], next_cursor: 'older' })));
      return Promise.resolve(
        failures-- > 0
          ? new Response('{}', { status: 500 })
          : new Response(JSON.stringify({ items: [run({ id: 'r_1' })], next_cursor: null })),
      );
    });
    const states: string[] = [];
    const index = new RunIndex(
      () => undefined,
      (state) => states.push(state),
    );
    await vi.advanceTimersByTimeAsync(0);
    expect([index.runs.size, index.complete, states.at(-1)]).toEqual([1, false, 'reconnecting']);
    await vi.advanceTimersByTimeAsync(2500);
    expect([[...index.runs.keys()], index.complete, states.at(-1)]).toEqual([['r_2', 'r_1'], true, 'loading']);
    index.close();
  });
});

describe('a new run', () => {
  it('takes labels with values and without', () => {
    expect(parseLabels(' team=mt, trial ,url=a=b,')).toEqual({ team: 'mt', trial: '', url: 'a=b' });
    expect(parseLabels('')).toEqual({});
    expect(parseLabels(labelsText({ team: 'mt', trial: '' }))).toEqual({ team: 'mt', trial: '' });
  });
  it('finds the line that a complaint is about', () => {
    expect(lineOf({ detail: 'x', line: 4 })).toBe(4);
    expect(lineOf({ detail: 'config:12:3: model.layres: unknown key' })).toBe(12);
    expect(lineOf({ detail: 'unknown key in line 7' })).toBe(7);
    expect(lineOf({ detail: 'world_size: at most 8' })).toBeNull();
    const text = 'one\ntwo\nthree';
    expect(lineRange(text, 2)).toEqual([4, 7]);
    expect(text.slice(...lineRange(text, 3))).toBe('three');
    expect(lineRange(text, 99)).toEqual([8, 13]);
  });
  it('tells what a check said', () => {
    expect(
      describeCheck({
        memory: {
          parameters: 7e6,
          source_tokens: 1200,
          target_tokens: 1300,
          weights: 28e6,
          gradients: 28e6,
          total: 56e6,
        },
      }).split('\n')[1],
    ).toBe(
      'memory: 56.0 MB per rank (weights 28.0 MB, gradients 28.0 MB) for 7.00 M parameters and 1,200 + 1,300 tokens at a time',
    );
    expect(describeCheck({ max_updates: 5000, command: ['mpirun', '-np', '2'], step_ms: null, config: 'long' })).toBe(
      'The configuration is valid.\nmax updates: 5,000\ncommand: mpirun -np 2',
    );
  });
});
