import { MAX_COMPARED, parseRunView, runViewQuery, type ViewState } from '../../lib/run_view';

/// The state of a comparison, as stored in its address.
export interface CompareState {
  runs: readonly string[]; // ids; the first is the baseline
  keys: readonly string[]; // metric keys, and eval:MEASURE
  view: ViewState;
  same: boolean; // also shows configuration keys with equal values
  asked: number; // number of runs in the address; only the first MAX_COMPARED are compared
}

export const DEFAULT_KEYS: readonly string[] = [
  'loss',
  'eval:loss',
  'eval:sacrebleu',
  'eval:chrf',
  'target_tokens_per_second',
  'step_ms',
  'exposed_communication_ms',
  'learning_rate',
  'gradient_norm',
];

const list = (text: string | null): string[] => (text ?? '').split(',').filter(Boolean);

export function parseCompare(query: URLSearchParams): CompareState {
  const keys = list(query.get('keys'));
  const runs = [...new Set(list(query.get('runs')))].filter((id) => /^\w+$/.test(id));
  return {
    runs: runs.slice(0, MAX_COMPARED),
    asked: runs.length,
    keys: keys.length > 0 ? keys : DEFAULT_KEYS,
    view: parseRunView(query),
    same: query.get('same') === '1',
  };
}

/// Says that only the first runs are compared; '' if all are.
export const cutText = (asked: number): string =>
  asked > MAX_COMPARED ? `The first ${MAX_COMPARED} of ${asked} runs: no more colours can be distinguished.` : '';

export function compareQuery(state: CompareState): URLSearchParams {
  const query = new URLSearchParams();
  if (state.runs.length > 0) query.set('runs', state.runs.join(','));
  if (state.keys.join() !== DEFAULT_KEYS.join()) query.set('keys', state.keys.join(','));
  if (state.same) query.set('same', '1');
  new URLSearchParams(runViewQuery(state.view)).forEach((value, name) => query.set(name, value));
  return query;
}
