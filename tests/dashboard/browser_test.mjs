// Opens the page in Chromium against a real server that gets made-up runs. run_page_test.mjs walks through a run's page.
//   node browser_test.mjs [--server-binary build/release/bin/server] [--dist folder] [--screenshots folder]
import { strict as assert } from 'node:assert';
import { readFileSync } from 'node:fs';
import {
  axeFindings,
  checkAxe,
  checkWidth,
  heapBytes,
  makeWork,
  openBrowser,
  pageWeight,
  readOptions,
  shoot,
  shows,
  showTwentyCharts,
  startServer,
  taskTimes,
  titled,
  until,
  watchProblems,
} from './harness.mjs';
import { DetailedRun } from './detailed_run.mjs';
import { checkSweep, checkSweepComparison } from './sweep_checks.mjs';
import {
  checkAlerts,
  checkBulk,
  checkChoice,
  checkColumns,
  checkEdit,
  checkEnd,
  checkKeys,
  checkList,
  checkNotify,
} from './list_checks.mjs';

const options = readOptions('browser_test');
const work = makeWork();
const LONGEST_TASK_MS = 400; // some 40 on a quiet machine

const began = Date.now();
async function part(name, work) {
  const from = Date.now();
  await work();
  console.log(`browser_test: ${name}, ${((Date.now() - from) / 1000).toFixed(1)} s`);
}

const updateShown = async (page) =>
  Number((await page.locator('.tile .value').first().innerText()).split('/')[0].replace(/\D/g, ''));

const waitForUpdates = async (page, count) =>
  page.waitForFunction(
    (target) => Number(document.querySelector('.tile .value').innerText.split('/')[0].replace(/\D/g, '')) >= target,
    (await updateShown(page)) + count,
  );

/// Without a token there is nothing but the log-in, and it leads back to where one wanted to go.
async function checkLogin(page, server, run) {
  if (!server.token) return;
  await page.goto(`${server.address}/#/runs/${run.id}?x=elapsed`);
  await page.waitForSelector('#token');
  await checkAxe(page, 'log-in');
  await shoot(options, page, 'login');
  await page.locator('#nav').getByRole('link', { name: 'Nodes' }).click();
  await page.waitForTimeout(300);
  assert.ok(await page.locator('#token').isVisible(), 'another address is no way around it');
  await page.goBack();
  await page.fill('#token', 'wrong');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('#token-problem').innerText !== '');
  await page.fill('#token', server.token);
  await page.keyboard.press('Enter');
  await page.waitForSelector('.chart canvas');
  assert.match(page.url(), new RegExp(`#/runs/${run.id}\\?x=elapsed$`));
  await page.evaluate(() => localStorage.removeItem('babelring.token'));
  await page.goto('about:blank');
  await page.goto(`${server.address}/#token=${server.token}`);
  await page.waitForSelector('tbody a');
  assert.ok(!page.url().includes('token'), `the token stays in the address: ${page.url()}`);
  await page.reload();
  await page.waitForSelector('tbody a');
  assert.equal(
    await page
      .locator('.scope')
      .innerText()
      .then((text) => text.split('\n').at(-1)),
    'admin',
  );
}

const links = async (page) => (await page.locator('#nav a').allInnerTexts()).map((text) => text.replace(/\s*\d+$/, ''));

/// A link opened in a new tab is logged in; a log-out is one in every tab, and so is the next log-in.
async function checkTabs(page, context, server) {
  const opening = context.waitForEvent('page');
  await page
    .locator('tbody a')
    .first()
    .click({ modifiers: ['Control'] });
  const tab = await opening;
  await tab.waitForSelector('.run-title');
  assert.equal(await tab.locator('#token').count(), 0, 'a new tab asks for no token');
  await tab.getByRole('button', { name: 'log out' }).click();
  for (const each of [tab, page]) await each.waitForSelector('#token');
  assert.equal(await page.locator('#token-problem').innerText(), '', 'a log-out is no refused token');
  assert.deepEqual(await links(page), ['Runs', 'Compare', 'Nodes', 'Alerts'], 'what needs a log-in is not offered');
  assert.equal(await page.locator('button[title^="Browser notification"]').isVisible(), false);
  assert.equal(
    await page.evaluate(() => JSON.stringify([localStorage, sessionStorage]).includes('bbr_')),
    false,
    'nothing of the token is left',
  );
  await shoot(options, page, 'logged-out');
  await page.fill('#token', server.token);
  await page.keyboard.press('Enter');
  await page.waitForSelector('tbody a');
  await tab.waitForSelector('.run-title');
  await until(
    'what an administrator may',
    async () => String(await links(page)) === 'Runs,Compare,Nodes,Alerts,Tokens,Audit',
  );
  await tab.close();
}

