// The section What if of a run's page, by keyboard.
import { strict as assert } from 'node:assert';
import { DetailedRun } from './detailed_run.mjs';
import { axeFindings, openTab, until } from './harness.mjs';
import { open } from './run_page_files.mjs';

/// A run whose ranks wait less than its long gradient sums explain.
export class HiddenSums extends DetailedRun {
  parts() {
    return { data_ms: 2, forward_ms: 20, backward_ms: 10, optimizer_ms: 9, other_ms: 3, exposed_communication_ms: 30 };
  }
}

const sectionOf = (page) => page.locator('section', { has: page.getByRole('heading', { name: 'What if' }) }).first();
const query = (page) => new URLSearchParams(page.url().split('?')[1] ?? '');
const saidOf = (section) => section.locator('[role=status]').innerText();
const rowsOf = (section) => section.locator('[aria-label="Update measured and predicted"] tbody tr');

async function openSection(page, address, run) {
  await open(page, address, run);
  await openTab(page, 'What if');
  return sectionOf(page);
}

/// The number of target tokens per second in a row.
const rateIn = async (row) => Number((await row.locator('td').nth(3).innerText()).replaceAll(',', ''));

/// Sliders by keyboard, the address with their state, and the way back.
async function checkSliders(page, section) {
  await until('an invitation', async () => /^Move a slider/.test(await saidOf(section)));
  assert.equal(await rowsOf(section).count(), 2, 'measured and predicted as it is');
  const hosts = section.getByLabel('Hosts', { exact: true });
  assert.equal(await hosts.getAttribute('aria-valuetext'), 'as it is: 2');
  await hosts.focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  assert.equal(await hosts.getAttribute('aria-valuetext'), '4');
  await until('a prediction', async () => /^With the changes an update takes [\d.]+ m?s/.test(await saidOf(section)));
  await until('the address has it', () => query(page).get('whatif') === 'hosts:4');
  assert.equal(await rowsOf(section).count(), 3);
  assert.match(await rowsOf(section).nth(2).innerText(), /predicted with the changes/);
  const slow = await rateIn(rowsOf(section).nth(2));
  await section.getByLabel('Link between hosts').focus();
  await page.keyboard.press('End');
  await until('a faster link', async () => (await rateIn(rowsOf(section).nth(2))) > slow);
  assert.equal(await section.getByLabel('Link between hosts').getAttribute('aria-valuetext'), '400 Gbit/s');
  const optimizer = section.getByLabel("Optimizer's state");
  await optimizer.selectOption('sharded');
  await until('shares in the address', () => query(page).get('whatif') === 'hosts:4,link_gbit:400,optimizer:sharded');
  await until('a prediction', async () => /^With the changes an update takes [\d.]+ m?s/.test(await saidOf(section)));
  await optimizer.selectOption('replicated');
  await section.getByLabel('Sum of gradients').selectOption('tree');
  await until('a tree is marked', async () =>
    /the worker does not offer the algorithm tree/.test(await section.innerText()),
  );
  await until('all in the address', () => query(page).get('whatif') === 'hosts:4,link_gbit:400,algorithm:tree');
}

/// A setup that no run can have is refused in words, and the sliders stay.
async function checkRefusal(page, section) {
  await section.getByLabel('Sum of gradients').selectOption('shared_memory');
  await until('a refusal', async () =>
    /^Not predicted: .*found shared_memory with 4 hosts, expected 1 host/.test(await saidOf(section)),
  );
  await section.getByRole('button', { name: 'Everything as it is' }).focus();
  await page.keyboard.press('Enter');
  await until('the address is short again', () => !query(page).has('whatif'));
  await until('as it is', async () => /^Move a slider/.test(await saidOf(section)));
  assert.equal(await section.getByLabel('Hosts', { exact: true }).getAttribute('aria-valuetext'), 'as it is: 2');
}

export async function checkWhatIf(page, address, { run, odd, first }, options) {
  const section = await openSection(page, address, run);
  await checkSliders(page, section);
  await page.reload();
  await until('the address reproduces it', async () => (await rowsOf(section).count()) === 3);
  assert.equal(await section.getByLabel('Hosts', { exact: true }).getAttribute('aria-valuetext'), '4');
  for (const [colorScheme, width] of [
    ['light', 1440],
    ['dark', 360],
  ]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 900 });
    assert.deepEqual(await axeFindings(page, `what if, ${colorScheme}`, '.what-if'), []);
    if (options.screenshots) {
      await section.screenshot({ path: `${options.screenshots}/what-if-${colorScheme}-${width}.png` });
    }
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1440, height: 900 });
  await checkRefusal(page, section);
  const misfit = await openSection(page, address, odd);
  await until('no number', async () => /does not fit this run: .* wrong by \+\d+\.\d %/.test(await misfit.innerText()));
  assert.equal(await rowsOf(misfit).count(), 1, 'measured only');
  if (options.screenshots) await misfit.screenshot({ path: `${options.screenshots}/what-if-misfit.png` });
  const early = await openSection(page, address, first);
  await until('too few updates', async () => /^Not predicted: .*expected at least 8/.test(await saidOf(early)));
  await open(page, address, run);
}
