// Shared by the tests of the page in a browser: a server of their own, Chromium, and checks of every page.
import { strict as assert } from 'node:assert';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';

const root = resolve(fileURLToPath(import.meta.url), '../../..');
const packages = join(root, 'server/dashboard/node_modules');
const require = createRequire(join(packages, '../package.json'));
const chromium = process.env.CHROMIUM ?? '/usr/bin/chromium';
const SKIPPED = 77;
/// How long a test waits for what comes for sure: longer than any machine is held up.
export const PATIENCE_MS = 120_000;
const QUIET = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--enable-precise-memory-info',
  '--js-flags=--expose-gc',
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost', // nothing but the server can be reached
];

/// The command line that all share, and `more` of the test's own. Ends the process with 77 where something is missing.
export function readOptions(name, more = {}) {
  const { values } = parseArgs({
    options: {
      'server-binary': { type: 'string', default: join(root, 'build/release/bin/server') },
      dist: { type: 'string', default: join(root, 'server/dashboard/dist') },
      screenshots: { type: 'string', default: '' },
      ...more,
    },
  });
  for (const [what, path] of [
    ['Chromium', chromium],
    ['node_modules (npm ci)', join(packages, 'playwright-core')],
    ['the server program', values['server-binary']],
  ]) {
    if (existsSync(path)) continue;
    console.log(`${name}: skipped, ${what} is not at ${path}`);
    process.exit(SKIPPED);
  }
  return values;
}

/// A folder of the test's own, gone when the process ends.
export function makeWork() {
  const work = mkdtempSync(join(tmpdir(), 'babelring-browser-'));
  process.on('exit', () => rmSync(work, { recursive: true, force: true, maxRetries: 5 }));
  return work;
}

/// A server over `work`/data. `ui` false: with the page that is built in.
export async function startServer(options, work, { ui = true, more = [] } = {}) {
  const server = spawn(
    options['server-binary'],
    [
      '--listen',
      '127.0.0.1:0',
      '--data',
      join(work, 'data'),
      '--log-level',
      'warn',
      ...more,
      ...(ui ? ['--ui-dir', options.dist] : []),
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  let told = '';
  const address = await new Promise((done, fail) => {
    server.once('exit', (code) => fail(new Error(`the server ended with ${code}`)));
    server.stdout.on('data', (text) => {
      told += text;
      const found = /http:\/\/[^\s/]+/.exec(told);
      if (found) done(found[0]);
    });
  });
  const tokenFile = join(work, 'data/admin.token');
  const token = existsSync(tokenFile) ? readFileSync(tokenFile, 'utf8').trim() : null;
  server.removeAllListeners('exit');
  return {
    address,
    token,
    process: server,
    kill: () => server.kill('SIGKILL'),
    end: () =>
      new Promise((done) => {
        server.once('exit', done);
        server.kill('SIGTERM');
        setTimeout(() => server.kill('SIGKILL'), 60_000).unref();
      }),
  };
}

export async function openBrowser(work, more = {}) {
  const { chromium: browserType } = require('playwright-core');
  const context = await browserType.launchPersistentContext(join(work, 'profile'), {
    executablePath: chromium,
    headless: true,
    args: QUIET,
    bypassCSP: false,
    viewport: { width: 1440, height: 900 },
    timeout: PATIENCE_MS,
    ...more,
  });
  context.setDefaultTimeout(PATIENCE_MS);
  return context;
}

/// Errors of the page and of its console, but those that `expected` matches.
export function watchProblems(page, expected = /^$/) {
  const problems = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on(
    'console',
    (message) =>
      message.type() === 'error' &&
      !expected.test(`${message.text()} ${message.location().url}`) &&
      problems.push(`${message.text()} ${message.location().url}`),
  );
  return problems;
}

export async function shoot(options, page, name, fullPage = true) {
  if (!options.screenshots) return;
  mkdirSync(options.screenshots, { recursive: true });
  await page.screenshot({ path: join(options.screenshots, `${name}.png`), fullPage });
}

const axeSource = () => readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

/// Serious findings of axe-core on the page, or within the elements that a selector finds, one line each.
export async function axeFindings(page, where, selector = 'html') {
  await page.evaluate(axeSource());
  const { violations } = await page.evaluate(
    (context) => window.axe.run(context, { resultTypes: ['violations'] }),
    selector,
  );
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes
        .slice(0, 3)
        .map(
          ({ html, failureSummary }) => `${where}: ${id}: ${html.slice(0, 160)} ${failureSummary.replace(/\s+/g, ' ')}`,
        ),
    );
}

export async function checkAxe(page, where) {
  assert.deepEqual(await axeFindings(page, where), []);
}

/// Nothing hangs over the right edge. In a wide window a table shows all its columns, or keeps its first one in sight.
export async function checkWidth(page, where) {
  const { width, inner, widest } = await page.evaluate(() => ({
    width: document.documentElement.scrollWidth,
    inner: innerWidth,
    widest: [...document.querySelectorAll('body *')]
      .filter(
        (element) =>
          element.getBoundingClientRect().right > innerWidth + 1 &&
          !element.closest('.table-box, .log, pre, .visually-hidden'),
      )
      .slice(0, 3)
      .map((element) => element.outerHTML.slice(0, 120)),
  }));
  assert.ok(width <= inner, `${where}: ${width} px wide in a window of ${inner} px: ${widest.join('\n')}`);
  if (inner >= 1440) assert.deepEqual(await page.evaluate(cutTables), [], `${where}: tables with columns out of sight`);
}

/// In the page: the tables that are wider than their box and let their first column go.
function cutTables() {
  const sticks = (box) => getComputedStyle(box.querySelector('tbody tr > *') ?? box).position === 'sticky';
  return [...document.querySelectorAll('.table-box')]
    .filter((box) => box.scrollWidth > box.clientWidth + 1 && !sticks(box))
    .map((box) => `${box.getAttribute('aria-label')}: ${box.scrollWidth} px in ${box.clientWidth}`);
}

export const shows = (page, kind, timeout = PATIENCE_MS) =>
  page.waitForFunction((wanted) => document.querySelector('#connection').dataset.kind === wanted, kind, { timeout });

/// The page of this title is there, and nothing of the one before it.
export const titled = (page, title) =>
  page.waitForFunction((wanted) => document.title === wanted, `${title} · Babelring`);

/// Requests of what the page at `hash` loads from the server, data of the API left out; the bytes of these files as the server
/// keeps them, compressed; and when the page first painted.
export async function pageWeight(context, address, hash) {
  const page = await context.newPage();
  const urls = new Set();
  page.on(
    'request',
    (request) =>
      request.url().startsWith('http') && !request.url().includes('/api/') && urls.add(request.url().split('#')[0]),
  );
  await page.goto(`${address}/${hash}`);
  await shows(page, 'live').catch(() => undefined);
  await page.waitForTimeout(300);
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null);
  await page.close();
  const files = await Promise.all(
    [...urls].map(async (url) => {
      const body = Buffer.from(await (await fetch(url)).arrayBuffer());
      return { url, bytes: gzipSync(body, { level: 9 }).length };
    }),
  );
  return { requests: files.length, bytes: files.reduce((sum, { bytes }) => sum + bytes, 0), paint_ms: paint, files };
}