/// The choice to log in for one tab only.
async function checkOneTab(context, server) {
  const own = await context.browser().newContext();
  const tab = await own.newPage();
  await tab.goto(`${server.address}/#/runs`);
  await tab.fill('#token', server.token);
  await tab.uncheck('#keep');
  await tab.keyboard.press('Enter');
  await tab.waitForSelector('tbody a');
  await tab.reload();
  await tab.waitForSelector('tbody a');
  const other = await own.newPage();
  await other.goto(`${server.address}/#/runs`);
  await other.waitForSelector('#token');
  await own.close();
}

/// An address that names nothing says so, once, and leads on.
async function checkUnknown(page, server, run) {
  await page.goto(`${server.address}/#/foo/bar`);
  await page.getByRole('heading', { name: 'No page at #/foo/bar' }).waitFor();
  await checkAxe(page, 'an unknown address');
  await shoot(options, page, 'unknown');
  const unknownRun = run.id.slice(0, -1) + (run.id.endsWith('0') ? '1' : '0');
  await page.goto(`${server.address}/#/runs/${unknownRun}`);
  await page.getByRole('heading', { name: 'No such run' }).waitFor();
  await page.getByRole('link', { name: 'wmt16-base' }).waitFor();
  assert.equal(
    (await page.locator('main').innerText()).match(/no such run|no run/gi).length,
    2,
    'the heading and one sentence',
  );
  await checkAxe(page, 'an unknown run');
  await shoot(options, page, 'unknown-run');
  await page.goto(`${server.address}/#/runs/wmt16-base`);
  await page.getByRole('link', { name: 'wmt16-base' }).click();
  await page.waitForSelector('.run-title');
}

/// While the server does not answer, pages open all the same, and it is said until when the data is.
async function checkAway(page, context, server) {
  const files = new Set();
  const note = (response) => files.add(/assets\/([a-z_]+)/.exec(response.url())?.[1]);
  page.on('response', note);
  await page.goto('about:blank');
  await page.goto(`${server.address}/#/runs`);
  await page.waitForSelector('tbody a');
  await until('all pages are here', () =>
    ['alerts', 'nodes', 'submit', 'compare_page', 'run_page', 'run_sections', 'not_found'].every((name) =>
      files.has(name),
    ),
  );
  page.off('response', note);
  await context.setOffline(true);
  const banner = page.locator('#offline');
  await until('the banner', async () =>
    /^No connection to the server since \d\d:\d\d:\d\d, showing data until \d\d:\d\d:\d\d\. Retrying …$/.test(
      await banner.innerText(),
    ),
  );
  await checkAxe(page, 'without a server');
  await shoot(options, page, 'offline');
  await page.locator('#nav').getByRole('link', { name: 'Alerts' }).click();
  await page.getByRole('heading', { name: 'Alerts', exact: true }).waitFor();
  await context.setOffline(false);
  await until('the banner goes', async () => !(await banner.isVisible()));
  await shows(page, 'live');
}

/// A page whose file does not come is waited for, and opens by itself.
async function checkLateFile(context, server) {
  const page = await context.newPage();
  await page.goto(`${server.address}/#/runs`);
  await page.waitForSelector('tbody a');
  await page.route('**/assets/nodes-*', (route) => route.abort());
  await page.route(
    (url) => url.pathname === '/',
    (route) => route.abort(),
  );
  await page.locator('#nav').getByRole('link', { name: 'Nodes' }).click();
  await page.getByRole('heading', { name: 'Not loaded yet' }).waitFor();
  assert.equal(await page.locator('tbody').count(), 0, 'nothing of the page before is left');
  await page.unroute('**/assets/nodes-*');
  await page.unrouteAll();
  await page.getByRole('heading', { name: 'Nodes', exact: true }).waitFor();
  await page.close();
}

