import { sendJson } from '../api/client';
import type { RunData } from '../data/run_data';
import { h, replaceChildren } from '../lib/dom';
import { formatCount } from '../lib/format';
import type { ActionId } from './run_actions';

interface Question {
  title: string;
  confirm: string;
  done: string;
  fields: (data: RunData) => HTMLElement[];
  body: (form: FormData) => Record<string, unknown>;
}

const choice = (name: string, value: string, checked: boolean, text: string): HTMLElement =>
  h('label', { class: 'choice' }, h('input', { type: 'radio', name, value, checked }), ` ${text}`);

const QUESTIONS: Record<ActionId, Question> = {
  checkpoint: { title: 'Write a checkpoint after the current update?', confirm: 'Write it', done: 'A checkpoint is on its way.', fields: () => [], body: () => ({}) },
  stop: { title: 'Stop this run?', confirm: 'Stop', done: 'The run is stopping.',
    fields: () => [choice('mode', 'checkpoint', true, 'write a checkpoint first'), choice('mode', 'now', false, 'now, without one: work since the last checkpoint is lost')],
    body: (form) => ({ mode: form.get('mode') }) },
  resume: { title: 'Go on with this run?', confirm: 'Resume', done: 'The run is starting again.',
    fields: (data) => [
      h('label', { class: 'field' }, 'from checkpoint ', h('select', { name: 'checkpoint' }, h('option', { value: '' }, 'the latest'),
        data.checkpoints.map((checkpoint) => h('option', { value: checkpoint.id }, `update ${formatCount(checkpoint.update)}${checkpoint === data.bestCheckpoint ? ', best' : ''}`)))),
      h('label', { class: 'field' }, 'ranks ', h('input', { name: 'world_size', type: 'number', min: 1, max: 4096, value: data.run!.world_size }))],
    body: (form) => ({ ...(form.get('checkpoint') ? { checkpoint: form.get('checkpoint') } : {}), world_size: Number(form.get('world_size')) }) },
};

/// Asks the reader; null when they would rather not.
function ask(question: Question, data: RunData, id: ActionId): Promise<Record<string, unknown> | null> {
  return new Promise((resolve) => {
    const dialog = h('dialog', { class: 'ask', 'aria-labelledby': 'ask-title' });
    const form = h('form', { method: 'dialog', onsubmit: () => resolve(question.body(new FormData(form))) },
      h('h2', { id: 'ask-title' }, question.title), h('p', { class: 'muted' }, data.run!.name || data.id), question.fields(data),
      h('p', { class: 'ask-buttons' }, h('button', { type: 'button', class: 'chip', onclick: () => dialog.close() }, 'Cancel'),
        h('button', { type: 'submit', class: `chip ${id === 'stop' ? 'danger' : 'primary'}` }, question.confirm)));
    replaceChildren(dialog, form);
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/// Asks, sends, and says in a sentence what came of it; null when the reader would rather not. Throws ApiError.
export async function askAndSend(id: ActionId, data: RunData): Promise<string | null> {
  const question = QUESTIONS[id];
  const body = await ask(question, data, id);
  if (body === null) return null;
  await sendJson('POST', `/runs/${data.id}/${id}`, body);
  return question.done;
}
