import { getJson } from '../api/client';
import type { Export } from '../api/types';
import { formatDuration } from '../lib/format';

export const exportsOf = (checkpoint: string): string => `/checkpoints/${checkpoint}/exports`;
export const isUnderWay = ({ state }: Export): boolean => state === 'waiting' || state === 'running';

/// "ctranslate2, int8" or "argos, en to de, float32".
export const titleOf = ({ format, quantization, from, into }: Export): string =>
  [format, from && `${from} to ${into}`, format !== 'huggingface' && quantization].filter(Boolean).join(', ');

/// A line about an export that is not complete.
export function progressOf(made: Export, nowMs: number): string {
  if (made.state === 'failed') return `not exported: ${made.detail}`;
  if (made.state === 'waiting') return 'waiting for its turn';
  const seconds = Math.max(0, (nowMs - Date.parse(made.since ?? '')) / 1000);
  return `exporting for ${formatDuration(seconds)}`;
}

/// The state of an export.
export const showExport = (checkpoint: string, name: string): Promise<Export> =>
  getJson<Export>(`${exportsOf(checkpoint)}/${name}`);
