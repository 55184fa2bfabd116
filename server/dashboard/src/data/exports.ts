import { getJson } from '../api/client';
import type { Export, NewExport } from '../api/types';
import { formatDuration } from '../lib/format';

export const exportsOf = (checkpoint: string): string => `/checkpoints/${checkpoint}/exports`;
export const isUnderWay = ({ state }: Export): boolean => state === 'waiting' || state === 'running';

const ARITHMETIC =
  'A model that was trained with options whose arithmetic it lacks is refused, with the options that it needs.';

/// For each format its short and its long name and what it is good for; whether the type of its matrices can be chosen.
export const FORMATS: Record<NewExport['format'], { title: string; name: string; about: string; hasTypes: boolean }> = {
  huggingface: {
    title: 'Hugging Face',
    name: 'Hugging Face and ONNX',
    about:
      'For transformers.js in browsers and Node, and ONNX Runtime; for transformers in Python if model.norm is post.',
    hasTypes: false,
  },
  ctranslate2: {
    title: 'CTranslate2',
    name: 'CTranslate2',
    about: 'For fast translation on processors and GPUs. int8 is smallest and changes some translations.',
    hasTypes: true,
  },
  argos: {
    title: 'Argos Translate',
    name: 'Argos Translate, LibreTranslate',
    about: 'One package that both install. It has CTranslate2 inside. int8 is smallest and changes some translations.',
    hasTypes: true,
  },
  marian: { title: 'Marian', name: 'Marian', about: `For marian-decoder. ${ARITHMETIC}`, hasTypes: false },
  bergamot: {
    title: 'Bergamot',
    name: 'Bergamot, in 8 bits',
    about: `For translation in browsers, by Marian's arithmetic in 8 bits. ${ARITHMETIC}`,
    hasTypes: false,
  },
};

/// "CTranslate2, int8" or "Argos Translate, en to de, float32".
export const titleOf = ({ format, quantization, from, into }: Export): string =>
  [FORMATS[format].title, from && `${from} to ${into}`, FORMATS[format].hasTypes && quantization]
    .filter(Boolean)
    .join(', ');

/// A sentence about an export that was asked for and has ended.
export const endOf = (made: Export, update: string): string =>
  made.state === 'failed'
    ? `The checkpoint of update ${update} was not exported as ${titleOf(made)}: ${made.detail}`
    : `The checkpoint of update ${update} is exported, to download in the table: ${titleOf(made)}.`;

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
