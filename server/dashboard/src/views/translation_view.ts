import type { Choice, Translated, Units } from '../data/translate_form';
import { type Child, copyText, h, patchChildren } from '../lib/dom';
import { formatFixed, formatPercent } from '../lib/format';
import { status, table } from './parts';

/// A word or a piece of a text, with its confidence if that is known.
export type Unit = { text: string; confidence?: number };

/// Text of pieces: without the mark of a space, and with the characters of its bytes.
function textOf(piece: string): string {
  const plain = piece.startsWith('▁') ? piece.slice(1) : piece;
  return plain.replace(/(?:<0x[0-9A-F]{2}>)+/g, (bytes) => {
    const codes = bytes.match(/[0-9A-F]{2}(?=>)/g)!.map((code) => parseInt(code, 16));
    return new TextDecoder().decode(new Uint8Array(codes));
  });
}

/// The words of pieces as the server numbers them: a "▁" begins one.
export function wordsOf(pieces: readonly string[]): string[] {
  const words: string[] = [];
  for (const piece of pieces) {
    if (words.length === 0 || piece.startsWith('▁')) words.push(piece);
    else words[words.length - 1] += piece;
  }
  return words.map(textOf);
}

/// Where units are in a text, in order, with nothing but white space around them. null unless the text is made of them, as where
/// normalization changed it, or where it has tags.
export function placesOf(text: string, units: readonly string[]): readonly [number, number][] | null {
  const places: [number, number][] = [];
  let at = 0;
  for (const unit of units) {
    while (/\s/.test(text[at] ?? '') && !text.startsWith(unit, at)) at += 1;
    if (!text.startsWith(unit, at)) return null;
    places.push([at, at + unit.length]);
    at += unit.length;
  }
  return text.slice(at).trim() === '' ? places : null;
}

const sourceUnits = (pieces: readonly string[], units: Units): Unit[] =>
  (units === 'words' ? wordsOf(pieces) : pieces.map(textOf)).map((text) => ({ text }));

/// The words or pieces of a translation; none if neither scores nor an alignment were asked for.
export function unitsOfChoice({ words, pieces, target_pieces }: Choice, units: Units): Unit[] {
  if (words) return words.map(({ word, confidence }) => ({ text: word, confidence }));
  const scored = pieces?.filter(({ piece }) => piece !== '</s>');
  if (scored && units === 'pieces')
    return scored.map(({ piece, log_probability }) => ({ text: textOf(piece), confidence: Math.exp(log_probability) }));
  return target_pieces ? sourceUnits(target_pieces, units) : [];
}

/// The numbers of the other side that are aligned with unit `at` of this one.
export const partnersOf = (pairs: readonly (readonly number[])[], side: 'source' | 'target', at: number): number[] =>
  pairs
    .filter((pair) => pair[side === 'source' ? 0 : 1] === at)
    .map((pair) => pair[side === 'source' ? 1 : 0]!)
    .sort((a, b) => a - b);

/// The text and the tags of a line with markup, in turns.
export const tagParts = (text: string): string[] => text.split(/(<[^>]*>)/).filter(Boolean);

/// The unit that the reader chose: of the source (-1) or of a translation.
type Spot = { which: number; at: number };
const SOURCE = -1;
// Where a model is calibrated, as many of such words are wrong as right.
const DOUBTFUL = 0.5;
// Percent of the colour behind a word without confidence, and behind a weight of 1: text on it keeps a contrast of 4.5.
const STRONGEST = 40;
// Cells that a browser lays out at once without a pause: pieces of a long sentence, squared.
const MAX_CELLS = 10_000;

const STEPS: Record<string, (at: number, last: number) => number> = {
  ArrowLeft: (at) => Math.max(0, at - 1),
  ArrowRight: (at, last) => Math.min(last, at + 1),
  Home: () => 0,
  End: (_, last) => last,
};

/// How the answer for a line is to be read, by its request.
export type Asked = { units: Units; tagged: boolean; scoreName: string };

/// One line with its translations. It redraws itself when the reader points at a word.
export class LineView {
  readonly element = h('li');
  private item: Translated | null = null;
  private pointed: Spot | null = null; // by pointer or focus
  private pinned: Spot | null = null; // by a click, Enter or space
  private matrix = false; // is open
  private drawing = false;
  private said = '';
  private readonly stops = new Map<number, number>(); // the unit of each text that Tab reaches

  constructor(
    private readonly source: string,
    private readonly asked: Asked,
  ) {}

  show(item: Translated): void {
    if (this.item === item) return;
    this.item = item;
    this.pinned = this.pointed = null;
    this.stops.clear();
    this.draw();
  }

  private draw(): void {
    if (this.drawing) return; // a word that goes while it has the focus says so
    this.drawing = true;
    patchChildren(this.element, this.render());
    this.drawing = false;
  }

