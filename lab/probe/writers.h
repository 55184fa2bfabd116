#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "nmt/core/tensor.h"

namespace babelring {

/// Records behind the content of a tensor.
struct Origin {
  std::set<std::int64_t> records;  // that wrote it, or that wrote what an op without a record made it from
  bool left_out = false;           // an op whose record was left out took part

  void add(const Origin& other);
  friend bool operator==(const Origin&, const Origin&) = default;
};

/// Remembers the origin of each byte of memory. Follows strided tensors row by row.
class Writers {
 public:
  /// The tensor's bytes now have this origin.
  void wrote(const ConstTensor& tensor, Origin origin);
  /// Forgets the writers of memory for which keeps(address) is false.
  template <class Keeps>
  void forget_unless(Keeps keeps) {
    std::erase_if(pieces_, [&](const auto& piece) { return !keeps(static_cast<const void*>(piece.first)); });
  }
  /// The origins of the tensor's bytes together; nullopt if no op wrote any.
  std::optional<Origin> of(const ConstTensor& tensor) const;

 private:
  struct Piece {
    const std::byte* end;
    std::shared_ptr<const Origin> origin;
  };
  void cut(const std::byte* at);

  std::map<const std::byte*, Piece> pieces_;  // by first byte; do not overlap
};

}  // namespace babelring
