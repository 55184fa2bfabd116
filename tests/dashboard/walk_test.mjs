// From a run's submission to its deletion through the page alone, in Chromium, with a real server, real workers and a real
// translator; and who may do what: tokens, refusals, the audit.
//   node walk_test.mjs [--server-binary build/release/bin/server] [--dist folder] [--screenshots folder]
// worker and nmt lie beside the server.
import { strict as assert } from 'node:assert';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  axeFindings,
  checkAxe,
  checkWidth,
  makeWork,
  openBrowser,
  openTab,
  PATIENCE_MS,
  readOptions,
  shoot,
  shows,
  startServer,
  titled,
  until,
  watchProblems,
} from './harness.mjs';
import { useTranslateBox } from './walk_translate_checks.mjs';

const options = readOptions('walk_test');
const bin = dirname(options['server-binary']);
for (const what of ['worker', 'nmt', '/usr/bin/mpirun']) {
  if (existsSync(what.startsWith('/') ? what : join(bin, what))) continue;
  console.log(`walk_test: skipped, ${what} is not there`);
  process.exit(77);
}
const work = makeWork();
const RUN = 'walked through';
const state = (page) => page.locator('.run-title .state').innerText();
const button = (page, name) => page.getByRole('button', { name, exact: true });
const updates = async (page) =>
  Number((await page.locator('.tile .value').first().innerText()).split('/')[0].replace(/\D/g, ''));

