#include "nmt/optim/adam.h"

#include <algorithm>
#include <cmath>

namespace babelring {

void AdamOptions::bind(OptionBinder& b) {
  b.number("beta1", beta1, 0, 0.9999999, "decay of the first moment");
  b.number("beta2", beta2, 0, 0.9999999, "decay of the second moment");
  b.number("epsilon", epsilon, 0, 1, "added to the square root of the second moment");
  b.number("weight_decay", weight_decay, 0, 1,
           "decoupled weight decay, multiplied by the learning rate; biases and norms have none");
  b.number("clip_norm", clip_norm, 0, 1e9,
           "max global gradient norm; larger gradients are scaled down to it; 0: no clipping");
}

Adam::Adam(const ParameterStore& store, const AdamOptions& options, const Shards& shard,
           const std::function<Moment()>& allocate)
    : store_(&store), options_(options), own_(shard.within({0, store.flat_size()})), m_(allocate()), v_(allocate()) {}

void Adam::freeze(const Parameter& parameter) {
  frozen_.insert(parameter.index);
  treatments_ = Buffer();
}

/// Once, before the first update.
void Adam::upload_treatments(Backend& backend) {
  if (treatments_.data() != nullptr || (options_.weight_decay == 0 && frozen_.empty())) return;
  static_assert(ParameterStore::alignment % AdamUpdate::treatment_block == 0);
  const Shape blocks{AdamUpdate::treatments(store_->flat_size())};
  std::vector<std::int32_t> treatments(static_cast<std::size_t>(blocks.elements()), AdamUpdate::decayed);
  for (const Parameter& parameter : store_->all()) {
    const auto treatment = frozen_.contains(parameter.index) ? AdamUpdate::frozen
                           : parameter.shape.rank() == 1     ? AdamUpdate::not_decayed
                                                             : AdamUpdate::decayed;
    std::fill_n(treatments.begin() + parameter.offset / AdamUpdate::treatment_block,
                store_->padded_size(parameter) / AdamUpdate::treatment_block, treatment);
  }
  treatments_ = backend.allocate(treatments.size() * sizeof(std::int32_t), MemoryPurpose::moments);
  backend.upload(treatments.data(), treatments_.view(blocks, DType::i32));
}

void Adam::start_step(Backend& backend, double learning_rate, ConstTensor squares) {
  upload_treatments(backend);
  for (const ElementRange& range : own_) update(backend, range, learning_rate, squares);
}

UpdateStats Adam::finish_step(std::span<const float> squares) {
  const double norm = SquaredNorm::norm(squares);
  const bool skipped = !std::isfinite(norm);
  if (!skipped) ++steps_;
  return {.gradient_norm = norm, .skipped = skipped};
}

void Adam::update(Backend& backend, const ElementRange& range, double learning_rate, ConstTensor squares) const {
  const auto part = [&](const Tensor& flat) { return flat.row_slice(range.begin, range.end - range.begin); };
  const Tensor copies = store_->compute_copies();
  ConstTensor treatment;
  if (treatments_.data() != nullptr) {
    treatment =
        treatments_.view(Shape{AdamUpdate::treatments(store_->flat_size())}, DType::i32)
            .row_slice(range.begin / AdamUpdate::treatment_block, AdamUpdate::treatments(range.end - range.begin));
  }
  backend.run(AdamUpdate{.master = part(store_->masters()),
                         .gradient = part(store_->gradients()),
                         .m = m_.part(range),
                         .v = v_.part(range),
                         .compute = copies ? part(copies) : Tensor(),
                         .treatment = treatment,
                         .squares = squares,
                         .rows = counting_ != nullptr ? counting_->of(range) : RowCounters(),
                         .clip_norm = options_.clip_norm,
                         .learning_rate = static_cast<float>(learning_rate),
                         .beta1 = static_cast<float>(options_.beta1),
                         .beta2 = static_cast<float>(options_.beta2),
                         .eps = static_cast<float>(options_.epsilon),
                         .weight_decay = static_cast<float>(options_.weight_decay),
                         .step = steps_ + 1});
}

}  // namespace babelring
