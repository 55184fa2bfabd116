#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "nmt/core/tensor.h"

namespace babelring {

/// Remembers for each byte which op wrote it last.
class LastWriter {
 public:
  struct Sources {
    std::vector<int> ops;    // ascending, each once
    bool unwritten = false;  // some bytes were never written
  };

  void write(const ConstTensor& tensor, int op);
  /// The ops that wrote the tensor's elements last.
  Sources of(const ConstTensor& tensor) const;

 private:
  struct Range {
    std::uintptr_t end = 0;
    int op = 0;
  };
  void write(std::uintptr_t begin, std::uintptr_t end, int op);

  std::map<std::uintptr_t, Range> ranges_;  // by first address; disjoint
};

}  // namespace babelring
