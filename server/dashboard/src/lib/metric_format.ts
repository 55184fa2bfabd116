import {
  formatBytes,
  formatBytesPerSecond,
  formatFixed,
  formatLoss,
  formatMs,
  formatPercent,
  formatSi,
  formatSignificant,
} from './format';

/// The format of a metric's values, by its key. The keys of evaluation measures are eval:MEASURE.
export function formatOf(key: string): (value: number | null) => string {
  if (/^eval:(sacrebleu|chrf|teacher_forced_bleu)$/.test(key)) return (value) => formatFixed(value, 2);
  if (key === 'eval:accuracy' || key.endsWith('_fraction')) return formatPercent;
  if (/(^|:)(loss|nll|entropy|excess)$/.test(key)) return formatLoss;
  if (key.endsWith('_ms')) return formatMs;
  if (key.endsWith('bytes_per_second')) return formatBytesPerSecond;
  if (key.includes('bytes')) return formatBytes;
  if (key.endsWith('_per_second') || key.endsWith('tokens') || key === 'flops') return formatSi;
  return formatSignificant;
}
