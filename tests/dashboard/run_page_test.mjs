// A reader's actions on the page of a run, in Chromium against a real server that gets a made-up run.
//   node run_page_test.mjs [--server-binary build/release/bin/server] [--dist folder] [--screenshots folder]
import { strict as assert } from 'node:assert';
import { pathToFileURL } from 'node:url';
import { DetailedRun } from './detailed_run.mjs';
import {
  checkAxe,
  goBelow,
  makeWork,
  openBrowser,
  openTab,
  readOptions,
  shows,
  startServer,
  until,
  watchProblems,
} from './harness.mjs';
import { checkMemory, checkParameters, checkProbes, checkReport, checkTraces } from './run_lab_checks.mjs';
import { chart, checkDownloads, checkLooks, checkNext, checkPrint, open } from './run_page_files.mjs';
import { checkWhatIf, HiddenSums } from './run_what_if_checks.mjs';

const UPDATES = 1400;
const SPIKE = 777;
const NAN = 901;
const MANY_KEYS = 300;

const noteOf = (page, id) => chart(page, id).locator('.chart-note').innerText();
const query = (page) => new URLSearchParams(page.url().split('?')[1] ?? '');
const values = async (page, id) =>
  Object.fromEntries(
    await chart(page, id)
      .locator('.legend-item')
      .evaluateAll((items) =>
        items.map((item) => [
          item.querySelector(':scope > span:not(.swatch)').textContent,
          item.querySelector('output').textContent,
        ]),
      ),
  );

