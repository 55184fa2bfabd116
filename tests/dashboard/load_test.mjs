// The page under load, in Chromium: a run of a million updates, three hundred metrics, twenty live charts for some minutes.
// Prints the figures of docs/performance.md as text and, in the last line, as JSON.
//   node load_test.mjs [--server-binary build/release/bin/server] [--dist folder] [--points 1000000] [--minutes 5]
import { strict as assert } from 'node:assert';
import {
  goBelow,
  heapBytes,
  makeWork,
  openBrowser,
  pageWeight,
  readOptions,
  showTwentyCharts,
  startServer,
  taskTimes,
  watchProblems,
} from './harness.mjs';
import { DetailedRun, makeRunId } from './detailed_run.mjs';

const options = readOptions('load_test', {
  points: { type: 'string', default: '1000000' },
  minutes: { type: 'string', default: '5' },
});
const points = Number(options.points);
const figures = {};
const BATCH = 10_000;
const HERTZ = 4;
const LISTED = 500;
const LIST_MS = 300; // until they are listed

function note(name, value, unit) {
  figures[name] = value;
  console.log(`load_test: ${name.replaceAll('_', ' ')}: ${value} ${unit}`);
}

function stepOf(update, startMs, count, spikeAt) {
  const loss = update === spikeAt ? 20 : 2.2 + 7 * Math.exp(-update / (count / 8)) + 0.4 * Math.sin(update * 12.9898);
  return {
    kind: 'step',
    time_ms: startMs + update * 100,
    update,
    epoch: update / 5000,
    loss: Number(loss.toFixed(4)),
    nll: Number((loss * 0.9).toFixed(4)),
    gradient_norm: 1,
    learning_rate: 0.001,
    target_tokens: 2000,
    update_target_tokens: 2000,
    step_ms: 100,
    data_ms: 1,
    forward_ms: 30,
    backward_ms: 60,
    exposed_communication_ms: 5,
    optimizer_ms: 3,
    other_ms: 1,
  };
}

/// One rank's records of `count` updates in the largest batches that the server takes; one loss sticks out.
async function postMillion(server, id, count, spikeAt) {
  const headers = {
    'Content-Type': 'application/json',
    ...(server.token ? { Authorization: `Bearer ${server.token}` } : {}),
  };
  const startMs = Date.now() - count * 100;
  let sequence = 0;
  const post = async (records) => {
    const answer = await fetch(`${server.address}/api/v1/runs/${id}/records`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ attempt: 1, rank: 0, host: 'alder', records }),
    });
    assert.ok(answer.ok, `${answer.status} ${await answer.clone().text()}`);
  };
  await post([
    {
      sequence: ++sequence,
      kind: 'lifecycle',
      time_ms: startMs,
      event: 'started',
      detail: '',
      name: 'million',
      config: 'seed: 7\n',
      version: '',
      world_size: 1,
      pid: 1,
      parameters: 1000,
      max_updates: 2 * count,
      device: 'cpu',
    },
  ]);
  for (let first = 1; first <= count; first += BATCH) {
    const records = [];
    for (let update = first; update < first + BATCH && update <= count; update += 1) {
      records.push({ sequence: ++sequence, ...stepOf(update, startMs, count, spikeAt) });
    }
    await post(records);
  }
}

/// A run that has ended, with its settings, some updates and an evaluation.
async function postShort(server, at) {
  const startMs = Date.now() - (at + 2) * 60_000;
  const config = `optimizer:\n  learning_rate: ${1e-4 * (1 + (at % 10))}\ntraining:\n  seed: ${at % 5}\n`;
  const started = {
    event: 'started',
    name: `cell-${at}`,
    config,
    version: '',
    world_size: 1,
    pid: 1,
    parameters: 1000,
  };
  const life = (event, more) => ({ kind: 'lifecycle', time_ms: startMs, event, detail: '', ...more });
  const updates = Array.from({ length: 20 }, (_, update) => stepOf(update + 1, startMs, 20, -1));
  const scores = { loss: 2, nll: 2, accuracy: 0.5, sacrebleu: 20 + (at % 17) / 2, chrf: 50 };
  const records = [
    life('started', { ...started, max_updates: 20, device: 'cpu' }),
    ...updates,
    { kind: 'eval', time_ms: startMs, update: 20, set: 'valid', ...scores, best: true },
    life('finished', { time_ms: startMs + 3000 }),
  ].map((record, place) => ({ ...record, sequence: place + 1 }));
  const answer = await fetch(`${server.address}/api/v1/runs/${makeRunId()}/records`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${server.token}` },
    body: JSON.stringify({ attempt: 1, rank: 0, host: 'alder', records }),
  });
  assert.ok(answer.ok, `${answer.status} ${await answer.clone().text()}`);
}

/// The list of 500 runs: the time from the change of the address to the frame after which all are known, counted and sorted, and as
/// many of them are shown as it shows at once.
async function checkList(page, server) {
  for (let at = 0; at < LISTED; at += 1) await postShort(server, at);
  const times = [];
  for (let time = 0; time < 5; time += 1) {
    await page.goto(`${server.address}/#/nodes`);
    await page.waitForFunction(() => document.title.startsWith('Nodes'));
    const shown = page.evaluate(
      (wanted) =>
        new Promise((done) => {
          const from = performance.now();
          const look = () => {
            const text = document.querySelector('#main')?.textContent ?? '';
            const all = text.includes(`${wanted} of ${wanted}`) && !text.includes('loading more');
            if (all && document.querySelector('.runs tbody tr'))
              requestAnimationFrame(() => done(performance.now() - from));
            else requestAnimationFrame(look);
          };
          location.hash = '#/runs';
          look();
        }),
      LISTED,
    );
    times.push(await shown);
  }
  note('list_500_ms', Math.round(times.sort((a, b) => a - b)[2]), `ms until ${LISTED} runs are listed, median of 5`);
}

