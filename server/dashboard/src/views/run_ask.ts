import { getTagged, sendJson } from '../api/client';
import type { Run } from '../api/types';
import type { RunData } from '../data/run_data';
import { type Child, h } from '../lib/dom';
import { formatCount } from '../lib/format';
import { closeDialog, options, showDialog } from './parts';
import type { ActionId } from './run_summary';

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
