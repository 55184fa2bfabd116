import { explain } from '../api/client';
import { postForEvents, type ServerEvent } from '../api/stream';
import type { RunData } from '../data/run_data';
import { type Child, h, instead, valueOf } from '../lib/dom';
import { formatCount, formatFixed, formatMs, formatPercent } from '../lib/format';
import { labelled, type Owner, type Section, status } from './parts';
import type { RunContext } from './run_sections';

const MAX_LINES = 32;
const NO_CHECKPOINT = 'no checkpoint yet';
type Word = { word: string; confidence: number };
type Term = { source: string; target: string; missed: boolean };
type Translation = {
  hyp: string;
  score: number | null;
  nbest: readonly { hyp: string; score: number; words?: readonly Word[] }[];
  terms?: readonly Term[];
};

export const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);

/// The checkpoint to select when the list changes: the user's choice if it still exists, otherwise the best one.
export const chosenOf = (picked: string, ids: readonly string[], best: string | undefined): string =>
  ids.includes(picked) ? picked : (best ?? ids[0] ?? '');

/// The terms of lines "term = translation", as a request has them.
export const termsOf = (text: string): [string, string][] =>
  linesOf(text).map((line) => {
    const at = line.indexOf('=');
    return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  });

// Where a model is calibrated, as many of such words are wrong as right.
const DOUBTFUL = 0.5;

/// A translation whose doubtful words are underlined. Plain text where its words are not those between its spaces.
export const markedWords = (hyp: string, words: readonly Word[] = []): Child => {
  if (words.map(({ word }) => word).join(' ') !== hyp) return hyp;
  return words.map(({ word, confidence }, at) => [
    at > 0 && ' ',
    confidence < DOUBTFUL ? h('u.doubtful', { title: `confidence ${formatPercent(confidence)}` }, word) : word,
  ]);
};

const missedTerms = (terms: readonly Term[]): Child =>
  terms
    .filter(({ missed }) => missed)
    .map(({ source, target }) => h('p.notice', `The translation lacks “${target}” for “${source}”.`));

const translationItem = (source: string, { hyp, score, nbest, terms = [] }: Translation): HTMLElement =>
  h(
    'li',
    h('p.muted', { dir: 'auto' }, source),
    h('p.translation', { dir: 'auto' }, markedWords(hyp, nbest[0]?.words)),
    nbest.slice(1).map((other) => h('p', { dir: 'auto' }, markedWords(other.hyp, other.words))),
    score !== null && h('p.muted', `length-normalized log-probability ${formatFixed(score, 3)}`),
    missedTerms(terms),
  );

const choicesOf = ({ checkpoints, bestCheckpoint }: RunData, chosen: string): Child =>
  checkpoints.map((row) => {
    const best = row === bestCheckpoint ? ', best' : '';
    const score = row.sacrebleu === null ? '' : ` · ${formatFixed(row.sacrebleu, 2)}`;
    const attributes = { value: row.id, selected: row.id === chosen, 'data-key': row.id };
    return h('option', attributes, `${formatCount(row.update)}${best}${score}`);
  });

const numberField = (id: string, min: number, max: number, value: number): HTMLInputElement =>
  h('input', { type: 'number', id, min, max, value }) as HTMLInputElement;

/// The fold with the options that few need.
const moreOptions = (): HTMLElement =>
  h(
    'details',
    h('summary.muted', 'More options'),
    h(
      'p.field-row',
      labelled('translations', numberField('translate-n-best', 1, 12, 1)),
      labelled('min pieces', numberField('translate-min-length', 0, 512, 0)),
      labelled('n-grams once, from', numberField('translate-no-repeat', 0, 100, 0)),
      labelled('underline doubtful words', h('input', { type: 'checkbox', id: 'translate-words' })),
    ),
    labelled('Glossary: a line “term = translation” each', h('textarea', { id: 'translate-terms', rows: 2 })),
  );