/// Is it going, how far, is it learning: without scrolling.
async function checkSummary(page) {
  await shows(page, 'live');
  const tiles = Object.fromEntries(
    (await page.locator('.tile').allInnerTexts())
      .map((text) => text.split('\n'))
      .map(([name, ...rest]) => [name, rest.join(' ')]),
  );
  assert.match(tiles['Update'], /^\d,\d{3} \/ 5,600 /);
  assert.match(tiles['Update'], / left \(/);
  assert.match(tiles['Training loss'], /falling|flat|rising/);
  assert.match(tiles['Best sacreBLEU'], /at update \d,\d00/);
  assert.match(tiles['Update'], /\d+ % of 5,600 updates/);
  await until('the tab tells how far it is', async () => /^\d\d % · wmt16-base · Babelring$/.test(await page.title()));
  assert.equal(
    await page.locator('.health.level-good .health-headline, .health.level-warning .health-headline').count(),
    1,
  );
  await until('one number for one thing', () =>
    page.evaluate(() => {
      const tile = [...document.querySelectorAll('.tile')]
        .find((each) => each.querySelector('dt').textContent === 'Training loss')
        .querySelector('.value').firstChild.textContent;
      return Math.abs(Number(tile) - Number(document.querySelector('[data-chart="loss"] output').textContent)) < 0.006;
    }),
  );
  const box = await page.locator('.tiles').boundingBox();
  assert.ok(box.y + box.height < 900, 'the figures need no scrolling');
}

/// The server's sentence, and the numbers it rests on.
async function checkVerdict(page, address, run, headers) {
  const answer = await fetch(`${address}/api/v1/runs/${run.id}/verdict`, { headers });
  if (!answer.ok) return assert.equal(await page.locator('.verdict').count(), 0, 'no verdict, no box');
  await until('the verdict', async () =>
    /^network-bound: \d+ % of each step waits/i.test(await page.locator('.verdict-sentence').innerText()),
  );
  await page.locator('.verdict summary').click();
  assert.match(await page.locator('.verdict .evidence').innerText(), /network wait\s+\d+ ms\s+\d+ %/);
  await page.waitForTimeout(6000);
  assert.ok(await page.locator('.verdict .evidence').isVisible(), 'the fold stays open when a new verdict comes');
  await page.locator('.verdict summary').click();
}

/// Only charts near the window have a plot, and those scrolled to get one.
async function checkMounting(page) {
  const frames = await page.locator('.charts .chart').count();
  const plots = await page.locator('.chart canvas').count();
  assert.ok(frames >= 11 && plots < frames, `${plots} plots in ${frames} frames`);
  await chart(page, 'busy').scrollIntoViewIfNeeded();
  await chart(page, 'busy').locator('canvas').waitFor();
  await page.evaluate(() => scrollTo(0, 0));
}

async function checkCharts(page) {
  assert.equal(await page.getByRole('img', { name: 'Loss nats per target token', exact: true }).count(), 1);
  await until('a note', async () =>
    /^(1,\d{3}|[6-9]\d\d) of \d,\d{3}, min\/avg\/max · smoothed 0\.8$/.test(await noteOf(page, 'loss')),
  );
  for (const [id, wanted] of [
    ['bleu', 'sacreBLEU, beam 4,chrF'],
    ['accuracy', 'BLEU,accuracy'],
  ]) {
    await until(`the lines of ${id}`, async () => String(Object.keys(await values(page, id))) === wanted);
  }
  await chart(page, 'split').scrollIntoViewIfNeeded();
  await until('the split has values', async () => Number.parseFloat((await values(page, 'split')).step) > 0);
  const split = Object.fromEntries(
    Object.entries(await values(page, 'split')).map(([name, value]) => [name, Number.parseFloat(value)]),
  );
  const { step, ...parts } = split;
  const sum = Object.values(parts).reduce((total, part) => total + part, 0);
  assert.ok(Math.abs(sum - step) < 3, `parts add up to ${sum} ms, the step has ${step} ms`);
  await chart(page, 'network').scrollIntoViewIfNeeded();
  await until(
    'the links have their line',
    async () => (await values(page, 'network'))['link capacity'] === '1.25 GB/s',
  );
  await until('the busiest link', async () =>
    /busiest [4-6]\d % of its link's 1\.25 GB\/s/.test(await noteOf(page, 'network')),
  );
  assert.equal(await page.locator('#link').isVisible(), false, 'nobody is asked for what is known');
  await chart(page, 'gpu').scrollIntoViewIfNeeded();
  await until('the use of GPUs', async () => Number((await values(page, 'gpu')).utilisation) > 80);
  await page.evaluate(() => scrollTo(0, 0));
}

/// A brush gets finer data and lands in the address; a double click shows everything again.
async function checkZoom(page) {
  await page.fill('#smoothing', '0');
  await until('no smoothing', async () => !/smoothed/.test(await noteOf(page, 'loss')));
  const box = await chart(page, 'loss').locator('.u-over').boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await until('a zoom shows every point', async () => /^all \d+ points$/.test(await noteOf(page, 'loss')));
  await until('the range is in the address', () => query(page).has('range'));
  await page.mouse.move(box.x + box.width * 0.7, box.y + 60);
  await until('the other charts follow the cursor', async () =>
    /^update [\d,]+/.test(await chart(page, 'bleu').locator('.chart-marks').innerText()),
  );
  await page.mouse.dblclick(box.x + box.width * 0.6, box.y + 60);
  await until('a double click shows all', async () => /of \d,\d{3}, min/.test(await noteOf(page, 'loss')));
  await until('the range has left the address', () => !query(page).has('range'));
}

/// The spike of one step and the value that is not finite, by keyboard, as a screen reader tells them.
async function checkSpike(page, address, run) {
  await open(page, address, run, `?smooth=0&range=${SPIKE - 10}_${NAN + 10}`);
  await until('every point', async () => /^all 145 points$/.test(await noteOf(page, 'loss')));
  await chart(page, 'loss').locator('.plot').focus();
  await page.keyboard.press('Home');
  for (let at = 0; at < 10; at += 1) await page.keyboard.press('ArrowRight');
  assert.match(
    await chart(page, 'loss').locator('[aria-live=polite]').innerText(),
    new RegExp(`^update ${SPIKE}: training ?11\\.5`),
  );
  await page.keyboard.press('End');
  for (let at = 0; at < 10; at += 1) await page.keyboard.press('ArrowLeft');
  assert.match(await chart(page, 'loss').locator('[aria-live=polite]').innerText(), new RegExp(`nan at update ${NAN}`));
  await until(
    'a table for those who do not see the plot',
    async () => (await chart(page, 'loss').locator('.visually-hidden td').count()) >= 12,
  );
  await page.keyboard.press('Escape');
  await until('Escape shows all', async () => /of \d,\d{3}/.test(await noteOf(page, 'loss')));
}

/// The address reproduces the view.
async function checkAddress(page, address, run) {
  await open(page, address, run);
  const chip = (name) => page.locator('.toolbar').getByRole('button', { name, exact: true });
  await chip('tokens').click();
  await chip('log x').click();
  await chart(page, 'loss')
    .getByRole('button', { name: /log y axis/ })
    .click();
  await page.fill('#smoothing', '0.95');
  await until('the address has it all', () => query(page).toString() === 'x=tokens&logx=1&smooth=0.95&log=loss');
  await page.reload();
  await page.waitForSelector('[data-chart="loss"] canvas');
  for (const name of ['tokens', 'log x']) assert.equal(await chip(name).getAttribute('aria-pressed'), 'true', name);
  assert.equal(await page.inputValue('#smoothing'), '0.95');
  await until('tokens are read', async () =>
    /^training/.test(await chart(page, 'loss').locator('.legend-item').first().innerText()),
  );
  await chart(page, 'loss').locator('.plot').focus();
  await page.keyboard.press('End');
  assert.match(await chart(page, 'loss').locator('[aria-live=polite]').innerText(), /^[1-3]\d\.\d M target tokens: /);
}

async function checkRanks(page, address, run) {
  await open(page, address, run);
  assert.equal(await page.locator('.ranks').count(), 0, 'what another tab shows is not fetched yet');
  await openTab(page, 'Ranks');
  await until('the tab is in the address', () => query(page).toString() === 'tab=ranks');
  await page.locator('.heat').waitFor();
  assert.match(await page.locator('.heat-legend').innerText(), /^faster\s+equal/);
  const said = page.locator('.ranks .chart-note');
  await until('the straggler is named', async () =>
    /^rank 3 birch straggled: above 1\.15× the median for 1?\d % of the time, last at update (69|7[01])\d$/.test(
      await said.innerText(),
    ),
  );
  await page.locator('.heat').focus();
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('ArrowDown');
  assert.match(
    await said.innerText(),
    /^rank 1 alder · updates [\d,]+ to [\d,]+ · .* ms · (0\.[89]|1\.[01])\d× the median$/,
  );
  assert.equal(await page.locator('[aria-label="Ranks"] tbody tr').count(), 4);
}

async function checkSamples(page) {
  await openTab(page, 'Translations');
  await page.locator('#sample-update').scrollIntoViewIfNeeded();
  await page.fill('#sample-update', '0');
  await until('the oldest translations', async () =>
    /Sie hatte nie den Sommer/.test(await page.locator('.samples').innerText()),
  );
  await until('the evaluation is in the address', () => query(page).get('eval')?.startsWith('e_'));
  assert.match(await page.locator('.samples mark.extra').first().innerText(), /\S/);
  await page.fill('#sample-filter', 'Drittel');
  await until('the one that is looked for', async () => (await page.locator('.sample').count()) === 1);
  await page.fill('#sample-filter', '');
  await page.getByRole('button', { name: 'newest' }).click();
  await until('the newest needs no address', () => !query(page).has('eval'));
}

async function checkCheckpoints(page) {
  const rows = page.locator('[aria-label="Checkpoints"] tbody tr');
  const evaluations = await page.locator('[aria-label="Evaluations"] tbody tr').count();
  await openTab(page, 'Checkpoints');
  await until('a row for each evaluation', async () => (await rows.count()) >= evaluations);
  const row = page.locator(`[aria-label="Checkpoints"] tr[data-key="${await rows.first().getAttribute('data-key')}"]`); // a newer one may come first
  assert.match(await row.innerText(), /732 MB/);
  assert.equal(await rows.locator('.best').filter({ hasText: 'best' }).count(), 1);
  await row.locator('summary').click();
  assert.match(await row.innerText(), /weights\.safetensors/);
  await page.waitForTimeout(1500);
  assert.match(await row.innerText(), /weights\.safetensors/, 'a fold stays open while the page lives');
  await page.fill('#translate-text', 'A sentence.');
  await page.getByRole('button', { name: 'Translate' }).click();
  await until('an answer, or why there is none', async () =>
    /Not translated|does not translate|^in /.test(await page.locator('.translate [role=status]').innerText()),
  );
  assert.equal(await page.getByRole('button', { name: 'Translate' }).isEnabled(), true);
}

async function checkLogAndConfig(page, other) {
  await openTab(page, 'Log and history');
  await page.selectOption('#log-level', 'error');
  await until('only errors', async () => (await page.locator('.log-line').count()) === 1);
  assert.match(await page.locator('.log-line').innerText(), new RegExp(`update ${NAN}: the gradient is not finite`));
  await until('the level is in the address', () => query(page).get('level') === 'error');
  await page.selectOption('#log-level', '');
  await page.fill('#log-text', 'throttled');
  await until('a search', async () => {
    const lines = await page.locator('.log-line').allInnerTexts(); // at one moment: the list may change in between
    return lines.length === 1 && /rank 3/.test(lines[0]);
  });
  await page.fill('#log-text', '');
  await openTab(page, 'Configuration');
  await page.fill('#config-search', 'warmup');
  await until('the key that is looked for', async () =>
    /^optimizer:\n {2}warmup: 400u\n?$/.test(await page.locator('pre').innerText()),
  );
  await page.fill('#config-search', '');
  await page.locator('#config-against').focus();
  await until('other runs', async () => (await page.locator('#config-against option').count()) > 1);
  await page.selectOption('#config-against', other.id);
  await until(
    'differences',
    async () => (await page.locator('[aria-label="Differences of the configurations"] tbody tr').count()) === 1,
  );
  assert.match(
    await page.locator('[aria-label="Differences of the configurations"]').innerText(),
    /optimizer\.learning_rate\s+0\.0007\s+0\.001/,
  );
}

/// A legend of many lines scrolls, so that plots of a row stay beside each other; the toolbar stays in sight only with its charts.
async function checkFrames(page, address, wide) {
  await open(page, address, wide);
  await chart(page, 'memory').scrollIntoViewIfNeeded();
  const legend = chart(page, 'memory').locator('.legend');
  await until('many lines', async () => (await legend.locator('.legend-item').count()) > 10);
  const { shown, all, focusable } = await legend.evaluate((element) => ({
    shown: element.clientHeight,
    all: element.scrollHeight,
    focusable: element.tabIndex === 0,
  }));
  assert.ok(shown < 70 && shown < all && focusable, JSON.stringify({ shown, all, focusable }));
  const toolbar = () => page.locator('.toolbar').boundingBox();
  assert.ok((await toolbar()).y >= 0, 'the toolbar stays over the charts');
  await goBelow(page);
  await page.locator('.below summary').click();
  await until('all of its charts', async () => (await page.locator('.below .chart').count()) > MANY_KEYS);
  await page.locator('.below .chart').nth(20).scrollIntoViewIfNeeded();
  await until('the toolbar is gone with the charts', async () => {
    const { y, height } = await toolbar();
    return y + height <= 0;
  });
}

/// Charts of hundreds of keys: found by text, and only a few have a plot.
async function checkManyKeys(page, address, wide) {
  await open(page, address, wide);
  await page.locator('h1').click();
  await page.keyboard.press('/');
  await until('the search to be there', () => page.evaluate(() => document.activeElement?.id === 'find-metric'));
  await page.keyboard.type('layer_0');
  const frames = page.locator('[aria-label="All metrics"] .chart');
  await until('100 keys', async () => (await frames.count()) === 100);
  await page.fill('#find-metric', '');
  await until(`${MANY_KEYS} keys and more`, async () => (await frames.count()) > MANY_KEYS);
  await page.waitForTimeout(500);
  const plots = await page.locator('.chart canvas').count();
  assert.ok(plots < 40, `${plots} plots for ${await frames.count()} keys`);
  await frames.nth(290).scrollIntoViewIfNeeded();
  await frames.nth(290).locator('canvas').waitFor();
  await until('plots out of sight to be given back', async () => (await page.locator('.chart canvas').count()) < 40);
}

/// A run that was started again and has ended: nothing is live, both attempts are told, the second one is marked.
async function checkEnded(page, address, ended) {
  await open(page, address, ended, '?range=30_80');
  await shows(page, 'finished');
  assert.equal(await page.locator('#connection').innerText(), 'succeeded');
  assert.match(await page.locator('.run-title').innerText(), /attempt 2/);
  await openTab(page, 'Log and history');
  assert.equal(await page.locator('[aria-label="Attempts"] tbody tr').count(), 2);
  await openTab(page, 'Charts');
  await until('every point', async () => /^all 51 points/.test(await noteOf(page, 'loss')));
  await chart(page, 'loss').locator('.plot').focus();
  const said = chart(page, 'loss').locator('[aria-live=polite]');
  await until('the second attempt is told where it began', async () => {
    await page.keyboard.press('Home');
    for (let at = 0; at < 12 && !/attempt 2/.test(await said.innerText()); at += 1)
      await page.keyboard.press('ArrowRight');
    return /^update 4[01]: .*attempt 2/.test(await said.innerText());
  });
}

/// A run that failed says so first, with its cause, in its page and in the list; nothing is left of its time.
async function checkFailed(page, address, failed) {
  const headline = 'Failed at update 60: rank 2 on birch: CUDA out of memory';
  await open(page, address, failed, '?tab=charts');
  await until(
    'the cause',
    async () => (await page.locator('.health.level-bad .health-headline').innerText()) === headline,
  );
  await until('the speed during training', async () =>
    /^Speed during training/.test(await page.locator('.verdict summary').innerText()),
  );
  assert.doesNotMatch(await page.locator('.tiles').innerText(), / left/);
  assert.equal(await page.title(), 'failed-run · Babelring');
  await checkAxe(page, 'a failed run');
  await page.goto(`${address}/#/runs?q=failed-run`);
  await until(
    'the same words in the list',
    async () =>
      (await page.locator('.runs tbody .health-word').allInnerTexts()).join() === 'rank 2 on birch: CUDA out of memory',
  );
  await until('the share that is done', async () =>
    /^\s*\d+ %\s*$/.test(await page.locator('.runs tbody td:has(progress)').innerText()),
  );
}

/// A score on another set than the one that training validates with stands beside the best.
async function checkTestSet(page, address, scored, headers) {
  const answer = await fetch(`${address}/api/v1/runs/${scored.id}/evals`, {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: JSON.stringify({ update: 200, set: 'newstest2016', sacrebleu: 32.36, chrf: 58.1, signature: 'nrefs:1' }),
  });
  assert.equal(answer.status, 201, await answer.text());
  await open(page, address, scored);
  await until('the tile', async () =>
    (await page.locator('.tile').allInnerTexts()).some((text) =>
      /^sacreBLEU on newstest2016\s+32\.36\s+chrF 58\.10 · at update 200$/.test(text),
    ),
  );
  assert.ok(
    (await page.locator('.tile').allInnerTexts()).some((text) => /^Best sacreBLEU\s+7\.88/.test(text)),
    'the best is that of the validation',
  );
  await openTab(page, 'Translations');
  await until('the row', async () =>
    /newstest2016\s+32\.36\s+58\.10/.test(await page.locator('[aria-label="Evaluations"] tbody').innerText()),
  );
}

/// Between two evaluations every line says the value nearest to the cursor, and where it is if it is of another update.
async function checkHover(page, address, run) {
  await open(page, address, run, '?smooth=0&range=700_1000');
  await until('every point', async () => /^all 301 points$/.test(await noteOf(page, 'loss')));
  const box = await chart(page, 'loss').locator('.u-over').boundingBox();
  await page.mouse.move(box.x + box.width * (41 / 300), box.y + 60);
  await until('the cursor', async () =>
    /^update 74\d/.test(await chart(page, 'loss').locator('.chart-marks').innerText()),
  );
  const { training, validation } = await values(page, 'loss');
  assert.match(training, /^[\d.]+$/);
  assert.match(validation, /^[\d.]+ @800$/, 'the nearest evaluation is that of update 800');
  const fills = await chart(page, 'bleu')
    .locator('.u-cursor-pt')
    .evaluateAll((points) => points.map((point) => getComputedStyle(point).backgroundColor));
  assert.ok(
    fills.length > 0 && fills.every((fill) => !/255, 255, 255/.test(fill)),
    `points under the cursor are filled: ${fills}`,
  );
  await page.mouse.move(5, 5);
}

/// A run of one update has a point on its curve.
async function checkOnePoint(page, address, first) {
  await open(page, address, first);
  await until('one point', async () => /^1 point/.test(await noteOf(page, 'loss')));
  await until('something blue', () =>
    page.evaluate(() => {
      const { width, height } = document.querySelector('[data-chart="loss"] canvas');
      const { data } = document
        .querySelector('[data-chart="loss"] canvas')
        .getContext('2d')
        .getImageData(0, 0, width, height);
      let blue = 0;
      for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 200 && data[at + 2] > data[at] + 90) blue += 1;
      return blue >= 8;
    }),
  );
}

