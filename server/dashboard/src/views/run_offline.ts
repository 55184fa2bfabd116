import { BASE, explain, sendJson, sleep } from '../api/client';
import type { Checkpoint, Export } from '../api/types';
import { exportsOf, isUnderWay, progressOf, showExport } from '../data/exports';
import { OfflineModel, type OfflineTranslation, requireRuntime } from '../data/offline';
import { type Child, h, instead } from '../lib/dom';
import { formatBytes, formatCount, formatMs } from '../lib/format';
import { labelled, type Owner, type Section, status } from './parts';

const POLL_MS = 500;
const FORMAT = 'huggingface';

/// A translation, or why there is none.
type Side = OfflineTranslation | { failed: string };
type Trial = { source: string; here?: Side; there?: Side };

/// Whether both sides translated alike, in a sentence; null while one is missing.
export function verdictOf({ here, there }: Trial): { same: boolean | null; text: string } | null {
  if (!here || !there) return null;
  if ('failed' in here) return { same: null, text: 'This browser has no translation to compare.' };
  if ('failed' in there) return { same: null, text: 'Without an answer of the server there is nothing to compare.' };
  if (here.text === there.text) return { same: true, text: 'Equal: both translations are the same, to the letter.' };
  return {
    same: false,
    text: 'Not equal. Both compute in f32 and search greedily, but the server may translate several sentences one by one.',
  };
}

/// Exports the checkpoint unless that was done, and waits. Returns the export; throws if it fails.
async function exported(row: Checkpoint, say: (text: string) => void, life: AbortSignal): Promise<Export> {
  let made = (await sendJson<Export>('POST', exportsOf(row.id), { format: FORMAT }))!;
  while (isUnderWay(made)) {
    say(progressOf(made, Date.now()));
    await sleep(POLL_MS, life);
    made = await showExport(row.id, FORMAT);
  }
  if (made.state === 'failed') throw new Error(made.detail ?? 'the export failed');
  return made;
}

async function askServer({ id }: Checkpoint, text: string): Promise<OfflineTranslation> {
  const body = { text: [text], beam: 1 };
  const answer = await sendJson<{ items: { hyp: string }[]; ms: number }>('POST', `/checkpoints/${id}/translate`, body);
  return { text: answer!.items[0]!.hyp, ms: answer!.ms };
}

const sideOf = (name: string, side: Side | undefined): Child => [
  h('dt', name),
  !side && h('dd.muted', 'translating …'),
  side && 'failed' in side && h('dd', h('span.problem', `not translated: ${side.failed}`)),
  side && 'text' in side && h('dd', { dir: 'auto' }, side.text, ' ', h('span.muted', `in ${formatMs(side.ms)}`)),
];

function trialOf(trial: Trial): Child {
  const verdict = verdictOf(trial);
  const kind = verdict?.same === true ? 'probe-same' : verdict?.same === false ? 'probe-differs' : 'muted';
  return [
    h(
      'dl.sample',
      [h('dt', 'sentence'), h('dd', { dir: 'auto' }, trial.source)],
      sideOf('this browser', trial.here),
      sideOf('the server', trial.there),
    ),
    h('p', { role: 'status', class: kind }, verdict?.text),
  ];
}

/// Translates in this browser with an export of a checkpoint, beside the server's translation. `leave` closes the section, `changed`
/// is called when there may be another export.
export class Offline implements Section {
  private readonly life = new AbortController();
  private model: OfflineModel | null = null; // the browser's, once its code is there
  private state: 'loading' | 'ready' | 'failed' = 'loading';
  private trial: Trial | null = null;

  constructor(
    private readonly row: Checkpoint,
    private readonly owner: Owner,
    private readonly calls: { leave: () => void; changed: () => void },
  ) {
    void this.begin();
  }

  close(): void {
    this.life.abort();
    this.model?.close();
  }

  render(): Child {
    const submit = instead((event) => void this.translate(event.currentTarget as HTMLFormElement));
    const text = h('input', { type: 'text', id: 'offline-text', dir: 'auto', placeholder: 'A sentence to translate' });
    const disabled = this.state !== 'ready' || this.isBusy;
    const close = h('button.chip', { onclick: this.calls.leave }, 'Close');
    if (this.state === 'failed') return this.failure(close);
    return h(
      'form.translate',
      { onsubmit: submit, 'aria-busy': this.isBusy && 'true' },
      this.heading(),
      labelled('Sentence to translate offline', text, true),
      h(
        'p.field-row',
        h('button.chip.primary', { type: 'submit', disabled }, 'Translate offline'),
        close,
        status(this.owner.said),
      ),
      this.trial && trialOf(this.trial),
    );
  }

  private heading(): Child {
    return h('h3', `Update ${formatCount(this.row.update)} offline`);
  }

  private failure(close: Child): Child {
    const again = (): void => {
      this.state = 'loading';
      this.owner.say('');
      void this.begin();
    };
    return h(
      'div.translate',
      this.heading(),
      h('p.problem', { role: 'alert' }, this.owner.said),
      h('p.field-row', h('button.chip', { onclick: again }, 'Try again'), close),
    );
  }

  private get isBusy(): boolean {
    return this.trial !== null && !(this.trial.here && this.trial.there);
  }

  private async begin(): Promise<void> {
    const said = await this.prepare().catch((error: unknown) => {
      this.state = 'failed';
      return `Not ready: ${explain(error)}.`;
    });
    this.owner.say(said);
  }

  /// Exports the checkpoint and loads the model. Returns a sentence about it.
  private async prepare(): Promise<string> {
    const say = (text: string): void => this.owner.say(`${text} …`);
    await requireRuntime();
    const { files } = await exported(this.row, say, this.life.signal).finally(this.calls.changed);
    const graphs = files.filter(({ name }) => name.endsWith('.onnx')).reduce((sum, { size }) => sum + size, 0);
    say('loading the code that computes');
    this.life.signal.throwIfAborted(); // or nothing would end the worker
    this.model?.close();
    this.model = new OfflineModel();
    await this.model.load(`${BASE}${exportsOf(this.row.id)}/${FORMAT}/files`, (bytes) =>
      say(`loading the model: ${formatBytes(bytes)} of about ${formatBytes(graphs)}`),
    );
    this.state = 'ready';
    return `Ready: the model, ${formatBytes(graphs)}, is in this browser, and translates also without the server.`;
  }

  private async translate(form: HTMLFormElement): Promise<void> {
    const source = form.querySelector('input')!.value.trim();
    if (this.state !== 'ready' || this.isBusy) return;
    if (source === '') return this.owner.say('Enter a sentence first.');
    const trial: Trial = { source };
    const settle = async (side: 'here' | 'there', work: Promise<OfflineTranslation>): Promise<void> => {
      const found = await work.catch((error: unknown) => ({ failed: explain(error) }));
      this.owner.set(() => (trial[side] = found));
    };
    this.owner.set(() => (this.trial = trial));
    await Promise.all([settle('here', this.model!.translate(source)), settle('there', askServer(this.row, source))]);
  }
}
