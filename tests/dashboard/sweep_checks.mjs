// The page of a sweep: twelve made-up cells of four widths and three seeds, the last of which failed.
import { strict as assert } from 'node:assert';
import { checkAxe, checkWidth, shoot, titled, until } from './harness.mjs';
import { DetailedRun } from './detailed_run.mjs';

const WIDTHS = [16, 24, 32, 128];
const RATES = ['1e-3', '1e-2'];
const CONFIG = 'name: toy\ntask: gssm\nmodel:\n  width: 16\n';

const excessOf = (width, rate, seed) => 2 / Math.sqrt(width) + (rate === '1e-2' ? 0.05 : 0) + 0.02 * seed;

async function makeCell(server, width, rate, seed, failed) {
  const run = new DetailedRun(server.address, {
    token: server.token ?? '',
    name: `toy-${width}-${rate}-${seed}`,
    hosts: ['alder'],
    startMs: Date.now() - 3_600_000,
  });
  run.life(0, 'started', run.startMs, { config: CONFIG });
  const excess = excessOf(width, rate, seed);
  if (!failed) {
    const scores = { update: 20, loss: 1 + excess, nll: 1 + excess, entropy: 1, accuracy: 0.5 };
    const none = { sacrebleu: null, chrf: null, non_finite: { sacrebleu: 'nan', chrf: 'nan' } };
    run.add(0, 'eval', { ...scores, ...none, set: 'test', best: true, seconds: 1, samples: [] }, run.startMs + 1000);
  }
  run.finish(failed ? 'failed' : 'finished', failed ? 'rank 0: killed by signal 9' : 'max_updates');
  await run.flush();
  const labels = { sweep: 'toy', cell: `${width}-${rate}-${seed}`, 'model.width': `${width}` };
  const answer = await fetch(`${server.address}/api/v1/runs/${run.id}`, {
    method: 'PATCH',
    body: JSON.stringify({ labels: { ...labels, 'optimizer.learning_rate': rate, 'training.seed': `${seed}` } }),
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${server.token}` },
  });
  assert.equal(answer.status, 200, await answer.text());
  return run;
}

/// The run of the first cell.
export async function makeSweep(server) {
  const runs = [];
  for (const width of WIDTHS) {
    for (const rate of RATES) {
      for (const seed of [0, 1, 2]) {
        runs.push(await makeCell(server, width, rate, seed, width === 128 && rate === '1e-2' && seed === 2));
      }
    }
  }
  return runs[0];
}

const cells = (page) => page.locator('[aria-label="Cells"] tbody tr').count();
const heat = (page) => page.locator('.sweep-heat tbody td').allInnerTexts();
const choose = (page, label, value) => page.getByLabel(label, { exact: true }).selectOption(value);

/// From a run's page to its sweep: means, chart and cells; choices change them and the address, which shows the same again.
export async function checkSweep(page, server, options) {
  const first = await makeSweep(server);
  await page.goto(`${server.address}/#/runs/${first.id}`);
  await page.getByText(/at update 20 · excess 0\.500 nats/).waitFor();
  assert.equal(await page.getByText('no translation scored').count(), 0);
  await page.getByRole('link', { name: 'sweep=toy' }).click();
  await titled(page, 'Sweep toy');
  await page.locator('.sweep-heat td a').first().waitFor();
  await page.getByText('24 cells: 23 succeeded, 1 failed').waitFor();
  assert.equal(await cells(page), 24);
  const means = await heat(page);
  assert.equal(means.length, 8, `${means}`);
  assert.equal(means[0], `${excessOf(16, '1e-3', 1).toPrecision(4).replace(/0+$/, '')} ± 0.02 (3 of 3)`);
  assert.match(means[7], /\(2 of 3\)$/);
  const shades = [3, 4].map((at) => page.locator('.sweep-heat tbody td').nth(at).getAttribute('class'));
  const expected = ['number shade-4 sweep-best', 'number shade-0'];
  assert.deepEqual(await Promise.all(shades), expected, 'the best and the worst mean');
  assert.match(means[3], / best$/);
  await page.getByText(/mean ± standard deviation over training\.seed\.$/).waitFor();
  assert.equal(await page.locator('.sweep-line').count(), 2, 'a line for each learning rate');
  assert.equal(await page.locator('.sweep-line-blue circle').count(), 4);
  await checkAxe(page, 'a sweep');
  await shoot(options, page, 'sweep');

  await choose(page, 'metric', 'loss');
  await page.waitForURL(/metric=loss/);
  assert.match((await heat(page))[0], /^1\.52 /);
  await choose(page, 'rows', '');
  await until('one row', async () => (await heat(page)).length === 4);
  await page.getByText(/; optimizer\.learning_rate at its best in each field\.$/).waitFor();
  assert.match((await heat(page))[0], /^1\.52 ± 0\.02 \(3 of 3\)\s+learning_rate 1e-3$/);
  await choose(page, 'only training.seed', '0');
  await until('the cells of a seed', async () => (await cells(page)) === 8);
  await choose(page, 'cells sorted by', 'metric');
  const best = page.locator('[aria-label="Cells"] tbody tr').first();
  assert.match(await best.innerText(), /^128-1e-3-0/);
  const shown = await heat(page);
  await page.reload();
  await page.locator('.sweep-heat td a').first().waitFor();
  assert.deepEqual(await heat(page), shown, 'the address shows the same again');

  await page.getByLabel('metric', { exact: true }).focus();
  for (let at = 0; at < 9; at += 1) await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Heat map');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.waitForURL(/#\/runs\//); // the only run of its field
  await page.goBack();
  await page.getByRole('link', { name: 'compare the best runs' }).click();
  await page.waitForFunction(() => document.querySelectorAll('.run-legend li').length === 8);
  await page.goto(`${server.address}/#/sweep/nothing`);
  await page.getByText('No run has the label sweep=nothing.').waitFor();
}

/// All cells of the sweep compared: seeds folded, one legend that stays in sight, and the configuration to take.
export async function checkSweepComparison(page, server, options) {
  await page.goto(`${server.address}/#/sweep/toy`);
  await page.getByRole('link', { name: 'compare the best runs' }).click();
  const items = page.locator('.run-legend li');
  await until('a lane for each configuration', async () => (await items.count()) === 8);
  assert.match((await items.allInnerTexts()).join(), /^width 128 · lr 1e-3\s*×3\s*baseline/);
  const choice = page.locator('[aria-label="Choice"] tbody tr');
  await until('the choice', async () => (await choice.count()) === 8);
  assert.match(
    await choice.first().innerText(),
    /^\s*width 128 · lr 1e-3\s+3\s+1\.197 ± 0\.020 best\s+baseline\s+[\d.]+ s\s+9\d %/,
  );
  assert.match(await choice.nth(1).innerText(), /\+0\.040/, 'the difference to the baseline');
  await page
    .getByText(
      /This one: .*width 128 · lr 1e-3 · validation loss 1\.197 ± 0\.020 of 3 seeds; 9\d % chance to be the best/,
    )
    .waitFor();
  const drawings = page.locator('.sweep-chart');
  await until('two drawings of the score', async () => (await drawings.count()) === 2);
  assert.equal(await drawings.nth(0).locator('circle').count(), 8);
  assert.equal(await drawings.nth(1).locator('path').count(), 8);
  assert.match(
    await drawings.nth(0).locator('title').first().textContent(),
    /^width 128 · lr 1e-3: Validation loss 1\.197 ± 0\.020 over 3 seeds$/,
  );
  await page.getByText('Validation loss over width; strokes').waitFor();
  await page.getByLabel('Over', { exact: true }).selectOption({ label: 'lr' });
  await page.getByText('Validation loss over lr; strokes').waitFor();
  assert.match(page.url(), /over=/);
  await page.evaluate(() => scrollTo(0, 1200));
  const legend = page.locator('.compare-legend');
  await until('the legend stays in sight', async () => Math.abs((await legend.boundingBox()).y) < 2);
  await checkAxe(page, 'a comparison of configurations');
  await shoot(options, page, 'compare-groups');
  await page.setViewportSize({ width: 360, height: 740 });
  await checkWidth(page, 'a comparison of configurations');
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole('checkbox', { name: 'fold seeds' }).uncheck();
  await until('24 lanes', async () => (await choice.count()) === 24);
  assert.match(page.url(), /fold=0/);
  await page.getByText('and 16 more without lines: the best 8 have them').waitFor();
}
