import { explain } from '../api/client';
import { may } from '../api/session';
import type { RunData } from '../data/run_data';
import { h, replaceChildren, setText } from '../lib/dom';
import type { ActionId } from './run_ask';
import { offersResume } from './run_health';

const TOLD_MS = 8000; // how long the result of an action is shown

const GOING = ['launching', 'running', 'restarting', 'suspended'];
const OVER = ['succeeded', 'failed', 'stopped', 'lost'];
const ACTIONS: readonly [id: ActionId, label: string, states: readonly string[]][] = [
  ['checkpoint', 'Checkpoint now', ['running']],
  ['trace', 'Trace …', ['running']],
  ['stop', 'Stop …', [...GOING, 'queued']],
  ['resume', 'Resume …', OVER],
  ['delete', 'Delete …', OVER],
];

/// The actions available for a run in this state. The server cannot resume a run that was started by hand. Such a run can be
/// deleted while it counts as running if it is silent. An emulated run writes no checkpoints.
export function actionsOf(run: {
  state: string;
  profile?: string | null;
  emulated?: boolean;
  stale_since?: string | null;
  deleted_at?: string | null;
}): [ActionId, string][] {
  if (run.deleted_at) return [['restore', 'Restore']];
  const byHand = run.profile === 'external';
  return ACTIONS.filter(
    ([id, , states]) =>
      (states.includes(run.state) && !(byHand && id === 'resume') && !(run.emulated && id === 'checkpoint')) ||
      (id === 'delete' && byHand && run.stale_since),
  ).map(([id, label]) => [id, label]);
}

/// Buttons that control the run, each with a confirmation. Shows only those that the token and the run's state allow.
export class RunActions {
  readonly element = h('div', { class: 'actions' });
  private readonly answer = h('p', { class: 'muted', role: 'status' });
  private readonly buttons = h('span', { class: 'group' });
  private shown = '';

  constructor(
    private readonly data: RunData,
    private readonly changed: () => void,
  ) {
    replaceChildren(this.element, this.buttons, this.answer);
  }

  update(): void {
    const offered = this.resume !== null;
    const actions = this.offers().filter(([id]) => !(id === 'resume' && offered));
    const shown = actions.map(([id]) => id).join();
    if (shown === this.shown) return;
    this.shown = shown;
    replaceChildren(
      this.buttons,
      actions.map(([id, label]) =>
        h('button', { type: 'button', class: 'chip', onclick: () => void this.act(id) }, label),
      ),
    );
  }

  /// Resumes the run after a confirmation; null if that is not offered beside the run's health.
  get resume(): (() => void) | null {
    const { run } = this.data;
    return run && offersResume(run.health) && this.offers().some(([id]) => id === 'resume') ? this.startAgain : null;
  }

  private readonly startAgain = (): void => void this.act('resume');

  private offers(): [ActionId, string][] {
    return may('operate') && this.data.run ? actionsOf(this.data.run) : [];
  }

  async act(id: ActionId): Promise<void> {
    try {
      const { askAndSend } = await import('./run_ask');
      const done = await askAndSend(id, this.data);
      if (done === null) return;
      setText(this.answer, done);
      setTimeout(() => {
        if (this.answer.textContent === done) setText(this.answer, '');
      }, TOLD_MS);
      this.changed();
    } catch (error) {
      setText(this.answer, `Failed: ${explain(error)}`);
    }
  }
}