/// Waits until `check` gives something true. A failure tells what `page` shows then.
export async function until(what, check, page = null) {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; ) {
    if (await check()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail(`not within ${PATIENCE_MS / 1000} s: ${what}${page ? await shownBy(page) : ''}`);
}

async function shownBy(page) {
  const late = new Promise((resolve) => setTimeout(resolve, 5000, 'nothing, as it does not answer'));
  const text = page.locator('body').innerText({ timeout: 5000 }).catch(String);
  return `; ${page.url()} shows ${await Promise.race([text, late])}`;
}

/// Opens a tab of a run's page.
export async function openTab(page, name) {
  const link = page.locator('.tabs').getByRole('link', { name, exact: true });
  await link.click();
  await page.locator('.tabs a[aria-current]', { hasText: name }).waitFor();
}

/// Goes down to the charts of all metrics, which are fetched then.
export async function goBelow(page) {
  await page.locator('.below').scrollIntoViewIfNeeded();
  await page.waitForSelector('#find-metric', { state: 'attached' });
}

/// A large screen full of charts of a run, at `address`, which opens all of its metrics.
export async function showTwentyCharts(page, address) {
  await page.setViewportSize({ width: 1920, height: 2100 });
  await page.goto('about:blank');
  await page.goto(address);
  await page.waitForSelector('.chart canvas');
  await goBelow(page);
  await page.waitForFunction(() => document.querySelectorAll('.chart').length > 40);
  await page.evaluate(() => [...document.querySelectorAll('.chart')].at(-8).scrollIntoView());
  await page.waitForFunction(() => document.querySelectorAll('.chart canvas').length >= 20);
}

/// Processor time of each task of the page's main thread for so long, in ms: what else the machine does is not the page's doing.
export async function taskTimes(page, ms) {
  const session = await page.context().newCDPSession(page);
  const events = [];
  session.on('Tracing.dataCollected', ({ value }) => events.push(...value));
  await session.send('Tracing.start', {
    transferMode: 'ReportEvents',
    traceConfig: { includedCategories: ['toplevel'] },
  });
  await page.waitForTimeout(ms);
  const complete = new Promise((done) => session.once('Tracing.tracingComplete', done));
  await session.send('Tracing.end');
  await complete;
  await session.detach();
  const thread = ({ pid, tid }) => `${pid} ${tid}`;
  const mains = new Set(
    events.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain').map(thread),
  );
  const times = events
    .filter((event) => event.ph === 'X' && /RunTask$/.test(event.name) && mains.has(thread(event)))
    .map(({ tdur = 0 }) => tdur / 1000);
  assert.ok(times.length > 0, 'the trace has no task');
  return times;
}

/// Bytes on the page's heap after a collection.
export const heapBytes = (page) =>
  page.evaluate(() => {
    window.gc?.();
    return performance.memory.usedJSHeapSize;
  });
