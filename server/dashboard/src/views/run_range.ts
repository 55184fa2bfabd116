import type { RunData } from '../data/run_data';
import type { ViewState } from '../lib/run_view';
import { xValue } from '../lib/x_axis';

/// The x values of the whole run.
export function fullRange(data: RunData, view: ViewState): [number, number] {
  const { step, timeMs } = data.get('loss');
  const at = (row: number): number => xValue(data.axis, step.at(row) ?? 0, timeMs.at(row) ?? 0);
  const last = view.range && data.run ? xValue(data.axis, data.run.update, Date.parse(data.run.updated_at)) : at(-1);
  const from = view.x !== 'wall' ? 0 : view.range ? data.startMs / 1000 : at(0);
  return last > from ? [from, last] : [from, from + 1];
}

/// A logarithmic axis has no zero, so it begins at the first positive value.
export function aboveZero(data: RunData, [from, to]: [number, number]): [number, number] {
  const { step, timeMs } = data.get('loss');
  const row = step.findIndex((each, at) => xValue(data.axis, each, timeMs[at] ?? 0) > 0);
  const first = row < 0 ? 1 : xValue(data.axis, step[row]!, timeMs[row]!);
  const low = from > 0 ? from : first;
  return [low, Math.max(to, low * 1.01)];
}
