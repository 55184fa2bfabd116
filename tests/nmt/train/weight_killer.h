#pragma once

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "nmt/model/model.h"
#include "tests/nmt/train/small_training.h"

namespace babelring {

/// Makes training diverge at given updates by changing weights when their step record arrives, once per update. Also
/// collects the records, and can count the gradients that are not 0 after skipped updates.
class WeightKiller : public Collector {
 public:
  /// One weight becomes NaN after each update in `killed`. All weights grow 20-fold after each update in `spoiled`.
  explicit WeightKiller(std::set<std::int64_t> killed, std::set<std::int64_t> spoiled = {})
      : killed_(std::move(killed)), spoiled_(std::move(spoiled)) {}
  void write(RecordBody body) override {
    const auto* step = std::get_if<StepRecord>(&body);
    if (step != nullptr && step->skipped && counts_gradients) {
      const auto gradients = floats(model->parameters().gradients());
      gradients_after_skips += std::count_if(gradients.begin(), gradients.end(), [](float g) { return g != 0; });
    }
    if (step != nullptr && killed_.erase(step->update) > 0) weights()[0] = std::numeric_limits<float>::quiet_NaN();
    if (step != nullptr && spoiled_.erase(step->update) > 0) {
      for (float& weight : weights()) weight *= 20;
    }
    Collector::write(std::move(body));
  }

  const Model* model = nullptr;   // weights in host memory
  bool counts_gradients = false;  // which then are in host memory, too
  std::int64_t gradients_after_skips = 0;

 private:
  static std::span<float> floats(const Tensor& flat) {
    return {flat.as<float>(), static_cast<std::size_t>(flat.shape.elements())};
  }
  std::span<float> weights() const { return floats(model->parameters().masters()); }

  std::set<std::int64_t> killed_, spoiled_;
};

}  // namespace babelring
