import { formatOf } from '../lib/metric_format';
import { tickOf } from '../lib/ticks';
import { one, withEvents, type ChartDefinition } from './definitions';

const OVER: Record<string, string> = { sum: 'sum over ranks', host_sum: 'sum over hosts', mean: 'mean over ranks' };

/// A chart of any metric key.
export function anyChart(key: string, aggregate: string): ChartDefinition {
  const format = formatOf(key);
  return withEvents({
    id: `key-${key}`,
    title: key,
    unit: OVER[aggregate] ?? aggregate,
    keys: () => [key],
    axisFormat: tickOf(key),
    data: one(key, key, 'blue', format),
  });
}
