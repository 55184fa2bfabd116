import { explain, getTagged, sendJson } from '../../api/client';
import type { Run } from '../../api/types';
import { h } from '../../lib/dom';
import { formatCount } from '../../lib/format';
import { ask, parseLabels } from '../run_ask';

/// The outcome of a change of several runs: what to say, the runs as they are now, and what takes it back.
export type Outcome = { said: string; runs: Run[]; undo: (() => Promise<Outcome>) | null };

type Send = (run: Run, etag: string | null) => Promise<Run | null>;
const patch =
  (body: (run: Run) => Record<string, unknown>): Send =>
  (run, etag) =>
    sendJson<Run>('PATCH', `/runs/${run.id}`, body(run), { ifMatch: etag });

/// Changes the runs one after the other, each as it is now, and says which failed. `back` takes the changes of the others back.
async function changeAll(runs: readonly Run[], done: string, send: Send, back: Send | null): Promise<Outcome> {
  const changed: Run[] = [];
  const before: Run[] = [];
  const failures: string[] = [];
  for (const { id, name } of runs) {
    try {
      const { value, etag } = await getTagged<Run>(`/runs/${id}`);
      const now = await send(value, etag);
      before.push(value);
      if (now) changed.push(now);
    } catch (error) {
      failures.push(`${name || id}: ${explain(error)}`);
    }
  }
  const count = `${formatCount(before.length)} ${before.length === 1 ? 'run' : 'runs'} ${done}.`;
  const said = [before.length > 0 || failures.length === 0 ? count : '', ...failures.slice(0, 3)]
    .filter(Boolean)
    .join(' ');
  const undo =
    back && before.length > 0
      ? () => changeAll(before, 'as before', (run, etag) => back(before.find(({ id }) => id === run.id)!, etag), null)
      : null;
  return { said, runs: changed, undo };
}

export const archiveAll = (runs: readonly Run[], archived: boolean): Promise<Outcome> =>
  changeAll(
    runs,
    archived ? 'archived' : 'unarchived',
    patch(() => ({ archived })),
    patch((run) => ({ archived: run.archived })),
  );

/// Adds labels, which replace those of the same name. Null if the user cancels.
export async function labelAll(runs: readonly Run[]): Promise<Outcome | null> {
  const field = h('input', {
    name: 'labels',
    type: 'text',
    required: true,
    placeholder: 'team=mt, trial',
    autocomplete: 'off',
  });
  const title = `Label ${runs.length === 1 ? 'the run' : `${runs.length} runs`}`;
  const form = await ask({ title, confirm: 'Label', fields: h('label.field', 'labels ', field) });
  if (!form) return null;
  const labels = parseLabels(String(form.get('labels')));
  return changeAll(
    runs,
    'labelled',
    patch((run) => ({ labels: { ...run.labels, ...labels } })),
    patch((run) => ({ labels: run.labels })),
  );
}

/// Deletes ended runs and keeps their checkpoints. Null if the user cancels.
export async function deleteAll(runs: readonly Run[]): Promise<Outcome | null> {
  const form = await ask({
    title: `Delete ${runs.length === 1 ? 'the run' : `${runs.length} runs`}?`,
    confirm: 'Delete',
    danger: true,
    typed: `delete ${runs.length}`,
    about:
      'They disappear from all lists now, are removed permanently after 7 days, and keep their checkpoints on disk. Only runs that are over can be deleted.',
  });
  if (!form) return null;
  return changeAll(
    runs,
    'deleted',
    (run, etag) => sendJson<Run>('DELETE', `/runs/${run.id}?checkpoints=keep`, undefined, { ifMatch: etag }),
    (run) => sendJson<Run>('PATCH', `/runs/${run.id}`, { deleted: false }),
  );
}
