import '../styles/sections.css';
import { explain, getTagged, outcome, sendJson } from '../api/client';
import type { Run } from '../api/types';
import type { RunData } from '../data/run_data';
import { type Child, h, instead, setText } from '../lib/dom';
import { formatCount } from '../lib/format';
import { closeDialog, options, showDialog } from './parts';

/// `about`: explanation below the title; `typed`: text to type before confirming, against mistakes.
export type Question = {
  title: string;
  about?: string;
  fields?: Child;
  confirm: string;
  danger?: boolean;
  typed?: string;
};

export const choice = (name: string, value: string, checked: boolean, text: string): HTMLElement =>
  h('label.choice', h('input', { type: 'radio', name, value, checked }), ` ${text}`);

/// Asks in a modal dialog. Resolves to the filled-in form, or null if the user cancels.
export const ask = ({ title, about, fields, confirm, danger, typed }: Question): Promise<FormData | null> =>
  new Promise((resolve) => {
    const kind = danger ? 'button.chip.danger' : 'button.chip.primary';
    const button = h(kind, { type: 'submit', disabled: typed !== undefined }, confirm);
    const compare = (event: Event): void => {
      button.disabled = (event.target as HTMLInputElement).value.trim() !== typed!.trim();
    };
    const more = { type: 'text', autocomplete: 'off', spellcheck: 'false', oninput: compare };
    const form = h(
      'form',
      { method: 'dialog', onsubmit: () => resolve(new FormData(form)) },
      h('h2', { id: 'ask-title' }, title),
      about ? h('p.muted', about) : null,
      fields,
      typed !== undefined &&
        h(
          'label.field',
          h('span', 'Type ', h('strong', typed), ' to confirm '),
          h('input', { name: 'typed', ...more }),
        ),
      h('p.ask-buttons', h('button.chip', { onclick: closeDialog }, 'Cancel'), button),
    );
    showDialog('dialog.ask', 'ask-title', form, () => resolve(null));
  });

/// Parses labels: "team=mt, trial".
export function parseLabels(text: string): Record<string, string> {
  const parts = text.split(',').map((part) => part.trim());
  return Object.fromEntries(
    parts.filter(Boolean).map((part) => {
      const at = part.indexOf('=');
      return at < 0 ? [part, ''] : [part.slice(0, at).trim(), part.slice(at + 1).trim()];
    }),
  );
}

/// The labels as parseLabels() reads them.
export const labelsText = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([key, value]) => (value ? `${key}=${value}` : key))
    .join(', ');

/// The run's page while name, labels and notes are edited: the form in the place of its title, and what takes a change back.
interface Edited {
  form: HTMLElement | null;
  undo: (() => void) | null;
  say: (text: string) => void;
  changed: () => void; // fetches the run again
}

/// Shows a form for name, labels and notes in the place of a run's title. A run that was changed elsewhere meanwhile is not overwritten.
export async function editRun(run: string, page: Edited): Promise<void> {
  const { value: before, etag } = await getTagged<Run>(`/runs/${run}`);
  const ended = (said: string, undo: (() => void) | null): void => {
    Object.assign(page, { form: null, undo });
    page.say(said);
    page.changed();
  };
  const takeBack = (): void => {
    const { name: old, labels: had, notes: text } = before;
    const sent = sendJson('PATCH', `/runs/${run}`, { name: old, labels: had, notes: text });
    void outcome(sent, 'Name, labels and notes are as before.', 'Not taken back').then((said) => ended(said, null));
  };
  const problem = h('p.problem', { role: 'alert' });
  const field = (label: string, input: HTMLElement): Child => h('label', h('span.muted', label), input);
  const name = h('input', { type: 'text', value: before.name, required: true, maxlength: 200, autocomplete: 'off' });
  const labels = h('input', {
    type: 'text',
    value: labelsText(before.labels),
    placeholder: 'team=mt, trial',
    autocomplete: 'off',
  });
  const notes = h('textarea', { rows: 3 }, before.notes);
  const save = async (): Promise<void> => {
    const body = { name: name.value.trim(), labels: parseLabels(labels.value), notes: notes.value.trim() };
    try {
      await sendJson('PATCH', `/runs/${run}`, body, { ifMatch: etag });
    } catch (error) {
      return setText(problem, `Not saved: ${explain(error)}`);
    }
    ended('Saved.', takeBack);
  };
  const form = h(
    'form.run-edit',
    {
      'aria-label': 'Name, labels and notes',
      onsubmit: instead(() => void save()),
      onkeydown: (event: KeyboardEvent) => event.key === 'Escape' && ended('', null),
    },
    field('Name', name),
    field('Labels', labels),
    field('Notes', notes),
    h(
      'span.group',
      h('button.chip.primary', { type: 'submit' }, 'Save'),
      h('button.chip', { onclick: () => ended('', null) }, 'Cancel'),
    ),
    problem,
  );
  page.form ??= form;
  page.say('');
  name.focus();
}