/// While the file of the next page is on its way, the page before is still shown, and leaves the address alone.
async function checkAddressOfNext(context, server) {
  const page = await context.newPage();
  let release;
  const held = new Promise((done) => (release = done));
  await page.route('**/assets/nodes-*', (route) => held.then(() => route.continue()));
  await page.goto(`${server.address}/#/runs`);
  await page.locator('tbody a').first().click();
  await page.waitForSelector('.chart canvas');
  const address = await page.evaluate(async () => {
    [...document.querySelectorAll('.toolbar button')].find(({ textContent }) => textContent === 'elapsed').click();
    location.hash = '#/nodes';
    await new Promise((done) => setTimeout(done, 300)); // due after the 100 ms after which a run's page writes its address
    return location.hash;
  });
  assert.equal(address, '#/nodes');
  release();
  await page.getByRole('heading', { name: 'Nodes', exact: true }).waitFor();
  await page.close();
}

/// Without a run the comparison offers the newest ones, and nothing that has no meaning yet; too many are said to be cut.
async function checkCompareEmpty(page, server) {
  await page.goto(`${server.address}/#/compare`);
  const offers = page.locator('.filters button');
  await until('the newest runs', async () => (await offers.count()) === 3);
  assert.equal(await page.getByText('The configurations are the same').isVisible(), false);
  assert.equal(await page.getByRole('button', { name: 'comparison as CSV' }).isVisible(), false);
  await checkAxe(page, 'an empty comparison');
  await shoot(options, page, 'compare-empty');
  await offers.first().click();
  await page.waitForURL(/#\/compare\?runs=r_\w+$/);
  await page.waitForSelector('.charts .chart canvas');
  await until('two to go on with', async () => (await offers.count()) === 2);
  await offers.first().click();
  await until('two runs', async () => (await page.locator('.run-legend li').count()) === 2);
  await until('no more offers', async () => (await offers.count()) === 0);
  const ids = [/runs=(\w+)/.exec(page.url())[1], ...Array.from({ length: 500 }, (_, at) => `r_${at}`)];
  await page.goto(`${server.address}/#/compare?runs=${ids.join(',')}`);
  await page.getByText('The first 500 of 501 runs').waitFor();
}

/// Two runs over one another; opened from the list, and again from the link.
async function checkCompare(page, server) {
  for (const reload of [false, true]) {
    if (reload) await page.reload();
    await page.waitForSelector('.charts .chart canvas');
    await page.waitForFunction(() => document.querySelectorAll('[aria-label="Best values"] tbody tr').length === 2);
    await page.waitForFunction(() => document.querySelectorAll('[data-chart="loss"] .legend-item').length === 2);
    const differs = await page.locator('.config-diff tbody th').allInnerTexts();
    assert.ok(
      differs.includes('optimizer.learning_rate') && !differs.includes('model.layers'),
      `the configurations differ in ${differs}`,
    );
    assert.ok((await page.locator('.config-diff mark').count()) > 0);
    await until('a best value', async () => (await page.locator('[aria-label="Best values"] .best').count()) > 0);
    const difference = page.getByRole('list', { name: 'Best validations against the baseline' });
    assert.match(await difference.innerText(), /^\S+: (\d+\.\d\d BLEU (better|worse) than|as good as) \S+/);
  }
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.locator('[data-chart="loss"] button', { hasText: 'CSV' }).click(),
  ]);
  const text = readFileSync(await download.path(), 'utf8');
  const id = /runs=(\w+)/.exec(page.url())[1];
  const stored = await fetch(`${server.address}/api/v1/runs/${id}/metrics/loss?agg=raw&format=csv`, {
    headers: server.token ? { Authorization: `Bearer ${server.token}` } : {},
  }).then((answer) => answer.text());
  const values = text
    .split('\n')
    .filter((row) => row.startsWith(id))
    .map((row) => row.split(',').at(-1));
  const wanted = stored
    .trim()
    .split('\n')
    .slice(1)
    .map((row) => row.trim().split(',').at(-1));
  assert.deepEqual(values.slice(0, 1000), wanted.slice(0, 1000));
  await page.fill('#add-key', 'busy_fraction');
  await page.keyboard.press('Enter');
  await page.waitForSelector('[data-chart="busy_fraction"] canvas');
  assert.match(page.url(), /busy_fraction/);
}

