import { BASE, explain, fileOf, getJson, sendJson, sumsOf } from '../api/client';
import { may } from '../api/session';
import type { Checkpoint, Evaluation } from '../api/types';
import type { RunData } from '../data/run_data';
import { type Child, copyText, h, keep, valueOf } from '../lib/dom';
import { formatBytes, formatCount, formatFixed, formatLoss, formatPercent, formatTime } from '../lib/format';
import { setName } from '../data/runs';
import { hashOf, queryOf } from '../lib/routes';
import { badge, labelled, type Owner, type RunContext, type Section, status, table } from './parts';
import { RunExports } from './run_exports';

/// A run of words in one text; `same` is false if the other text differs here.
export type DiffSpan = { text: string; same: boolean };
export type WordDiff = { reference: DiffSpan[]; hypothesis: DiffSpan[] };

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

type Sample = { source: string; reference: string; hypothesis: string };

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

const EVAL_HEADS = ['#Update', 'Set', '#sacreBLEU', '#chrF', '#Loss'];
const FORCED_HEADS = ['#BLEU (teacher-forced)', '#Accuracy (same)', '#Seconds'];

function evalsTable({ evals, run }: RunData): HTMLElement {
  const cells = (row: Evaluation): Child[] => [
    [formatCount(row.update), row.id === run?.best?.id && badge('best')],
    setName(row.set),
    formatFixed(row.sacrebleu, 2),
    formatFixed(row.chrf, 2),
    formatLoss(row.loss),
    formatFixed(row.teacher_forced_bleu, 2),
    formatPercent(row.accuracy),
    formatFixed(row.seconds, 1),
  ];
  return table('Evaluations', [...EVAL_HEADS, ...FORCED_HEADS], evals.map(cells).toReversed());
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
    this.owner.set(() => (this.problem = `not loaded: ${explain(error)}`));
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
    const filter = (event: Event): void => this.owner.set(() => (this.words = valueOf(event).trim().toLowerCase()));
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

/// The command that downloads the checkpoint, verifies its digests, and resumes after an interruption.
export const downloadCommand = (server: string, run: string, checkpoint: string): string =>
  `nmt run download ${run} --checkpoint ${checkpoint} --server ${server}`;

function fileList({ id, files }: Checkpoint): HTMLElement {
  const items = files.map(({ name, size, sha256 }) => {
    const link = h('a', { href: fileOf(id, name), download: name }, name);
    return h('li', link, ` ${formatBytes(size)} `, h('code', { title: sha256 }, sha256.slice(0, 12)));
  });
  return h('details', h('summary', `${files.length} files`), h('ul.files', items));
}

const downloads = ({ id, name }: Checkpoint): Child => [
  h('a', { href: `${BASE}/checkpoints/${id}/archive.tar`, download: `${name}.tar` }, 'archive.tar'),
  ' ',
  h('a', { href: sumsOf(id), download: 'SHA256SUMS' }, 'SHA256SUMS'),
];

/// The run's checkpoints with downloads and digests. A pinned checkpoint is never removed.
export function checkpoints({ data, reload }: RunContext, owner: Owner): Section {
  const exports = new RunExports(data.id, owner);
  const pin = async ({ id, update, pinned }: Checkpoint): Promise<string> => {
    await sendJson(pinned ? 'DELETE' : 'PUT', `/checkpoints/${id}/pin`);
    reload(['checkpoints']);
    return `The checkpoint of update ${formatCount(update)} is ${pinned ? 'no longer pinned' : 'kept until it is unpinned'}.`;
  };
  const copy = async ({ id }: Checkpoint): Promise<string> => {
    const command = downloadCommand(location.origin, data.id, id);
    return (await copyText(command)) ? `Copied: ${command}` : command;
  };
  const buttons = (row: Checkpoint): Child => {
    const pinning = {
      'aria-pressed': String(row.pinned),
      'aria-label': `Pin the checkpoint of update ${row.update}`,
      onclick: () => void owner.act(() => pin(row)),
    };
    const copying = {
      title: 'Copy the command that downloads and verifies this checkpoint',
      'aria-label': `Copy command for update ${row.update}`,
      onclick: () => void owner.act(() => copy(row)),
    };
    return h(
      'span.group',
      may('operate') && h('button.chip', pinning, row.pinned ? 'unpin' : 'pin'),
      h('button.chip', copying, 'copy command'),
    );
  };
  const cells = (row: Checkpoint): Child[] => [
    [formatCount(row.update), row === data.bestCheckpoint && badge('best'), row.pinned && badge('pinned')],
    formatFixed(row.sacrebleu, 2),
    formatLoss(row.loss),
    formatTime(row.created_at),
    formatBytes(row.bytes),
    downloads(row),
    fileList(row),
    exports.cell(row),
    buttons(row),
  ];
  const heads = ['#Update', '#sacreBLEU', '#Loss', 'Written', '#Size', 'Download', 'Files and SHA-256', 'Exports', ''];
  return {
    load: () => exports.load(),
    inputs: () => [data.checkpoints, data.bestCheckpoint, may('operate'), exports.items, exports.offline],
    render: () => {
      const keys = data.checkpoints.map(({ id }) => id);
      return [
        h('div', table('Checkpoints', heads, data.checkpoints.map(cells), keys)),
        status(owner.said),
        exports.offline && keep(exports.offline.element),
      ];
    },
  };
}

/// The next steps after a run that has succeeded, as the terminal says it: use the model, read the report, train longer.
export function nextSteps({ data, showTab }: RunContext, owner: Owner): Section {
  const translate = async (): Promise<void> => {
    await showTab('checkpoints');
    const field = document.querySelector<HTMLElement>('#translate-text');
    field?.focus();
    field?.scrollIntoView({ block: 'center' });
  };
  const copy = async (checkpoint: Checkpoint): Promise<string> => {
    const command = `${downloadCommand(location.origin, data.id, checkpoint.id)} && nmt translate --checkpoint ${checkpoint.name}`;
    return (await copyText(command)) ? `Copied: ${command}` : command;
  };
  const button = (text: string, onclick: () => void): HTMLElement => h('button.chip', { onclick }, text);
  const withModel = (model: Checkpoint): Child => [
    button('Translate a sentence', () => void translate()),
    h(
      'a.chip',
      { href: `${BASE}/checkpoints/${model.id}/archive.tar`, download: `${model.name}.tar` },
      `Download its ${model === data.bestCheckpoint ? 'best' : 'newest'} checkpoint, ${formatBytes(model.bytes)}`,
    ),
    button('Copy the command to translate in a terminal', () => void owner.act(() => copy(model))),
  ];
  return {
    inputs: () => [data.run?.state, data.run?.progress.end, data.bestCheckpoint, data.checkpoints[0], may('operate')],
    render: () => {
      if (data.run?.state !== 'succeeded') return null;
      const model = data.bestCheckpoint ?? data.checkpoints[0];
      const longer = queryOf({ from: data.id, checkpoint: data.checkpoints[0]?.id });
      return h(
        'section.card.section',
        { 'aria-label': 'What comes next' },
        h(
          'div.filters',
          h('h2', 'What comes next'),
          model && withModel(model),
          button('Read the report', () => void showTab('report')),
          model && may('operate') && h('a.chip', { href: hashOf('submit', longer) }, 'Train longer …'),
        ),
        status(owner.said),
      );
    },
  };
}
