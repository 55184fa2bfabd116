import { explain, getJson } from '../api/client';
import type { Evaluation } from '../api/types';
import type { RunData } from '../data/run_data';
import { type Child, h, valueOf } from '../lib/dom';
import { formatCount, formatFixed, formatLoss, formatPercent } from '../lib/format';
import { setName } from '../lib/runs';
import { badge, labelled, type Owner, type Section, table } from './parts';
import type { RunContext } from './run_sections';

/// A run of words in one text; `same` is false if the other text differs here.
export interface DiffSpan {
  text: string;
  same: boolean;
}

export interface WordDiff {
  reference: DiffSpan[];
  hypothesis: DiffSpan[];
}

// Scripts whose words no spaces separate.
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
const words = new Intl.Segmenter(undefined, { granularity: 'word' });

/// Splits text into words and punctuation marks, each with the white space before it.
function tokens(text: string): string[] {
  const found = text.match(/\s*(?:[\p{L}\p{N}\p{M}]+|[^\s\p{L}\p{N}\p{M}])/gu) ?? [];
  return found.flatMap((token) => {
    if (!UNSPACED.test(token)) return [token];
    const word = token.trimStart();
    const parts = [...words.segment(word)].map(({ segment }) => segment);
    parts[0] = token.slice(0, token.length - word.length) + parts[0];
    return parts;
  });
}

/// Lengths of the longest common subsequences of all suffix pairs, row by row.
function suffixTable(left: readonly string[], right: readonly string[]): Uint16Array[] {
  const table = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i -= 1) {
    const row = table[i]!;
    const below = table[i + 1]!;
    for (let j = right.length - 1; j >= 0; j -= 1) {
      row[j] = left[i] === right[j] ? below[j + 1]! + 1 : Math.max(below[j]!, row[j + 1]!);
    }
  }
  return table;
}

function append(spans: DiffSpan[], text: string, same: boolean): void {
  const last = spans.at(-1);
  if (last && last.same === same) last.text += text;
  else spans.push({ text, same });
}

/// A word diff by longest common subsequence. The spans of each side concatenate to its text.
export function diffWords(reference: string, hypothesis: string): WordDiff {
  const left = tokens(reference);
  const right = tokens(hypothesis);
  const leftWords = left.map((token) => token.trim());
  const rightWords = right.map((token) => token.trim());
  const table = suffixTable(leftWords, rightWords);
  const result: WordDiff = { reference: [], hypothesis: [] };
  let i = 0;
  let j = 0;
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && leftWords[i] === rightWords[j]) {
      append(result.reference, left[i++]!, true);
      append(result.hypothesis, right[j++]!, true);
    } else if (j >= right.length || (i < left.length && table[i + 1]![j]! >= table[i]![j + 1]!)) {
      append(result.reference, left[i++]!, false);
    } else {
      append(result.hypothesis, right[j++]!, false);
    }
  }
  return result;
}

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

function sampleCard({ source, reference, hypothesis }: Sample): HTMLElement {
  const diff = diffWords(reference, hypothesis);
  const side = (name: string, text: Child): Child => [h('dt', name), h('dd', { dir: 'auto' }, text)];
  return h(
    'dl.sample',
    side('source', source),
    side('reference', spans(diff.reference, 'missed')),
    side('hypothesis', spans(diff.hypothesis, 'extra')),
  );
}

const has = ({ source, reference, hypothesis }: Sample, text: string): boolean =>
  [source, reference, hypothesis].some((side) => side.toLowerCase().includes(text));

function evalsTable({ evals, run }: RunData): HTMLElement {
  return table(
    'Evaluations',
    ['#Update', 'Set', '#sacreBLEU', '#chrF', '#Loss', '#BLEU (teacher-forced)', '#Accuracy (same)', '#Seconds'],
    [...evals]
      .reverse()
      .map((row) => [
        [formatCount(row.update), row.id === run?.best?.id && badge('best')],
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

/// A table of evaluations, and the translations of one of them. Shows the newest until the user chooses an update.
class Evaluations implements Section {
  private samples: readonly Sample[] = [];
  private loaded = ''; // the id of the evaluation whose samples these are
  private words = '';
  private problem = '';

  constructor(
    private readonly run: RunContext,
    private readonly owner: Owner,
  ) {}

  async load(): Promise<void> {
    const row = this.chosen(this.rows());
    if (!row || row.id === this.loaded) return;
    this.samples = (await getJson<Evaluation>(`/evals/${row.id}`)).samples ?? [];
    this.loaded = row.id;
    this.problem = '';
  }

  failed(error: unknown): void {
    this.problem = `not loaded: ${explain(error)}`;
    this.owner.draw();
  }

  inputs(): readonly unknown[] {
    const { data, view } = this.run;
    return [data.evals, data.run?.best?.id, view.evaluation, this.samples, this.words, this.problem];
  }

  render(): Child {
    const rows = this.rows();
    const row = this.chosen(rows);
    const region = { tabindex: 0, role: 'region', 'aria-label': 'Translations' };
    return [
      h('div', evalsTable(this.run.data)),
      h('h3', 'Translations'),
      this.fields(rows, row),
      h('div.samples', region, this.list(row)),
    ];
  }

  private rows(): Evaluation[] {
    return this.run.data.evals.filter(({ sample_count }) => sample_count > 0);
  }

  private chosen(rows: readonly Evaluation[]): Evaluation | undefined {
    return rows.find(({ id }) => id === this.run.view.evaluation) ?? rows.at(-1);
  }

  private fields(rows: readonly Evaluation[], row: Evaluation | undefined): Child {
    const figures = row && [formatCount(row.update), `sacreBLEU ${formatFixed(row.sacrebleu, 2)}`, setName(row.set)];
    const range = { type: 'range', id: 'sample-update', min: 0, max: Math.max(0, rows.length - 1), step: 1 };
    const slider = h('input', {
      ...{ ...range, value: row ? rows.indexOf(row) : 0, disabled: rows.length < 2 },
      'aria-valuetext': row && `update ${formatCount(row.update)}`,
      oninput: (event: Event) => this.choose(Number(valueOf(event))),
    });
    const newest = { disabled: row?.id !== this.run.view.evaluation, onclick: () => this.choose(Infinity) };
    const filter = (event: Event): void => {
      this.words = valueOf(event).trim().toLowerCase();
      this.owner.draw();
    };
    const placeholder = 'Filter by words';
    const search = h('input', { type: 'search', id: 'sample-filter', placeholder, oninput: filter });
    const [missed, different] = [h('mark.missed', 'missed'), h('mark.extra', 'different')];
    return h(
      'p.field-row',
      labelled('Update', slider),
      h('output', { for: 'sample-update' }, figures?.join(' · ')),
      h('button.chip', newest, 'newest'),
      labelled('Filter translations by words', search, true),
      h('span.muted', missed, ' in the reference, ', different, ' in the hypothesis'),
    );
  }

  private list(row: Evaluation | undefined): Child {
    if (!row) return h('p.muted', 'no translations yet');
    if (this.problem) return h('p.problem', this.problem);
    if (this.loaded === '') return null;
    const found = this.samples.filter((sample) => has(sample, this.words));
    return found.length > 0 ? found.map(sampleCard) : h('p.muted', 'no translation contains these words');
  }

  private choose(at: number): void {
    const rows = this.rows();
    this.run.view.evaluation = at >= rows.length - 1 ? '' : (rows[at]?.id ?? '');
    this.run.remember();
    this.owner.draw();
    this.owner.load();
  }
}

export const evaluations = (run: RunContext, owner: Owner): Section => new Evaluations(run, owner);