/// Milliseconds since the navigation when the first chart says how many of all points it shows.
const firstPlot = (page, count) =>
  page
    .waitForFunction(
      (wanted) => {
        const text = document.querySelector('.chart-note')?.textContent ?? '';
        return text.includes(wanted) && document.querySelector('.chart canvas') ? performance.now() : 0;
      },
      `of ${count.toLocaleString('en')}`,
      { timeout: 300_000, polling: 'raf' },
    )
    .then((handle) => handle.jsonValue());

/// Frames a second, and the longest one in ms, while `work` goes on.
async function frames(page, work) {
  await page.evaluate(() => {
    window.frameTimes = [];
    window.countFrames = true;
    const count = (now) => {
      window.frameTimes.push(now);
      if (window.countFrames) requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
  });
  await work();
  const times = await page.evaluate(() => {
    window.countFrames = false;
    return window.frameTimes;
  });
  const gaps = times
    .slice(1)
    .map((time, at) => time - times[at])
    .sort((a, b) => a - b);
  return {
    rate: (1000 * gaps.length) / (times.at(-1) - times[0]),
    longest: gaps.at(-1),
    p95: gaps[Math.floor(gaps.length * 0.95)],
  };
}

async function checkMillion(page, server) {
  const id = makeRunId();
  const spikeAt = Math.round(points * 0.62345);
  const from = Date.now();
  await postMillion(server, id, points, spikeAt);
  note('ingest_points_per_second', Math.round(points / ((Date.now() - from) / 1000)), 'updates/s');
  const plots = [];
  for (let time = 0; time < 5; time += 1) {
    await page.goto('about:blank');
    await page.goto(`${server.address}/#/runs/${id}`);
    plots.push(await firstPlot(page, points));
  }
  note('million_first_plot_ms', Math.round(plots.sort((a, b) => a - b)[2]), 'ms from navigation, median of 5');
  const box = await page.locator('.chart .u-over').first().boundingBox();
  const moved = await frames(page, async () => {
    for (let at = 0; at < 120; at += 1) await page.mouse.move(box.x + (box.width * at) / 120, box.y + 60);
  });
  note('million_cursor_frames_per_second', Math.round(moved.rate), `frames/s, longest ${moved.longest.toFixed(0)} ms`);
  await page.locator('.plot').first().focus();
  const zooms = [];
  const zoomed = await frames(page, async () => {
    await page.keyboard.press('Home');
    for (let at = 0; at < 12; at += 1) {
      const before = Date.now();
      const shown = await page.locator('.chart-note').first().innerText();
      await page.keyboard.press(at < 6 ? '+' : '-');
      await page
        .waitForFunction((old) => document.querySelector('.chart-note').innerText !== old, shown, { polling: 'raf' })
        .catch(() => undefined);
      zooms.push(Date.now() - before);
    }
  });
  note('million_zoom_ms', zooms.sort((a, b) => a - b)[6], 'ms until finer data is drawn, median of 12');
  note(
    'million_zoom_frames_per_second',
    Math.round(zoomed.rate),
    `frames/s, longest ${zoomed.longest.toFixed(0)} ms, 95 % under ${zoomed.p95.toFixed(0)} ms`,
  );
  await page.goto(`${server.address}/#/runs/${id}?smooth=0&range=${spikeAt - 40}_${spikeAt + 40}`);
  await page.waitForFunction(() => /^all 8\d points/.test(document.querySelector('.chart-note')?.innerText ?? ''));
  note('million_heap_mb', Number(((await heapBytes(page)) / 1e6).toFixed(1)), 'MB');
}

async function checkManyKeys(page, server) {
  const run = new DetailedRun(server.address, {
    token: server.token ?? '',
    name: 'many-keys',
    hosts: ['alder'],
    purposes: 300,
    startMs: Date.now() - 200 * 310,
  });
  run.start();
  run.steps(200);
  await run.flush();
  await page.goto(`${server.address}/#/runs/${run.id}?all=1`);
  await page.waitForSelector('.chart canvas');
  await goBelow(page);
  await page.waitForFunction(() => document.querySelectorAll('.chart').length > 300);
  await page.waitForTimeout(1500);
  const nodes = await page.evaluate(() => document.querySelectorAll('*').length);
  const plots = await page.locator('.chart canvas').count();
  note('many_keys_charts', await page.locator('.chart').count(), `charts, ${plots} of them drawn, ${nodes} elements`);
  note('many_keys_heap_mb', Number(((await heapBytes(page)) / 1e6).toFixed(1)), 'MB');
  assert.ok(plots < 60, `${plots} of 300 charts are drawn though most are out of sight`);
  const scrolled = await frames(page, async () => {
    for (let at = 0; at < 60; at += 1) {
      await page.mouse.wheel(0, 400);
      await page.waitForTimeout(25);
    }
  });
  note(
    'many_keys_scroll_frames_per_second',
    Math.round(scrolled.rate),
    `frames/s, longest ${scrolled.longest.toFixed(0)} ms`,
  );
}

/// Least-squares slope in bytes a minute.
function slope(heaps, everyMs) {
  const mean = (heaps.length - 1) / 2;
  const level = heaps.reduce((sum, heap) => sum + heap, 0) / heaps.length;
  const up = heaps.reduce((sum, heap, at) => sum + (at - mean) * (heap - level), 0);
  return (up / heaps.reduce((sum, _heap, at) => sum + (at - mean) ** 2, 0)) * (60_000 / everyMs);
}

async function checkLive(page, server, minutes) {
  const run = new DetailedRun(server.address, {
    token: server.token ?? '',
    name: 'live',
    hosts: ['alder', 'birch'],
    slowRank: 1,
    purposes: 30,
    startMs: Date.now() - 900 * 250,
  });
  run.start();
  run.steps(900);
  await run.flush();
  const stop = { now: false };
  const living = (async () => {
    while (!stop.now) {
      run.step(Date.now());
      await Promise.all([run.flush(), new Promise((done) => setTimeout(done, 1000 / HERTZ))]);
    }
  })();
  await showTwentyCharts(page, `${server.address}/#/runs/${run.id}?all=1`);
  await page.waitForTimeout(10_000);
  const tasks = [];
  const heaps = [];
  const everyMs = 5000;
  const began = Date.now();
  while (Date.now() < began + minutes * 60_000) {
    tasks.push(...(await taskTimes(page, everyMs)));
    heaps.push(await heapBytes(page));
  }
  const seconds = (Date.now() - began) / 1000;
  stop.now = true;
  await living;
  const longest = tasks.reduce((most, task) => Math.max(most, task), 0);
  note(
    'live_charts',
    await page.locator('.chart canvas').count(),
    `charts, ${HERTZ} updates a second for ${minutes} minutes`,
  );
  note(
    'live_longest_task_ms',
    Math.round(longest),
    `ms of processor time; ${tasks.filter((task) => task > 50).length} tasks over 50 ms`,
  );
  note(
    'live_busy_percent',
    Number((tasks.reduce((sum, task) => sum + task, 0) / seconds / 10).toFixed(1)),
    "% of a processor for the page's main thread",
  );
  note('live_heap_mb', Number((heaps.at(-1) / 1e6).toFixed(1)), 'MB at the end');
  note(
    'live_heap_slope_mb_per_minute',
    Number((slope(heaps, (1000 * seconds) / heaps.length) / 1e6).toFixed(2)),
    'MB/min',
  );
  assert.ok(heaps.at(-1) < 150e6, `the heap has ${heaps.at(-1)} bytes`);
  return longest;
}

const work = makeWork();
const server = await startServer(options, work);
const context = await openBrowser(work);
try {
  const weight = await pageWeight(context, server.address, server.token ? `#token=${server.token}&/runs` : '#/runs');
  note('list_bytes', weight.bytes, `bytes in ${weight.requests} requests`);
  note('list_first_paint_ms', Math.round(weight.paint_ms), 'ms');
  const page = await context.newPage();
  await page.goto(`${server.address}/${server.token ? `#token=${server.token}` : ''}`);
  const problems = watchProblems(page, /404/);
  await checkList(page, server);
  await checkMillion(page, server);
  await checkManyKeys(page, server);
  const longest = await checkLive(page, server, Number(options.minutes));
  assert.deepEqual(problems, []);
  assert.ok(
    figures.million_first_plot_ms <= 1500,
    `the first plot of ${points} updates took ${figures.million_first_plot_ms} ms`,
  );
  assert.ok(figures.list_500_ms <= LIST_MS, `${LISTED} runs were listed after ${figures.list_500_ms} ms`);
  assert.ok(longest <= 100, `a task of ${longest} ms`);
  console.log('load_test: passed');
} finally {
  console.log(JSON.stringify(figures));
  await context.close();
  server.kill();
}
