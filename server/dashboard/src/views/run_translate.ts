import { explain } from '../api/client';
import type { ServerEvent } from '../api/stream';
import type { RunData } from '../data/run_data';
import {
  ALIGNMENTS,
  type AlignmentKind,
  applies,
  checkpointsBefore,
  ENSEMBLES,
  type Filled,
  linesOf,
  MARKUPS,
  nextSeed,
  postForEvents,
  type NumberField,
  NUMBERS,
  type Request,
  requestOf,
  type SearchKind,
  SEARCHES,
  type Translated,
  unitsOf,
} from '../data/translate_form';
import { type Child, copyText, h, instead, keep, valueOf } from '../lib/dom';
import { formatCount, formatFixed, formatMs } from '../lib/format';
import { labelled, options, type Owner, type RunContext, type Section, status } from './parts';
import { type Asked, LineView } from './translation_view';

const MAX_LINES = 32;
const NO_CHECKPOINT = 'no checkpoint yet';

/// The checkpoint to select when the list changes: the user's choice if it still exists, otherwise the best one.
export const chosenOf = (picked: string, ids: readonly string[], best: string | undefined): string =>
  ids.includes(picked) ? picked : (best ?? ids[0] ?? '');

const choicesOf = ({ checkpoints, bestCheckpoint }: RunData, chosen: string): Child =>
  checkpoints.map((row) => {
    const best = row === bestCheckpoint ? ', best' : '';
    const score = row.sacrebleu === null ? '' : ` · ${formatFixed(row.sacrebleu, 2)}`;
    const attributes = { value: row.id, selected: row.id === chosen, 'data-key': row.id };
    return h('option', attributes, `${formatCount(row.update)}${best}${score}`);
  });

const idOf = (name: string): string => `translate-${name.replaceAll('_', '-')}`;

/// The fields for the numbers of the fold, or of the row above it. Those that change nothing in the search are hidden, and keep what was
/// entered; disabled, they are not checked either.
const numberFields = (search: SearchKind, more: boolean): Child =>
  (Object.entries(NUMBERS) as [string, NumberField][])
    .filter(([, field]) => (field.more ?? false) === more)
    .map(([name, field]) => {
      const { label, min, max, first, step, about } = field;
      const hidden = !applies(field, search);
      const attributes = { type: 'number', id: idOf(name), min, max, value: first, step: step ? 'any' : 1 };
      return h(
        'span.group',
        { hidden },
        labelled(label, h('input', { ...attributes, disabled: hidden, title: about })),
      );
    });

/// The choices that decide which fields there are. The fields themselves keep what was entered.
type Mode = { search: SearchKind; alignment: AlignmentKind; markup: Filled['markup'] };

/// The options of a filled-in form.
function filledOf(form: HTMLFormElement, mode: Mode, others: readonly string[]): Filled {
  const field = (name: string): HTMLInputElement | null => form.querySelector(`#${idOf(name)}`);
  const numbers: Filled['numbers'] = {};
  for (const name of Object.keys(NUMBERS) as (keyof Filled['numbers'])[]) {
    const input = field(name);
    if (input && input.value !== '') numbers[name] = Number(input.value);
  }
  const text = (name: string): string => field(name)?.value ?? '';
  const [prefix, terms] = [text('prefix'), text('terms')];
  return { ...mode, numbers, text: text('text'), prefix, terms, scores: field('words')?.checked ?? false, others };
}

const area = (name: string, rows: number, placeholder?: string): HTMLElement =>
  h('textarea', { dir: 'auto', id: idOf(name), rows, placeholder });

const scoreNameOf = (search: SearchKind): string =>
  search === 'mbr' ? 'expected chrF' : 'length-normalized log-probability';

/// A translation that is not finished.
const growing = (hyp: string): Translated => ({ hyp, score: null, source_pieces: 0, nbest: [] });

/// The translations of all lines after an event of their stream. `ms` comes with the last event.
export function withEvent(
  found: readonly Translated[],
  { event, data }: Pick<ServerEvent, 'event' | 'data'>,
): { found: readonly Translated[]; ms: number | null } {
  const part = JSON.parse(data) as { line: number; text: string; item: Translated; items: Translated[]; ms: number };
  if (event === 'done') return { found: part.items, ms: part.ms };
  const now = event === 'item' ? part.item : growing(part.text);
  return { found: found.map((old, line) => (line === part.line ? now : old)), ms: null };
}

/// Shows the translations of lines whenever they have grown. Returns the time in ms; null if the connection was lost.
async function translateGrowing(
  path: string,
  request: Request,
  show: (found: readonly Translated[]) => void,
): Promise<number | null> {
  let ms: number | null = null;
  let found: readonly Translated[] = request.text.map(() => growing(''));
  await postForEvents(path, { ...request, stream: true }, (event) => {
    ({ found, ms } = withEvent(found, event));
    show(found);
  });
  return ms;
}

const PLACEHOLDER = 'A sentence to translate; several lines for several sentences';

/// Translates text with one of the run's checkpoints.
class TranslateBox implements Section {
  private picked = '';
  private busy = false;
  private mode: Mode = { search: 'beam', alignment: 'none', markup: 'none' };
  private views: readonly LineView[] = [];
  private found: readonly Translated[] = [];

  constructor(
    private readonly data: RunData,
    private readonly owner: Owner,
  ) {}

  inputs(): readonly unknown[] {
    return [this.data.checkpoints, this.data.bestCheckpoint, this.busy, this.mode, this.views];
  }

  private get chosen(): string {
    const ids = this.data.checkpoints.map(({ id }) => id);
    return chosenOf(this.picked, ids, this.data.bestCheckpoint?.id);
  }

