// Checks of the list of runs in a browser: search, sort, columns, keys, notifications. browser_test.mjs calls them.
import { strict as assert } from 'node:assert';
import { createServer } from 'node:http';
import { checkAxe, checkWidth, openTab, shoot, titled, until } from './harness.mjs';

const names = (page) => page.locator('.runs tbody a').allInnerTexts();
const heads = (page) => page.locator('.runs thead th').allInnerTexts();

async function cell(page, name, head) {
  const at = (await heads(page)).indexOf(head);
  return page
    .locator('.runs tbody tr', { has: page.getByText(name, { exact: true }) })
    .locator('th, td:not(.tools)')
    .nth(at)
    .innerText();
}

export async function checkList(page, server) {
  await page.goto(`${server.address}/#/runs`);
  await page.waitForSelector('tbody a');
  await page.waitForFunction(() => document.querySelectorAll('.runs tbody tr').length === 3);
  assert.equal(await cell(page, 'wmt16-base', 'Hosts'), 'alder, birch');
  const rate = await cell(page, 'wmt16-base', 'Tokens/s');
  assert.ok(parseFloat(rate) > 20, `four ranks are shown with ${rate} tokens/s`);
  await page.keyboard.press('/');
  await page.keyboard.type('base high');
  await page.waitForFunction(() => document.querySelectorAll('.runs tbody tr').length === 1);
  assert.deepEqual(await names(page), ['base-high-rate']);
  assert.match(page.url(), /q=base\+high/);
  await page.fill('#search', '');
  await page.getByRole('button', { name: 'succeeded', exact: true }).click();
  await page.waitForFunction(() => document.querySelectorAll('.runs tbody tr').length === 1);
  await page.getByRole('button', { name: 'succeeded', exact: true }).click();
  await page.getByRole('button', { name: 'Best sacreBLEU' }).click();
  const sorted = await page.locator('.runs thead th[aria-sort]').getAttribute('aria-sort');
  assert.equal(sorted, 'descending');
}

/// A column with the min loss and its update, a pinned run, and differences to it; the link shows the same view.
export async function checkColumns(page, context) {
  await page.getByRole('button', { name: 'columns' }).click();
  await page.fill('#column-search', 'loss: min');
  await page
    .locator('.choices label', { hasText: /^\s*loss: min/ })
    .locator('input')
    .check();
  await page.fill('#column-search', 'learning_rate');
  await page.locator('.choices label', { hasText: 'configuration: optimizer.learning_rate' }).locator('input').check();
  await checkAxe(page, 'choice of columns');
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => [...document.querySelectorAll('.runs td small.at')].length === 3);
  assert.equal(await cell(page, 'base-high-rate', 'optimizer.learning_rate'), '0.002');
  assert.match(await cell(page, 'wmt16-base', 'loss min'), /^\d\.\d+ @[\d,]+$/);
  await page.locator('.runs tbody tr', { hasText: 'wmt16-base' }).getByRole('button', { name: /^Pin/ }).click();
  await page.waitForSelector('.off.good, .off.bad');
  assert.equal((await names(page))[0], 'wmt16-base');
  const again = await context.newPage();
  await again.addInitScript(() => localStorage.removeItem('babelring.list'));
  await again.goto(page.url());
  await again.waitForSelector('.off.good, .off.bad');
  assert.deepEqual([await heads(again), await names(again)], [await heads(page), await names(page)]);
  await again.close();
}

