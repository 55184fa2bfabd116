// A reader uses the box that translates, and a real translator answers. Called by walk_test.mjs with a run's page, whose model knows
// "the old cat sees the dog ." and the like.
import { strict as assert } from 'node:assert';
import { checkAxe, checkWidth, shoot, until } from './harness.mjs';

const TEXT = 'the old cat sees the dog .\nthe small tree finds the bird .';
const button = (page, name) => page.getByRole('button', { name, exact: true });
const said = (page) => page.locator('.translate > p.field-row [role=status]').innerText();
const best = (page) => page.locator('.translations p.translation').allInnerTexts();

/// Translates, and waits for the answer.
async function translate(page, name = 'Translate') {
  await button(page, name).click();
  await until('an answer', async () => /^(in |Not translated)/.test(await said(page)));
}

/// The request that a click sends.
async function requestOf(page, click) {
  const [request] = await Promise.all([page.waitForRequest(/\/translate$/), click()]);
  return request.postDataJSON();
}

async function checkGlossary(page) {
  await page.fill('#translate-nbest', '2');
  await page.fill('#translate-terms', 'cat = rivere\nno translation');
  await translate(page);
  assert.match(await said(page), /term 2/);
  await page.fill('#translate-terms', 'cat = rivere');
  await translate(page);
  await until('two translations of each', async () => (await page.locator('.translations li p[dir]').count()) === 6);
  const first = page.locator('.translations li').first();
  assert.match(await first.innerText(), /\brivere\b/);
  assert.match(await first.innerText(), /“cat” is “rivere”, as the glossary has it\./);
  await page.fill('#translate-terms', '');
}

/// A word of the translation marks its words of the source and the other way, by pointer and keyboard; a click keeps the mark.
async function checkAlignment(page, options) {
  await page.fill('#translate-nbest', '1');
  await page.check('#translate-words');
  await page.selectOption('#translate-alignment', 'words');
  await translate(page);
  const line = page.locator('.translations li').first();
  const words = (which) => line.locator('.words').nth(which).locator('.word');
  await words(1).first().waitFor();
  assert.equal((await words(0).allInnerTexts()).join(' '), TEXT.split('\n')[0]);
  const marked = () => line.locator('.word.marked').allInnerTexts();
  const partners = () => line.locator('.word.partner').allInnerTexts();
  await words(1).nth(1).hover();
  const [source] = await partners();
  assert.equal((await partners()).length, 1, 'each word of a translation has one of the source');
  const word = (await marked())[0];
  assert.match(
    await line.locator('.word-detail').innerText(),
    new RegExp(`^${word}: from “${source}”, confidence [\\d.]+ %$`),
  );
  await page.mouse.move(0, 0);
  assert.deepEqual(await marked(), []);
  const target = words(0).getByText(source, { exact: true }).first();
  await target.focus();
  assert.ok((await partners()).includes(word), 'and the other way');
  await page.keyboard.press('End');
  assert.deepEqual(await marked(), ['.']);
  await page.keyboard.press('ArrowLeft');
  assert.deepEqual(await marked(), ['dog']);
  assert.equal(await line.locator('.words').first().locator('[tabindex="0"]').count(), 1, 'one stop of Tab a text');
  await page.keyboard.press('Enter');
  await page.locator('#translate-text').focus();
  assert.deepEqual(await marked(), ['dog'], 'Enter keeps it');
  assert.equal(await line.locator('[aria-pressed="true"]').innerText(), 'dog');
  assert.match(await words(1).first().getAttribute('aria-label'), /: from “.*”, confidence [\d.]+ %$/);
  await checkAxe(page, 'an alignment');
  await shoot(options, page, 'walk-alignment', false);
  await page.emulateMedia({ colorScheme: 'dark' });
  await checkAxe(page, 'an alignment, dark');
  await shoot(options, page, 'walk-alignment-dark', false);
  await page.emulateMedia({ colorScheme: 'light' });
}

/// A source that the vocabulary cannot write, or that looks like a tag, is shown as it is, above the words that the model has read.
async function checkStrangeText(page) {
  const strange = 'the old 猫 🙂 sees <b>the</b> dog .';
  await page.fill('#translate-text', strange);
  await translate(page);
  const line = page.locator('.translations li').first();
  await until('its words', async () => (await line.locator('.words').count()) === 2);
  assert.ok((await line.locator('p').first().innerText()).startsWith(strange));
  assert.equal(await line.locator('b').count(), 0);
  await line.locator('.words').first().locator('.word').last().hover();
  assert.match(await line.locator('.word-detail').innerText(), /: (becomes|aligned with nothing)/);
  await page.fill('#translate-text', TEXT);
}

/// The matrix of a soft alignment, of pieces, each row of which sums to 100 % but for rounding.
async function checkMatrix(page, options) {
  await page.selectOption('#translate-alignment', 'soft');
  await translate(page);
  await button(page.locator('.translations li').first(), 'Attention matrix').click();
  const rows = page.locator('.translations .matrix tbody tr');
  assert.ok((await rows.count()) > 5);
  const weights = await rows.first().locator('td').allInnerTexts();
  assert.ok(Math.abs(weights.reduce((sum, weight) => sum + Number(weight), 0) - 100) < weights.length / 2 + 1);
  await page.setViewportSize({ width: 360, height: 740 });
  await checkWidth(page, 'a matrix');
  const rightOf = (selector) => page.locator(selector).evaluate((element) => element.getBoundingClientRect().right);
  assert.ok((await rightOf('#translate-text')) < 360, 'a wide matrix scrolls by itself');
  await checkAxe(page, 'a matrix');
  await page.locator('.translations').scrollIntoViewIfNeeded();
  await shoot(options, page, 'walk-matrix-360', false);
  await page.setViewportSize({ width: 1440, height: 900 });
  await shoot(options, page, 'walk-matrix', false);
  await page.selectOption('#translate-alignment', 'none');
  await page.uncheck('#translate-words');
}

