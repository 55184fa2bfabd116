// Checks of the run page as a whole: its tabs, its looks, on paper, and the files that it saves. run_page_test.mjs calls them.
import { strict as assert } from 'node:assert';
import { readFileSync } from 'node:fs';
import { checkAxe, checkWidth, goBelow, openTab, shoot, until } from './harness.mjs';
import { showComparison } from './run_lab_checks.mjs';

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

/// The tabs of a run's page, each with what it shows.
const TABS = [
  ['Charts', ['[data-chart="loss"] canvas']],
  ['Translations', ['.samples mark']],
  ['Checkpoints', ['[aria-label="Checkpoints"] tbody a', '.translate']],
  ['Ranks', ['.heat']],
  ['Inside an update', ['.trace-bars', '.heat-cell', '.memory-curve']],
  ['What if', ['.what-if-controls']],
  ['Log and history', ['.log-line', '[aria-label="Attempts"]']],
  ['Configuration', ['pre']],
  ['Report', ['.report article']],
];
/// A run that succeeds: the report comes first, and the page says what comes next.
export async function checkNext(page, address, scored) {
  await open(page, address, scored);
  const tabs = page.locator('.tabs a');
  assert.deepEqual(
    [(await tabs.allInnerTexts()).at(-1), await page.locator('.tabs a[aria-current]').innerText()],
    ['Report', 'Charts'],
  );
  const next = page.getByRole('region', { name: 'What comes next' });
  assert.equal(await next.count(), 0, 'nothing comes next while it runs');
  scored.finish();
  await scored.flush();
  await next.waitFor();
  await until('the report is the first tab', async () => (await tabs.first().innerText()) === 'Report');
  assert.equal(await page.locator('.tabs a[aria-current]').innerText(), 'Charts', 'the shown tab stays');
  await until('all steps', async () =>
    /^What comes next\s+Translate a sentence\s+Download its best checkpoint, 732 MB\s+Copy the command to translate in a terminal\s+Read the report\s+Train longer …/.test(
      await next.innerText(),
    ),
  );
  await next.getByRole('button', { name: /^Copy the command/ }).click();
  await until('the command', async () =>
    new RegExp(
      `nmt run download ${scored.id} --checkpoint c_\\w+ --server ${address} && nmt translate --checkpoint \\S+$`,
    ).test(await next.locator('[role=status]').innerText()),
  );
  await next.getByRole('button', { name: 'Translate a sentence' }).click();
  await until('the box to translate', () => page.evaluate(() => document.activeElement?.id === 'translate-text'));
  await page.goto('about:blank');
  await page.goto(`${address}/#/runs/${scored.id}`);
  await page.locator('.report article').first().waitFor();
  await checkAxe(page, 'an ended run');
  await page.getByRole('link', { name: 'Train longer …' }).click();
  await until('its newest checkpoint', async () => /^c_\w+$/.test(await page.inputValue('#resume-from')));
  await page.goBack();
  await page.locator('.report article').first().waitFor();
}

export async function checkLooks(page, address, run, options) {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width: 1440, height: 900 });
    await open(page, address, run, '?all=1&find=tokens');
    await goBelow(page);
    await page.evaluate(() => {
      document.querySelector('details.verdict').open = true;
      scrollTo(0, 0);
    });
    for (const [tab, ready] of TABS) {
      await page.setViewportSize({ width: 1440, height: 900 });
      await openTab(page, tab);
      for (const each of ready) await page.locator(each).first().waitFor();
      if (tab === 'Inside an update') await showComparison(page);
      await page.waitForTimeout(300);
      await checkAxe(page, `run, ${tab}, ${colorScheme}`);
      await shoot(options, page, `run-${tab}-${colorScheme}`);
      await page.setViewportSize({ width: 360, height: 740 });
      await page.waitForTimeout(200);
      await checkWidth(page, `run, ${tab}, ${colorScheme}`);
      await shoot(options, page, `run-${tab}-${colorScheme}-360`);
    }
  }
  await page.setViewportSize({ width: 1440, height: 900 });
}