/// A prepared corpus of a tiny language pair, as tests/e2e has it.
function prepare() {
  const nouns = ['cat', 'dog', 'house', 'tree', 'river', 'stone', 'bird', 'child'];
  const verbs = ['sees', 'likes', 'finds', 'takes'];
  const adjectives = ['old', 'small', 'green', 'quiet'];
  const pairs = nouns.flatMap((n) =>
    verbs.flatMap((v) =>
      adjectives.flatMap((a) => nouns.map((m) => [`the ${a} ${n} ${v} the ${m} .`, `das ${n}e ${a}es ${m}e ${v}t .`])),
    ),
  );
  const write = (name, rows) =>
    ['en', 'de'].map((language, side) => {
      writeFileSync(join(work, `${name}.${language}`), rows.map((row) => `${row[side]}\n`).join(''));
      return join(work, `${name}.${language}`);
    });
  const held = write(
    'held',
    pairs.filter((_, at) => at % 40 === 0),
  );
  execFileSync(
    join(bin, 'nmt'),
    [
      'prepare',
      '--train',
      ...write(
        'train',
        pairs.filter((_, at) => at % 40 !== 0),
      ),
      '--valid',
      ...held,
      '--test',
      ...held,
      '--output',
      join(work, 'corpus'),
      '--vocabulary-size',
      '90',
    ],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
}

const CONFIG = `preset: transformer-tiny
model: {encoder_layers: 1, decoder_layers: 1, width: 32, inner: 64, dropout: 0}
data: {folder: "${join(work, 'corpus')}", tokens_per_update: 400}
optimizer: {learning_rate: 0.003, warm_up: 50u}
training: {stop_after: 100000000u, precision: f32, threads: 1}
validation: {every: 50u, bleu_every: 0, beam: 2}
checkpoint: {every: 1000u, keep_last: 500}
`;

/// A link to a run that there is not says so, and keeps saying so when the last of its requests has failed.
async function missing(page, server) {
  await page.goto(`${server.address}/#/runs/r_01ARZ3NDEKTSV4RRFFQ69G5FAV`);
  await page.getByRole('heading', { name: 'No such run' }).waitFor();
  await titled(page, 'No such run');
  await page.waitForLoadState('networkidle');
  await until(
    'the connection says so too',
    async () => (await page.locator('#connection').innerText()) === 'not found',
  );
}

/// A mistake leads to its line; without it the run starts.
async function submit(page, server) {
  await page.goto(`${server.address}/#/runs`);
  await page.locator('a', { hasText: 'new run' }).click();
  await until('profiles', async () => (await page.locator('#profile option').count()) > 0);
  await page.fill('#name', RUN);
  await page.fill('#config', CONFIG.replace('warm_up', 'warmup'));
  await button(page, 'start the run').click();
  await page.getByRole('button', { name: 'line 4' }).waitFor();
  await shoot(options, page, 'walk-refused');
  await page.fill('#config', CONFIG);
  await button(page, 'check only').click();
  await until('the check', async () => /The configuration is valid/.test(await page.locator('.outcome').innerText()));
  await button(page, 'start the run').click();
  await page.waitForURL(/#\/runs\/r_/);
  await until('it trains', async () => (await state(page)) === 'running' && (await updates(page)) > 20);
  await shows(page, 'live');
}

/// A checkpoint on demand, pinned and free again, while newer ones move its row down.
async function pin(page) {
  const before = await updates(page);
  await button(page, 'Checkpoint now').click();
  await button(page, 'Write').click();
  await openTab(page, 'Checkpoints');
  const pins = page.locator('[aria-label="Checkpoints"]').getByRole('button', { name: /^Pin the checkpoint/ });
  const newest = async () =>
    Number(
      /\d+$/.exec(
        (await pins.allTextContents()).length > 0 ? await pins.first().getAttribute('aria-label') : '',
      )?.[0] ?? 0,
    );
  await until('the checkpoint', async () => (await newest()) > before);
  const first = await newest();
  await until('a newer one', async () => (await newest()) > first);
  const chosen = page.getByRole('button', { name: `Pin the checkpoint of update ${first}`, exact: true });
  for (const wanted of ['true', 'false']) {
    await chosen.click();
    await until(`pinned: ${wanted}`, async () => (await chosen.getAttribute('aria-pressed')) === wanted);
  }
  assert.match(
    await page.locator('section', { has: chosen }).locator('[role=status]').first().innerText(),
    new RegExp(`^The checkpoint of update ${first.toLocaleString('en')} is no longer pinned`),
  );
}

async function stop(page, mode) {
  await page.evaluate(() => scrollTo(0, 0));
  await button(page, 'Stop …').click();
  await page.getByRole('radio', { name: mode }).check();
  await checkAxe(page, 'the question before a stop');
  await button(page, 'Stop').click();
  await until('it has stopped', async () => (await state(page)) === 'stopped');
  await shows(page, 'finished');
}

/// The newest checkpoint: written by the stop, whole when it is downloaded, and it translates.
async function useCheckpoint(page) {
  await openTab(page, 'Checkpoints');
  const rows = page.locator('[aria-label="Checkpoints"] tbody tr');
  await until(
    'the checkpoint of the stop',
    async () => (await rows.first().innerText()).split('\t')[0].replace(/\D/g, '') === String(await updates(page)),
  );
  await until('the best is offered until another one is picked', async () =>
    /, best$/.test(await page.locator('#translate-with option:checked').innerText()),
  );
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    rows.first().getByRole('link', { name: 'archive.tar' }).click(),
  ]);
  const folder = join(work, 'unpacked');
  mkdirSync(folder);
  execFileSync('tar', ['-xf', await download.path(), '-C', folder, '--strip-components=1']);
  execFileSync('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], { cwd: folder });
  await useTranslateBox(page, options);
}

/// An export is asked for, made, kept and downloaded; one that cannot be is refused in a line.
async function exportCheckpoint(page) {
  const row = page.locator('[aria-label="Checkpoints"] tbody tr').first();
  const said = page.locator('section', { has: page.locator('[aria-label="Checkpoints"]') }).locator('[role=status]');
  const order = async (format, languages = []) => {
    await row.getByRole('button', { name: /^Export update/ }).click();
    await page.selectOption('[name="format"]', format);
    for (const [name, code] of languages) await page.fill(`[name="${name}"]`, code);
  };
  await order('ctranslate2');
  await page.selectOption('[name="type"]', 'int8');
  await checkAxe(page, 'the question before an export');
  await shoot(options, page, 'walk-export', false);
  await button(page, 'Export').click();
  const link = row.getByRole('link', { name: 'CTranslate2, int8' });
  await link.waitFor();
  await until('it is said, too', async () =>
    /^The checkpoint of update [\d,]+ is exported, to download in the table: CTranslate2, int8\.$/.test(
      await said.first().innerText(),
    ),
  );
  const [download] = await Promise.all([page.waitForEvent('download'), link.click()]);
  assert.match(download.suggestedFilename(), /^update-\d{8}-ctranslate2-int8\.tar$/);
  const names = execFileSync('tar', ['-tf', await download.path()], { encoding: 'utf8' });
  assert.match(names, /^update-\d{8}-ctranslate2-int8\/model\.bin$/m);
  await order('marian');
  assert.equal(await page.locator('[name="type"]').isVisible(), false, 'Marian has one type of matrices');
  await button(page, 'Export').click();
  await until('the options that Marian needs', async () =>
    /^The checkpoint of update [\d,]+ was not exported as Marian: Marian needs a model with model\.norm: post \(found pre\), /.test(
      await said.first().innerText(),
    ),
  );
  assert.match(await row.locator('.files .problem').innerText(), /^Marian: not exported: Marian needs a model with /);
  await order('argos', [['from', 'english']]);
  await button(page, 'Export').click();
  assert.equal(await page.locator('[name="from"]:invalid').count(), 1, 'the question stays open');
  for (const name of ['from', 'into']) await page.fill(`[name="${name}"]`, 'en');
  await button(page, 'Export').click();
  await until('the refusal', async () =>
    /^Not exported: into: found en again \(400\)$/.test(await said.first().innerText()),
  );
}

/// Where a server was built without ONNX Runtime, the page says how to get it; once it is there, another try goes on.
async function checkAbsentRuntime(page, panel) {
  assert.match(
    await panel.locator('[role=alert]').innerText(),
    /^Not ready: this server was built without ONNX Runtime, .* install npm, run "npm ci" in server\/page and build it again\.$/,
  );
  await checkAxe(page, 'a server without ONNX Runtime');
  await shoot(options, page, 'walk-offline-absent', false);
  await page.unroute('**/*.wasm');
  await button(panel, 'Try again').click();
}

/// The exported model translates in the browser as the server does, with nothing from elsewhere, and also without the server.
async function tryOffline(page, context, server) {
  const urls = [];
  context.on('request', (request) => request.method() === 'GET' && urls.push(request.url()));
  const heavy = () => urls.filter((url) => /offline_worker|\.wasm$/.test(url)).length;
  assert.equal(heavy(), 0, 'its code is loaded only now');
  await page.route('**/*.wasm', (route) => route.fulfill({ status: 404 })); // as by a server that was built without it
  await page
    .getByRole('button', { name: /^Try offline update/ })
    .first()
    .click();
  const panel = page.locator('.offline-model');
  await checkAbsentRuntime(page, panel);
  const said = panel.locator('p.field-row [role=status]');
  await until('it is ready', async () => /^(Ready|Not ready)/.test(await said.innerText()));
  assert.match(
    await said.innerText(),
    /^Ready: the model, [\d.]+ [kM]B, is in this browser, and translates also without/,
  );
  const verdict = panel.locator('form > p[role=status]');
  const translate = async (sentence) => {
    await page.fill('#offline-text', sentence);
    await button(page, 'Translate offline').click();
    await until('it compares', async () => /\.$/.test(await verdict.innerText().catch(() => '')));
    await until(
      'what it shows is of this sentence',
      async () => (await panel.locator('dd').first().innerText()) === sentence && (await verdict.innerText()) !== '',
    );
    return panel.locator('dd').allInnerTexts();
  };
  const loop = 'bird '.repeat(40).trim(); // a translation that may reach its maximum length
  for (const sentence of ['the old cat sees the dog .', 'the small tree finds the bird .', 'the green river .', loop]) {
    const [, here, there] = (await translate(sentence)).map((text) => text.replace(/ in [\d.]+ m?s$/, ''));
    if (sentence !== loop) assert.match(here, /^d/, 'a translation, not nothing');
    assert.equal(here, there);
    assert.equal(await verdict.innerText(), 'Equal: both translations are the same, to the letter.');
  }
  assert.equal(heavy(), 2, 'the worker and one WebAssembly module');
  assert.deepEqual(
    urls.filter((url) => !url.startsWith(server.address)),
    [],
  );
  await checkAxe(page, 'a model tried offline');
  await panel.scrollIntoViewIfNeeded();
  await shoot(options, page, 'walk-offline', false);

  await page.route('**/translate', (route) => route.abort());
  const alone = await translate('the quiet stone likes the house .');
  assert.match(alone[1], /^d/);
  assert.match(alone[2], /^not translated: /);
  assert.equal(await verdict.innerText(), 'Without an answer of the server there is nothing to compare.');
  await page.unroute('**/translate');
  const refused = await page.evaluate(() =>
    WebAssembly.compile(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])).then(() => 'compiled', String),
  );
  assert.match(refused, /CompileError/, 'the page itself may not compile WebAssembly');
  await button(panel, 'Close').click();
  assert.equal(await panel.count(), 0);
}

