// Translates the sources of a folder that `nmt export --to huggingface` wrote, with transformers.js on ONNX Runtime, and
// compares with its conformance.jsonl: ids and texts of the sources and of the greedy translations, and the
// log-probability of the best translation of the beam search, which transformers.js lacks.
//
//   node transformers_test.mjs FOLDER
import { readFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { AutoModelForSeq2SeqLM, AutoTokenizer, env, pipeline, Tensor } from '@huggingface/transformers';

const folder = resolve(process.argv[2]);
env.localModelPath = dirname(folder);
env.allowRemoteModels = false;
const name = basename(folder);
const lines = readFileSync(join(folder, 'conformance.jsonl'), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line));
const tokenizer = await AutoTokenizer.from_pretrained(name);
const model = await AutoModelForSeq2SeqLM.from_pretrained(name, { dtype: 'fp32' });
const { eos_token_id: end, decoder_start_token_id: start } = model.config;

const ids_in = (tensor) => Array.from(tensor.data, Number);
const same = (a, b) => a.length === b.length && a.every((id, i) => id === b[i]);
const tensor_of = (ids) => new Tensor('int64', BigInt64Array.from(ids.map(BigInt)), [1, ids.length]);

/** ln of the probability of `id` under one row of logits. */
function log_softmax(row, id) {
  const largest = row.reduce((a, b) => Math.max(a, b));
  return row[id] - largest - Math.log(row.reduce((sum, logit) => sum + Math.exp(logit - largest), 0));
}

/** ln of the probability of a translation. `logits_of(input)`: rows of logits, for the decoder's input. */
async function log_probability({ ids, complete }, logits_of) {
  const expected = complete ? [...ids, end] : ids;
  const rows = await logits_of([start, ...expected.slice(0, -1)]);
  return expected.reduce((sum, id, i) => sum + log_softmax(rows[i], id), 0);
}

/** All rows of a tensor [1, rows, columns]. */
function rows_of({ data, dims }) {
  return Array.from({ length: dims[1] }, (_, i) => data.subarray(i * dims[2], (i + 1) * dims[2]));
}

async function compare(line) {
  const input = await tokenizer(line.source);
  const { ids, complete } = line.greedy;
  const output = await model.generate({ ...input, max_new_tokens: ids.length + (complete ? 1 : 0) });
  const logits_of = async (decoder_input) =>
    rows_of((await model({ ...input, decoder_input_ids: tensor_of(decoder_input) })).logits);
  const difference = (await log_probability(line.best, logits_of)) - line.best.log_probability;
  return {
    tokens: same(ids_in(input.input_ids), [...line.source_ids, end]),
    greedy: same(ids_in(output), [start, ...ids, ...(complete ? [end] : [])]),
    text: tokenizer.decode(ids, { skip_special_tokens: true }) === line.greedy.text,
    score: Math.abs(difference) < 1e-4,
    difference,
  };
}

const counts = { tokens: 0, greedy: 0, text: 0, score: 0 };
let largest_difference = 0;
for (const line of lines) {
  const result = await compare(line);
  const checks = Object.keys(counts);
  for (const check of checks) counts[check] += result[check];
  largest_difference = Math.max(largest_difference, Math.abs(result.difference));
  const failed = checks.filter((check) => !result[check]);
  if (failed.length > 0) console.log(`differs in ${failed.join(', ')}: ${line.source}`);
}
let passed = lines.length > 0 && Object.values(counts).every((count) => count === lines.length);

/** Whether a check that must hold does; says it if not. */
function require_equal(what, found, expected) {
  if (found === expected) return;
  console.log(`${what}: found ${found}, expected ${expected}`);
  passed = false;
}

// The pipeline, as the model card says.
const translate = await pipeline('translation', name, { dtype: 'fp32' });
const whole = lines.find((line) => line.greedy.complete); // an untrained model may have none
if (whole) require_equal('pipeline', (await translate(whole.source))[0].translation_text, whole.greedy.text);
console.log(JSON.stringify({ lines: lines.length, ...counts, largest_difference }));
process.exit(passed ? 0 : 1);
