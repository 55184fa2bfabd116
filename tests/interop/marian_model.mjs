// The arithmetic of transformers' MarianMTModel (models/marian/modeling_marian.py) in double precision, with the weights of a
// model.safetensors and the numbers of a config.json. Checks that these are all that such a model has, no tensor more.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

function read_safetensors(file) {
  const bytes = readFileSync(file);
  const begin = 8 + Number(bytes.readBigUInt64LE(0));
  const { __metadata__: metadata, ...entries } = JSON.parse(bytes.toString('utf8', 8, begin));
  if (metadata?.format !== 'pt') throw new Error(`${file}: found format ${metadata?.format}, expected pt`);
  const tensors = new Map();
  for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries(entries)) {
    if (dtype !== 'F32') throw new Error(`${name}: found ${dtype}, expected F32`);
    const data = bytes.buffer.slice(...offsets.map((offset) => bytes.byteOffset + begin + offset));
    tensors.set(name, { shape, values: new Float32Array(data) });
  }
  return tensors;
}

const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const activations = { relu: (x) => Math.max(x, 0), swish: (x) => x / (1 + Math.exp(-x)) };
const plus = (a, b) => a.map((value, i) => value + b[i]);

export class MarianModel {
  constructor(folder) {
    this.config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
    this.tensors = read_safetensors(join(folder, 'model.safetensors'));
    this.unused = new Set(this.tensors.keys());
  }

  /** Rows of a tensor; a vector is one row. */
  rows(name, ...expected) {
    const { shape, values } = this.tensors.get(name);
    if (JSON.stringify(shape) !== JSON.stringify(expected))
      throw new Error(`${name}: found [${shape}], expected [${expected}]`);
    this.unused.delete(name);
    const columns = shape.at(-1);
    return Array.from({ length: values.length / columns }, (_, i) =>
      Array.from(values.subarray(i * columns, (i + 1) * columns)),
    );
  }

  linear(x, name, outputs) {
    const weight = this.rows(`${name}.weight`, outputs, x[0].length);
    const [bias] = this.rows(`${name}.bias`, outputs);
    return x.map((row) => weight.map((w, i) => dot(w, row) + bias[i]));
  }

  norm(x, name) {
    const [gain] = this.rows(`${name}.weight`, x[0].length);
    const [bias] = this.rows(`${name}.bias`, x[0].length);
    return x.map((row) => {
      const mean = row.reduce((a, b) => a + b) / row.length;
      const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length;
      return row.map((value, i) => ((value - mean) / Math.sqrt(variance + 1e-5)) * gain[i] + bias[i]);
    });
  }

  /** `sees(i, j)`: whether row i of x attends to row j of memory. */
  attention(x, memory, name, heads, sees) {
    const width = x[0].length;
    const [q, k, v] = [
      [x, 'q'],
      [memory, 'k'],
      [memory, 'v'],
    ].map(([rows, part]) => this.linear(rows, `${name}.${part}_proj`, width));
    const size = width / heads;
    const mixed = x.map(() => []);
    for (let begin = 0; begin < width; begin += size) {
      const head = (rows) => rows.map((row) => row.slice(begin, begin + size));
      const [keys, values] = [head(k), head(v)];
      head(q).forEach((query, i) => {
        const weights = keys.map((key, j) => (sees(i, j) ? Math.exp(dot(query, key) / Math.sqrt(size)) : 0));
        const sum = weights.reduce((a, b) => a + b);
        for (let c = 0; c < size; ++c) mixed[i].push(weights.reduce((all, w, j) => all + (w / sum) * values[j][c], 0));
      });
    }
    return this.linear(mixed, `${name}.out_proj`, width);
  }

  embed(ids, side) {
    const { d_model: width, scale_embedding, share_encoder_decoder_embeddings: shared, vocab_size } = this.config;
    const table = this.rows(shared ? 'model.shared.weight' : `model.${side}.embed_tokens.weight`, vocab_size, width);
    const scale = scale_embedding ? Math.sqrt(width) : 1;
    return ids.map((id, at) =>
      table[id].map((value, i) => {
        const angle = at / 10000 ** ((2 * (i % (width / 2))) / width);
        return value * scale + (i < width / 2 ? Math.sin(angle) : Math.cos(angle));
      }),
    );
  }

  layers(x, side, memory) {
    const {
      [`${side}_layers`]: count,
      [`${side}_attention_heads`]: heads,
      [`${side}_ffn_dim`]: inner,
      d_model: width,
      activation_function: activation,
    } = this.config;
    for (let i = 0; i < count; ++i) {
      const name = `model.${side}.layers.${i}`;
      const residual = (y, norm) =>
        this.norm(
          x.map((row, at) => plus(row, y[at])),
          `${name}.${norm}`,
        );
      x = residual(
        this.attention(x, x, `${name}.self_attn`, heads, (at, other) => !memory || other <= at),
        'self_attn_layer_norm',
      );
      if (memory)
        x = residual(
          this.attention(x, memory, `${name}.encoder_attn`, heads, () => true),
          'encoder_attn_layer_norm',
        );
      const hidden = this.linear(x, `${name}.fc1`, inner).map((row) => row.map(activations[activation]));
      x = residual(this.linear(hidden, `${name}.fc2`, width), 'final_layer_norm');
    }
    return x;
  }

  /** Rows of logits for the source's ids and the decoder's input. */
  logits(source, target) {
    const {
      tie_word_embeddings: tied,
      share_encoder_decoder_embeddings: shared,
      d_model: width,
      vocab_size,
    } = this.config;
    const x = this.layers(
      this.embed(target, 'decoder'),
      'decoder',
      this.layers(this.embed(source, 'encoder'), 'encoder'),
    );
    const table = !tied ? 'lm_head.weight' : shared ? 'model.shared.weight' : 'model.decoder.embed_tokens.weight';
    const weight = this.rows(table, vocab_size, width);
    const [bias] = this.rows('final_logits_bias', 1, vocab_size);
    return x.map((row) => weight.map((w, i) => dot(w, row) + bias[i]));
  }
}
