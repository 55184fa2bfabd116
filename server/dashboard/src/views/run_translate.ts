import { explain, sendJson } from '../api/client';
import type { RunData } from '../data/run_data';
import { h, replaceChildren, setText } from '../lib/dom';
import { formatCount, formatFixed, formatMs } from '../lib/format';

const MAX_LINES = 32;

interface Translation {
  hyp: string;
  score: number | null;
  nbest?: { hyp: string; score: number | null }[];
}
interface Answer {
  items: Translation[];
  ms: number;
}

/// The non-empty lines of the text.
export const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);

/// The checkpoint to select when the list changes: the user's choice if it still exists, otherwise the best one.
export const chosenOf = (picked: string, ids: readonly string[], best: string | undefined): string =>
  ids.includes(picked) ? picked : (best ?? ids[0] ?? '');

/// Translates text with one of the run's checkpoints.
export class TranslateBox {
  readonly element: HTMLElement;
  private readonly select = h('select', {
    id: 'translate-with',
    onchange: () => {
      this.picked = this.select.value;
    },
  });
  private readonly text = h('textarea', {
    dir: 'auto',
    id: 'translate-text',
    rows: 2,
    placeholder: 'A sentence to translate; several lines for several sentences',
  });
  private readonly beam = h('input', { type: 'number', id: 'translate-beam', min: 1, max: 12, value: 4 });
  private readonly button: HTMLButtonElement;
  private readonly said = h('p', { class: 'muted', role: 'status' });
  private readonly results = h('ol', { class: 'translations' });
  private offered = '';
  private picked = '';

  constructor(private readonly data: RunData) {
    this.button = h('button', { type: 'submit', class: 'chip primary' }, 'Translate');
    this.element = h(
      'form',
      {
        class: 'translate',
        onsubmit: (event: Event) => {
          event.preventDefault();
          void this.translate();
        },
        onkeydown: (event: KeyboardEvent) => {
          if (event.key === 'Enter' && event.ctrlKey) void this.translate();
        },
      },
      h(
        'p',
        { class: 'field-row' },
        h('label', { for: 'translate-with' }, 'Checkpoint of update'),
        this.select,
        h('label', { for: 'translate-beam' }, 'beam'),
        this.beam,
      ),
      h('label', { for: 'translate-text', class: 'visually-hidden' }, 'Text to translate'),
      this.text,
      h('p', { class: 'field-row' }, this.button, this.said),
      this.results,
    );
  }

  update(): void {
    const { checkpoints, bestCheckpoint: best } = this.data;
    const ids = checkpoints.map(({ id }) => id);
    const offered = [...ids, best?.id].join();
    if (offered === this.offered) return;
    this.offered = offered;
    replaceChildren(
      this.select,
      checkpoints.map((row) =>
        h(
          'option',
          { value: row.id },
          `${formatCount(row.update)}${row === best ? ', best' : ''}${row.sacrebleu === null ? '' : ` · ${formatFixed(row.sacrebleu, 2)}`}`,
        ),
      ),
    );
    this.select.value = chosenOf(this.picked, ids, best?.id);
    this.button.disabled = checkpoints.length === 0;
    if (checkpoints.length === 0) setText(this.said, 'no checkpoint yet');
    else if (this.said.textContent === 'no checkpoint yet') setText(this.said, '');
  }

  private async translate(): Promise<void> {
    const lines = linesOf(this.text.value);
    if (this.button.disabled) return;
    if (lines.length === 0) return setText(this.said, 'Enter a sentence first.');
    if (lines.length > MAX_LINES)
      return setText(this.said, `At most ${MAX_LINES} lines at once, found ${lines.length}.`);
    this.button.disabled = true;
    this.element.setAttribute('aria-busy', 'true');
    setText(this.said, 'translating …');
    try {
      const answer = await sendJson<Answer>('POST', `/checkpoints/${this.select.value}/translate`, {
        text: lines,
        beam: Number(this.beam.value),
      });
      replaceChildren(
        this.results,
        answer!.items.map((item, at) => this.result(lines[at] ?? '', item)),
      );
      setText(this.said, `in ${formatMs(answer!.ms)}`);
    } catch (error) {
      setText(this.said, `Not translated: ${explain(error)}`);
    }
    this.button.disabled = false;
    this.element.removeAttribute('aria-busy');
  }

  private result(source: string, { hyp, score }: Translation): HTMLElement {
    return h(
      'li',
      {},
      h('p', { class: 'muted', dir: 'auto' }, source),
      h('p', { class: 'translation', dir: 'auto' }, hyp),
      score === null ? null : h('p', { class: 'muted' }, `length-normalized log-probability ${formatFixed(score, 3)}`),
    );
  }
}
