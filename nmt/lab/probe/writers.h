#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "nmt/core/tensor.h"

namespace babelring {

/// Which record wrote each byte of memory last. Follows strided tensors row by row.
class Writers {
 public:
  /// Written, but by no record.
  static constexpr std::int64_t nobody = -1;

  /// The tensor's bytes were written by record `number`, or by `nobody`.
  void wrote(const ConstTensor& tensor, std::int64_t number);
  /// Forgets the writers of memory for which keeps(address) is false.
  template <class Keeps>
  void forget_unless(Keeps keeps) {
    std::erase_if(pieces_, [&](const auto& piece) { return !keeps(static_cast<const void*>(piece.first)); });
  }
  /// The records that wrote the tensor's bytes, ascending, with `nobody` first if some were written by no record.
  std::vector<std::int64_t> of(const ConstTensor& tensor) const;

 private:
  struct Piece {
    const std::byte* end;
    std::int64_t number;
  };
  void cut(const std::byte* at);

  std::map<const std::byte*, Piece> pieces_;  // by first byte; do not overlap
};

}  // namespace babelring