/// The request of a filled-in form.
function requestOf(
  form: HTMLFormElement,
  text: readonly string[],
): Record<string, unknown> & { text: readonly string[] } {
  const number = (id: string): number => Number(form.querySelector<HTMLInputElement>(`#translate-${id}`)!.value);
  const terms = termsOf(form.querySelector<HTMLTextAreaElement>('#translate-terms')!.value);
  return {
    text,
    beam: number('beam'),
    nbest: number('n-best'),
    min_length: number('min-length'),
    no_repeat_ngram: number('no-repeat'),
    word_scores: form.querySelector<HTMLInputElement>('#translate-words')!.checked,
    ...(terms.length > 0 && { glossary: terms }),
  };
}

/// A translation that is not finished.
const growing = (hyp: string): Translation => ({ hyp, score: null, nbest: [] });

/// The translations of all lines after an event of their stream. `ms` comes with the last event.
export function withEvent(
  found: readonly Translation[],
  { event, data }: Pick<ServerEvent, 'event' | 'data'>,
): { found: readonly Translation[]; ms: number | null } {
  const part = JSON.parse(data) as { line: number; text: string; item: Translation; items: Translation[]; ms: number };
  if (event === 'done') return { found: part.items, ms: part.ms };
  const now = event === 'item' ? part.item : growing(part.text);
  return { found: found.map((old, line) => (line === part.line ? now : old)), ms: null };
}

/// Shows the translations of lines whenever they have grown. Returns the time in ms; null if the connection was lost.
async function translateGrowing(
  path: string,
  request: { text: readonly string[] },
  show: (found: readonly Translation[]) => void,
): Promise<number | null> {
  let ms: number | null = null;
  let found: readonly Translation[] = request.text.map(() => growing(''));
  await postForEvents(path, { ...request, stream: true }, (event) => {
    ({ found, ms } = withEvent(found, event));
    show(found);
  });
  return ms;
}

const PLACEHOLDER = 'A sentence to translate; several lines for several sentences';

/// Translates text with one of the run's checkpoints.
export function translation({ data }: RunContext, owner: Owner): Section {
  let picked = '';
  let busy = false;
  let lines: string[] = [];
  let found: readonly Translation[] = [];
  const chosen = (): string => {
    const ids = data.checkpoints.map(({ id }) => id);
    return chosenOf(picked, ids, data.bestCheckpoint?.id);
  };
  const translate = async (form: HTMLFormElement): Promise<void> => {
    const wanted = linesOf(form.querySelector('textarea')!.value);
    if (busy || data.checkpoints.length === 0) return;
    if (wanted.length === 0) return owner.say('Enter a sentence first.');
    if (wanted.length > MAX_LINES) return owner.say(`At most ${MAX_LINES} lines at once, found ${wanted.length}.`);
    busy = true;
    owner.say('translating …');
    const path = `/checkpoints/${chosen()}/translate`;
    try {
      const ms = await translateGrowing(path, requestOf(form, wanted), (now) => {
        [lines, found] = [wanted, now];
        owner.draw();
      });
      owner.said = ms === null ? 'Not translated: the connection was lost.' : `in ${formatMs(ms)}`;
    } catch (error) {
      owner.said = `Not translated: ${explain(error)}`;
    }
    busy = false;
    owner.draw();
  };
  const submit = instead((event) => void translate(event.currentTarget as HTMLFormElement));
  const pick = (event: Event): void => {
    picked = valueOf(event);
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key === 'Enter' && event.ctrlKey) submit(event);
  };
  return {
    inputs: () => [data.checkpoints, data.bestCheckpoint, busy, found],
    render: () => {
      const none = data.checkpoints.length === 0;
      const select = h('select', { id: 'translate-with', onchange: pick }, choicesOf(data, chosen()));
      const beam = numberField('translate-beam', 1, 12, 4);
      const text = h('textarea', { dir: 'auto', id: 'translate-text', rows: 2, placeholder: PLACEHOLDER });
      const button = h('button.chip.primary', { type: 'submit', disabled: none || busy }, 'Translate');
      return h(
        'form.translate',
        { onsubmit: submit, onkeydown: key, 'aria-busy': busy && 'true' },
        h('p.field-row', labelled('Checkpoint of update', select), labelled('beam', beam)),
        labelled('Text to translate', text, true),
        moreOptions(),
        h('p.field-row', button, status(none ? NO_CHECKPOINT : owner.said)),
        h(
          'ol.translations',
          found.map((item, at) => translationItem(lines[at] ?? '', item)),
        ),
      );
    },
  };
}
