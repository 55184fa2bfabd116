#include "nmt/train/memory_estimate.h"

#include <algorithm>
#include <cmath>

#include "nmt/layers/output_projection_loss.h"

namespace babelring {

namespace {

constexpr std::int64_t f32_bytes = 4;

/// Bytes per token (row) of layers and tensors.
class Sizes {
 public:
  Sizes(const ModelConfig& model, std::int64_t element, bool on_device)
      : width(model.width * element),
        // Includes the padding of Arena::make_rows().
        inner(!on_device && model.inner * element % 4096 == 0 ? model.inner * element + 64 : model.inner * element),
        // A residual block saves two rows, and the norm's mean and reciprocal standard deviation.
        block(2 * width + 2 * f32_bytes),
        // Queries, keys, values, output, and a log-sum-exp per head.
        attention(4 * width + model.heads * f32_bytes),
        pre(model.norm == "pre"),
        dropout(model.dropout > 0),
        joined(on_device ? 2 * width * model.decoder_layers : 0) {}

  std::int64_t encoder_row() const { return 2 * block + attention + inner; }
  /// Per target token. Cross-attention's keys and values are per source token, see memory_row().
  std::int64_t decoder_row() const { return 3 * block + 2 * attention - 2 * width + inner; }
  std::int64_t memory_row() const { return 2 * width; }
  /// Outside of the layers: embedding, final norm (pre-norm), the stack's gradient, ids and positions.
  std::int64_t stack_row() const { return 2 * width + (pre ? width + 2 * f32_bytes : 0) + 2 * f32_bytes; }
  /// Scratch of a residual block's backward while its body runs.
  std::int64_t branch_row() const { return ((dropout ? 1 : 0) + (pre ? 1 : 0)) * width; }

  std::int64_t width, inner, block, attention;
  bool pre, dropout;
  // Keys and values of all decoder layers, which a device computes with one matmul; 0 on the CPU.
  std::int64_t joined;
};

std::int64_t kept_bytes(const ModelConfig& model, const Sizes& sizes, std::int64_t source, std::int64_t target) {
  const std::int64_t encoder = model.encoder_layers * sizes.encoder_row() + sizes.stack_row();
  const std::int64_t decoder =
      model.decoder_layers * sizes.decoder_row() + sizes.stack_row() + 4 * f32_bytes;  // target_out, loss, nll, correct
  const std::int64_t joined_weights = sizes.joined * model.width;
  return source * (encoder + model.decoder_layers * sizes.memory_row()) + target * decoder + joined_weights;
}

std::int64_t scratch_bytes(const Sizes& sizes, std::int64_t logits, std::int64_t source, std::int64_t target) {
  const std::int64_t width = sizes.width, body = std::max(sizes.inner, 4 * width);
  // Gradients of keys and values: of one layer during its backward, or of all layers during the decoder's backward.
  const std::int64_t of_layer = sizes.joined > 0 ? 0 : source * 2 * width, of_decoder = source * sizes.joined;
  const std::int64_t cross = target * (sizes.branch_row() + 2 * width) + of_layer;
  return std::max({logits, source * (sizes.branch_row() + body),
                   of_decoder + std::max(target * (sizes.branch_row() + body), cross)});
}

}  // namespace

std::int64_t count_parameters(const ModelConfig& model, std::int64_t vocabulary) {
  const std::int64_t d = model.width, f = model.inner, bias = model.attention_bias ? d : 0;
  const std::int64_t norm = 2 * d, feed_forward = 2 * d * f + f + d, attention = 4 * (d * d + bias);
  const std::int64_t tables = model.tied_embeddings == "all" ? 1 : model.tied_embeddings == "decoder" ? 2 : 3;
  return tables * vocabulary * d + model.encoder_layers * (attention + feed_forward + 2 * norm) +
         model.decoder_layers * (2 * attention + feed_forward + 3 * norm) + (model.norm == "pre" ? 2 * norm : 0);
}

MemoryEstimate estimate_memory(const TrainConfig& config, std::int64_t vocabulary, std::int64_t ranks,
                               double source_per_target) {
  const DType dtype = config.training.precision == "bf16" ? DType::bf16 : DType::f32;
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t limit = config.data.micro_batch_tokens;
  const auto limited = [&](std::int64_t tokens) { return limit > 0 ? std::min(tokens, limit) : tokens; };
  MemoryEstimate estimate;
  estimate.parameters = count_parameters(config.model, vocabulary);
  estimate.target_tokens = limited((config.data.tokens_per_update + ranks - 1) / ranks);
  estimate.source_tokens =
      limited(std::llround(static_cast<double>(estimate.target_tokens) * std::max(source_per_target, 0.0)));
  estimate.weights = estimate.parameters * (f32_bytes + (dtype == DType::bf16 ? element : 0));
  estimate.gradients = estimate.parameters * f32_bytes;
  estimate.moments = 2 * estimate.parameters * f32_bytes;
  const bool on_device = config.training.device == "cuda";
  const Sizes sizes(config.model, element, on_device);
  const std::int64_t source = estimate.source_tokens, target = estimate.target_tokens;
  estimate.activations = kept_bytes(config.model, sizes, source, target);
  // The GPU is not known. Assume one with the largest chunks.
  const LossChunks chunks = on_device ? LossChunks::on_device(std::size_t{1} << 40) : LossChunks();
  const std::int64_t logits = OutputProjectionLoss::scratch_bytes(target, vocabulary, dtype, chunks);
  estimate.scratch = scratch_bytes(sizes, logits, source, target);
  return estimate;
}

}  // namespace babelring
