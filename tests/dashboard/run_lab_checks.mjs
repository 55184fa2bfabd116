// The sections of a run's page that show what the tools of the lab wrote.
import { strict as assert } from 'node:assert';
import { goBelow, until } from './harness.mjs';
import { open } from './run_page_files.mjs';

/// A trace that is requested on the page arrives there; its data are fetched when the section is opened.
export async function checkTraces(page, address, run) {
  await open(page, address, run);
  await goBelow(page);
  const asked = [];
  const note = (request) => /\/(trace|artifacts)\b/.test(request.url()) && asked.push(request.url());
  page.on('request', note);
  const section = page.locator('details', { has: page.getByRole('heading', { name: 'Inside an update' }) });
  await page.waitForTimeout(1500);
  assert.deepEqual(asked, [], 'nothing is fetched for a closed section');
  await section.locator('summary').focus();
  await page.keyboard.press('Enter');
  await until('the empty section', async () => /No trace yet/.test(await section.innerText()));
  assert.ok(asked.length > 0);
  await run.beat(0);
  await section.getByRole('button', { name: 'Request a trace …' }).click();
  await page.getByRole('spinbutton', { name: 'updates' }).fill('4');
  await page.getByRole('button', { name: 'Trace', exact: true }).click();
  await until('the request', async () => /Tracing 4 updates …/.test(await section.innerText()));
  assert.equal(await section.getByRole('button', { name: 'Request a trace …' }).isDisabled(), true);
  const [command] = await run.beat(0);
  assert.deepEqual(command, { kind: 'trace', number: 1, updates: 4, ops: true });
  run.trace(1300, 4, 1);
  await run.flush();
  assert.deepEqual(await run.beat(1), []);
  const rows = section.locator('[aria-label="Shares of updates 1,300 to 1,303 by rank"] tbody tr');
  await until('the trace', async () => (await rows.count()) === 4);
  assert.match(await rows.first().innerText(), /^0 alder\s+310 ms\s+50\.0 %\s+45\.0 %\s+3\.0 %\s+2\.0 %\s+25\.0 %$/);
  assert.match(await rows.last().innerText(), /^3 birch\s+310 ms\s+75\.0 %/);
  const link = section.getByRole('link', { name: 'download' });
  assert.match(await link.getAttribute('href'), /^api\/v1\/artifacts\/\w+\/file$/);
  assert.equal(await link.getAttribute('download'), 'trace-update-00001300.json.gz');
  await until('another can be requested', () => section.getByRole('button', { name: 'Request a trace …' }).isEnabled());
  page.off('request', note);
}

/// Windows of parameter counts as a heat map, by keyboard, and the rows of a parameter.
export async function checkParameters(page, address, run) {
  run.window(1000);
  run.window(1200);
  await run.flush();
  await open(page, address, run);
  await goBelow(page);
  const section = page.locator('details', { has: page.getByRole('heading', { name: 'Parameters' }) });
  await section.locator('summary').focus();
  await page.keyboard.press('Enter');
  const rows = section.locator('[aria-label="Parameters by window"] tbody tr');
  await until('both parameters', async () => (await rows.count()) === 2);
  assert.match(
    await section.innerText(),
    /Updates 1,101 to 1,200: 12\.5 % of the rows are cold, 50\.0 % of the changes/,
  );
  assert.match(await rows.first().innerText(), /^encoder\.embedding\s+8,000 subwords\s+50\.0 %\s+60\.0 %$/);
  const strength = (at) =>
    rows
      .first()
      .locator('.heat-cell')
      .nth(at)
      .evaluate((cell) => cell.style.getPropertyValue('--heat'));
  assert.deepEqual([await strength(0), await strength(1)], ['22.5%', '27.0%']);
  await section.getByLabel('Counter').selectOption('ratio');
  await until('the ratios', async () => /5\.00e-4/.test(await rows.first().innerText()));
  await section.getByRole('button', { name: 'encoder.embedding' }).focus();
  await page.keyboard.press('Enter');
  await until('the hottest rows', async () =>
    /17 ▁budget\s+100\.0 %/.test(await section.locator('[aria-label^="Hottest"]').innerText()),
  );
  assert.match(await section.locator('[aria-label^="Coldest"]').innerText(), /4,711 ▁Haushalt\s+0\.0 %/);
  const button = section.getByRole('button', { name: 'encoder.embedding' });
  assert.equal(await button.getAttribute('aria-expanded'), 'true');
  assert.equal(await button.evaluate((element) => element === document.activeElement), true, 'the focus stays');
  run.window(1300);
  await run.flush();
  await until('a window that was just written', async () => (await rows.first().locator('.heat-cell').count()) === 3);
}

/// A probe that the ranks report while its section is open.
export async function checkProbes(page, address, run) {
  await open(page, address, run);
  await goBelow(page);
  const section = page.locator('details', { has: page.getByRole('heading', { name: 'Probes' }) });
  await section.locator('summary').click();
  await until('the empty section', async () => /No probe yet/.test(await section.innerText()));
  run.probe(1000);
  await run.flush();
  const rows = section.locator('[aria-label="Probes"] tbody tr');
  await until('a file of each rank', async () => (await rows.count()) === 4);
  assert.match(await section.innerText(), /1,000\s+3\s.*\s1\.30 MB\s+probe-update-00001000-rank-3\.jsonl/);
  assert.match(await rows.first().getByRole('link').getAttribute('href'), /^api\/v1\/artifacts\/\w+\/file$/);
}
