#!/usr/bin/env bash
# @huggingface/transformers 4.3.2 takes num_beams, has a class for it, and searches greedily all the same, without a warning.
#
#   findings/transformers_js_num_beams_is_greedy.sh    needs Node 20.19 or newer, npm and its registry; takes half a minute
#
# Package, nothing else: @huggingface/transformers 4.3.2 (with onnxruntime-node), in a temporary folder. The model is made here: an
# encoder and a decoder of one op each, whose logits depend on the last token alone. From the start A has a probability of 0.5 and B
# of 0.4; behind A six tokens are about equally likely, behind B the end has 0.9. So "A C" is what greedy search finds, with a
# probability of 0.03, and "B" is what a beam of 2 or more finds, with 0.36. Exits 0 if num_beams changes nothing, 1 if that is so no
# more, 77 if this machine lacks something.
#
# One expects a beam search: num_beams is documented in GenerationConfig, and generate() chooses a BeamSearchSampler for it. But each
# step takes only the first of what the sampler returns. Seen on 29 November 2026, Node 20.20:
#
#   num_beams 1: 1 3 5 2
#   num_beams 4: 1 3 5 2
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"

VERSION=4.3.2

lacking() { say "$(basename "$0"): skipped: $*" && exit 77; }

# shellcheck disable=SC2016  # the dollar signs are JavaScript's
PROGRAM='
import { mkdirSync, writeFileSync } from "node:fs";
import { AutoModelForSeq2SeqLM, env, Tensor } from "@huggingface/transformers";

// Protocol buffers: a field of bytes, a field of an integer.
const number = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...number(n >>> 7)]);
const text = (field, bytes) => [...number(field * 8 + 2), ...number(bytes.length), ...bytes];
const name = (field, word) => text(field, Buffer.from(word));
const integer = (field, n) => [...number(field * 8), ...number(n)];

// onnx.proto: ValueInfoProto, NodeProto, TensorProto, GraphProto, ModelProto.
const INT64 = 7, FLOAT = 1;
const value = (word, type, axes) => {
  const shape = axes.flatMap((axis) => text(1, name(2, axis)));
  return [...name(1, word), ...text(2, text(1, [...integer(1, type), ...text(2, shape)]))];
};
const node = (op, inputs, output, attributes = []) => [
  ...inputs.flatMap((input) => name(1, input)), ...name(2, output), ...name(4, op), ...attributes.flatMap((a) => text(5, a)),
];
const floats = (word, rows) => [
  ...integer(1, rows.length), ...integer(1, rows[0].length), ...integer(2, FLOAT), ...name(8, word),
  ...text(9, Buffer.from(Float32Array.from(rows.flat()).buffer)),
];
const model = (nodes, tensors, inputs, outputs) => {
  const graph = [
    ...nodes.flatMap((n) => text(1, n)), ...name(2, "graph"), ...tensors.flatMap((t) => text(5, t)),
    ...inputs.flatMap((v) => text(11, v)), ...outputs.flatMap((v) => text(12, v)),
  ];
  return Buffer.from([...integer(1, 8), ...text(7, graph), ...text(8, integer(2, 17))]);
};

// Ids: 0 <pad>, 1 <s>, 2 </s>, 3 A, 4 B, 5 C. Row i: the probabilities of the next id behind i.
const next = [
  [0.2, 0.2, 0.2, 0.2, 0.1, 0.1], [0.02, 0.02, 0.02, 0.5, 0.4, 0.04], [0.2, 0.2, 0.2, 0.2, 0.1, 0.1],
  [0.16, 0.16, 0.16, 0.16, 0.16, 0.2], [0.02, 0.02, 0.9, 0.02, 0.02, 0.02], [0.14, 0.14, 0.3, 0.14, 0.14, 0.14],
].map((row) => row.map(Math.log));
const axes = ["batch", "tokens", "6"];
mkdirSync("models/chain/onnx", { recursive: true });
const ids = value("input_ids", INT64, ["batch", "tokens"]);
writeFileSync("models/chain/onnx/encoder_model.onnx",
  model([node("Gather", ["table", "input_ids"], "last_hidden_state")], [floats("table", next)],
    [ids, value("attention_mask", INT64, ["batch", "tokens"])], [value("last_hidden_state", FLOAT, axes)]));
writeFileSync("models/chain/onnx/decoder_model_merged.onnx",
  model([node("Gather", ["table", "input_ids"], "logits")], [floats("table", next)],
    [ids, value("encoder_attention_mask", INT64, ["batch", "source"]),
      value("encoder_hidden_states", FLOAT, ["batch", "source", "width"])], [value("logits", FLOAT, axes)]));
const control = { pad_token_id: 0, bos_token_id: 1, eos_token_id: 2, decoder_start_token_id: 1 };
writeFileSync("models/chain/config.json", JSON.stringify({ model_type: "marian", architectures: ["MarianMTModel"],
  is_encoder_decoder: true, vocab_size: 6, d_model: 6, encoder_layers: 1, decoder_layers: 1, encoder_attention_heads: 1,
  decoder_attention_heads: 1, ...control }));
writeFileSync("models/chain/generation_config.json", JSON.stringify({ ...control, max_length: 8 }));

env.localModelPath = "models";
env.allowRemoteModels = false;
const chain = await AutoModelForSeq2SeqLM.from_pretrained("chain", { dtype: "fp32" });
const source = new Tensor("int64", BigInt64Array.from([3n, 2n]), [1, 2]);
const attention_mask = new Tensor("int64", BigInt64Array.from([1n, 1n]), [1, 2]);
for (const num_beams of [1, 4]) {
  const output = await chain.generate({ input_ids: source, attention_mask, num_beams });
  console.log(`num_beams ${num_beams}: ${Array.from(output.data, Number).join(" ")}`);
}
'

main() {
  local folder found
  if [ "${1:-}" = --help ]; then print_header && exit 0; fi
  [ $# -eq 0 ] || usage_error "unknown option $1"
  has_node || lacking "needs Node 20.19 or newer and npm"
  folder=$(mktemp -d "${TMPDIR:-/tmp}/babelring-finding-XXXXXX")
  # shellcheck disable=SC2064  # the folder is known now
  trap "rm -rf '$folder'" EXIT
  cd "$folder"
  echo '{"private": true, "type": "module"}' >package.json
  npm install --silent --no-audit --no-fund --ignore-scripts "@huggingface/transformers@$VERSION" || lacking "npm installed nothing"
  printf '%s' "$PROGRAM" >program.mjs
  found=$(node program.mjs)
  say "$found"
  if [ "$found" != $'num_beams 1: 1 3 5 2\nnum_beams 4: 1 3 5 2' ]; then
    echo "changed: expected 1 3 5 2 for both"
    exit 1
  fi
  echo "as stated: num_beams 4 of @huggingface/transformers $VERSION gives the greedy result"
}

main "$@"
