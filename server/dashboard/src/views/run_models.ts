import { BASE, explain, fileOf, getJson, sendJson, sumsOf } from '../api/client';
import { may } from '../api/session';
import { postForEvents, type ServerEvent } from '../api/stream';
import type { Checkpoint, Evaluation } from '../api/types';
import type { RunData } from '../data/run_data';
import { type Child, copyText, h, instead, keep, valueOf } from '../lib/dom';
import { formatBytes, formatCount, formatFixed, formatLoss, formatMs, formatPercent, formatTime } from '../lib/format';
import { setName } from '../data/runs';
import { badge, labelled, type Owner, type Section, status, table } from './parts';
import { RunExports } from './run_exports';
import type { RunContext } from './run_sections';

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

const MAX_LINES = 32;
const NO_CHECKPOINT = 'no checkpoint yet';
type Translation = { hyp: string; score: number | null };

export const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);

/// The checkpoint to select when the list changes: the user's choice if it still exists, otherwise the best one.
export const chosenOf = (picked: string, ids: readonly string[], best: string | undefined): string =>
  ids.includes(picked) ? picked : (best ?? ids[0] ?? '');

const translationItem = (source: string, { hyp, score }: Translation): HTMLElement =>
  h(
    'li',
    h('p.muted', { dir: 'auto' }, source),
    h('p.translation', { dir: 'auto' }, hyp),
    score !== null && h('p.muted', `length-normalized log-probability ${formatFixed(score, 3)}`),
  );

const choicesOf = ({ checkpoints, bestCheckpoint }: RunData, chosen: string): Child =>
  checkpoints.map((row) => {
    const best = row === bestCheckpoint ? ', best' : '';
    const score = row.sacrebleu === null ? '' : ` · ${formatFixed(row.sacrebleu, 2)}`;
    const attributes = { value: row.id, selected: row.id === chosen, 'data-key': row.id };
    return h('option', attributes, `${formatCount(row.update)}${best}${score}`);
  });

/// The translations of all lines after an event of their stream. `ms` comes with the last event.
export function withEvent(
  found: readonly Translation[],
  { event, data }: Pick<ServerEvent, 'event' | 'data'>,
): { found: readonly Translation[]; ms: number | null } {
  const part = JSON.parse(data) as { line: number; text: string; item: Translation; items: Translation[]; ms: number };
  if (event === 'done') return { found: part.items, ms: part.ms };
  const now = event === 'item' ? part.item : { hyp: part.text, score: null };
  return { found: found.map((old, line) => (line === part.line ? now : old)), ms: null };
}

/// Shows the translations of lines whenever they have grown. Returns the time in ms; null if the connection was lost.
async function translateGrowing(
  path: string,
  request: { text: string[]; beam: number },
  show: (found: readonly Translation[]) => void,
): Promise<number | null> {
  let ms: number | null = null;
  let found: readonly Translation[] = request.text.map(() => ({ hyp: '', score: null }));
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
    const beam = Number(form.querySelector<HTMLInputElement>('#translate-beam')!.value);
    const path = `/checkpoints/${chosen()}/translate`;
    try {
      const ms = await translateGrowing(path, { text: wanted, beam }, (now) => {
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
      const beam = h('input', { type: 'number', id: 'translate-beam', min: 1, max: 12, value: 4 });
      const text = h('textarea', { dir: 'auto', id: 'translate-text', rows: 2, placeholder: PLACEHOLDER });
      const button = h('button.chip.primary', { type: 'submit', disabled: none || busy }, 'Translate');
      return h(
        'form.translate',
        { onsubmit: submit, onkeydown: key, 'aria-busy': busy && 'true' },
        h('p.field-row', labelled('Checkpoint of update', select), labelled('beam', beam)),
        labelled('Text to translate', text, true),
        h('p.field-row', button, status(none ? NO_CHECKPOINT : owner.said)),
        h(
          'ol.translations',
          found.map((item, at) => translationItem(lines[at] ?? '', item)),
        ),
      );
    },
  };
}