/// On paper there is every chart, at the width of a sheet and in light colours, and what is below them.
async function checkSteering(page) {
  await page.evaluate(() => scrollTo(0, 0));
  await page.getByRole('button', { name: 'Stop …' }).click();
  assert.equal(
    await page.getByRole('dialog').getByRole('radio').first().isChecked(),
    true,
    'a checkpoint first is the usual way',
  );
  await page.getByRole('button', { name: 'Cancel' }).click();
  assert.equal(await page.getByRole('dialog').count(), 0);
}

/// The runs that the checks look at, with their records sent.
async function makeRuns(address, token) {
  const make = (more, Kind = DetailedRun) =>
    new Kind(address, {
      startMs: Date.now() - UPDATES * 310,
      maxUpdates: 4 * UPDATES,
      spikeAt: SPIKE,
      nanAt: NAN,
      token: token ?? '',
      ...more,
    });
  const run = make({});
  const other = make({ name: 'wmt16-faster-rate', rate: 0.001 });
  const wide = make({ name: 'many-keys', purposes: MANY_KEYS });
  const first = make({ name: 'one-update', startMs: Date.now() - 310 });
  const odd = make({ name: 'hidden-sums' }, HiddenSums);
  for (const [each, count] of [
    [run, UPDATES],
    [other, 20],
    [wide, 20],
    [first, 1],
    [odd, 60],
  ]) {
    each.start();
    each.steps(count);
    await each.flush();
  }
  const ended = make({ name: 'ended-run', maxUpdates: 90, startMs: Date.now() - 3_600_000 });
  ended.start();
  ended.steps(60);
  ended.startMs += 7_200_000; // the server dates an attempt by its own clock: behind the first one's updates, before the second one's
  await ended.restart(40);
  ended.steps(50);
  ended.finish();
  await ended.flush();
  const failed = make({ name: 'failed-run' });
  const scored = make({ name: 'scored' });
  for (const [each, count] of [
    [failed, 60],
    [scored, 200],
  ]) {
    each.start();
    each.steps(count);
  }
  failed.finish('failed', 'rank 2 on birch: CUDA out of memory');
  await Promise.all([failed.flush(), scored.flush()]);
  return { run, other, wide, first, odd, ended, failed, scored };
}

