// Opens the page in Chromium against a real server that gets a synthetic run, and checks what a reader would see.
//   node browser_test.mjs [--server-binary build/release/bin/server] [--dist folder] [--screenshots folder]
import { strict as assert } from 'node:assert';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { SyntheticRun } from './synthetic_run.mjs';

const root = resolve(fileURLToPath(import.meta.url), '../../..');
const { values: options } = parseArgs({ options: {
  'server-binary': { type: 'string', default: join(root, 'build/release/bin/server') },
  dist: { type: 'string', default: join(root, 'server/dashboard/dist') },
  screenshots: { type: 'string', default: '' } } });
const chromium = process.env.CHROMIUM ?? '/usr/bin/chromium';
const packages = join(root, 'server/dashboard/node_modules');

for (const [what, path] of [['Chromium', chromium], ['node_modules (npm ci)', join(packages, 'playwright-core')],
  ['the server program', options['server-binary']]]) {
  if (!existsSync(path)) {
    console.log(`browser_test: skipped, ${what} is not at ${path}`);
    process.exit(77);
  }
}
const require = createRequire(join(packages, '../package.json'));
const playwright = require('playwright-core');
const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const work = mkdtempSync(join(tmpdir(), 'babelring-browser-'));
const QUIET = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

function startServer() {
  const server = spawn(options['server-binary'],
    ['--listen', '127.0.0.1:0', '--data', join(work, 'data'), '--ui-dir', options.dist], { stdio: ['ignore', 'pipe', 'inherit'] });
  return new Promise((done, fail) => {
    server.once('exit', (code) => fail(new Error(`the server ended with ${code}`)));
    server.stdout.on('data', (text) => {
      const address = /http:\/\/[^\s/]+/.exec(String(text));
      if (address) done({ server, address: address[0] });
    });
  });
}

async function shoot(page, name) {
  if (!options.screenshots) return;
  mkdirSync(options.screenshots, { recursive: true });
  await page.screenshot({ path: join(options.screenshots, `${name}.png`), fullPage: true });
}

async function checkAxe(page, where) {
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => window.axe.run(document));
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 160)} ${nodes[0].failureSummary}`), [], `axe, ${where}`);
}

async function checkWidth(page, where) {
  const { width, inner } = await page.evaluate(() => ({ width: document.documentElement.scrollWidth, inner: innerWidth }));
  assert.ok(width <= inner, `${where}: ${width} px wide in a window of ${inner} px`);
}

const updateShown = async (page) => Number((await page.locator('.tile .value').first().innerText()).split('/')[0].replace(/\D/g, ''));

async function checkRunPage(page, address, run) {
  await page.goto(`${address}/#/runs/${run.id}`);
  await page.waitForSelector('.chart canvas');
  await page.waitForFunction(() => document.querySelector('#connection').dataset.kind === 'live');
  await waitForUpdates(page, 5);
  assert.equal(await page.locator('.chart canvas').count(), 7);
  assert.match(await page.locator('.chart-note').first().innerText(), /^(1,\d{3}|[6-9]\d\d) of \d,\d{3}, min\/avg\/max$/);
  assert.match(await page.locator('.sample mark.extra').first().innerText(), /Zeichen/);
  const split = page.locator('.chart', { hasText: 'Where a step goes' });
  const outputs = (await split.locator('output').allInnerTexts()).map(parseFloat);
  const parts = outputs.slice(0, 6).reduce((sum, part) => sum + part, 0);
  assert.ok(Math.abs(parts - outputs[6]) < 1.5, `parts add up to ${parts} ms, the step has ${outputs[6]} ms`);
}

async function checkZoom(page) {
  const box = await page.locator('.chart .u-over').first().boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await page.waitForFunction(() => /^all \d+ points$/.test(document.querySelector('.chart-note').innerText));
  assert.match(page.url(), /range=/);
  await page.mouse.dblclick(box.x + box.width * 0.6, box.y + 60);
  await page.waitForFunction(() => /of \d,\d{3}, min/.test(document.querySelector('.chart-note').innerText));
  await page.locator('.plot').first().focus();
  await page.keyboard.press('ArrowLeft');
  assert.match(await page.locator('.chart [aria-live=polite]').first().innerText(), /^update [\d,]+: /);
}

async function checkList(page, address) {
  await page.goto(`${address}/`);
  await page.waitForSelector('tbody a');
  const heads = await page.locator('thead th').allInnerTexts();
  const cells = await page.locator('tbody tr', { hasText: 'synthetic-en-de' }).locator('td').allInnerTexts();
  const cell = (head) => cells[heads.indexOf(head)];
  assert.equal(cell('Hosts'), 'alder, birch');
  assert.ok(parseFloat(cell('Tokens/s')) > 15, `two ranks of 11,000 tokens a second each are shown as ${cell('Tokens/s')}`);
  await page.keyboard.press('/');
  await page.keyboard.type('finished');
  assert.equal(await page.locator('tbody tr').count(), 1);
  await page.fill('#search', '');
}

