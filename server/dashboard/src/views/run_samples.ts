import { explain, getJson } from '../api/client';
import type { Evaluation } from '../api/types';
import type { RunData } from '../data/run_data';
import { diffWords, type DiffSpan } from '../lib/diff';
import { h, replaceChildren, setText, Slot, type Child } from '../lib/dom';
import { setName } from '../lib/eval_sets';
import { formatCount, formatFixed, formatLoss, formatPercent } from '../lib/format';
import type { ViewState } from '../lib/run_view';
import { badge, table } from './tables';

interface Sample {
  source: string;
  reference: string;
  hypothesis: string;
}

/// Marks words without the white space before them.
const spans = (list: DiffSpan[], kind: string): Child[] =>
  list.map(({ text, same }) => {
    const word = text.trimStart();
    return same ? text : [text.slice(0, text.length - word.length), h('mark', { class: kind }, word)];
  });

function sampleCard(sample: Sample): HTMLElement {
  const diff = diffWords(sample.reference, sample.hypothesis);
  return h(
    'dl',
    { class: 'sample' },
    h('dt', {}, 'source'),
    h('dd', { dir: 'auto' }, sample.source),
    h('dt', {}, 'reference'),
    h('dd', { dir: 'auto' }, spans(diff.reference, 'missed')),
    h('dt', {}, 'hypothesis'),
    h('dd', { dir: 'auto' }, spans(diff.hypothesis, 'extra')),
  );
}

const has = (sample: Sample, text: string): boolean =>
  [sample.source, sample.reference, sample.hypothesis].some((side) => side.toLowerCase().includes(text));

/// A table of evaluations, and the translations of one of them. Shows the newest until the user chooses an update.
export class Evaluations {
  readonly element: HTMLElement;
  private readonly rows = new Slot();
  private readonly slider: HTMLInputElement;
  private readonly chosen = h('output', { for: 'sample-update' });
  private readonly filter: HTMLInputElement;
  private readonly list = h('div', { class: 'samples', tabindex: 0, role: 'region', 'aria-label': 'Translations' });
  private readonly newest: HTMLButtonElement;
  private withSamples: Evaluation[] = [];
  private samples: Sample[] = [];
  private shown = '';

  constructor(
    private readonly data: RunData,
    private readonly view: ViewState,
    private readonly onView: () => void,
  ) {
    this.slider = h('input', {
      type: 'range',
      id: 'sample-update',
      min: 0,
      max: 0,
      step: 1,
      oninput: () => this.choose(Number(this.slider.value)),
    });
    this.newest = h('button', { type: 'button', class: 'chip', onclick: () => this.choose(null) }, 'newest');
    this.filter = h('input', {
      type: 'search',
      id: 'sample-filter',
      placeholder: 'Filter by words',
      oninput: () => this.draw(),
    });
    this.element = h(
      'div',
      { class: 'evaluations' },
      this.rows.element,
      h('h3', {}, 'Translations'),
      h(
        'p',
        { class: 'field-row' },
        h('label', { for: 'sample-update' }, 'Update'),
        this.slider,
        this.chosen,
        this.newest,
        h('label', { for: 'sample-filter', class: 'visually-hidden' }, 'Filter translations by words'),
        this.filter,
        h(
          'span',
          { class: 'muted' },
          h('mark', { class: 'missed' }, 'missed'),
          ' in the reference, ',
          h('mark', { class: 'extra' }, 'different'),
          ' in the hypothesis',
        ),
      ),
      this.list,
    );
  }

  update(): void {
    const { data } = this;
    this.rows.show([data.evals, data.run?.best?.id], () => this.evalsTable());
    this.withSamples = data.evals.filter(({ sample_count }) => sample_count > 0);
    this.slider.max = String(Math.max(0, this.withSamples.length - 1));
    this.slider.disabled = this.withSamples.length < 2;
    this.show();
  }

  private evalsTable(): HTMLElement {
    const { data } = this;
    return table(
      'Evaluations',
      ['#Update', 'Set', '#sacreBLEU', '#chrF', '#Loss', '#BLEU (teacher-forced)', '#Accuracy (same)', '#Seconds'],
      [...data.evals]
        .reverse()
        .map((row) => [
          [formatCount(row.update), row.id === data.run?.best?.id ? badge('best') : null],
          setName(row.set),
          formatFixed(row.sacrebleu, 2),
          formatFixed(row.chrf, 2),
          formatLoss(row.loss),
          formatFixed(row.teacher_forced_bleu, 2),
          formatPercent(row.accuracy),
          formatFixed(row.seconds, 1),
        ]),
    );
  }

  private choose(at: number | null): void {
    this.view.evaluation = at === null || at === this.withSamples.length - 1 ? '' : (this.withSamples[at]?.id ?? '');
    this.onView();
    this.show();
  }

  private show(): void {
    const chosen = this.withSamples.findIndex(({ id }) => id === this.view.evaluation);
    const at = chosen >= 0 ? chosen : this.withSamples.length - 1;
    const row = this.withSamples[at];
    this.newest.disabled = chosen < 0;
    if (!row) return replaceChildren(this.list, h('p', { class: 'muted' }, 'no translations yet'));
    this.slider.value = String(at);
    this.slider.setAttribute('aria-valuetext', `update ${formatCount(row.update)}`);
    setText(
      this.chosen,
      `${formatCount(row.update)} · sacreBLEU ${formatFixed(row.sacrebleu, 2)} · ${setName(row.set)}`,
    );
    if (row.id !== this.shown) void this.load(row.id);
  }

  private async load(id: string): Promise<void> {
    this.shown = id;
    try {
      const { samples = [] } = await getJson<Evaluation>(`/evals/${id}`);
      if (id !== this.shown) return;
      this.samples = samples;
      this.draw();
    } catch (error) {
      if (id !== this.shown) return;
      this.shown = '';
      replaceChildren(this.list, h('p', { class: 'problem' }, `not loaded: ${explain(error)}`));
    }
  }

  private draw(): void {
    const text = this.filter.value.trim().toLowerCase();
    const found = this.samples.filter((sample) => has(sample, text));
    replaceChildren(
      this.list,
      found.length > 0 ? found.map(sampleCard) : h('p', { class: 'muted' }, 'no translation contains these words'),
    );
  }
}
