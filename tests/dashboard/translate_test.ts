import { readFileSync } from 'node:fs';
import {
  ALIGNMENTS,
  checkpointsBefore,
  type Choice,
  ENSEMBLES,
  type Filled,
  linesOf,
  MARKUPS,
  nextSeed,
  NUMBERS,
  prefixesOf,
  requestOf,
  SEARCHES,
  termsOf,
} from '../../server/dashboard/src/data/translate_form';
import { chosenOf, withEvent } from '../../server/dashboard/src/views/run_translate';
import {
  partnersOf,
  placesOf,
  tagParts,
  unitsOfChoice,
  wordsOf,
} from '../../server/dashboard/src/views/translation_view';

const filled = (more: Partial<Filled> = {}): Filled => ({
  ...{ search: 'beam', numbers: {}, text: 'a b\n\nc', prefix: '', terms: '', scores: false },
  ...{ alignment: 'none', markup: 'none', others: [], ...more },
});

/// The description of a request in the contract, a line for each member.
const members = new Map(
  /\n    TranslateRequest:\n.*?\n      properties:\n(.*?)\n    \w/s
    .exec(readFileSync('../api/openapi.yaml', 'utf8'))![1]!
    .split(/\n(?=        \w)/)
    .map((text) => [text.trim().split(':')[0]!, text] as const),
);

describe('the form of a request', () => {
  it('offers what the contract has, with its ranges', () => {
    for (const [name, { min, max, first }] of Object.entries(NUMBERS)) {
      const described = members.get(name)!;
      const range = [/minimum: (\d+)/.exec(described)?.[1], /maximum: (\d+)/.exec(described)?.[1]];
      expect([name, range]).toEqual([name, [String(min), String(max)]]);
      expect(first >= min && first <= max).toBe(true);
    }
    expect(members.get('markup')).toContain(`enum: [${Object.keys(MARKUPS).join(', ')}, null]`);
    for (const [search] of SEARCHES) expect(members.has(search)).toBe(true);
  });
  it('is what its members say, for each search', () => {
    expect(requestOf(filled())).toEqual({
      ...{ text: ['a b', 'c'], beam: 4, nbest: 1, min_length: 0, no_repeat_ngram: 0 },
    });
    const drawn = requestOf(filled({ search: 'sample', numbers: { beam: 9, seed: 7, top_p: 0.9 }, terms: 'a = b' }));
    expect(drawn).toEqual({
      ...{ text: ['a b', 'c'], sample: true, temperature: 1, top_k: 0, top_p: 0.9, seed: 7, nbest: 1 },
      ...{ min_length: 0, no_repeat_ngram: 0 },
    }); // without beam and glossary, which are refused beside samples
    expect(requestOf(filled({ search: 'mbr' }))).toMatchObject({ mbr: true, mbr_samples: 32 });
    expect(requestOf(filled({ terms: 'a = b' })).glossary).toEqual([['a', 'b']]);
  });
  it('asks for scores and alignments in the units that are shown', () => {
    const asked = ALIGNMENTS.map(([alignment]) => requestOf(filled({ alignment, scores: true })));
    expect(asked.map(({ alignment }) => alignment)).toEqual([undefined, 'hard', 'hard', 'soft']);
    expect(asked.map(({ word_scores }) => word_scores)).toEqual([true, true, undefined, undefined]);
    expect(asked.map(({ piece_scores }) => piece_scores)).toEqual([undefined, undefined, true, true]);
  });
  it('sends lines, not empty ones, and the terms of a glossary', () => {
    expect(linesOf(' a \n\n b\n')).toEqual(['a', 'b']);
    expect(termsOf('dog = Hund\n\n a=b=c \nno')).toEqual([
      ['dog', 'Hund'],
      ['a', 'b=c'],
      ['no', ''],
    ]);
  });
  it('gives each line its beginning, with the space at its end', () => {
    expect(prefixesOf('a\n\nb', '')).toEqual([]);
    expect(prefixesOf('a\n\nb', 'Der Hund \n\n Ein')).toEqual(['Der Hund ', 'Ein']);
    expect(prefixesOf('a\nb', 'Der')).toEqual(['Der', '']);
    expect(() => prefixesOf('a\n\nb', '\nDer')).toThrow('line 2 of the beginnings has no line of the text');
    expect(() => prefixesOf('a', '\n\nDer')).toThrow('line 3');
    expect(requestOf(filled({ prefix: 'x', markup: 'html' })).prefix).toBeUndefined();
  });
  it('draws with another seed in its range', () => {
    expect([nextSeed(1), nextSeed(1_000_000_000)]).toEqual([2, 0]);
  });
  it('selects the best checkpoint until another one is picked', () => {
    expect(chosenOf('c_2', ['c_3', 'c_2'], 'c_3')).toBe('c_2');
    expect(chosenOf('c_1', ['c_3', 'c_2'], 'c_2')).toBe('c_2'); // c_1 was removed
    expect([chosenOf('', ['c_3'], undefined), chosenOf('c_1', [], undefined)]).toEqual(['c_3', '']);
  });
});