const waitForUpdates = async (page, count) => page.waitForFunction(
  (target) => Number(document.querySelector('.tile .value').innerText.split('/')[0].replace(/\D/g, '')) >= target,
  (await updateShown(page)) + count, { timeout: 15000 });

/// A live page asks little, and leaves alone what has not changed.
async function checkQuiet(page) {
  const requests = [];
  const note = (request) => requests.push(request.url());
  await page.evaluate(() => {
    window.keptRow = document.querySelector('[aria-label="Evaluations"] tbody tr');
    window.keptCell = document.querySelector('[aria-label="Ranks"] tbody td');
    getSelection().selectAllChildren(document.querySelector('h1'));
  });
  page.on('request', note);
  const began = Date.now();
  await waitForUpdates(page, 15);
  const seconds = (Date.now() - began) / 1000;
  page.off('request', note);
  const most = 4 * 2 * (seconds + 1);  // run, ranks and series twice a second, and now and then something else
  assert.ok(requests.length <= most, `${requests.length} requests in ${seconds} s:\n${requests.slice(0, 30).join('\n')}`);
  const kept = await page.evaluate(() => [window.keptRow.isConnected, window.keptCell.isConnected, String(getSelection())]);
  assert.deepEqual(kept, [true, true, 'synthetic-en-de']);
}

/// No record and no event for over a minute, as the page's clock tells, while the stream stays open.
async function checkStale(page) {
  await page.waitForResponse(/series/, { timeout: 2000 }).catch(() => undefined);  // what the last records brought
  await page.waitForTimeout(1000);
  await page.clock.setSystemTime(Date.now() + 75_000);
  await page.waitForFunction(() => document.querySelector('#connection').dataset.kind === 'stale', null, { timeout: 10000 });
  assert.match(await page.locator('.run-title .state').innerText(), /^stale for 1 min \d\d s$/);
  await shoot(page, 'run-stale');
}

async function main() {
  const { server, address } = await startServer();
  const stop = { now: false };
  let browser;
  try {
    const old = new SyntheticRun(address, { name: 'finished-run', startMs: Date.now() - 86_400_000, maxUpdates: 300 });
    const run = new SyntheticRun(address, { startMs: Date.now() - 2400 * 180, maxUpdates: 6000, nanAt: 1500 });
    for (const [each, count] of [[old, 300], [run, 2400]]) {
      each.start();
      for (let update = 0; update < count; update += 1) each.step();
    }
    old.finish();
    await old.flush();
    await run.flush();
    const living = run.live(600, stop);
    browser = await playwright.chromium.launchPersistentContext(join(work, 'profile'),
      { executablePath: chromium, headless: true, args: QUIET, bypassCSP: false, viewport: { width: 1440, height: 900 } });
    const page = await browser.newPage();
    const problems = [];
    page.on('pageerror', (error) => problems.push(String(error)));
    page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
    await checkList(page, address);
    await checkRunPage(page, address, run);
    await checkQuiet(page);
    await checkZoom(page);
    for (const colorScheme of ['light', 'dark']) {
      for (const [where, hash] of [['list', '#/runs'], ['run', `#/runs/${run.id}`]]) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width: 1440, height: 900 });
        await page.goto(`${address}/${hash}`);
        await page.waitForSelector(where === 'list' ? 'tbody a' : '.samples mark');
        await shoot(page, `${where}-${colorScheme}`);
        await checkAxe(page, `${where}, ${colorScheme}`);
        await page.setViewportSize({ width: 360, height: 740 });
        await page.waitForTimeout(300);
        await checkWidth(page, `${where}, ${colorScheme}`);
        await shoot(page, `${where}-${colorScheme}-360`);
      }
    }
    assert.deepEqual(problems, []);
    stop.now = true;
    await living;
    await checkStale(page);
    run.finish();
    await run.flush();
    await page.waitForFunction(() => document.querySelector('#connection').dataset.kind === 'finished');
    const gone = new Promise((done) => server.once('exit', done));
    server.removeAllListeners('exit').once('exit', () => undefined);
    server.kill('SIGTERM');
    await Promise.race([gone, new Promise((done) => setTimeout(done, 4000))]);
    await page.waitForFunction(() => document.querySelector('#connection').dataset.kind === 'reconnecting');
    console.log('browser_test: passed');
  } finally {
    stop.now = true;
    await browser?.close();
    server.removeAllListeners('exit');
    server.kill('SIGKILL');
    rmSync(work, { recursive: true, force: true, maxRetries: 5 });
  }
}

await main();
