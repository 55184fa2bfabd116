#pragma once

#include <string>

#include "nmt/layers/context.h"

namespace babelring {

struct EmbeddingOptions {
  float dropout = 0;
  std::int64_t divisor = 0;  // of positions, see EmbeddingForward
  bool zero_start = false;   // sequences begin with a vector of zeros instead of their first token's
  bool sinusoids = true;     // false: positions are not added
};

/// Token plus position embedding: dropout(sqrt(width) * table[id] + sinusoid(position)), or without the sinusoid.
/// Several layers may share a table. Source: Vaswani et al. 2017, 3.4 and 3.5.
class Embedding {
 public:
  struct Saved {
    ConstTensor ids;        // row of `gradient` for each token
    ConstTensor positions;  // null unless EmbeddingOptions::zero_start
    DropoutKey dropout;
    Tensor gradient;  // backward adds to it: the table's gradient, or a compact one (EmbeddingRows)
  };
  /// `table` is [vocabulary, width], declared by declare_table() and owned by the store.
  Embedding(const Parameter& table, const EmbeddingOptions& options, std::uint64_t site);

  /// Declares NAME [vocabulary, width], initialized from a normal distribution with standard deviation width^-1/2.
  static const Parameter& declare_table(ParameterStore& store, const std::string& name, std::int64_t vocabulary,
                                        std::int64_t width);

  /// → [tokens, width] in context.saved.
  Tensor forward(Context& context, const Sequences& sequences, Saved& saved) const;
  /// Adds to saved.gradient. Does not report the table ready: other layers may still add to it.
  void backward(Context& context, ConstTensor dy, const Saved& saved) const;

 private:
  float scale() const;
  const Parameter* table_;
  EmbeddingOptions options_;
  std::uint64_t site_;
};

}  // namespace babelring