describe('an ensemble', () => {
  const rows = [3, 1, 4, 2].map((update) => ({ id: `c_${update}`, update }));
  it('has the checkpoints before the chosen one, as many as there are', () => {
    expect(checkpointsBefore(rows, 'c_4', 2)).toEqual(['c_3', 'c_2']);
    expect(checkpointsBefore(rows, 'c_3', 4)).toEqual(['c_2', 'c_1']);
    expect([checkpointsBefore(rows, 'c_1', 2), checkpointsBefore(rows, 'c_9', 2)]).toEqual([[], []]);
    expect(checkpointsBefore(rows, 'c_4', 0)).toEqual([]);
  });
  it('is in the request unless it is a single one', () => {
    expect(requestOf(filled()).checkpoints).toBeUndefined();
    expect(requestOf(filled({ others: ['c_3'] })).checkpoints).toEqual(['c_3']);
    const [most] = ENSEMBLES.map(([count]) => Number(count)).sort((a, b) => b - a);
    expect(most! <= Number(/maxItems: (\d+)/.exec(members.get('checkpoints')!)![1])).toBe(true);
  });
});

describe('translations', () => {
  it('grow with the events of a stream', () => {
    const one = { hyp: '', score: null, source_pieces: 0, nbest: [] };
    const two = { ...one, hyp: 'Ein' };
    const item = { ...one, hyp: 'Ein Hund.', score: -0.5 };
    const event = (name: string, data: unknown): { event: string; data: string } => ({
      event: name,
      data: JSON.stringify(data),
    });
    expect(withEvent([one, two], event('text', { line: 0, text: 'Zwei' })).found).toEqual([
      { ...one, hyp: 'Zwei' },
      two,
    ]);
    expect(withEvent([one, two], event('item', { line: 1, item })).found).toEqual([one, item]);
    expect(withEvent([one], event('done', { items: [item], ms: 4 }))).toEqual({ found: [item], ms: 4 });
  });
  it('have the words that the server numbers', () => {
    expect(wordsOf(['▁Ein', '▁H', 'und', '.'])).toEqual(['Ein', 'Hund.']);
    expect(wordsOf(['▁a', '<0xE2>', '<0x82>', '<0xAC>', 'b', '▁', 'c'])).toEqual(['a€b', 'c']);
    expect(wordsOf([])).toEqual([]);
  });
  it('have places for words only where they are made of them', () => {
    expect(placesOf(' Ein  Hund.', ['Ein', 'Hund.'])).toEqual([
      [1, 4],
      [6, 11],
    ]);
    expect(placesOf('猫が好き', ['', '猫', 'が', '好き'])).toEqual([
      [0, 0],
      [0, 1],
      [1, 2],
      [2, 4],
    ]);
    expect(placesOf('a <b>c</b>', ['a', 'c'])).toBeNull();
    expect(placesOf('… a', ['...', 'a'])).toBeNull(); // normalized
    expect(placesOf('a b', ['a'])).toBeNull();
  });
  it('have units with the confidence that was asked for', () => {
    const choice: Choice = { hyp: 'Ein Hund', score: -1, log_probability: -2, complete: true };
    const words = [{ word: 'Ein', log_probability: -0.1, confidence: 0.9 }];
    expect(unitsOfChoice(choice, 'words')).toEqual([]);
    expect(unitsOfChoice({ ...choice, words }, 'words')).toEqual([{ text: 'Ein', confidence: 0.9 }]);
    const pieces = [
      { piece: '▁Ein', log_probability: 0 },
      { piece: '</s>', log_probability: -0.5 },
    ];
    expect(unitsOfChoice({ ...choice, pieces }, 'pieces')).toEqual([{ text: 'Ein', confidence: 1 }]);
    expect(unitsOfChoice({ ...choice, target_pieces: ['▁H', 'und'] }, 'pieces')).toEqual([
      { text: 'H' },
      { text: 'und' },
    ]);
  });
  it('are aligned both ways', () => {
    const pairs = [
      [0, 1],
      [2, 0],
      [0, 3],
    ];
    expect(partnersOf(pairs, 'source', 0)).toEqual([1, 3]);
    expect(partnersOf(pairs, 'target', 0)).toEqual([2]);
    expect(partnersOf(pairs, 'target', 2)).toEqual([]);
  });
  it('show their tags as text', () => {
    expect(tagParts('Ein <b class="x">Hund</b>.')).toEqual(['Ein ', '<b class="x">', 'Hund', '</b>', '.']);
    expect(tagParts('a &lt; b <')).toEqual(['a &lt; b <']);
  });
});
