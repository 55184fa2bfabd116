import { BASE, explain, fileOf, sendJson, sumsOf } from '../api/client';
import { may } from '../api/session';
import type { Checkpoint } from '../api/types';
import type { RunData } from '../data/run_data';
import { type Child, copyText, h, valueOf } from '../lib/dom';
import { formatBytes, formatCount, formatFixed, formatLoss, formatMs, formatTime } from '../lib/format';
import { badge, labelled, type Owner, type Section, status, table } from './parts';
import type { RunContext } from './run_sections';

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
    buttons(row),
  ];
  const heads = ['#Update', '#sacreBLEU', '#Loss', 'Written', '#Size', 'Download', 'Files and SHA-256', ''];
  return {
    inputs: () => [data.checkpoints, data.bestCheckpoint, may('operate')],
    render: () => {
      const keys = data.checkpoints.map(({ id }) => id);
      return [h('div', table('Checkpoints', heads, data.checkpoints.map(cells), keys)), status(owner.said)];
    },
  };
}

const MAX_LINES = 32;
const NO_CHECKPOINT = 'no checkpoint yet';

interface Translation {
  hyp: string;
  score: number | null;
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

const translationItem = (source: string, { hyp, score }: Translation): HTMLElement =>
  h(
    'li',
    h('p.muted', { dir: 'auto' }, source),
    h('p.translation', { dir: 'auto' }, hyp),
    score !== null && h('p.muted', `length-normalized log-probability ${formatFixed(score, 3)}`),
  );

function choicesOf({ checkpoints, bestCheckpoint }: RunData, chosen: string): Child {
  return checkpoints.map((row) => {
    const best = row === bestCheckpoint ? ', best' : '';
    const score = row.sacrebleu === null ? '' : ` · ${formatFixed(row.sacrebleu, 2)}`;
    const attributes = { value: row.id, selected: row.id === chosen, 'data-key': row.id };
    return h('option', attributes, `${formatCount(row.update)}${best}${score}`);
  });
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
      const answer = await sendJson<{ items: Translation[]; ms: number }>('POST', path, { text: wanted, beam });
      [lines, found] = [wanted, answer!.items];
      owner.said = `in ${formatMs(answer!.ms)}`;
    } catch (error) {
      owner.said = `Not translated: ${explain(error)}`;
    }
    busy = false;
    owner.draw();
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    void translate(event.currentTarget as HTMLFormElement);
  };
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
