// Translates the sources of a folder that `nmt export --to bergamot` wrote, in Bergamot's WebAssembly, and prints how many of the
// translations are those of its conformance.jsonl. These are of f32, those of Bergamot of 8 bits.
//
//   node bergamot_test.mjs FOLDER SCRATCH      SCRATCH: a new folder for a copy of Bergamot's worker
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';

const [folder, scratch] = process.argv.slice(2).map((path) => resolve(path));
const package_folder = dirname(fileURLToPath(import.meta.resolve('@browsermt/bergamot-translator')));
cpSync(join(package_folder, 'worker'), scratch, { recursive: true });
writeFileSync(join(scratch, 'package.json'), '{"type": "commonjs"}'); // the worker is; the package says that it is a module

const worker = new Worker(join(scratch, 'translator-worker.js'));
const waiting = new Map();
worker.on('message', ({ id, result, error }) => {
  const { resolve, reject } = waiting.get(id);
  waiting.delete(id);
  if (error) reject(new Error(error.message));
  else resolve(result);
});
worker.on('error', (error) => {
  console.error(error);
  process.exit(1);
});
const call = (name, ...args) =>
  new Promise((resolve, reject) => {
    const id = waiting.size + 1;
    waiting.set(id, { resolve, reject });
    worker.postMessage({ id, name, args });
  });

/** The bytes of a file, as an ArrayBuffer of their own. */
function bytes_of(name) {
  const bytes = readFileSync(join(folder, name));
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
}

/** The options of config.yml that are not lists. */
function options_of(name) {
  const entries = readFileSync(join(folder, name), 'utf8').matchAll(/^([\w-]+): (.+)$/gm);
  return Object.fromEntries(Array.from(entries, ([, key, value]) => [key, value]));
}

await call('initialize', {});
const lines = readFileSync(join(folder, 'conformance.jsonl'), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line));
const texts = lines.map(({ source }) => ({ text: source, html: false }));
const config = { ...options_of('config.yml'), 'ssplit-mode': 'sentence' };

/** The number of translations in a mode of matmuls that are those of conformance.jsonl. */
async function count_equal(precision) {
  const pair = { from: 'en', to: precision };
  const [model, vocabulary] = [bytes_of('model.bin'), bytes_of('vocab.spm')];
  await call('loadTranslationModel', pair, {
    model,
    shortlist: new ArrayBuffer(0),
    vocabs: [vocabulary],
    config: { ...config, 'gemm-precision': precision },
  });
  const translations = await call('translate', { models: [pair], texts });
  let equal = 0;
  lines.forEach(({ source, greedy }, i) => {
    const { text } = translations[i].target;
    if (text === greedy.text) ++equal;
    else console.log(`${precision}: ${source}\n  ours:     ${greedy.text}\n  Bergamot: ${text}`);
  });
  return equal;
}
const equal = await count_equal(config['gemm-precision']);
const with_factors = await count_equal('int8shiftAlphaAll'); // what the package takes without options
console.log(JSON.stringify({ lines: lines.length, equal, with_factors }));
process.exit(0);
