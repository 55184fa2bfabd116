import { ApiError, explain, sendJson } from '../api/client';
import { may } from '../api/session';
import type { RunData } from '../data/run_data';
import { h, replaceChildren, setText } from '../lib/dom';
import { formatCount } from '../lib/format';

const GOING = new Set(['launching', 'running', 'restarting', 'suspended']);
const ENDED = new Set(['succeeded', 'failed', 'stopped', 'lost']);

interface Action {
  id: 'checkpoint' | 'stop' | 'resume';
  label: string;
  question: string;
  confirm: string;
  when: (state: string) => boolean;
  fields: (data: RunData) => HTMLElement[];
  body: (form: FormData) => Record<string, unknown>;
}

const choice = (name: string, value: string, checked: boolean, text: string): HTMLElement =>
  h('label', { class: 'choice' }, h('input', { type: 'radio', name, value, checked }), ` ${text}`);

const ACTIONS: readonly Action[] = [
  { id: 'checkpoint', label: 'Checkpoint now', question: 'Write a checkpoint after the current update?', confirm: 'Write it', when: (state) => GOING.has(state),
    fields: () => [], body: () => ({}) },
  { id: 'stop', label: 'Stop …', question: 'Stop this run?', confirm: 'Stop', when: (state) => GOING.has(state) || state === 'queued',
    fields: () => [choice('mode', 'checkpoint', true, 'write a checkpoint first'), choice('mode', 'now', false, 'now, without one: work since the last checkpoint is lost')],
    body: (form) => ({ mode: form.get('mode') }) },
  { id: 'resume', label: 'Resume …', question: 'Go on with this run?', confirm: 'Resume', when: (state) => ENDED.has(state),
    fields: (data) => [
      h('label', { class: 'field' }, 'from checkpoint ', h('select', { name: 'checkpoint' }, h('option', { value: '' }, 'the latest'),
        data.checkpoints.map((checkpoint) => h('option', { value: checkpoint.id }, `update ${formatCount(checkpoint.update)}${checkpoint === data.bestCheckpoint ? ', best' : ''}`)))),
      h('label', { class: 'field' }, 'ranks ', h('input', { name: 'world_size', type: 'number', min: 1, max: 4096, value: data.run!.world_size }))],
    body: (form) => ({ ...(form.get('checkpoint') ? { checkpoint: form.get('checkpoint') } : {}), world_size: Number(form.get('world_size')) }) },
];

/// Buttons that steer the run, each with a question first; only those that the token and the run's state allow.
export class RunActions {
  readonly element = h('div', { class: 'actions' });
  private readonly answer = h('p', { class: 'muted', role: 'status' });
  private readonly missing = new Set<string>();   // what this server turned out not to offer
  private readonly buttons = h('span', { class: 'group' });
  private shown = '';

  constructor(private readonly data: RunData, private readonly changed: () => void) {
    replaceChildren(this.element, this.buttons, this.answer);
  }

  update(): void {
    const state = this.data.run?.state ?? '';
    const actions = may('operate') ? ACTIONS.filter(({ id, when }) => when(state) && !this.missing.has(id)) : [];
    const shown = actions.map(({ id }) => id).join();
    if (shown === this.shown) return;
    this.shown = shown;
    replaceChildren(this.buttons, actions.map((action) => h('button', { type: 'button', class: 'chip', onclick: () => this.ask(action) }, action.label)));
  }

  private ask(action: Action): void {
    const dialog = h('dialog', { class: 'ask', 'aria-labelledby': 'ask-title' });
    const form = h('form', { method: 'dialog', onsubmit: () => void this.send(action, action.body(new FormData(form))) },
      h('h2', { id: 'ask-title' }, action.question), h('p', { class: 'muted' }, this.data.run!.name || this.data.id), action.fields(this.data),
      h('p', { class: 'ask-buttons' }, h('button', { type: 'button', class: 'chip', onclick: () => dialog.close() }, 'Cancel'),
        h('button', { type: 'submit', class: `chip ${action.id === 'stop' ? 'danger' : 'primary'}` }, action.confirm)));
    replaceChildren(dialog, form);
    dialog.addEventListener('close', () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  private async send(action: Action, body: Record<string, unknown>): Promise<void> {
    setText(this.answer, `${action.confirm}: asking …`);
    try {
      await sendJson('POST', `/runs/${this.data.id}/${action.id}`, body);
      setText(this.answer, { checkpoint: 'A checkpoint is on its way.', stop: 'The run is stopping.', resume: 'The run is starting again.' }[action.id]);
      this.changed();
    } catch (error) {
      const absent = error instanceof ApiError && (error.status === 405 || (error.status === 404 && error.code !== 'run_unknown'));
      if (absent) this.missing.add(action.id);
      setText(this.answer, absent ? 'This server does not offer that.' : `Not done: ${explain(error)}`);
      this.update();
    }
  }
}