/// A run that cannot be had for a while is shown as soon as it can.
async function checkCompareAway(page) {
  const id = /runs=\w+,(\w+)/.exec(page.url())[1];
  const path = `**/api/v1/runs/${id}`;
  await page.route(path, (route) =>
    route.fulfill({ status: 500, contentType: 'application/problem+json', body: '{"detail": "on fire"}' }),
  );
  await page.reload();
  await page.locator('.problem', { hasText: 'not loaded: on fire (500)' }).waitFor();
  assert.equal(await page.locator('[aria-label="Best values"] tbody tr').count(), 1);
  await page.unroute(path);
  await page.waitForFunction(() => document.querySelectorAll('[aria-label="Best values"] tbody tr').length === 2);
  await page.waitForFunction(() => document.querySelector('.problem').innerText === '');
}

/// A fault that the server finds in a configuration leads to its line.
async function checkSubmit(page, server, run) {
  await page.goto(`${server.address}/#/submit?from=${run.id}`);
  await page.waitForFunction(() => document.querySelector('#config')?.value.includes('learning_rate'));
  const problem = {
    type: 'about:blank',
    title: 'Configuration invalid',
    status: 422,
    code: 'config_invalid',
    instance: 'x',
    detail: 'unknown key',
    errors: [{ pointer: '/config', detail: 'model.headz: unknown, did you mean heads?', line: 9, column: 3 }],
  };
  let asked = null;
  await page.route('**/api/v1/runs:validate', (route) => {
    asked = route.request().postDataJSON();
    return route.fulfill({ status: 422, contentType: 'application/problem+json', body: JSON.stringify(problem) });
  });
  await page.fill('#labels-new', 'team=mt');
  await page.getByRole('button', { name: 'check only' }).click();
  await page.getByRole('button', { name: 'line 9' }).click();
  const chosen = await page.evaluate(() => {
    const { value, selectionStart, selectionEnd } = document.querySelector('#config');
    return value.slice(selectionStart, selectionEnd);
  });
  assert.equal(chosen, asked.config.split('\n')[8]);
  assert.deepEqual([asked.labels, asked.world_size], [{ team: 'mt' }, 4]);
  await checkAxe(page, 'a refused configuration');
  await page.unroute('**/api/v1/runs:validate');
}

/// A rank's heartbeat shows its host, and the run it belongs to.
async function checkNodes(page, server, run) {
  const beat = {
    attempt: 1,
    rank: 3,
    host: 'birch',
    pid: 4103,
    update: 1600,
    memory_bytes: 64e9,
    memory_available_bytes: 40e9,
    disk_free_bytes: 9e11,
    processors: 16,
    load: 8,
    gpu: { utilization_percent: 93, memory_used_bytes: 40e9, power_w: 412.5 },
  };
  const answer = await fetch(`${server.address}/api/v1/runs/${run.id}/heartbeat`, {
    method: 'POST',
    body: JSON.stringify(beat),
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${server.token}` },
  });
  if (answer.status === 404 || answer.status === 503) return; // a server that follows no runs
  assert.equal(answer.status, 200, await answer.text());
  await page.goto(`${server.address}/#/nodes`);
  const row = page.locator('[aria-label="Hosts"] tbody tr', { hasText: 'birch' });
  await row.waitFor();
  const text = await row.innerText();
  assert.match(text, /\(rank 3\)/);
  assert.match(text, /8\.0 \(50 %\)/);
  assert.match(text, /24\.0 GB/);
  assert.match(text, /93 %, 40\.0 GB, 413 W/);
}

async function openRun(page, server, run) {
  await page.goto(`${server.address}/#/runs/${run.id}`);
  await page.waitForSelector('.chart canvas');
  await shows(page, 'live');
}

/// A live page asks little, and leaves alone what has not changed.
async function checkQuiet(page, server, run) {
  await openRun(page, server, run);
  const requests = [];
  const note = (request) => requests.push(request.url());
  await page.evaluate(() => getSelection().selectAllChildren(document.querySelector('h1')));
  page.on('request', note);
  const from = Date.now();
  await waitForUpdates(page, 8);
  const seconds = (Date.now() - from) / 1000;
  page.off('request', note);
  const most = 20 * (seconds + 1);
  assert.ok(
    requests.length <= most,
    `${requests.length} requests in ${seconds} s:\n${requests.slice(0, 30).join('\n')}`,
  );
  assert.equal(await page.evaluate(() => String(getSelection())), 'wmt16-base');
}

/// Every page in both themes: nothing serious for axe-core; on a phone nothing hangs over the edge.
async function checkLooks(page, server, run, others) {
  const archived = await fetch(`${server.address}/api/v1/runs/${others[1].id}`, {
    method: 'PATCH',
    body: '{"archived": true}',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${server.token}` },
  });
  assert.equal(archived.status, 200);
  const pages = [
    ['list', 'Runs', '#/runs?archived=1', 'tbody .label:not([hidden])'],
    ['compare', 'Compare', `#/compare?runs=${[run, ...others].map(({ id }) => id).join(',')}`, '.config-diff td'],
    ['sweep', 'Sweep toy', '#/sweep/toy', '.sweep-heat td a'],
    ['submit', 'New run', '#/submit', 'textarea'],
    ['nodes', 'Nodes', '#/nodes', 'td, .problem:not(:empty)'],
    ['alerts', 'Alerts', '#/alerts', 'td, .problem:not(:empty)'],
  ];
  const findings = [];
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const [where, title, hash, ready] of pages) {
      await page.setViewportSize({ width: 1440, height: 900 });
      await page.goto(`${server.address}/${hash}`);
      await titled(page, title);
      await page.locator(ready).first().waitFor();
      await page.waitForTimeout(options.screenshots ? 600 : 100);
      await shoot(options, page, `${where}-${colorScheme}`);
      findings.push(...(await axeFindings(page, `${where}, ${colorScheme}`)));
      await page.setViewportSize({ width: 360, height: 740 });
      await page.waitForTimeout(150);
      await checkWidth(page, `${where}, ${colorScheme}`);
      await shoot(options, page, `${where}-${colorScheme}-360`);
    }
  }
  assert.deepEqual(findings, []);
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.keyboard.press('t');
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'light');
  await page.evaluate(() => localStorage.removeItem('babelring.theme'));
  await page.emulateMedia({ colorScheme: 'light' });
}

