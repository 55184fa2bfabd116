import { getTagged, sendJson } from '../api/client';
import type { Run } from '../api/types';
import type { RunData } from '../data/run_data';
import { h } from '../lib/dom';
import { formatCount } from '../lib/format';
import { ask, choice, type Question } from './ask';

export type ActionId = 'checkpoint' | 'trace' | 'stop' | 'resume' | 'delete' | 'restore';

interface Action extends Question {
  body?: (form: FormData) => Record<string, unknown>;
  done: string;
}

const nameOf = (data: RunData): string => data.run!.name || data.id;

const questionOfTrace = (): Action => ({
  title: 'Trace the next updates?',
  confirm: 'Trace',
  done: 'The trace was requested. It arrives under Inside an update.',
  fields: [
    h(
      'label',
      { class: 'field' },
      'updates ',
      h('input', { name: 'updates', type: 'number', min: 1, max: 20, value: 3, required: true }),
    ),
    h(
      'label',
      { class: 'choice' },
      h('input', { type: 'checkbox', name: 'ops', checked: true }),
      ' show each op; on GPUs the traced updates are slower',
    ),
  ],
  body: (form) => ({ updates: Number(form.get('updates')), ops: form.get('ops') !== null }),
});

function actionOf(id: Exclude<ActionId, 'delete' | 'restore'>, data: RunData): Action {
  switch (id) {
    case 'checkpoint':
      return {
        title: 'Write a checkpoint after the current update?',
        confirm: 'Write',
        done: 'The checkpoint was requested.',
      };
    case 'trace':
      return questionOfTrace();
    case 'stop':
      return {
        title: 'Stop this run?',
        confirm: 'Stop',
        danger: true,
        done: 'The run is stopping.',
        fields: [
          choice('mode', 'checkpoint', true, 'write a checkpoint first'),
          choice('mode', 'now', false, 'immediately, without a checkpoint: progress since the last one is lost'),
        ],
        body: (form) => ({ mode: form.get('mode') }),
      };
    case 'resume':
      return {
        title: 'Resume this run?',
        confirm: 'Resume',
        done: 'The run is resuming.',
        fields: [
          h(
            'label',
            { class: 'field' },
            'from checkpoint ',
            h(
              'select',
              { name: 'checkpoint' },
              h('option', { value: '' }, 'the latest'),
              data.checkpoints.map((checkpoint) =>
                h(
                  'option',
                  { value: checkpoint.id },
                  `update ${formatCount(checkpoint.update)}${checkpoint === data.bestCheckpoint ? ', best' : ''}`,
                ),
              ),
            ),
          ),
          h(
            'label',
            { class: 'field' },
            'ranks ',
            h('input', { name: 'world_size', type: 'number', min: 1, max: 4096, value: data.run!.world_size }),
          ),
        ],
        body: (form) => ({
          ...(form.get('checkpoint') ? { checkpoint: form.get('checkpoint') } : {}),
          world_size: Number(form.get('world_size')),
        }),
      };
  }
}

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
  await sendJson('DELETE', `/runs/${data.id}?checkpoints=${form.get('checkpoints') as string}`, undefined, {
    ifMatch: etag,
  });
  return 'The run is deleted.';
}

/// Asks for confirmation, sends the request, and returns a sentence about the outcome; null if the user cancels. Throws ApiError.
export async function askAndSend(id: ActionId, data: RunData): Promise<string | null> {
  if (id === 'delete') return askToDelete(data);
  if (id === 'restore') {
    await sendJson('PATCH', `/runs/${data.id}`, { deleted: false });
    return 'The run is restored.';
  }
  const action = actionOf(id, data);
  const form = await ask({ ...action, about: nameOf(data) });
  if (!form) return null;
  await sendJson('POST', `/runs/${data.id}/${id}`, action.body?.(form) ?? {});
  return action.done;
}
