#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "nmt/core/tensor.h"

namespace babelring {

/// Which record wrote each byte of memory last. Follows strided tensors row by row.
class Writers {
 public:
  /// The tensor's bytes were written by record `number`.
  void wrote(const ConstTensor& tensor, std::int64_t number);
  /// The records that wrote the tensor's bytes, ascending. Bytes that nobody wrote are left out.
  std::vector<std::int64_t> of(const ConstTensor& tensor) const;

 private:
  struct Piece {
    std::uintptr_t end;
    std::int64_t number;
  };
  void cut(std::uintptr_t at);

  std::map<std::uintptr_t, Piece> pieces_;  // by first byte; do not overlap
};

}  // namespace babelring