async function checkWeight(context, server, run) {
  for (const [where, hash, requests, bytes] of [
    ['list', '#/runs', 6, 35_000],
    ['run', `#/runs/${run.id}`, 5, 60_000],
    ['compare', `#/compare?runs=${run.id}`, 8, 60_000],
    ['sweep', '#/sweep/toy', 6, 35_000],
  ]) {
    const weight = await pageWeight(
      context,
      server.address,
      server.token ? `#token=${server.token}&${hash.slice(1)}` : hash,
    );
    console.log(
      `browser_test: ${where}: ${weight.bytes} bytes in ${weight.requests} requests, first paint ${weight.paint_ms?.toFixed(0)} ms`,
    );
    assert.ok(
      weight.bytes <= bytes && weight.requests <= requests,
      `${where}: ${JSON.stringify(weight.files, null, 1)}`,
    );
  }
}

/// Twenty charts or more, four updates a second, for a while: no long task, and no growing heap.
async function checkLiveCharts(page, server, run, seconds) {
  await showTwentyCharts(page, `${server.address}/#/runs/${run.id}?all=1`);
  await page.waitForTimeout(2000);
  const heaps = [await heapBytes(page)];
  const tasks = await taskTimes(page, seconds * 1000);
  heaps.push(await heapBytes(page));
  const longest = tasks.reduce((most, task) => Math.max(most, task), 0);
  console.log(
    `browser_test: ${await page.locator('.chart canvas').count()} live charts: longest task ${longest.toFixed(0)} ms of processor time, ` +
      `heap ${(heaps[0] / 1e6).toFixed(1)} to ${(heaps.at(-1) / 1e6).toFixed(1)} MB`,
  );
  assert.ok(longest <= LONGEST_TASK_MS, `a task of ${longest} ms`);
  assert.ok(heaps.at(-1) < heaps[0] * 1.5 + 8e6, `the heap grows: ${heaps}`);
  await page.setViewportSize({ width: 1440, height: 900 });
}

/// No record and no event for over a minute, as the page's clock tells, while the stream stays open.
async function checkStale(page) {
  let seen, jump;
  for (jump = 1; !seen && jump <= 6; jump += 1) {
    // Again, where the page has read the run between the jump and its look at the clock. It reads every 5 s, so jumps must not.
    await page.clock.setSystemTime(Date.now() + jump * 75_000);
    seen = await page.waitForFunction(bothSilent, null, { timeout: 3300 }).then(
      (found) => found.jsonValue(),
      () => null,
    );
  }
  const shown = await page.locator('#connection, .run-title .state').allInnerTexts();
  assert.ok(seen, `the page never called the run silent, but ${shown.join(', ')}`);
  assert.equal(seen.connection, 'silent', 'a text that changed every second would be read out every second');
  const [, minutes, seconds] = /^silent for (\d) min (\d\d) s$/.exec(seen.title) ?? [];
  const silent = minutes * 60 + Number(seconds);
  assert.ok(silent >= 60 && silent < (jump + 1) * 75, `${seen.title} after ${jump - 1} jumps of 75 s`);
  await shoot(options, page, 'run-stale');
}