type Action = Question & { body?: (form: FormData) => Record<string, unknown>; done: string };

const nameOf = (data: RunData): string => data.run!.name || data.id;

const number = (label: string, name: string, max: number, value: number, required = false): HTMLElement =>
  h('label.field', label, h('input', { name, type: 'number', min: 1, max, value, required }));

const OPS = ' show each op; on GPUs the traced updates are slower';
const NOW = 'immediately, without a checkpoint: progress since the last one is lost';

function resumeFields(data: RunData): Child {
  const checkpoints = data.checkpoints.map((checkpoint): [string, string] => {
    const best = checkpoint === data.bestCheckpoint ? ', best' : '';
    return [checkpoint.id, `update ${formatCount(checkpoint.update)}${best}`];
  });
  const select = h('select', { name: 'checkpoint' }, options([['', 'the latest'], ...checkpoints]));
  const ranks = number('ranks ', 'world_size', 4096, data.run!.world_size);
  return [h('label.field', 'from checkpoint ', select), ranks];
}

/// Requests that a person can send to a run.
export type ActionId = 'checkpoint' | 'trace' | 'stop' | 'resume' | 'delete' | 'restore';

const ASKED: Record<Exclude<ActionId, 'delete' | 'restore'>, (data: RunData) => Action> = {
  checkpoint: () => ({
    ...{ title: 'Write a checkpoint after the current update?', confirm: 'Write' },
    done: 'The checkpoint was requested.',
  }),
  trace: () => ({
    ...{ title: 'Trace the next updates?', confirm: 'Trace' },
    done: 'The trace was requested. It arrives under Inside an update.',
    fields: [
      number('updates ', 'updates', 20, 3, true),
      h('label.choice', h('input', { type: 'checkbox', name: 'ops', checked: true }), OPS),
    ],
    body: (form) => ({ updates: Number(form.get('updates')), ops: form.get('ops') !== null }),
  }),
  stop: () => ({
    ...{ title: 'Stop this run?', confirm: 'Stop', danger: true, done: 'The run is stopping.' },
    fields: [choice('mode', 'checkpoint', true, 'write a checkpoint first'), choice('mode', 'now', false, NOW)],
    body: (form) => ({ mode: form.get('mode') }),
  }),
  resume: (data) => ({
    ...{ title: 'Resume this run?', confirm: 'Resume', done: 'The run is resuming.', fields: resumeFields(data) },
    body: (form) => ({
      ...(form.get('checkpoint') ? { checkpoint: form.get('checkpoint') } : {}),
      world_size: Number(form.get('world_size')),
    }),
  }),
};

/// Deletes nothing if the run has changed since the question was asked.
async function askToDelete(data: RunData): Promise<string | null> {
  const { etag } = await getTagged<Run>(`/runs/${data.id}`);
  const form = await ask({
    title: 'Delete this run?',
    danger: true,
    confirm: 'Delete',
    typed: nameOf(data),
    about:
      'The run disappears from all lists now and is removed permanently after 7 days. Until then you can restore it on this page.',
    fields: [
      choice('checkpoints', 'keep', true, 'keep its checkpoints on disk'),
      choice('checkpoints', 'delete', false, 'delete its checkpoints as well'),
    ],
  });
  if (!form) return null;
  const path = `/runs/${data.id}?checkpoints=${form.get('checkpoints') as string}`;
  await sendJson('DELETE', path, undefined, { ifMatch: etag });
  return 'The run is deleted.';
}

/// Asks for confirmation, sends the request, and returns a sentence about the outcome; null if the user cancels. Throws ApiError.
export async function askAndSend(id: ActionId, data: RunData): Promise<string | null> {
  if (id === 'delete') return askToDelete(data);
  if (id === 'restore') {
    await sendJson('PATCH', `/runs/${data.id}`, { deleted: false });
    return 'The run is restored.';
  }
  const action = ASKED[id](data);
  const form = await ask({ ...action, about: nameOf(data) });
  if (!form) return null;
  await sendJson('POST', `/runs/${data.id}/${id}`, action.body?.(form) ?? {});
  return action.done;
}