export async function checkKeys(page) {
  await page.keyboard.press('?');
  await page.waitForSelector('dialog.help[open]');
  await checkAxe(page, 'help');
  await page.keyboard.press('Escape');
  await page.locator('h1').click();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('x');
  assert.equal(await page.evaluate(() => document.activeElement.closest('tr').rowIndex), 2);
  await page.keyboard.press('k');
  await page.keyboard.press('x');
  assert.equal(
    await page
      .locator('.selection')
      .innerText()
      .then((text) => text.split('\n')[0].trim()),
    '2 ticked',
  );
  await page.keyboard.press('c');
  await page.waitForURL(/#\/compare\?runs=/);
  await titled(page, 'Compare');
  assert.equal(
    await page.evaluate(() => document.activeElement.id),
    'main',
    'what had the focus is gone, so the new page has it',
  );
}

/// The choice to be notified of failures is kept across reloads.
export async function checkNotify(page, context) {
  const button = page.locator('button.chip[title^="Browser notification"]');
  const becomes = (pressed) =>
    page.locator(`button.chip[title^="Browser notification"][aria-pressed="${pressed}"]`).waitFor();
  await context.grantPermissions(['notifications']);
  await becomes(false);
  await button.click();
  await becomes(true);
  await page.locator('#notice', { hasText: 'You will be notified' }).waitFor();
  await page.reload();
  await becomes(true);
  await button.click();
  await becomes(false);
  await page.reload();
  await becomes(false);
  await page.waitForSelector('tbody tr');
}

const rows = (page) => page.locator('.runs tbody tr').count();

/// Searches by value, groups of seeds, a saved view, and enough rows in a window, with the 24 cells of the sweep `toy`.
export async function checkChoice(page, server, options) {
  await page.goto(`${server.address}/#/runs`);
  await page.waitForSelector('.runs tbody tr');
  await page.fill('#search', 'state:succeeded lr=1e-3 label:sweep=toy');
  await until('12 cells', async () => (await rows(page)) === 12);
  await page.fill('#search', 'label:sweep=toy width>=24 -state:failed');
  await until('17 cells', async () => (await rows(page)) === 17);
  await page.fill('#search', 'widht>3');
  const problem = page.locator('#search-problem');
  await until('what is wrong', async () => /^widht>3: nothing is called widht/.test(await problem.innerText()));
  await checkAxe(page, 'a wrong search');
  await page.fill('#search', 'sweep=toy');
  await until('24 cells', async () => (await rows(page)) === 24);
  assert.equal(await problem.innerText(), '');
  const inSight = await page
    .locator('.runs tbody tr')
    .evaluateAll((all) => all.filter((row) => row.getBoundingClientRect().bottom <= 900).length);
  assert.ok(inSight >= 18, `${inSight} rows in 900 px`);
  await page.getByRole('button', { name: 'group by what differs' }).click();
  await until('a row for each configuration', async () => (await rows(page)) === 8);
  assert.deepEqual((await names(page)).sort().slice(0, 2), ['width 128 · lr 1e-2', 'width 128 · lr 1e-3']);
  await shoot(options, page, 'list-groups');
  await page.getByRole('button', { name: 'save view …' }).click();
  await page.getByRole('textbox', { name: 'name' }).fill('toy by width');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.fill('#search', '');
  await page.getByRole('button', { name: 'toy by width', exact: true }).click();
  await until(
    'the view again',
    async () => (await page.inputValue('#search')) === 'sweep=toy' && (await rows(page)) === 8,
  );
  assert.match(page.url(), /q=sweep(=|%3D)toy&group=1/);
  await page.getByRole('button', { name: 'Forget the view toy by width' }).click();
  await until('the view is gone', async () => (await page.getByRole('button', { name: 'toy by width' }).count()) === 0);
  assert.ok(
    await page.locator('.runs-box').evaluate((box) => box.scrollWidth <= box.clientWidth),
    'no column hangs over',
  );
}

/// Ticked runs are labelled, archived and deleted together, and each is taken back.
export async function checkBulk(options, page, server) {
  await page.goto(`${server.address}/#/runs?q=toy-16-1e-3`);
  await until('three cells', async () => (await rows(page)) === 3);
  const tickAll = async () => {
    for (const box of await page.locator('.runs tbody input[type=checkbox]').all()) await box.check();
  };
  const said = page.locator('.done [role=status]');
  const says = (text) => until(text, async () => (await said.innerText()).startsWith(text));
  const undo = () => page.getByRole('button', { name: 'undo', exact: true }).click();
  await tickAll();
  await page.getByRole('button', { name: 'label …' }).click();
  await page.getByRole('textbox', { name: 'labels' }).fill('team=mt, kept');
  await page.getByRole('button', { name: 'Label', exact: true }).click();
  await says('3 runs labelled.');
  await checkAxe(page, 'a change of several runs');
  await shoot(options, page, 'list-several', false);
  await page.fill('#search', 'team=mt label:kept label:sweep=toy');
  await until('the labels', async () => (await rows(page)) === 3);
  await undo();
  await says('3 runs as before.');
  await until(
    'no such labels',
    async () => (await page.locator('#search-problem').innerText()) !== '' || (await rows(page)) === 0,
  );
  await page.fill('#search', 'toy-16-1e-3');
  await until('three cells', async () => (await rows(page)) === 3);
  await tickAll();
  await page.getByRole('button', { name: 'archive', exact: true }).click();
  await until('they are gone', async () => (await rows(page)) === 0);
  await undo();
  await until('they are back', async () => (await rows(page)) === 3);
  await tickAll();
  await page.getByRole('button', { name: 'delete …' }).click();
  assert.equal(await page.getByRole('button', { name: 'Delete', exact: true }).isDisabled(), true);
  await page.locator('dialog input[name=typed]').fill('delete 3');
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await says('3 runs deleted.');
  assert.equal(await rows(page), 0);
  await undo();
  await until('they are restored', async () => (await rows(page)) === 3);
}

/// Name, labels and notes are edited in the place of the title, and taken back.
export async function checkEdit(options, page, server, run) {
  await page.goto(`${server.address}/#/runs/${run.id}`);
  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  const form = page.getByRole('form', { name: 'Name, labels and notes' });
  await form.getByLabel('Name').fill('the <b>first</b> try');
  await form.getByLabel('Labels').fill('team=mt, trial');
  await form.getByLabel('Notes').fill('Stopped by a power cut.');
  await checkAxe(page, 'an edited run');
  await shoot(options, page, 'run-edit', false);
  await page.waitForTimeout(1500); // the page draws itself meanwhile
  assert.equal(await form.getByLabel('Name').inputValue(), 'the <b>first</b> try');
  await form.getByRole('button', { name: 'Save' }).click();
  const title = page.locator('.run-title');
  await until('the new name', async () =>
    /^the <b>first<\/b> try[^]*team=mt[^]*trial[^]*power cut/.test(await title.innerText()),
  );
  await page.getByRole('button', { name: 'Undo' }).click();
  await until(
    'the old name',
    async () => /^first-try/.test(await title.innerText()) && !/power cut/.test(await title.innerText()),
  );
  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  await form.getByLabel('Name').press('Escape');
  await title.waitFor();
}

/// The alert that a loss which is no number raises is counted, and acknowledged where one may.
export async function checkAlerts(page, server, options) {
  if (!(await fetch(`${server.address}/api/v1/alerts`, { headers: { Authorization: `Bearer ${server.token}` } })).ok)
    return;
  await page.goto(`${server.address}/#/alerts`);
  const id = await page.locator('[data-alert]').first().getAttribute('data-alert');
  const button = page.locator(`[data-alert="${id}"]`);
  assert.match(await button.getAttribute('aria-label'), /^Acknowledge/);
  await button.click();
  await button.waitFor({ state: 'detached' });
  await checkAway(page, options);
  await checkWebhooks(page, options);
}

/// The last minute of a run whose ranks were killed, in its report, which is then shared by a link.
export async function checkEnd(page, context, server, run, options) {
  const host = { processors: 8, memory_bytes: 16e9, memory_limit_bytes: 16e9, temperature_celsius: 71 };
  for (let second = 0; second < 5; second += 1) {
    const used = { memory_left_bytes: 4e9 - second * 0.9e9, resident_bytes: 9e9 + second * 0.7e9, load: 5 + second };
    for (const rank of [0, 1]) await run.beat(undefined, { rank, update: 230, ...host, ...used });
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  const path = `${server.address}/api/v1/runs/${run.id}/ends`;
  const headers = { Authorization: `Bearer ${server.token}` };
  await until('the last minute', async () => (await (await fetch(path, { headers })).json()).items.length === 1);
  await page.goto(`${server.address}/#/runs/${run.id}?tab=report`);
  const end = page.locator('details', { hasText: 'the last minute before' });
  await end.locator('svg').first().waitFor();
  const text = await end.innerText();
  assert.match(text, /Attempt 1, the last minute before \d\d:\d\d:\d\d/);
  assert.match(
    text,
    /memory ran out on alder: 0\.4 GB of 16\.0 GB free, load 9\.0 on 8 processors, 71 °C; rank 0 on alder had 11\.8 GB/,
  );
  for (const row of [
    /memory left of 16\.0 GB\s+400 MB\s+400 MB – 4\.00 GB/,
    /load\s+9\.00/,
    /71 °C/,
    /rank 1 on alder: memory/,
  ])
    assert.match(text, row);
  await checkAxe(page, 'the last minute before an end');
  await shoot(options, page, 'end');
  await page.setViewportSize({ width: 360, height: 740 });
  await checkWidth(page, 'the last minute before an end');
  await shoot(options, page, 'end-360');
  await page.setViewportSize({ width: 1440, height: 900 });
  const { name } = await (await fetch(`${server.address}/api/v1/runs/${run.id}`, { headers })).json();
  await checkShare(page, context, server, { id: run.id, name }, options);
}

/// A link that shows one run in a tab of its own, until it is revoked; the reader's own token stays.
async function checkShare(page, context, server, run, options) {
  await page.goto(`${server.address}/#/runs/${run.id}?tab=report`);
  await page.getByRole('button', { name: 'Share a link …' }).click();
  await checkAxe(page, 'a question about a link');
  await page.locator('dialog').getByRole('button', { name: 'Make a link' }).click();
  const link = await page.locator('dialog code.secret').innerText();
  assert.match(link, new RegExp(`^http.*/#/runs/${run.id}\\?share=bbr_[\\w-]{43}$`));
  await checkAxe(page, 'a link to a run');
  await shoot(options, page, 'share');
  await page.getByRole('button', { name: 'Done' }).click();
  const guest = await context.newPage();
  await guest.goto(link);
  await guest.getByRole('heading', { name: run.name }).waitFor();
  await openTab(guest, 'Charts');
  await guest.locator('.chart canvas').first().waitFor();
  assert.ok(!guest.url().includes('bbr_'), 'the address has no token any more');
  assert.equal(await guest.locator('header nav a').count(), 0, 'no page that it may not read');
  await shoot(options, guest, 'shared');
  await openTab(guest, 'Report');
  await guest.getByRole('button', { name: 'Make it again' }).waitFor();
  assert.equal(await guest.getByRole('button', { name: 'Share a link …' }).count(), 0);
  const headers = { Authorization: `Bearer ${link.split('share=')[1]}` };
  assert.equal((await fetch(`${server.address}/api/v1/runs`, { headers })).status, 403);
  await page.goto(`${server.address}/#/tokens`);
  await page.getByRole('button', { name: `Revoke link to ${run.name}` }).click();
  await page.locator('dialog').getByRole('button', { name: 'Revoke' }).click();
  await page.getByText('is revoked.').waitFor();
  await guest.goto(link);
  await guest.getByRole('heading', { name: /Log in/i }).waitFor();
  await guest.close();
  await page.goto(`${server.address}/#/runs`);
  await page.locator('.runs tbody a').first().waitFor();
}

/// The failed run needs a look, with the last lines of its log, until the reader has seen it.
async function checkAway(page, options) {
  const card = page.locator('section', { has: page.getByRole('heading', { name: 'While you were away' }) }).last();
  const needy = card.locator('li', { hasText: 'killed by signal 9' });
  await needy.first().waitFor();
  assert.match(await card.innerText(), /Needs a look[\s\S]*Failed[\s\S]*rank 0: killed by signal 9/);
  await checkAxe(page, 'while you were away');
  await shoot(options, page, 'away');
  await card.getByRole('button', { name: 'seen' }).click();
  await needy.first().waitFor({ state: 'detached' });
}

/// A webhook is made, tested against a receiver, switched off and removed; its secret is shown once.
async function checkWebhooks(page, options) {
  const bodies = [];
  const receiver = createServer((request, answer) => {
    let body = '';
    request.on('data', (piece) => (body += piece));
    request.on('end', () => {
      bodies.push(JSON.parse(body));
      answer.writeHead(204).end();
    });
  });
  await new Promise((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${receiver.address().port}/hook`;
  await page.locator('#webhook-name').fill('ops');
  await page.locator('#webhook-url').fill(url);
  await page.locator('#webhook-alerts').fill('faild');
  await page.getByRole('button', { name: 'create the webhook' }).click();
  await page.getByText('alert_kinds/0: expected one of nan, stall').waitFor();
  await page.locator('#webhook-alerts').fill('failed, finished');
  await page.getByRole('button', { name: 'create the webhook' }).click();
  await page.getByRole('heading', { name: 'Secret of “ops”' }).waitFor();
  assert.equal((await page.locator('code.secret').innerText()).length, 43);
  await page.getByText('No rule is on for finished').waitFor();
  await checkAxe(page, 'webhooks');
  await page.getByRole('button', { name: 'Test ops' }).click();
  await page.getByText('The test of “ops” was delivered.').waitFor();
  await page.getByText('Babelring: a test: delivered').waitFor();
  assert.equal(bodies[0].event, 'test');
  await shoot(options, page, 'webhooks');
  await page.getByRole('button', { name: 'done' }).click();
  await page.getByLabel('ops: on').uncheck();
  await page.getByText('“ops” is off.').waitFor();
  await page.getByRole('button', { name: 'Remove ops' }).click();
  await page.locator('dialog').getByRole('button', { name: 'Remove' }).click();
  await page.getByText('The webhook “ops” is removed.').waitFor();
  receiver.close();
}