/// All of it. `token`: what the server wants, or null; the page must be logged in already.
export async function testRunPage({ page, address, token = null, options }) {
  const runs = await makeRuns(address, token);
  const { run, other, wide, first, ended, failed, scored } = runs;
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const stop = { now: false };
  const living = run.live(3600, stop);
  try {
    await open(page, address, run);
    await checkSummary(page);
    await checkVerdict(page, address, run, headers);
    await checkMounting(page);
    await checkCharts(page);
    await checkSteering(page);
    await checkZoom(page);
    await checkSpike(page, address, run);
    await checkAddress(page, address, run);
    await checkRanks(page, address, run);
    await checkTraces(page, address, run);
    await checkMemory(page, address, run);
    await checkParameters(page, address, run);
    await checkProbes(page, address, run);
    await checkReport(page, address, run, options);
    await checkWhatIf(page, address, runs, options);
    await checkSamples(page);
    await checkCheckpoints(page);
    await checkLogAndConfig(page, other);
    await checkDownloads(page, address, run, headers);
    await checkHover(page, address, run);
    await checkOnePoint(page, address, first);
    await checkFailed(page, address, failed);
    await checkTestSet(page, address, scored, headers);
    await checkPrint(page, address, run, options);
    await checkEnded(page, address, ended);
    await checkNext(page, address, scored);
    await checkFrames(page, address, wide);
    await checkManyKeys(page, address, wide);
    await checkLooks(page, address, run, options);
  } finally {
    stop.now = true;
    await living;
  }
}

async function main() {
  const options = readOptions('run_page_test');
  const work = makeWork();
  const server = await startServer(options, work);
  let browser;
  try {
    browser = await openBrowser(work);
    const page = await browser.newPage();
    const problems = watchProblems(page, /\/translate$|\/what-if\?/); // no files to translate with; too few updates
    if (server.token) {
      await page.goto(`${server.address}/#token=${server.token}`);
      await page.waitForSelector('h1');
    }
    await testRunPage({ page, address: server.address, token: server.token, options });
    assert.deepEqual(problems, []);
    console.log('run_page_test: passed');
  } finally {
    await browser?.close();
    await server.end();
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
