#pragma once

#include <limits>
#include <set>
#include <utility>

#include "nmt/model/transformer.h"
#include "tests/train/small_training.h"

namespace babelring {

/// Keeps what the trainer reports, and makes a weight NaN when it hears of an update in `updates`, the first time only:
/// training diverges there.
class WeightKiller : public Collector {
 public:
  explicit WeightKiller(std::set<std::int64_t> updates) : updates_(std::move(updates)) {}
  void write(RecordBody body) override {
    const auto* step = std::get_if<StepRecord>(&body);
    if (step != nullptr && updates_.erase(step->update) > 0) {
      model->parameters().masters().as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    }
    Collector::write(std::move(body));
  }

  const Transformer* model = nullptr;  // with weights in host memory

 private:
  std::set<std::int64_t> updates_;
};

}  // namespace babelring