  private async translate(form: HTMLFormElement): Promise<void> {
    if (this.busy || this.data.checkpoints.length === 0) return;
    const { owner, mode } = this;
    const count = Number(form.querySelector<HTMLSelectElement>('#translate-ensemble')!.value);
    const filled = filledOf(form, mode, checkpointsBefore(this.data.checkpoints, this.chosen, count));
    const lines = linesOf(filled.text);
    if (lines.length === 0) return owner.say('Enter a sentence first.');
    if (lines.length > MAX_LINES) return owner.say(`At most ${MAX_LINES} lines at once, found ${lines.length}.`);
    const asked = {
      units: unitsOf(mode.alignment),
      tagged: mode.markup !== 'none',
      scoreName: scoreNameOf(mode.search),
    };
    try {
      const request = requestOf(filled);
      this.busy = true;
      owner.say('translating …');
      await this.show(lines, request, asked);
    } catch (error) {
      owner.said = `Not translated: ${explain(error)}`;
    }
    this.busy = false;
    owner.draw();
  }

  /// Shows the translations of lines while they grow, then says how long it took.
  private async show(lines: readonly string[], request: Request, asked: Asked): Promise<void> {
    let views: readonly LineView[] | null = null;
    const ms = await translateGrowing(`/checkpoints/${this.chosen}/translate`, request, (found) => {
      views ??= lines.map((line) => new LineView(line, asked));
      found.forEach((item, at) => views![at]?.show(item));
      [this.views, this.found] = [views, found];
      this.owner.draw();
    });
    const others = request.checkpoints?.length ?? 0;
    const models = others > 0 ? ` by ${others + 1} checkpoints` : '';
    const seed = request.seed == null ? '' : `, seed ${request.seed}`;
    this.owner.said = ms === null ? 'Not translated: the connection was lost.' : `in ${formatMs(ms)}${models}${seed}`;
  }

  private readonly submit = instead((event) => void this.translate(event.currentTarget as HTMLFormElement));

  /// The same with the next seed, which the field then has.
  private readonly drawAgain = (event: Event): void => {
    const form = (event.currentTarget as Element).closest('form')!;
    const seed = form.querySelector<HTMLInputElement>(`#${idOf('seed')}`)!;
    seed.value = String(nextSeed(Number(seed.value)));
    form.requestSubmit();
  };

  private async copy(): Promise<void> {
    const done = await copyText(this.found.map(({ hyp }) => `${hyp}\n`).join(''));
    this.owner.say(done ? 'Copied, a line each.' : 'This browser lets no page copy here; select the text instead.');
  }

  private set(change: Partial<Mode>): void {
    this.owner.set(() => (this.mode = { ...this.mode, ...change }));
  }

  /// The checkpoint, how the translations are found, and the numbers of that.
  private head(): Child {
    const pick = (event: Event): void => {
      this.picked = valueOf(event);
    };
    const choose = (event: Event): void => this.set({ search: valueOf(event) as SearchKind });
    const { search } = this.mode;
    return h(
      'p.field-row',
      labelled(
        'Checkpoint of update',
        h('select', { id: 'translate-with', onchange: pick }, choicesOf(this.data, this.chosen)),
      ),
      labelled('ensemble', h('select', { id: 'translate-ensemble' }, options(ENSEMBLES, '0')), true),
      labelled('by', h('select', { id: 'translate-search', onchange: choose }, options(SEARCHES, search))),
      numberFields(search, false),
    );
  }

  /// The fold with the options that few need.
  private more(): HTMLElement {
    const { search, alignment, markup } = this.mode;
    const align = (event: Event): void => this.set({ alignment: valueOf(event) as AlignmentKind });
    const mark = (event: Event): void => this.set({ markup: valueOf(event) as Filled['markup'] });
    return h(
      'details',
      h('summary.muted', 'More options'),
      h(
        'p.field-row',
        numberFields(search, true),
        labelled('confidence of words', h('input', { type: 'checkbox', id: 'translate-words' })),
      ),
      h(
        'p.field-row',
        labelled(
          'alignment',
          h('select', { id: 'translate-alignment', onchange: align }, options(ALIGNMENTS, alignment)),
        ),
        labelled(
          'tags',
          h('select', { id: 'translate-markup', onchange: mark }, options(Object.entries(MARKUPS), markup)),
        ),
      ),
      h(
        'div',
        { hidden: markup !== 'none' },
        labelled('Beginnings of the translations: one a line, for the same line of the text', area('prefix', 2)),
      ),
      h('div', { hidden: search !== 'beam' }, labelled('Glossary: a line “term = translation” each', area('terms', 2))),
    );
  }

  render(): Child {
    const none = this.data.checkpoints.length === 0;
    const disabled = none || this.busy;
    const key = (event: KeyboardEvent): void => {
      if (event.key === 'Enter' && event.ctrlKey) this.submit(event);
    };
    const draws = this.mode.search !== 'beam';
    return h(
      'form.translate',
      { onsubmit: this.submit, onkeydown: key, 'aria-busy': this.busy && 'true' },
      this.head(),
      labelled('Text to translate', area('text', 2, PLACEHOLDER), true),
      this.more(),
      h(
        'p.field-row',
        h('button.chip.primary', { type: 'submit', disabled }, 'Translate'),
        draws && h('button.chip', { onclick: this.drawAgain, disabled }, 'Draw again'),
        this.views.length > 0 && h('button.chip', { onclick: () => void this.copy(), disabled: this.busy }, 'Copy'),
        status(none ? NO_CHECKPOINT : this.owner.said),
      ),
      h(
        'ol.translations',
        this.views.map((view) => keep(view.element)),
      ),
    );
  }
}

export const translation = ({ data }: RunContext, owner: Owner): Section => new TranslateBox(data, owner);
