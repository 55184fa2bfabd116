import { explain, getTagged, sendJson } from '../api/client';
import { may } from '../api/session';
import type { Run } from '../api/types';
import type { RunData } from '../data/run_data';
import { h, replaceChildren, setText } from '../lib/dom';
import { formatCount } from '../lib/format';
import { ask, choice, options, type Question, status } from './parts';
import { offersResume } from './run_summary';

const TOLD_MS = 8000; // how long the result of an action is shown

export type ActionId = 'checkpoint' | 'trace' | 'stop' | 'resume' | 'delete' | 'restore';

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
  const offered = ([id, , states]: (typeof ACTIONS)[number]): unknown =>
    (states.includes(run.state) && !(byHand && id === 'resume') && !(run.emulated && id === 'checkpoint')) ||
    (id === 'delete' && byHand && run.stale_since);
  return ACTIONS.filter(offered).map(([id, label]) => [id, label]);
}

interface Action extends Question {
  body?: (form: FormData) => Record<string, unknown>;
  done: string;
}

const nameOf = (data: RunData): string => data.run!.name || data.id;

const number = (label: string, name: string, max: number, value: number, required = false): HTMLElement =>
  h('label.field', label, h('input', { name, type: 'number', min: 1, max, value, required }));

function actionOf(id: Exclude<ActionId, 'delete' | 'restore'>, data: RunData): Action {
  switch (id) {
    case 'checkpoint':
      return {
        title: 'Write a checkpoint after the current update?',
        confirm: 'Write',
        done: 'The checkpoint was requested.',
      };
    case 'trace':
      return {
        title: 'Trace the next updates?',
        confirm: 'Trace',
        done: 'The trace was requested. It arrives under Inside an update.',
        fields: [
          number('updates ', 'updates', 20, 3, true),
          h(
            'label.choice',
            h('input', { type: 'checkbox', name: 'ops', checked: true }),
            ' show each op; on GPUs the traced updates are slower',
          ),
        ],
        body: (form) => ({ updates: Number(form.get('updates')), ops: form.get('ops') !== null }),
      };
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
    case 'resume': {
      const checkpoints = data.checkpoints.map((checkpoint): [string, string] => {
        const best = checkpoint === data.bestCheckpoint ? ', best' : '';
        return [checkpoint.id, `update ${formatCount(checkpoint.update)}${best}`];
      });
      const select = h('select', { name: 'checkpoint' }, options([['', 'the latest'], ...checkpoints]));
      return {
        title: 'Resume this run?',
        confirm: 'Resume',
        done: 'The run is resuming.',
        fields: [
          h('label.field', 'from checkpoint ', select),
          number('ranks ', 'world_size', 4096, data.run!.world_size),
        ],
        body: (form) => ({
          ...(form.get('checkpoint') ? { checkpoint: form.get('checkpoint') } : {}),
          world_size: Number(form.get('world_size')),
        }),
      };
    }
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
  const path = `/runs/${data.id}?checkpoints=${form.get('checkpoints') as string}`;
  await sendJson('DELETE', path, undefined, { ifMatch: etag });
  return 'The run is deleted.';
}

/// Asks for confirmation, sends the request, and returns a sentence about the outcome; null if the user cancels. Throws ApiError.
async function askAndSend(id: ActionId, data: RunData): Promise<string | null> {
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

/// Buttons that control the run, each with a confirmation. Shows only those that the token and the run's state allow.
export class RunActions {
  readonly element: HTMLElement;
  private readonly answer = status('');
  private readonly buttons = h('span.group');
  private shown = '';

  constructor(
    private readonly data: RunData,
    private readonly changed: () => void,
  ) {
    this.element = h('div.actions', this.buttons, this.answer);
  }

  update(): void {
    const offered = this.resume !== null;
    const actions = this.offers().filter(([id]) => !(id === 'resume' && offered));
    const shown = actions.map(([id]) => id).join();
    if (shown === this.shown) return;
    this.shown = shown;
    const button = ([id, label]: [ActionId, string]): HTMLElement =>
      h('button.chip', { onclick: () => void this.act(id) }, label);
    replaceChildren(this.buttons, actions.map(button));
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
