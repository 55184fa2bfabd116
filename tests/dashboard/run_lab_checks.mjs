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
