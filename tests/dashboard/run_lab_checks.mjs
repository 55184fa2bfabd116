// The sections of a run's page that show the artifacts of the lab's tools.
import { strict as assert } from 'node:assert';
import { readFileSync } from 'node:fs';
import { axeFindings, openTab, until } from './harness.mjs';
import { open } from './run_page_files.mjs';

/// A trace that is requested on the page arrives there; its data are fetched when the section is opened.
export async function checkTraces(page, address, run) {
  await open(page, address, run);
  const asked = [];
  const note = (request) => /\/(trace|artifacts)\b/.test(request.url()) && asked.push(request.url());
  page.on('request', note);
  const section = page.locator('section', { has: page.getByRole('heading', { name: 'Inside an update' }) });
  await page.waitForTimeout(1500);
  assert.deepEqual(asked, [], 'nothing is fetched for a tab that is not shown');
  await openTab(page, 'Inside an update');
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

/// The memory of a traced update: the stack, its peak with the owner, and owners as a table.
export async function checkMemory(page, address, run) {
  run.memoryCurve(1250);
  run.memoryCurve(1260);
  await run.flush();
  await open(page, address, run);
  await openTab(page, 'Inside an update');
  const section = page.locator('section', { has: page.getByRole('heading', { name: 'Inside an update' }) });
  const picture = section.getByRole('img', { name: /stacked by purpose/ });
  await until('the curve', async () => (await picture.count()) === 1);
  assert.match(
    await section.innerText(),
    /Peak: 1\.8\d GB after op \d+ of 120, linear_\w+ of encoder\.5 in \w+\. Its largest owner is attention_forward\.out of encoder\.5, 210 MB\./,
  );
  assert.equal(await picture.locator('polygon').count(), 5, 'communication has no bytes');
  const fills = await picture.locator('polygon').evaluateAll((all) => all.map((area) => getComputedStyle(area).fill));
  assert.equal(new Set(fills).size, 5, fills.join(' '));
  assert.equal(await section.locator('[aria-label^="Largest owners"] tbody tr').count(), 2);
  await section.getByLabel('Memory of').selectOption({ label: 'update 1,250, rank 0' });
  await until('the other update', async () => /memory-update-00001250-rank-0\.json/.test(await section.innerText()));
}

/// Windows of parameter counts as a heat map, by keyboard, and the rows of a parameter.
export async function checkParameters(page, address, run) {
  run.window(1000);
  run.window(1200);
  await run.flush();
  await open(page, address, run);
  await openTab(page, 'Inside an update');
  const section = page.locator('section', { has: page.getByRole('heading', { name: 'Parameters' }) });
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
  await openTab(page, 'Inside an update');
  const section = page.locator('section', { has: page.getByRole('heading', { name: 'Probes' }) });
  await until('the empty section', async () => /No probe yet/.test(await section.innerText()));
  run.probe(1000);
  await run.flush();
  const rows = section.locator('[aria-label="Probes"] tbody tr');
  await until('a file of each rank', async () => (await rows.count()) === 4);
  assert.match(await section.innerText(), /1,000\s+3\s.*\s1\.30 MB\s+probe-update-00001000-rank-3\.jsonl/);
  assert.match(await rows.first().getByRole('link').getAttribute('href'), /^api\/v1\/artifacts\/\w+\/file$/);
  await checkProbeComparison(page, section);
}

/// A probe of rank `rank`, of which rank 2's has another weight.
function probeOf(rank) {
  const record = (number, layer, sha256, elements) =>
    JSON.stringify({
      record: number,
      update: 1000,
      micro_batch: -1,
      phase: number < 2 ? 'start' : 'optimizer',
      layer,
      op: number < 2 ? 'start' : 'adam_update',
      member: `weight of ${layer}.weight`,
      occurrence: 0,
      role: 'weight',
      shape: [2],
      dtype: 'f32',
      sha256,
      elements,
      inputs: number < 2 ? [] : [number - 2],
    });
  const own = rank === 2 ? ['d'.repeat(64), '3f80000040000003'] : ['b'.repeat(64), '3f80000040000000'];
  return [
    JSON.stringify({
      format: 'babelring-probe',
      version: 2,
      mode: 'training',
      model: 'm',
      first_update: 1000,
      rank,
      ranks: 4,
      threads: rank === 2 ? 8 : 4,
      environment: {},
    }),
    record(0, 'encoder.0.attention.qkv', 'a'.repeat(64), '3f80000040000000'),
    record(1, 'decoder.0.feed_forward.first', ...own),
    record(2, 'encoder.0.attention.qkv', 'a'.repeat(64), '3f80000040000000'),
    record(3, 'decoder.0.feed_forward.first', ...own),
    JSON.stringify({ end: true, records: 4, batch: `batch of rank ${rank}` }),
    '',
  ].join('\n');
}

/// Answers requests for the files of probes; that of rank 3 is no probe.
async function serveProbes(page, section) {
  const ranks = new Map();
  for (const link of await section.getByRole('link', { name: /^probe-update/ }).all()) {
    const rank = Number(/rank-(\d+)/.exec(await link.innerText())[1]);
    ranks.set((await link.getAttribute('href')).split('/').at(-2), rank);
  }
  await page.route('**/artifacts/*/file', (route) => {
    const rank = ranks.get(new URL(route.request().url()).pathname.split('/').at(-2));
    return route.fulfill({ body: rank === 3 ? 'no probe' : probeOf(rank), contentType: 'application/octet-stream' });
  });
}

/// Chooses two ranks' probes and compares them, by keyboard.
async function compareRanks(page, section, first, second) {
  await section.getByLabel('Compare', { exact: true }).selectOption({ label: `update 1,000, rank ${first}` });
  await section.getByLabel('with', { exact: true }).selectOption({ label: `update 1,000, rank ${second}` });
  await section.getByRole('button', { name: 'Compare' }).focus();
  await page.keyboard.press('Enter');
}

/// The open section of probes with a comparison of two that differ.
export async function showComparison(page) {
  const section = page.locator('section', { has: page.getByRole('heading', { name: 'Probes' }) });
  await section.getByRole('button', { name: 'Compare' }).waitFor();
  await serveProbes(page, section);
  await compareRanks(page, section, 0, 2);
  await section.locator('[aria-label="First divergence"]').waitFor();
  await page.unroute('**/artifacts/*/file');
}

/// Two of the listed probes are the same, differ or cannot be compared.
async function checkProbeComparison(page, section) {
  await serveProbes(page, section);
  const compare = (first, second) => compareRanks(page, section, first, second);
  await compare(0, 1);
  await until('the same', async () => /The probes are the same in all 4 tensors\./.test(await section.innerText()));
  await compare(0, 2);
  await until('a difference', async () => /The probes differ in 2 of 4 tensors\./.test(await section.innerText()));
  const first = section.locator('[aria-label="First divergence"] tbody tr');
  assert.match(
    await first.innerText(),
    /^1,000\s+start\s+decoder\.0\.feed_forward\.first\s+start\s+weight of \S+\s+1\s+2\s+2\.0000007\d*\s+at least 3\s+7\.15e-7\s+before the update$/,
  );
  assert.match(await section.innerText(), /threads: 4 and 8/);
  const layers = section.locator('[aria-label="Layers that differ"] tbody tr');
  assert.match(await layers.first().innerText(), /^decoder\.0\.feed_forward\.first\s+diff$/);
  assert.match(await section.innerText(), /Another layer is the same\./);
  await compare(0, 3);
  await until('a refusal', async () => /rank-3\.jsonl:1: expected a JSON object/.test(await section.innerText()));
  await page.unroute('**/artifacts/*/file');
}

/// The styles that the served report's policy allows are applied. In a sandbox the test could not look.
async function checkPolicy(page, answer) {
  const policy = answer.headers()['content-security-policy'];
  assert.match(policy, /style-src 'sha256-.*; sandbox$/);
  const headers = { 'Content-Type': 'text/html', 'Content-Security-Policy': policy.replace('; sandbox', '') };
  const body = await answer.text();
  await page.route('**/report-alone', (route) => route.fulfill({ headers, body }));
  await page.goto(new URL('/report-alone', answer.url()).href);
  assert.equal(await page.locator('main').evaluate((main) => getComputedStyle(main).maxWidth), '896px');
}

/// The report of the run: fetched when opened, twelve answers, and a file that passes axe by itself.
export async function checkReport(page, address, run, options) {
  await open(page, address, run);
  const section = page.locator('section', { has: page.getByRole('heading', { name: 'Report', exact: true }) });
  const served = page.waitForResponse(/\/report\?format=html$/);
  await openTab(page, 'Report');
  const answers = section.locator('article');
  await until('the report', async () => (await answers.count()) === 12);
  assert.match(
    await answers.first().innerText(),
    /1\. How long did it train\?\s+\d.* from the first record to the last/,
  );
  assert.match(await answers.nth(9).innerText(), /There is no padding/);
  const pictures = section.locator('article img');
  assert.ok((await pictures.count()) >= 2);
  assert.ok(await pictures.first().evaluate((image) => image.decode().then(() => image.naturalWidth === 760)));
  if (options.screenshots) await section.screenshot({ path: `${options.screenshots}/report-section.png` });
  const saved = page.waitForEvent('download');
  await section.getByRole('button', { name: 'Save as a file' }).click();
  const file = await (await saved).path();
  const alone = await page.context().newPage();
  await checkPolicy(alone, await served);
  for (const [colorScheme, width] of [
    ['light', 1280],
    ['dark', 360],
  ]) {
    await alone.emulateMedia({ colorScheme });
    await alone.setViewportSize({ width, height: 900 });
    await alone.setContent(readFileSync(file, 'utf8'));
    assert.deepEqual(await axeFindings(alone, `report, ${colorScheme}`), []);
    assert.ok(await alone.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth));
    if (options.screenshots) {
      await alone.screenshot({ path: `${options.screenshots}/report-${colorScheme}.png`, fullPage: true });
    }
  }
  await alone.close();
}
