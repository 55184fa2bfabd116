import { ApiError, explain } from '../api/client';
import { may } from '../api/session';
import type { RunData } from '../data/run_data';
import { h, replaceChildren, setText } from '../lib/dom';

export type ActionId = 'checkpoint' | 'stop' | 'resume';

const GOING = ['launching', 'running', 'restarting', 'suspended'];
const ACTIONS: readonly [id: ActionId, label: string, states: readonly string[]][] = [
  ['checkpoint', 'Checkpoint now', GOING], ['stop', 'Stop …', [...GOING, 'queued']], ['resume', 'Resume …', ['succeeded', 'failed', 'stopped', 'lost']]];

/// Buttons that steer the run, each with a question first; only those that the token and the run's state allow.
export class RunActions {
  readonly element = h('div', { class: 'actions' });
  private readonly answer = h('p', { class: 'muted', role: 'status' });
  private readonly missing = new Set<ActionId>();   // what this server turned out not to offer
  private readonly buttons = h('span', { class: 'group' });
  private shown = '';

  constructor(private readonly data: RunData, private readonly changed: () => void) {
    replaceChildren(this.element, this.buttons, this.answer);
  }

  update(): void {
    const state = this.data.run?.state ?? '';
    const byHand = this.data.run?.profile === 'external';   // the server cannot start it again
    const actions = may('operate') ? ACTIONS.filter(([id, , states]) => states.includes(state) && !this.missing.has(id) && !(byHand && id === 'resume')) : [];
    const shown = actions.map(([id]) => id).join();
    if (shown === this.shown) return;
    this.shown = shown;
    replaceChildren(this.buttons, actions.map(([id, label]) => h('button', { type: 'button', class: 'chip', onclick: () => void this.act(id) }, label)));
  }

  private async act(id: ActionId): Promise<void> {
    try {
      const { askAndSend } = await import('./run_ask');
      const done = await askAndSend(id, this.data);
      if (done === null) return;
      setText(this.answer, done);
      this.changed();
    } catch (error) {
      const absent = error instanceof ApiError && (error.status === 405 || (error.status === 404 && error.code !== 'run_unknown'));
      if (absent) this.missing.add(id);
      setText(this.answer, absent ? 'This server does not offer that.' : `Not done: ${explain(error)}`);
      this.update();
    }
  }
}
