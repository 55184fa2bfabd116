import { parseRunView, runViewQuery, type ViewState } from '../../lib/run_view';

/// A comparison, as its link says it.
export interface CompareState {
  runs: readonly string[];   // ids; the first is the baseline
  keys: readonly string[];   // metric keys, and eval:MEASURE
  view: ViewState;
  same: boolean;             // also the configuration in which the runs agree
}

export const MOST_COMPARED = 8;  // as many as there are colours to tell apart
export const DEFAULT_KEYS: readonly string[] = ['loss', 'eval:loss', 'eval:sacrebleu', 'eval:chrf', 'target_tokens_per_second', 'step_ms',
  'exposed_communication_ms', 'learning_rate', 'gradient_norm'];

const list = (text: string | null): string[] => (text ?? '').split(',').filter(Boolean);

export function parseCompare(query: URLSearchParams): CompareState {
  const keys = list(query.get('keys'));
  return { runs: [...new Set(list(query.get('runs')))].filter((id) => /^\w+$/.test(id)).slice(0, MOST_COMPARED),
    keys: keys.length > 0 ? keys : DEFAULT_KEYS, view: parseRunView(query), same: query.get('same') === '1' };
}

export function compareQuery(state: CompareState): URLSearchParams {
  const query = new URLSearchParams();
  if (state.runs.length > 0) query.set('runs', state.runs.join(','));
  if (state.keys.join() !== DEFAULT_KEYS.join()) query.set('keys', state.keys.join(','));
  if (state.same) query.set('same', '1');
  new URLSearchParams(runViewQuery(state.view)).forEach((value, name) => query.set(name, value));
  return query;
}
