import { BASE, explain, getAll, sendJson } from '../api/client';
import type { Checkpoint, Export, NewExport } from '../api/types';
import { endOf, exportsOf, FORMATS, isUnderWay, progressOf, titleOf } from '../data/exports';
import { type Child, h, setText, valueOf } from '../lib/dom';
import { formatBytes, formatCount } from '../lib/format';
import { type Maker, options, Owner } from './parts';
import { ask } from './run_ask';

const POLL_MS = 1000;
const NAMES = Object.entries(FORMATS).map(([format, { name }]): [string, string] => [format, name]);
const TYPES = ['float32', 'bfloat16', 'int8'].map((type): [string, string] => [type, type]);

const typeField = (): HTMLElement => h('select', { name: 'type' }, options(TYPES));

/// Asks for a format and its options; null if the user cancels.
async function askFormat({ update }: Checkpoint): Promise<NewExport | null> {
  const code = (name: string, placeholder: string): HTMLInputElement =>
    h('input.code', {
      ...{ type: 'text', name, placeholder, autocomplete: 'off', spellcheck: 'false', disabled: true },
      ...{ required: true, pattern: '[a-z]{2,3}', title: 'the code of a language, such as en' },
    });
  const codes = [code('from', 'en'), code('into', 'de')] as const;
  const languages = h(
    'p.field-row',
    { hidden: true },
    h('label.field', 'source language ', codes[0]),
    h('label.field', 'target language ', codes[1]),
  );
  const type = h('p', { hidden: true }, h('label.field', 'type of the matrices ', typeField()));
  const about = h('p.muted', { role: 'status' }, FORMATS.huggingface.about);
  const onchange = (event: Event): void => {
    const format = valueOf(event) as NewExport['format'];
    setText(about, FORMATS[format].about);
    type.hidden = !FORMATS[format].hasTypes;
    languages.hidden = format !== 'argos';
    for (const field of codes) field.disabled = languages.hidden; // a hidden one that is required would hold the form back
  };
  const format = h('label.field', 'format ', h('select', { name: 'format', onchange }, options(NAMES)));
  const form = await ask({
    title: `Export the checkpoint of update ${formatCount(update)}?`,
    about: 'The server writes it in the format of another program, to download. A README.md in it says how to load it.',
    fields: [h('p', format), about, type, languages],
    confirm: 'Export',
  });
  if (!form) return null;
  const text = (name: string): string => String(form.get(name)).trim();
  const wanted = text('format') as NewExport['format'];
  return {
    format: wanted,
    ...(FORMATS[wanted].hasTypes ? { quantization: text('type') as 'float32' } : {}),
    ...(wanted === 'argos' ? { from: text('from'), into: text('into') } : {}),
  };
}

const keyOf = ({ checkpoint, name }: Export): string => `${checkpoint}/${name}`;

/// The exports of a run's checkpoints: those that are there or under way, with their downloads, and the model that is tried offline.
export class RunExports {
  items: readonly Export[] = [];
  offline: Owner | null = null;
  private isStale = true;
  private readonly ordered = new Map<string, string>(); // exports that were asked for here, and the update of each
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
    this.isStale = false; // before the request: what is ordered meanwhile makes it stale again
    try {
      this.items = await getAll<Export>(`/runs/${this.run}/exports`);
    } catch (error) {
      this.isStale = true;
      throw error;
    }
    for (const made of this.items.filter((item) => !isUnderWay(item))) {
      const update = this.ordered.get(keyOf(made));
      if (update !== undefined) this.owner.said = endOf(made, update);
      this.ordered.delete(keyOf(made));
    }
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
        h('a', { href, download, title: `Download ${download}` }, titleOf(made)),
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
      const update = formatCount(row.update);
      if (isUnderWay(made)) this.ordered.set(keyOf(made), update);
      const under = `The checkpoint of update ${update} is being exported: ${titleOf(made)} …`;
      this.owner.say(isUnderWay(made) ? under : endOf(made, update));
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
