#include "tests/bench/matmul_table.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "nmt/model/config.h"
#include "tests/bench/bench_tensors.h"

namespace babelring {

namespace {

/// A linear layer of a model.
struct Layer {
  const char* name;
  std::int64_t in, out, rows;
  bool bias = true, relu = false;
};

std::vector<Layer> layers_of(const Backend& backend, const ModelConfig& model, std::int64_t vocabulary,
                             std::int64_t tokens) {
  const std::int64_t d = model.width, f = model.inner;
  const std::int64_t chunk =
      backend.loss_chunks().max_rows(vocabulary * static_cast<std::int64_t>(size_of(DType::bf16)));
  return {{"queries, keys, values", d, 3 * d, tokens},
          {"keys and values for the decoder", d, 2 * d * model.decoder_layers, tokens},
          {"queries, or attention's output", d, d, tokens},
          {"first of feed-forward", d, f, tokens, true, true},
          {"second of feed-forward", f, d, tokens},
          {"logits", d, vocabulary, std::min(tokens, chunk), false}};
}

/// Forward, as in training.
void run_forward(Backend& backend, const Layer& layer) {
  BenchTensors pool(backend);
  LinearForward op{.x = pool.uniform({layer.rows, layer.in}, DType::bf16),
                   .weight = pool.uniform({layer.out, layer.in}, DType::bf16),
                   .y = pool.make({layer.rows, layer.out}, DType::bf16),
                   .activation = layer.relu ? Activation::relu : Activation::none};
  if (layer.bias) {
    op.bias = pool.uniform({layer.out}, DType::f32);
    op.bias_copy = pool.uniform({layer.out}, DType::bf16);
  }
  backend.run(op);
}

/// The gradient of the layer's input, which is also added to others' unless a ReLU lies before the layer.
void run_data(Backend& backend, const Layer& layer, bool behind_relu) {
  BenchTensors pool(backend);
  LinearBackwardData op{.dy = pool.uniform({layer.rows, layer.out}, DType::bf16),
                        .weight = pool.uniform({layer.out, layer.in}, DType::bf16),
                        .dx = pool.make({layer.rows, layer.in}, DType::bf16)};
  backend.run(op);
  op.accumulate = true;
  if (!behind_relu) backend.run(op);
}

/// The weight gradient of an update's first micro-batch.
void run_weight(Backend& backend, const Layer& layer) {
  BenchTensors pool(backend);
  backend.run(LinearBackwardWeight{.dy = pool.uniform({layer.rows, layer.out}, DType::bf16),
                                   .x = pool.uniform({layer.rows, layer.in}, DType::bf16),
                                   .dweight = pool.make({layer.out, layer.in}, DType::f32),
                                   .dbias = layer.bias ? pool.make({layer.out}, DType::f32) : Tensor(),
                                   .accumulate = false});
}

json::object row_of(const std::string& preset, const char* layer, const MatmulReport& report) {
  return {{"preset", preset},
          {"layer", layer},
          {"product", report.matmul},
          {"epilogue", report.epilogue},
          {"found", report.found},
          {"candidates", report.candidates},
          {"first_ms", report.first_ms},
          {"chosen_ms", report.chosen_ms},
          {"waves", report.waves},
          {"algorithm", report.algorithm}};
}

}  // namespace

json::array matmul_table(Backend& backend, const std::string& preset, std::int64_t tokens,
                         const std::function<void(const json::object&)>& each) {
  const std::int64_t vocabulary = preset == "tiny" ? 10000 : 32000;
  json::array rows;
  std::size_t told = backend.matmul_reports().size();
  const auto tell = [&](const json::object& row) {
    each(row);
    rows.push_back(row);
  };
  for (const Layer& layer : layers_of(backend, model_preset("transformer-" + preset), vocabulary, tokens)) {
    try {
      run_forward(backend, layer);
      run_data(backend, layer, std::string_view(layer.name) == "second of feed-forward");
      run_weight(backend, layer);
      backend.synchronize();
    } catch (const std::exception& failure) {
      tell({{"preset", preset}, {"layer", layer.name}, {"failure", failure.what()}});
    }
    const std::vector<MatmulReport> reports = backend.matmul_reports();
    for (; told < reports.size(); ++told) tell(row_of(preset, layer.name, reports[told]));
  }
  return rows;
}

}  // namespace babelring
