import { BASE, explain, getAll, sendJson } from '../api/client';
import type { Checkpoint, Export, NewExport } from '../api/types';
import { exportsOf, isUnderWay, progressOf, titleOf } from '../data/exports';
import { type Child, h, valueOf } from '../lib/dom';
import { formatBytes, formatCount } from '../lib/format';
import { ask, type Maker, options, Owner } from './parts';

const POLL_MS = 1000;

const FORMATS: readonly (readonly [NewExport['format'], string])[] = [
  ['huggingface', 'Hugging Face and ONNX'],
  ['ctranslate2', 'CTranslate2'],
  ['argos', 'Argos Translate, LibreTranslate'],
];
const TYPES = ['float32', 'bfloat16', 'int8'].map((type): [string, string] => [type, type]);

/// Asks for a format and its options; null if the user cancels.
async function askFormat({ update }: Checkpoint): Promise<NewExport | null> {
  const code = (name: string, label: string, placeholder: string): HTMLElement => {
    const input = h('input', { name, size: 3, placeholder, autocomplete: 'off', spellcheck: 'false' });
    return h('label.field', { hidden: true }, label, input);
  };
  const languages = [code('from', 'from the language ', 'en'), code('into', 'into ', 'de')];
  const type = h(
    'label.field',
    { hidden: true },
    'type of the matrices ',
    h('select', { name: 'type' }, options(TYPES)),
  );
  const onchange = (event: Event): void => {
    type.hidden = valueOf(event) === 'huggingface';
    for (const language of languages) language.hidden = valueOf(event) !== 'argos';
  };
  const format = h('label.field', 'format ', h('select', { name: 'format', onchange }, options(FORMATS)));
  const form = await ask({
    title: `Export the checkpoint of update ${formatCount(update)}?`,
    about: 'The server writes it in the format of another program, to download.',
    fields: [h('p', format), h('p.field-row', type, languages)],
    confirm: 'Export',
  });
  if (!form) return null;
  const text = (name: string): string => String(form.get(name)).trim();
  const wanted = text('format') as NewExport['format'];
  return {
    format: wanted,
    ...(wanted === 'huggingface' ? {} : { quantization: text('type') as 'float32' }),
    ...(wanted === 'argos' ? { from: text('from'), into: text('into') } : {}),
  };
}

/// The exports of a run's checkpoints: those that are there or under way, with their downloads, and the model that is tried offline.
export class RunExports {
  items: readonly Export[] = [];
  offline: Owner | null = null;
  private isStale = true;
  private readonly poll: () => void;

  constructor(
    private readonly run: string,
    private readonly owner: Owner,
  ) {
    this.poll = owner.later(POLL_MS, owner.load);
    owner.atEnd(() => this.offline?.close());
  }

  /// Fetches them once, and again while any is under way.
  async load(): Promise<void> {
    if (!this.isStale && !this.items.some(isUnderWay)) return;
    this.items = await getAll<Export>(`/runs/${this.run}/exports`);
    this.isStale = false;
    if (this.items.some(isUnderWay)) this.poll();
  }

  /// Fetches them again.
  refresh(): void {
    this.isStale = true;
    this.owner.load();
  }

  /// The exports of a checkpoint, and what asks for another one.
  cell(row: Checkpoint): Child {
    const { id, name } = row;
    const own = this.items.filter(({ checkpoint }) => checkpoint === id);
    const line = (made: Export): Child => {
      if (made.state !== 'complete') {
        const kind = made.state === 'failed' ? 'li.problem' : 'li.muted';
        return h(kind, { 'data-key': made.name }, `${titleOf(made)}: ${progressOf(made, Date.now())}`);
      }
      const href = `${BASE}${exportsOf(id)}/${made.name}/archive`;
      const download = `${name}-${made.name}.${made.format === 'argos' ? 'argosmodel' : 'tar'}`;
      return h(
        'li',
        { 'data-key': made.name },
        h('a', { href, download }, titleOf(made)),
        ` ${formatBytes(made.bytes)}`,
      );
    };
    return [own.length > 0 && h('ul.files', own.map(line)), this.buttons(row)];
  }

  private buttons(row: Checkpoint): Child {
    const update = formatCount(row.update);
    const exporting = { 'aria-label': `Export update ${update}`, onclick: () => void this.order(row) };
    const trying = {
      'aria-label': `Try offline update ${update}`,
      title: 'Export this checkpoint and translate with it in this browser',
      onclick: () => void this.try(row),
    };
    return h('span.group', h('button.chip', exporting, 'export …'), h('button.chip', trying, 'try offline'));
  }

  private async order(row: Checkpoint): Promise<void> {
    const wanted = await askFormat(row);
    if (!wanted) return;
    try {
      const made = (await sendJson<Export>('POST', exportsOf(row.id), wanted))!;
      const done = isUnderWay(made) ? 'is being exported' : 'is exported';
      this.owner.say(`The checkpoint of update ${formatCount(row.update)} ${done}: ${titleOf(made)}.`);
    } catch (error) {
      this.owner.say(`Not exported: ${explain(error)}`);
    }
    this.refresh();
  }

  private async try(row: Checkpoint): Promise<void> {
    const { Offline } = await import('./run_offline');
    this.close();
    const leave = (): void => this.owner.set(() => this.close());
    const make: Maker = (owner) => new Offline(row, owner, { leave, changed: () => this.refresh() });
    this.owner.set(() => (this.offline = new Owner(make, 'div.offline-model')));
    this.offline!.draw();
    this.offline!.element.scrollIntoView({ block: 'nearest' });
  }

  private close(): void {
    this.offline?.close();
    this.offline = null;
  }
}
