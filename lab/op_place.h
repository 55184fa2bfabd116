#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nmt/core/parameters.h"
#include "nmt/ops/observer.h"

namespace babelring {

/// The layers of a model with parameters, in forward order: encoder.0.attention_norm, encoder.0.attention.qkv, …. The
/// last is `output`, the projection to logits, also where its weights are the embedding's.
std::vector<std::string> layers_of(const ParameterStore& store);

/// Selects layers by a comma-separated list: "all", "first10" and "last10" of layers_of(), or globs with * and ? such
/// as decoder.*, which also match the names of ranges (decoder.0, output_loss).
class LayerFilter {
 public:
  /// Throws UsageFailure, which gives the nearest names, if an item matches nothing. `option` names the list.
  LayerFilter(const std::string& option, const std::string& list, const ParameterStore& store);

  bool takes(std::string_view layer) const;
  bool takes_all() const { return all_; }

 private:
  bool all_ = false;
  std::vector<std::string> names_;  // of first and last
  std::vector<std::string> globs_;
};

/// True if a glob with * and ? matches the whole text.
bool matches_glob(const std::string& glob, std::string_view text);

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
