#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nmt/core/parameters.h"
#include "nmt/ops/observer.h"

namespace babelring {

/// The layer of the projection to logits, also where its weights are the embedding's.
inline constexpr std::string_view output_layer = "output";

/// The layer of a parameter: its name without ".weight", ".bias" or ".gain".
std::string_view layer_of(const Parameter& parameter);

/// The parameter that contains all elements of a tensor; null if there is none, as for a flat array.
const Parameter* parameter_of(const ParameterStore& store, const ConstTensor& tensor);

/// Says where in an update the ops run that an observer sees. Pass every enter() and leave() of the observer.
class OpPlace {
 public:
  /// `store` must outlive the object.
  explicit OpPlace(const ParameterStore& store) : store_(store) {}

  /// Begins an update: micro-batches are counted from 0.
  void begin_update();
  void enter(std::string_view range);
  void leave();

  /// The outermost range, without "micro_batch": "forward", "output_loss", "backward", "gradient_sum", "optimizer".
  /// "micro_batch" directly within one; empty outside of all ranges.
  std::string_view phase() const;
  /// The number of the micro-batch; nullopt outside of micro-batches.
  std::optional<int> micro_batch() const;
  /// The layer of the op's parameter (encoder.0.attention.qkv; for the projection to logits output_layer), else the
  /// innermost range (encoder.0), which other ops may share. Empty if there is neither.
  std::string_view layer(const OpRun& run) const;

 private:
  const ParameterStore& store_;
  std::vector<std::string> ranges_;
  int micro_batches_ = 0;  // that have begun
};

}  // namespace babelring