  private render(): Child {
    const { nbest, hyp, score, terms = [] } = this.item!;
    const choices: readonly Choice[] =
      nbest.length > 0 ? nbest : [{ hyp, score: score ?? 0, log_probability: 0, complete: true }];
    const best = choices[0]!;
    const sourceOf = sourceUnits(best.source_pieces ?? [], this.asked.units);
    const reads = choices.some((choice) => unitsOfChoice(choice, this.asked.units).length > 0);
    return [
      h(
        'p.muted',
        { dir: 'auto' },
        this.asked.tagged ? this.code(this.source) : this.text(this.source, sourceOf, SOURCE),
      ),
      choices.map((choice, at) => this.choice(choice, at, choices.length > 1)),
      this.asked.tagged && this.untagged(best, sourceOf),
      reads && h('p.muted.word-detail', this.detail()),
      score !== null && choices.length === 1 && h('p.muted', `${this.asked.scoreName} ${formatFixed(score, 3)}`),
      best.attention && this.attention(best),
      terms.map(({ source, target, missed }) =>
        missed
          ? h('p.notice', `The translation lacks “${target}” for “${source}”.`)
          : h('p.muted', `“${source}” is “${target}”, as the glossary has it.`),
      ),
      this.said !== '' && status(this.said),
    ];
  }

  private choice(choice: Choice, at: number, several: boolean): Child {
    const more = several && h('span.muted', { title: this.asked.scoreName }, ` ${formatFixed(choice.score, 3)}`);
    const cut = !choice.complete && h('span.muted', ' (cut at its maximum length)');
    const content = this.asked.tagged
      ? [this.code(choice.hyp), ' ', this.copier(choice.hyp, at)]
      : this.text(choice.hyp, unitsOfChoice(choice, this.asked.units), at);
    return h(at === 0 ? 'p.translation' : 'p', { dir: 'auto' }, content, more, cut);
  }

  /// The words of a line with tags, which the text with its tags does not show by themselves.
  private untagged(best: Choice, source: readonly Unit[]): Child {
    const units = unitsOfChoice(best, this.asked.units);
    if (units.length === 0) return null;
    return h('p.untagged', { dir: 'auto' }, source.length > 0 && [this.row(source, SOURCE), ' → '], this.row(units, 0));
  }

  private code(text: string): HTMLElement {
    return h(
      'code.tagged',
      tagParts(text).map((part) => (part.startsWith('<') ? h('span.tag', part) : part)),
    );
  }

  private copier(text: string, at: number): HTMLElement {
    const copy = async (event: Event): Promise<void> => {
      const code = (event.target as Element).parentElement!.querySelector('code')!;
      if (await copyText(text)) this.said = 'Copied, with its tags.';
      else {
        getSelection()?.selectAllChildren(code);
        this.said = 'This browser lets no page copy here: it is selected, press Ctrl+C.';
      }
      this.draw();
    };
    return h(
      'button.chip',
      { 'aria-label': `Copy translation ${at + 1}`, onclick: (event: Event) => void copy(event) },
      'Copy',
    );
  }

  /// A text with its units as words to point at; the text alone where it is not made of them.
  private text(text: string, units: readonly Unit[], which: number): Child {
    const places = placesOf(
      text,
      units.map((unit) => unit.text),
    );
    if (units.length === 0) return text;
    if (!places) return [text, h('br'), this.row(units, which)];
    let end = 0;
    const content = places.map(([from, to], at) => {
      const gap = text.slice(end, from);
      end = to;
      return [gap, to > from && this.word(units, { which, at })];
    });
    return this.group(which, [content, text.slice(end)]);
  }

  /// Units with spaces between them.
  private row(units: readonly Unit[], which: number): Child {
    return this.group(
      which,
      units.map((unit, at) => unit.text !== '' && [at > 0 && ' ', this.word(units, { which, at })]),
    );
  }

  private group(which: number, content: Child): HTMLElement {
    const name = which === SOURCE ? 'the source' : `translation ${which + 1}`;
    const label = `${this.asked.units} of ${name}; the arrow keys go from one to the next`;
    return h('span.words', { role: 'group', 'aria-label': label }, content);
  }

  private word(units: readonly Unit[], spot: Spot): HTMLElement {
    const { text, confidence } = units[spot.at]!;
    const first = units.findIndex((unit) => unit.text !== '');
    const detail = this.detailOf(spot, confidence);
    const state = this.isChosen(spot) ? 'marked' : this.isPartner(spot) ? 'partner' : '';
    const doubtful = confidence !== undefined && confidence < DOUBTFUL;
    const element = h(
      'span',
      {
        class: ['word', state, doubtful ? 'doubtful' : ''].filter(Boolean).join(' '),
        role: 'button',
        tabindex: (this.stops.get(spot.which) ?? first) === spot.at ? 0 : -1,
        title: detail || null,
        'aria-label': detail ? `${text}: ${detail}` : text,
        'aria-pressed': String(this.pinned?.which === spot.which && this.pinned.at === spot.at),
        onmouseenter: () => this.point(spot),
        onmouseleave: () => this.point(null),
        onfocus: () => this.point(spot),
        onblur: () => this.point(null),
        onclick: () => this.pin(spot),
        onkeydown: (event: KeyboardEvent) => this.key(event, spot),
      },
      text,
    );
    if (confidence !== undefined) element.style.setProperty('--doubt', `${Math.round((1 - confidence) * STRONGEST)}%`);
    return element;
  }

