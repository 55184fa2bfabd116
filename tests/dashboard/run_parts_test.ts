import { readFileSync } from 'node:fs';
import { heatLevel, heatMap, lowerMedian } from '../../server/dashboard/src/charts/heat_strip';
import { SeriesStore } from '../../server/dashboard/src/data/series_store';
import type { XAxis } from '../../server/dashboard/src/lib/axes';
import { differences, flatten, search } from '../../server/dashboard/src/lib/config_tree';
import { defaultView, parseRunView, runViewQuery } from '../../server/dashboard/src/lib/routes';
import { ema, emptySeries, type Series, stack } from '../../server/dashboard/src/lib/series';
import type { Export } from '../../server/dashboard/src/api/types';
import { endOf, FORMATS, progressOf, titleOf } from '../../server/dashboard/src/data/exports';
import { downloadCommand } from '../../server/dashboard/src/views/run_models';
import { verdictOf } from '../../server/dashboard/src/views/run_offline';
import { librariesText, rankState } from '../../server/dashboard/src/views/run_ranks';
import { matches } from '../../server/dashboard/src/views/run_sections';

function series(step: number[], avg: (number | null)[] = step, timeMs = step.map((at) => at * 1000)): Series {
  return { ...emptySeries(), step, timeMs, avg, min: avg, max: avg, total: step.length };
}

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

describe('state of a rank', () => {
  it('tells a silent rank from one that finishes no update', () => {
    expect(rankState({ state: 'training', since_update_s: 1 })).toBe('training');
    expect(rankState({ state: 'training', since_update_s: null })).toBe('training');
    expect(rankState({ state: 'training', since_update_s: 90 })).toBe('no update for 1 min 30 s');
    expect(rankState({ state: 'silent', since_update_s: 90 })).toBe('silent');
    expect(rankState({ state: 'ended', since_update_s: 90 })).toBe('ended');
  });
});

describe('libraries of the ranks', () => {
  it('are told once where they are equal, and all where they differ', () => {
    const older = { onednn: '2.6.3', open_mpi: '4.1.4', sentencepiece: '0.1.97', glibc: '2.36' };
    const line = 'Open MPI 4.1.4, SentencePiece 0.1.97, glibc 2.36';
    expect(librariesText([{ libraries: older }, { libraries: older }])).toBe(`oneDNN 2.6.3, ${line}`);
    expect(librariesText([{ libraries: older }, { libraries: { ...older, onednn: '3.7.2' } }])).toBe(
      `oneDNN 2.6.3 / 3.7.2, ${line}`,
    );
    expect(librariesText([{ libraries: {} }, { libraries: { glibc: '2.41' } }])).toBe('glibc 2.41');
    expect(librariesText([{ libraries: {} }])).toBe('');
  });
});

describe('small parts', () => {
  it('find a key by any of its words', () => {
    expect(matches('memory_bytes.weights', 'weights MEM')).toBe(true);
    expect(matches('memory_bytes.weights', 'loss')).toBe(false);
    expect(matches('anything', '')).toBe(true);
  });
  it('give a command that can be typed', () => {
    expect(downloadCommand('http://h:8080', 'r_1', 'c_2')).toBe(
      'nmt run download r_1 --checkpoint c_2 --server http://h:8080',
    );
  });
  it('tell of exports and their states', () => {
    const made = (state: Export['state'], more: Partial<Export> = {}): Export => ({
      ...{ checkpoint: 'c_1', name: 'ctranslate2-int8', format: 'ctranslate2', quantization: 'int8' },
      ...{ from: null, into: null, state, detail: null, since: '2026-11-21T10:00:00Z', bytes: 0, files: [], ...more },
    });
    expect(titleOf(made('running'))).toBe('CTranslate2, int8');
    expect(titleOf(made('running', { format: 'argos', from: 'en', into: 'de' }))).toBe(
      'Argos Translate, en to de, int8',
    );
    expect(titleOf(made('running', { format: 'huggingface' }))).toBe('Hugging Face');
    expect(titleOf(made('running', { format: 'bergamot' }))).toBe('Bergamot'); // int8 is the only type that it has
    expect(endOf(made('complete', { format: 'marian' }), '1,000')).toBe(
      'The checkpoint of update 1,000 is exported, to download in the table: Marian.',
    );
    const needs = 'Marian needs a model with model.norm: post (found pre)';
    expect(endOf(made('failed', { format: 'marian', detail: needs }), '30')).toBe(
      `The checkpoint of update 30 was not exported as Marian: ${needs}`,
    );
    const nowMs = Date.parse('2026-11-21T10:00:03Z');
    expect(progressOf(made('running'), nowMs)).toBe('exporting for 3 s');
    expect(progressOf(made('running'), nowMs - 9000)).toBe('exporting for 0 s'); // this browser's clock is slow
    expect(progressOf(made('waiting'), nowMs)).toBe('waiting for its turn');
    expect(progressOf(made('failed', { detail: 'a language model' }), nowMs)).toBe('not exported: a language model');
  });
  it('offer each format that the server has', () => {
    const description = readFileSync('../api/openapi.yaml', 'utf8');
    const [, formats] = /\n    ExportFormat:\n      enum: \[([^\]]+)\]/.exec(description)!;
    expect(Object.keys(FORMATS)).toEqual(formats!.split(', '));
  });
  it('compare translations only where both are there', () => {
    const side = (text: string) => ({ text, ms: 1 });
    const verdict = (trial: object) => verdictOf({ source: 'x', ...trial });
    expect(verdict({ here: side('a') })).toBeNull();
    expect(verdict({ here: side('a'), there: side('a') })?.same).toBe(true);
    expect(verdict({ here: side('a'), there: side('a ') })?.same).toBe(false);
    expect(verdict({ here: side('a'), there: { failed: 'away' } })?.same).toBeNull();
    expect(verdict({ here: { failed: 'no memory' }, there: side('a') })?.same).toBeNull();
  });
});
