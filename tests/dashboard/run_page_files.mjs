// Checks of the run page on paper and of the files that it saves. run_page_test.mjs calls them.
import { strict as assert } from 'node:assert';
import { readFileSync } from 'node:fs';
import { until } from './harness.mjs';

export const chart = (page, id) => page.locator(`[data-chart="${id}"]`);

export async function open(page, address, run, hash = '') {
  await page.goto('about:blank');
  await page.goto(`${address}/#/runs/${run.id}${hash}`);
  await page.waitForSelector('[data-chart="loss"] canvas');
}

export async function checkPrint(page, address, run, options) {
  await page.emulateMedia({ colorScheme: 'dark' });
  await open(page, address, run);
  const plots = page.locator('[aria-label="Charts"] .chart canvas');
  const frames = await page.locator('[aria-label="Charts"] .chart').count();
  assert.ok((await plots.count()) < frames, 'not all are in sight');
  await page.evaluate(() => {
    window.print = () => {
      window.dispatchEvent(new Event('beforeprint'));
      window.printed = true;
    };
  });
  await page.keyboard.press('Control+p');
  await page.waitForFunction(() => window.printed === true);
  assert.equal(await plots.count(), frames);
  const notes = await page.locator('[aria-label="Charts"] .chart-note').allInnerTexts();
  assert.ok(
    notes.every((text) => !/loading|no data/.test(text)),
    String(notes),
  );
  const widths = await plots.evaluateAll((all) => all.map((canvas) => canvas.getBoundingClientRect().width));
  assert.ok(
    widths.every((width) => width > 250 && width < 350),
    String(widths),
  );
  for (const name of ['Ranks', 'Evaluations', 'Log']) await page.getByRole('heading', { name, exact: true }).waitFor();
  await page.getByText('Libraries: oneDNN 2.6.3, Open MPI 4.1.4, SentencePiece 0.1.97, glibc 2.36').waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'light');
  await page.evaluate(() => dispatchEvent(new Event('afterprint')));
  await until('the page is as before', async () => (await plots.count()) < frames);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), undefined);
  assert.ok((await plots.first().evaluate((canvas) => canvas.getBoundingClientRect().width)) > 350);
  if (options.screenshots) await page.pdf({ path: `${options.screenshots}/run.pdf`, format: 'A4' });
  await page.emulateMedia({ colorScheme: 'light' });
}

export async function checkDownloads(page, address, run, headers) {
  await open(page, address, run);
  const save = async (id, name) => {
    const waiting = page.waitForEvent('download');
    await chart(page, id).getByRole('button', { name }).click();
    const file = await waiting;
    return { name: file.suggestedFilename(), bytes: readFileSync(await file.path()) };
  };
  const stored = await (
    await fetch(`${address}/api/v1/runs/${run.id}/metrics/gradient_norm?agg=raw&format=csv`, { headers })
  ).text();
  const rows = (text) =>
    text
      .split('\n')
      .slice(1, 1000)
      .map((row) => row.trim());
  const gradient = await save('gradient', /CSV/);
  assert.equal(gradient.name, 'wmt16-base-gradient.csv');
  assert.deepEqual(rows(String(gradient.bytes)), rows(stored), 'the CSV has the stored digits');
  const [heads, ...loss] = String((await save('loss', /CSV/)).bytes).split('\n');
  assert.equal(heads, 'step,time_ms,loss,eval:loss@newstest2015');
  assert.match(
    loss.find((row) => row.startsWith('800,')),
    /^800,\d+,\d[\d.]*,\d[\d.]*$/,
  );
  const picture = await save('gradient', /PNG/);
  assert.equal(picture.name, 'wmt16-base-gradient.png');
  assert.equal(picture.bytes.subarray(0, 8).toString('hex'), '89504e470d0a1a0a');
}
