import { answered, ApiError, request, withRetries } from '../api/client';
import { EventStreamParser, type ServerEvent } from '../api/stream';
import type { Schemas } from '../api/types';

/// A request for translations, and its answer, as the API describes them.
export type Request = Schemas['TranslateRequest'];
export type Translated = Schemas['Translations']['items'][number];
export type Choice = Translated['nbest'][number];

type Value<K extends keyof Request> = NonNullable<Request[K]>;
type NumberMember = { [K in keyof Request]-?: Value<K> extends number ? K : never }[keyof Request];

/// How a translation is found. The server also takes combinations; each of these has the options that change it.
export type SearchKind = 'beam' | 'sample' | 'mbr';
export const SEARCHES: readonly (readonly [SearchKind, string])[] = [
  ['beam', 'beam search'],
  ['sample', 'samples'],
  ['mbr', 'least risk (MBR)'],
];

/// A field for a number: its range, what it has at first, and the searches that it changes (absent: all).
export type NumberField = {
  label: string;
  min: number;
  max: number;
  first: number;
  step?: number;
  about?: string;
  searches?: readonly SearchKind[];
  more?: boolean; // in the fold with the options that few need
};

const DRAWN: readonly SearchKind[] = ['sample', 'mbr'];

/// The numbers of a request that the page offers, with the ranges of server/api/openapi.yaml (a test compares them).
export const NUMBERS: { readonly [K in NumberMember]?: NumberField } = {
  beam: { label: 'beam', min: 1, max: 12, first: 4, searches: ['beam'] },
  temperature: {
    ...{ label: 'temperature', min: 0, max: 100, first: 1, step: 0.1, searches: DRAWN },
    about: 'below 1 prefers probable pieces; 0: always the most probable one',
  },
  top_k: { label: 'top-k', min: 0, max: 1_000_000, first: 0, searches: DRAWN, about: '0: among all pieces' },
  top_p: { label: 'top-p', min: 0, max: 1, first: 1, step: 0.05, searches: DRAWN, about: '1: among all pieces' },
  seed: { label: 'seed', min: 0, max: 1_000_000_000, first: 1, searches: DRAWN },
  mbr_samples: { label: 'samples', min: 2, max: 32, first: 32, searches: ['mbr'] },
  nbest: { label: 'translations', min: 1, max: 12, first: 1, about: 'of each line' },
  min_length: { label: 'min pieces', min: 0, max: 512, first: 0, more: true },
  no_repeat_ngram: { label: 'n-grams once, from', min: 0, max: 100, first: 0, more: true, about: '0: all may repeat' },
};

/// Whether the field changes anything in this search.
export const applies = ({ searches }: NumberField, search: SearchKind): boolean => searches?.includes(search) ?? true;

/// Tags of the lines.
export const MARKUPS: Record<Value<'markup'>, string> = { none: 'none', html: 'HTML', xliff: 'XLIFF' };

/// The units of an alignment. Words suit scripts with spaces; pieces any.
export type Units = 'words' | 'pieces';
export type AlignmentKind = 'none' | 'words' | 'pieces' | 'soft';
export const ALIGNMENTS: readonly (readonly [AlignmentKind, string])[] = [
  ['none', 'none'],
  ['words', 'of words'],
  ['pieces', 'of pieces'],
  ['soft', 'of pieces, with a matrix'],
];
export const unitsOf = (alignment: AlignmentKind): Units =>
  alignment === 'none' || alignment === 'words' ? 'words' : 'pieces';

/// How many checkpoints before the chosen one translate with it as an ensemble.
export const ENSEMBLES: readonly (readonly [string, string])[] = [
  ['0', 'alone'],
  ['1', 'with the one before'],
  ['2', 'with the 2 before'],
  ['4', 'with the 4 before'],
];

/// The ids of up to `count` checkpoints before the chosen one, the newest first.
export function checkpointsBefore(
  rows: readonly { id: string; update: number }[],
  chosen: string,
  count: number,
): string[] {
  const own = rows.find(({ id }) => id === chosen);
  return rows
    .filter(({ update }) => own && update < own.update)
    .sort((one, other) => other.update - one.update)
    .slice(0, count)
    .map(({ id }) => id);
}

/// The options of a filled-in form.
export type Filled = {
  search: SearchKind;
  numbers: Partial<Record<NumberMember, number>>;
  text: string; // of the text area
  prefix: string; // likewise: line N is the beginning of the translation of line N
  terms: string; // likewise: a line "term = translation" each
  scores: boolean;
  alignment: AlignmentKind;
  markup: Value<'markup'>;
  others: readonly string[]; // ids of checkpoints that translate with the chosen one
};

export const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);

/// The terms of lines "term = translation", as a request has them.
export const termsOf = (text: string): [string, string][] =>
  linesOf(text).map((line) => {
    const at = line.indexOf('=');
    return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  });

/// The beginnings of the translations of the lines that are not empty; none if all are empty. A space at the end completes a word, so
/// it stays. Throws an Error for a beginning of a line that there is not.
export function prefixesOf(text: string, prefix: string): string[] {
  const lines = text.split('\n');
  const beginnings = prefix.split('\n').map((line) => line.trimStart());
  const astray = beginnings.findIndex((line, at) => line !== '' && !lines[at]?.trim());
  if (astray >= 0) throw new Error(`line ${astray + 1} of the beginnings has no line of the text`);
  if (!beginnings.some(Boolean)) return [];
  return lines.flatMap((line, at) => (line.trim() ? [beginnings[at] ?? ''] : []));
}

/// The request of a filled-in form, without what does not go with its search or its tags. Throws an Error if it cannot be one.
export function requestOf(filled: Filled): Request {
  const { search, alignment, markup } = filled;
  const request: Request = { text: linesOf(filled.text) };
  for (const [name, field] of Object.entries(NUMBERS) as [NumberMember, NumberField][])
    if (applies(field, search)) request[name] = filled.numbers[name] ?? field.first;
  if (search !== 'beam') request[search] = true;
  const prefix = markup === 'none' ? prefixesOf(filled.text, filled.prefix) : [];
  if (prefix.length > 0) request.prefix = prefix;
  const terms = search === 'beam' ? termsOf(filled.terms) : [];
  if (terms.length > 0) request.glossary = terms;
  if (filled.scores) request[unitsOf(alignment) === 'words' ? 'word_scores' : 'piece_scores'] = true;
  if (alignment !== 'none') request.alignment = alignment === 'soft' ? 'soft' : 'hard';
  if (markup !== 'none') request.markup = markup;
  if (filled.others.length > 0) request.checkpoints = [...filled.others];
  return request;
}

/// The seed of the next draw.
export const nextSeed = (seed: number): number => (seed >= NUMBERS.seed!.max ? 0 : seed + 1);

/// Sends a POST that is answered by events, and calls `onEvent` with each. Throws an ApiError as sendJson() does, and for an event
/// `error`. The request is sent again only while nothing has come.
export async function postForEvents(path: string, body: unknown, onEvent: (event: ServerEvent) => void): Promise<void> {
  const init = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
  const response = await withRetries(() => request(path, init));
  const parser = new EventStreamParser((event) => {
    if (event.event !== 'error') return onEvent(event);
    const { status, detail, code } = JSON.parse(event.data) as { status: number; detail: string; code: string };
    throw new ApiError(status, detail, code);
  });
  const decoder = new TextDecoder();
  const reader = response.body!.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    answered();
    parser.feed(decoder.decode(value, { stream: true }));
  }
}
