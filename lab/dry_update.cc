#include "lab/dry_update.h"

#include <algorithm>

#include "base/failure.h"
#include "nmt/ops/dry_backend.h"
#include "nmt/train/setup/memory_plan.h"

namespace babelring {
namespace {

constexpr std::int64_t max_dry_tokens = std::int64_t{1} << 24;

DryBatch checked(DryBatch sizes, const TrainConfig& config) {
  const bool sequences = config.task == Task::gssm;
  for (const auto& [name, number] : {std::pair{"vocabulary", sizes.vocabulary},
                                     {"source tokens", sequences ? 1 : sizes.source_tokens},
                                     {"target tokens", sizes.target_tokens}}) {
    if (number < 1 || number > max_dry_tokens) {
      fail("dry update: expected 1 to {} {}, found {}", max_dry_tokens, name, number);
    }
  }
  if (sequences) {
    sizes.source_tokens = 0;
    const std::int64_t length = config.data.sequence_length - 1;
    if (sizes.sentences == 0) sizes.sentences = (sizes.target_tokens + length - 1) / length;
  }
  const std::int64_t shorter = sequences ? sizes.target_tokens : std::min(sizes.source_tokens, sizes.target_tokens);
  if (sizes.sentences == 0) sizes.sentences = dry_sentences(sizes.source_tokens, sizes.target_tokens);
  if (sizes.sentences < 1 || sizes.sentences > shorter) {
    fail("dry update: expected 1 to {} sentences, found {}", shorter, sizes.sentences);
  }
  return sizes;
}

/// Aligns each target piece with the source piece at its position, or the last one.
PackedLinks diagonal_links(const PackedBatch& batch) {
  PackedLinks links;
  links.offsets.push_back(0);
  const auto &sources = batch.source.offsets, &targets = batch.target_in.offsets;
  for (std::size_t i = 0; i + 1 < targets.size(); ++i) {
    const std::int32_t last = sources[i + 1] - sources[i] - 1;
    for (std::int32_t row = 0; row < targets[i + 1] - targets[i]; ++row) {
      links.sources.push_back(std::min(row, last));
      links.offsets.push_back(static_cast<std::int32_t>(links.sources.size()));
    }
  }
  return links;
}

/// Graphs replay passes without the ops that an observer sees.
TrainConfig without_graphs(TrainConfig config) {
  config.training.cuda_graphs = false;
  return config;
}

}  // namespace

DryUpdate::DryUpdate(const TrainConfig& config, const DryBatch& sizes)
    : config_(without_graphs(config)),
      sizes_(checked(sizes, config)),
      device_(config.training.device == DeviceChoice::cuda ? "cuda" : "cpu"),
      backend_(config.training.device == DeviceChoice::cuda ? make_dry_device() : make_dry_backend()),
      communicator_(make_single_communicator()),
      replica_(std::make_unique<ModelReplica>(config_, sizes_.vocabulary, *backend_, *communicator_)),
      clock_([] { return nullptr; }),
      gradients_(std::make_unique<UpdateGradients>(config_, *replica_, clock_)) {
  batches_.update = 1;
  batches_.global_target_tokens = sizes_.target_tokens;
  batches_.micro_batches.push_back(even_batch(sizes_.source_tokens, sizes_.target_tokens, sizes_.sentences));
  PackedBatch& batch = batches_.micro_batches.front();
  if (config_.training.guided_alignment > 0) batch.links = diagonal_links(batch);
}

void DryUpdate::run() {
  gradients_->forward_backward(batches_, 0);
  gradients_->reduce();
  const GradientSquares squares = gradients_->squares();
  const WorkRange range(*backend_, "optimizer");
  replica_->adam.start_step(*backend_, 1, squares.on_backend);
}

void DryUpdate::run_inference() {
  Context context = replica_->arenas.begin(replica_->model.compute_dtype());
  const DeviceBatch batch(*backend_, context.saved, batches_.micro_batches.front());
  const WorkRange range(*backend_, "forward");
  replica_->model.evaluate(context, batch, context.saved.make(batch.target_out.shape, DType::i32));
}

}  // namespace babelring
