#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nmt/core/parameters.h"

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

}  // namespace babelring
