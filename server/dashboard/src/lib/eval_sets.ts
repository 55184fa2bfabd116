import type { Evaluation } from '../api/types';

/// The set of the evaluations of a sample of the training set (validation.train_sample).
const TRAIN_SAMPLE = 'train';

/// The name of a set for readers.
export const setName = (set: string): string => (set === TRAIN_SAMPLE ? 'training sample' : set);

/// The newest evaluation of each set other than the validation set, which is the set of the first evaluation.
export function otherSets<Row extends Pick<Evaluation, 'set' | 'time_ms'>>(evals: readonly Row[]): Row[] {
  const inTime = evals.toSorted((a, b) => a.time_ms - b.time_ms);
  const newest = new Map(inTime.map((row) => [row.set, row]));
  newest.delete(inTime[0]?.set ?? '');
  return [...newest.values()];
}