  private pairsOf(which: number): readonly (readonly number[])[] {
    const choice = this.item!.nbest[Math.max(0, which)];
    return (this.asked.units === 'words' ? choice?.alignment : choice?.piece_alignment) ?? [];
  }

  private get spot(): Spot | null {
    return this.pointed ?? this.pinned;
  }

  private isChosen({ which, at }: Spot): boolean {
    return this.spot?.which === which && this.spot.at === at;
  }

  private isPartner({ which, at }: Spot): boolean {
    const { spot } = this;
    if (!spot || (which === SOURCE) === (spot.which === SOURCE)) return false;
    const pairs = this.pairsOf(which === SOURCE ? spot.which : which);
    return partnersOf(pairs, spot.which === SOURCE ? 'source' : 'target', spot.at).includes(at);
  }

  /// A unit's partners and confidence, in words.
  private detailOf({ which, at }: Spot, confidence?: number): string {
    const best = this.item!.nbest[Math.max(0, which)];
    const found = partnersOf(this.pairsOf(which), which === SOURCE ? 'source' : 'target', at);
    const others =
      which === SOURCE
        ? unitsOfChoice(best!, this.asked.units)
        : sourceUnits(best?.source_pieces ?? [], this.asked.units);
    const names = found.map((other) => `“${others[other]?.text ?? ''}”`).join(', ');
    return [
      names && `${which === SOURCE ? 'becomes' : 'from'} ${names}`,
      confidence !== undefined && `confidence ${formatPercent(confidence)}`,
    ]
      .filter(Boolean)
      .join(', ');
  }

  private detail(): string {
    const { spot, item } = this;
    if (!spot) return `Point at a ${this.asked.units === 'words' ? 'word' : 'piece'} to see what is known of it.`;
    const choice = item!.nbest[Math.max(0, spot.which)]!;
    const units =
      spot.which === SOURCE
        ? sourceUnits(choice.source_pieces ?? [], this.asked.units)
        : unitsOfChoice(choice, this.asked.units);
    const unit = units[spot.at];
    return `${unit?.text ?? ''}: ${this.detailOf(spot, unit?.confidence) || 'aligned with nothing'}`;
  }

  private point(spot: Spot | null): void {
    if (spot) this.stops.set(spot.which, spot.at);
    this.pointed = spot;
    this.draw();
  }

  private pin(spot: Spot): void {
    const same = this.pinned?.which === spot.which && this.pinned.at === spot.at;
    this.pinned = same ? null : spot;
    this.draw();
  }

  private key(event: KeyboardEvent, spot: Spot): void {
    const word = event.currentTarget as HTMLElement;
    const words = [...word.parentElement!.querySelectorAll<HTMLElement>('.word')];
    const step = STEPS[event.key];
    if (step) words[step(words.indexOf(word), words.length - 1)]!.focus();
    else if ((event.key === 'Enter' && !event.ctrlKey) || event.key === ' ') this.pin(spot);
    else return;
    event.preventDefault();
  }

  /// The attention of each piece of the translation to those of the source, on demand.
  private attention({ attention = [], source_pieces = [], target_pieces = [] }: Choice): Child {
    const cells = attention.length * (source_pieces.length + 1);
    if (cells > MAX_CELLS)
      return h('p.muted', `The matrix has ${cells} weights, too many to show here; the API's answer has them.`);
    const toggle = (): void => {
      this.matrix = !this.matrix;
      this.draw();
    };
    const button = h('button.chip', { onclick: toggle, 'aria-expanded': String(this.matrix) }, 'Attention matrix');
    if (!this.matrix) return h('p', button);
    const rows = attention.map((weights, row) => [
      h('th', { scope: 'row' }, target_pieces[row] ?? '</s>'),
      ...weights.map((weight) => {
        const cell = h('td.number', h('span.heat-cell', weight < 0.005 ? '' : formatFixed(100 * weight, 0)));
        cell.style.setProperty('--heat', `${Math.round(STRONGEST * weight)}%`);
        return cell;
      }),
    ]);
    const label = 'Attention of the pieces of the translation (rows) to those of the source (columns), in percent';
    return [h('p', button), table(label, ['', ...source_pieces, '</s>'], rows, [], { kind: 'matrix' })];
  }
}