/// On from there with two ranks.
async function resume(page) {
  const reached = await updates(page);
  await page.evaluate(() => scrollTo(0, 0));
  await button(page, 'Resume …').click();
  await page.fill('[name="world_size"]', '2');
  await button(page, 'Resume').click();
  await until('it goes on', async () => (await state(page)) === 'running' && (await updates(page)) > reached + 20);
  assert.match(await page.locator('.run-title').innerText(), /2 ranks on .*attempt 2/);
  await shoot(options, page, 'walk-resumed', false);
}

/// Only who types its name deletes it; the list forgets it, and knows it again when that is taken back.
async function remove(page, server) {
  const listed = async () =>
    (
      await (
        await fetch(`${server.address}/api/v1/runs`, { headers: { Authorization: `Bearer ${server.token}` } })
      ).json()
    ).items.length;
  await page.evaluate(() => scrollTo(0, 0));
  await button(page, 'Delete …').click();
  await page.locator('[name="typed"]').waitFor();
  await page.fill('[name="typed"]', 'walked');
  assert.equal(await button(page, 'Delete').isDisabled(), true);
  await checkAxe(page, 'the question before a deletion');
  await shoot(options, page, 'walk-delete', false);
  await page.fill('[name="typed"]', RUN);
  await button(page, 'Delete').click();
  await until('it is deleted', async () =>
    /^Deleted: .* removed permanently on 20/m.test(await page.locator('.run-title').innerText()),
  );
  assert.equal(await listed(), 0);
  await button(page, 'Restore').click();
  await button(page, 'Delete …').waitFor();
  assert.equal(await listed(), 1);
}