async function checkSamples(page, options) {
  await page.selectOption('#translate-search', 'sample');
  assert.equal(await page.locator('#translate-beam').isVisible(), false);
  assert.equal(await page.locator('#translate-terms').isVisible(), false);
  await page.fill('#translate-temperature', '3');
  await page.fill('#translate-nbest', '4');
  await page.fill('#translate-seed', '6');
  const asked = await requestOf(page, () => button(page, 'Translate').click());
  assert.deepEqual([asked.sample, asked.seed, asked.temperature, asked.beam], [true, 6, 3, undefined]);
  await until('samples', async () => /^in .*, seed 6$/.test(await said(page)));
  const texts = () => page.locator('.translations li').first().locator('p[dir]').allInnerTexts();
  const first = await texts();
  assert.equal(first.length, 5);
  const again = await requestOf(page, () => button(page, 'Draw again').click());
  assert.equal(again.seed, 7);
  await until('others', async () => /^in .*, seed 7$/.test(await said(page)));
  assert.notDeepEqual(await texts(), first);
  await page.fill('#translate-seed', '6');
  await translate(page);
  await until('those of before', async () => (await texts()).join() === first.join());
  await shoot(options, page, 'walk-samples', false);
  await page.selectOption('#translate-search', 'mbr');
  await page.fill('#translate-nbest', '1');
  await page.fill('#translate-mbr-samples', '8');
  await translate(page);
  await until('least risk', async () =>
    /expected chrF/.test(await page.locator('.translations li').first().innerText()),
  );
  await page.selectOption('#translate-search', 'beam');
}

async function checkEnsemble(page) {
  const [single] = await best(page);
  assert.match(single, /\S/);
  await page.selectOption('#translate-ensemble', '2');
  const asked = await requestOf(page, () => button(page, 'Translate').click());
  assert.equal(asked.checkpoints.length, 2);
  await until('it says of how many', async () => /^in .* by 3 checkpoints$/.test(await said(page)));
  assert.match((await best(page))[0], /^das cate /);
  await page.selectOption('#translate-ensemble', '0');
}

async function checkPrefix(page) {
  await page.fill('#translate-prefix', '\ndas hou');
  await translate(page);
  const [, second] = await best(page);
  assert.match(second, /^das hou/);
  await page.fill('#translate-prefix', '\n\ndas');
  await button(page, 'Translate').click();
  await until('which line', async () => /line 3 of the beginnings has no line/.test(await said(page)));
  await page.fill('#translate-prefix', '');
}

/// Tags are shown as text, whatever they are, and copied whole.
async function checkTags(page, options) {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  const source = 'the <b onclick="alert(1)">old cat</b> sees the <img src="x" onerror="document.title=1"/> dog .';
  await page.selectOption('#translate-markup', 'html');
  assert.equal(await page.locator('#translate-prefix').isVisible(), false, 'prefixes do not go with tags');
  await page.fill('#translate-text', source);
  await translate(page);
  const line = page.locator('.translations li').first();
  const shown = await line.locator('p.translation code').innerText();
  assert.match(shown, /<b onclick="alert\(1\)">.+<\/b>/);
  assert.equal(await line.locator('b, img').count(), 0, 'never as elements');
  await line.getByRole('button', { name: 'Copy translation 1' }).click();
  await until('it is copied', async () => /^Copied/.test(await line.locator('[role=status]').innerText()));
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), shown);
  await page.selectOption('#translate-alignment', 'words');
  await translate(page);
  await until('its words, without tags', async () => (await line.locator('.untagged .words').count()) === 2);
  await checkAxe(page, 'tags');
  await shoot(options, page, 'walk-tags', false);
  await page.fill('#translate-text', 'the <b>old cat sees the dog .');
  await translate(page);
  assert.match(await said(page), /^Not translated: .*<b>/);
  await page.selectOption('#translate-markup', 'none');
  await page.selectOption('#translate-alignment', 'none');
}

export async function useTranslateBox(page, options) {
  await page.fill('#translate-text', TEXT);
  await translate(page);
  await until('translations', async () => (await page.locator('.translations li').count()) === 2);
  assert.match(await said(page), /^in [\d.]+ m?s$/);
  await page.locator('.translate summary').click();
  await checkGlossary(page);
  await checkAlignment(page, options);
  await checkStrangeText(page);
  await checkMatrix(page, options);
  await checkSamples(page, options);
  await checkEnsemble(page);
  await checkPrefix(page);
  await checkTags(page, options);
  await page.fill('#translate-text', TEXT);
  await page.setViewportSize({ width: 360, height: 740 });
  await page.locator('.translate').scrollIntoViewIfNeeded();
  await checkWidth(page, 'the box that translates');
  await shoot(options, page, 'walk-translate-360', false);
  await page.setViewportSize({ width: 1440, height: 900 });
}
