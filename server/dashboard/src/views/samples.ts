import { getJson } from '../api/client';
import type { Evaluation } from '../api/types';
import { diffWords, type DiffSpan } from '../lib/diff';
import { h, replaceChildren } from '../lib/dom';
import { formatCount, formatFixed } from '../lib/format';

const spans = (list: DiffSpan[], kind: string): (string | HTMLElement)[] =>
  list.map(({ text, same }) => (same ? text : h('mark', { class: kind }, text)));

function sampleCard(sample: { source: string; reference: string; hypothesis: string }): HTMLElement {
  const diff = diffWords(sample.reference, sample.hypothesis);
  return h('dl', { class: 'sample' }, h('dt', {}, 'source'), h('dd', {}, sample.source),
    h('dt', {}, 'reference'), h('dd', {}, spans(diff.reference, 'missed')),
    h('dt', {}, 'hypothesis'), h('dd', {}, spans(diff.hypothesis, 'extra')));
}

/// Translations of one evaluation, chosen by update; follows the newest until the reader chooses.
export class Samples {
  readonly element: HTMLElement;
  private readonly select: HTMLSelectElement;
  private readonly list = h('div', { class: 'samples' });
  private evals: Evaluation[] = [];
  private shown = '';
  private chosen = false;

  constructor() {
    this.select = h('select', { id: 'sample-update', onchange: () => { this.chosen = true; void this.show(); } });
    this.element = h('div', {}, h('p', { class: 'sample-tools' }, h('label', { for: 'sample-update' }, 'At update '), this.select,
      h('span', { class: 'muted' }, h('mark', { class: 'missed' }, 'missed'), ' in the reference, ',
        h('mark', { class: 'extra' }, 'different'), ' in the hypothesis')), this.list);
  }

  update(evals: Evaluation[]): void {
    const withSamples = evals.filter(({ sample_count }) => sample_count > 0).reverse();
    if (withSamples.length !== this.evals.length) {
      const before = this.select.value;
      replaceChildren(this.select, withSamples.map((row) =>
        h('option', { value: row.id }, `${formatCount(row.update)} · sacreBLEU ${formatFixed(row.sacrebleu, 2)}`)));
      if (this.chosen) this.select.value = before;
    }
    this.evals = withSamples;
    void this.show();
  }

  private async show(): Promise<void> {
    const id = this.select.value;
    if (!id) return replaceChildren(this.list, h('p', { class: 'muted' }, 'no translations yet'));
    if (id === this.shown) return;
    this.shown = id;
    try {
      const { samples = [] } = await getJson<Evaluation>(`/evals/${id}`);
      if (id === this.shown) replaceChildren(this.list, samples.map(sampleCard));
    } catch (error) {
      this.shown = '';
      replaceChildren(this.list, h('p', { class: 'problem' }, `not loaded: ${String(error)}`));
    }
  }
}