/// A run that somebody else changes while the question is open is not deleted.
async function removeChanged(page, server) {
  const id = /r_\w+/.exec(page.url())[0];
  await button(page, 'Delete …').click();
  await page.locator('[name="typed"]').waitFor();
  const answer = await fetch(`${server.address}/api/v1/runs/${id}`, {
    method: 'PATCH',
    body: JSON.stringify({ notes: 'keep this' }),
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${server.token}` },
  });
  assert.equal(answer.status, 200);
  await page.fill('[name="typed"]', RUN);
  await button(page, 'Delete').click();
  await until('it is refused', async () =>
    /^Failed: .*\(412\)$/.test(await page.locator('.actions [role=status]').innerText()),
  );
}

/// A token made here reads and no more; revoked, it is worth nothing.
async function tokens(page, context, server) {
  await page.goto(`${server.address}/#/runs`);
  await page.locator('#nav').getByRole('link', { name: 'Tokens' }).click();
  await page.fill('#token-name', 'visitor');
  await button(page, 'create the token').click();
  const secret = await page.locator('.secret').first().innerText();
  assert.match(secret, /^bbr_/);
  assert.equal(await page.locator('.secret').last().innerText(), `${server.address}/#token=${secret}`);
  await checkAxe(page, 'a new token');
  await shoot(options, page, 'walk-token');
  await button(page, 'done').click();
  assert.ok(!(await page.content()).includes(secret), 'the secret is gone from the page');

  const visitor = await context.browser().newPage();
  visitor.setDefaultTimeout(PATIENCE_MS);
  await visitor.goto(`${server.address}/#token=${secret}`);
  await visitor.waitForSelector('tbody a');
  await until('the scope is known', async () => /read/.test(await visitor.locator('.scope').innerText()));
  const links = (await visitor.locator('#nav a').allInnerTexts()).map((text) => text.replace(/\s*\d+$/, '')); // without the count of alerts
  assert.deepEqual(links, ['Runs', 'Compare', 'Nodes', 'Alerts']);
  await until(
    'nothing new is offered',
    async () => !(await visitor.getByRole('link', { name: 'new run' }).isVisible()),
  );
  await visitor.locator('tbody a').first().click();
  await visitor.getByRole('link', { name: 'Charts' }).click();
  await visitor.waitForSelector('.chart canvas');
  assert.equal(await visitor.locator('.actions button').count(), 0);
  for (const hash of ['tokens', 'audit']) {
    await visitor.goto(`${server.address}/#/${hash}`);
    await visitor.reload(); // So that nothing of the page before is read.
    const refusal = visitor.locator('#main > .problem'); // not those of the forms that it replaces
    await until('the refusal is told', async () => /\(403\)/.test(await refusal.innerText()), visitor);
    const connection = visitor.locator('#connection');
    await until('the connection says so too', async () => (await connection.innerText()) === 'not allowed', visitor);
  }
  await visitor.goto(`${server.address}/#/submit`);
  await until('starting is not offered', () => button(visitor, 'start the run').isDisabled(), visitor);
  assert.ok(await button(visitor, 'check only').isEnabled(), 'a reader may check a configuration');
  await visitor.goto(`${server.address}/#/audit`);
  await until('the refusal is told again', () => visitor.locator('#main > .problem').isVisible(), visitor);
  await checkAxe(visitor, 'a refused page');
  await shoot(options, visitor, 'walk-refused-page', false);

  await button(page, 'Revoke visitor').click();
  await button(page, 'Revoke').click();
  await until('it is gone', async () => (await page.locator('tbody tr').count()) === 1);
  await visitor.goto(`${server.address}/#/nodes`);
  await visitor.waitForSelector('#token');
  assert.match(await visitor.locator('#token-problem').innerText(), /invalid or has expired/);
  await visitor.close();
}

/// Who did all that, page by page and by name.
async function audit(page, server) {
  const id = (
    await (
      await fetch(`${server.address}/api/v1/runs`, { headers: { Authorization: `Bearer ${server.token}` } })
    ).json()
  ).items[0].id;
  for (let at = 0; at < 110; at += 1) {
    await fetch(`${server.address}/api/v1/runs/${id}`, {
      method: 'PATCH',
      body: JSON.stringify({ notes: `${at}` }),
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${server.token}` },
    });
  }
  await page.locator('#nav').getByRole('link', { name: 'Audit' }).click();
  const rows = page.locator('[aria-label="Audit"] tbody tr');
  await until('the newest page', async () => (await rows.count()) === 100);
  await button(page, 'older').click();
  await until('older ones', async () => (await rows.count()) > 110);
  const text = await page.locator('[aria-label="Audit"] tbody').innerText();
  for (const what of [
    'POST /runs\t',
    'POST /runs/{run}/stop\t',
    'POST /runs/{run}/resume\t',
    'DELETE /runs/{run}\t',
    'PUT /checkpoints/{checkpoint}/pin\t',
    'POST /tokens\t',
    'DELETE /tokens/{token}\t',
  ]) {
    assert.ok(text.includes(what), `${what} is in the audit:\n${text.slice(-2000)}`);
  }
  await until('the time it is of', async () =>
    /^as of \d\d:\d\d:\d\d$/.test(await page.locator('#connection').innerText()),
  );
  await button(page, 'back to the newest').click();
  await until('the newest again', async () => (await rows.count()) === 100);
  await page.fill('#actor', 'nobody');
  await page.keyboard.press('Enter');
  await until('nobody did anything', async () => /none yet/.test(await rows.first().innerText()));
  assert.match(page.url(), /#\/audit\?actor=nobody$/);
  await page.fill('#actor', '');
  await page.fill('#object', id);
  await page.selectOption('#status', '2xx');
  await until(
    'what was done to the run',
    async () => (await rows.count()) >= 100 && !(await rows.first().innerText()).includes('/tokens'),
  );
  assert.match(page.url(), new RegExp(`#/audit\\?object=${id}&status=2xx$`));
  const [saved] = await Promise.all([page.waitForEvent('download'), button(page, 'save as JSON lines').click()]);
  assert.equal(saved.suggestedFilename(), 'audit.jsonl');
}

/// The pages of an administrator, in both themes and on a phone.
async function looks(page, server) {
  const findings = [];
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const where of ['tokens', 'audit']) {
      await page.setViewportSize({ width: 1280, height: 800 });
      await page.goto(`${server.address}/#/${where}`);
      await titled(page, where === 'tokens' ? 'Tokens' : 'Audit');
      await page.locator('tbody td').nth(3).waitFor();
      findings.push(...(await axeFindings(page, `${where}, ${colorScheme}`)));
      await shoot(options, page, `${where}-${colorScheme}`, false);
      await page.setViewportSize({ width: 360, height: 740 });
      await checkWidth(page, `${where}, ${colorScheme}`);
      await shoot(options, page, `${where}-${colorScheme}-360`, false);
    }
  }
  assert.deepEqual(findings, []);
}

/// Runs outlive their server, so what a failed walk left is ended first.
async function endRuns(server) {
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${server.token}` };
  const going = async () =>
    (await (await fetch(`${server.address}/api/v1/runs`, { headers })).json()).items.filter(
      ({ finished_at }) => finished_at === null,
    );
  for (const { id } of await going())
    await fetch(`${server.address}/api/v1/runs/${id}/stop`, {
      method: 'POST',
      headers,
      body: '{"mode": "now", "grace_s": 5}',
    });
  await until('no run is left', async () => (await going()).length === 0);
}

async function main() {
  const began = Date.now();
  const part = async (name, what) => {
    const from = Date.now();
    await what;
    console.log(`walk_test: ${name}, ${((Date.now() - from) / 1000).toFixed(1)} s`);
  };
  prepare();
  writeFileSync(join(work, 'profiles.yaml'), 'mpirun-local:\n  cool_down_s: 0\n  heartbeat_timeout_s: 120\n');
  Object.assign(process.env, { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' });
  const server = await startServer(options, work, { ui: false, more: ['--profiles', join(work, 'profiles.yaml')] });
  let context;
  try {
    context = await openBrowser(work);
    const page = await context.newPage();
    const problems = watchProblems(page, /40[0134]|412|422|ERR_FAILED|wasm-eval|WebAssembly/);
    await page.goto(`${server.address}/#token=${server.token}`);
    await page.waitForSelector('h1');
    await part('a missing run', missing(page, server));
    await part('submit', submit(page, server));
    await part('checkpoint and pin', pin(page));
    await part('stop', stop(page, /^write a checkpoint first/));
    await part('download and translate', useCheckpoint(page));
    await part('export', exportCheckpoint(page));
    await part('try offline', tryOffline(page, context, server));
    await part('resume', resume(page));
    await part('stop now', stop(page, /^immediately/));
    await part('delete', remove(page, server));
    await part('delete what changed', removeChanged(page, server));
    await part('tokens', tokens(page, context, server));
    await part('audit', audit(page, server));
    await part('looks', looks(page, server));
    assert.deepEqual(problems, []);
    console.log(`walk_test: passed in ${((Date.now() - began) / 1000).toFixed(0)} s`);
  } finally {
    await context?.close();
    await endRuns(server);
    await server.end();
  }
}

await main();
