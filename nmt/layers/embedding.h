#pragma once

#include <string>

#include "nmt/layers/context.h"

namespace babelring {

/// Token and position embedding: dropout(sqrt(width) * table[id] + sinusoid(position)). The table may be shared.
class Embedding {
 public:
  struct Saved {
    ConstTensor ids;
    DropoutKey dropout;
    Tensor gradient;  // what backward adds to: the table's, in whose rows `ids` are counted
  };
  /// `table` is [vocabulary, width], declared by declare_table() and owned by the store.
  Embedding(const Parameter& table, float dropout, std::uint64_t site);

  /// Declares NAME [vocabulary, width], normal with deviation width^-1/2.
  static const Parameter& declare_table(ParameterStore& store, const std::string& name, std::int64_t vocabulary,
                                        std::int64_t width);

  /// → [tokens, width] in context.saved.
  Tensor forward(Context& context, const Sequences& sequences, Saved& saved) const;
  /// Adds to saved.gradient; whether it is then complete only the model knows.
  void backward(Context& context, ConstTensor dy, const Saved& saved) const;

 private:
  float scale() const;
  const Parameter* table_;
  float dropout_;
  std::uint64_t site_;
};

}  // namespace babelring