/// In the page: the status and the run's title while both call it silent, else false.
function bothSilent() {
  const connection = document.querySelector('#connection');
  const title = document.querySelector('.run-title .state')?.innerText ?? '';
  return (
    connection.dataset.kind === 'stale' && title.startsWith('silent') && { title, connection: connection.innerText }
  );
}

async function makeRuns(server) {
  const common = { token: server.token ?? '', maxUpdates: 6000 };
  const old = new DetailedRun(server.address, {
    ...common,
    name: 'base-high-rate',
    hosts: ['alder'],
    rate: 0.002,
    startMs: Date.now() - 86_400_000,
    maxUpdates: 400,
  });
  const third = new DetailedRun(server.address, {
    ...common,
    name: 'first-try',
    hosts: ['alder', 'birch'],
    startMs: Date.now() - 2 * 86_400_000,
  });
  const run = new DetailedRun(server.address, {
    ...common,
    startMs: Date.now() - 1600 * 310,
    purposes: 30,
    nanAt: 1620,
  });
  for (const [each, count] of [
    [third, 230],
    [old, 400],
    [run, 1600],
  ]) {
    each.start();
    each.steps(count);
  }
  old.finish();
  third.finish('failed', 'rank 1: killed by signal 9');
  for (const each of [third, old, run]) await each.flush();
  return { run, old, third };
}

async function main() {
  let server = await startServer(options, work);
  const stop = { now: false };
  let context;
  try {
    const { run, old, third } = await makeRuns(server);
    const living = run.live(3600, stop);
    context = await openBrowser(work);
    const page = await context.newPage();
    const problems = watchProblems(page, /40[014]|422|500|profiles|nodes|ERR_INTERNET_DISCONNECTED/);
    await part('log-in', () => checkLogin(page, server, run));
    await part('tabs', () => checkTabs(page, context, server));
    await part('one tab only', () => checkOneTab(context, server));
    await part('unknown addresses', () => checkUnknown(page, server, run));
    await part('without a server', () => checkAway(page, context, server));
    await part('a late file', () => checkLateFile(context, server));
    await part('the address of the next page', () => checkAddressOfNext(context, server));
    await part('list', () => checkList(page, server));
    await part('columns', () => checkColumns(page, context));
    await part('notifications', () => checkNotify(page, context));
    await part('keys', () => checkKeys(page));
    await part('comparison', () => checkCompare(page, server));
    await part('comparison without one', () => checkCompareAway(page));
    await part('comparison of nothing', () => checkCompareEmpty(page, server));
    await part('submit', () => checkSubmit(page, server, run));
    await part('nodes', () => checkNodes(page, server, run));
    await part('sweep', () => checkSweep(page, server, options));
    await part('comparison of a sweep', () => checkSweepComparison(page, server, options));
    await part('choice', () => checkChoice(page, server, options));
    await part('several runs', () => checkBulk(options, page, server));
    await part('edit', () => checkEdit(options, page, server, third));
    await part('quiet', () => checkQuiet(page, server, run));
    await part('weight', () => checkWeight(context, server, run));
    await part('looks', () => checkLooks(page, server, run, [old, third]));
    await part('the last minute', () => checkEnd(page, context, server, third, options));
    await part('alerts', () => checkAlerts(page, server, options));
    await part('live charts', () => checkLiveCharts(page, server, run, 8));
    await openRun(page, server, run);
    stop.now = true;
    await living;
    await part('stale', () => checkStale(page));
    assert.deepEqual(problems, []);
    run.finish();
    await run.flush();
    await shows(page, 'finished');
    await server.end();
    await shows(page, 'reconnecting');
    console.log(`browser_test: passed in ${((Date.now() - began) / 1000).toFixed(0)} s`);
  } finally {
    stop.now = true;
    await context?.close();
    server.kill();
  }
}

await main();
