#include "nmt/layers/embedding.h"

#include <cmath>

#include "nmt/ops/embedding.h"

namespace babelring {

Embedding::Embedding(const Parameter& table, const EmbeddingOptions& options, std::uint64_t site)
    : table_(&table), options_(options), site_(site) {}

const Parameter& Embedding::declare_table(ParameterStore& store, const std::string& name, std::int64_t vocabulary,
                                          std::int64_t width) {
  return store.declare(name, Shape{vocabulary, width}, Initializer::normal(1 / std::sqrt(static_cast<float>(width))));
}

float Embedding::scale() const {
  return std::sqrt(static_cast<float>(table_->shape[1]));
}

Tensor Embedding::forward(Context& context, const Sequences& sequences, Saved& saved) const {
  saved = {.ids = sequences.ids,
           .positions = options_.zero_start ? ConstTensor(sequences.positions) : ConstTensor(),
           .dropout = context.dropout_key(site_, sequences.first_row, options_.dropout),
           .gradient = table_->gradient};
  Tensor y = context.saved.make(Shape{sequences.tokens(), table_->shape[1]}, context.dtype);
  context.will_read(table_);
  context.backend.run(EmbeddingForward{.ids = sequences.ids,
                                       .positions = sequences.positions,
                                       .table = table_->compute,
                                       .y = y,
                                       .scale = scale(),
                                       .key = saved.dropout,
                                       .divisor = options_.divisor,
                                       .zero_start = options_.zero_start,
                                       .sinusoids = options_.sinusoids,
                                       .quantized = table_->quantized});
  return y;
}

void Embedding::backward(Context& context, ConstTensor dy, const Saved& saved) const {
  context.backend.run(EmbeddingBackward{.ids = saved.ids,
                                        .dy = dy,
                                        .dtable = saved.gradient,
                                        .scale = scale(),
                                        .key = saved.dropout,
                                        .positions = saved.positions});
}

}  // namespace babelring
