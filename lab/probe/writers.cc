#include "lab/probe/writers.h"

#include <iterator>
#include <utility>

namespace babelring {

namespace {

/// Calls range(begin, end) for the bytes of each row, or once for a contiguous tensor.
template <class Range>
void each_range(const ConstTensor& tensor, Range range) {
  if (!tensor || tensor.shape.elements() == 0) return;
  const auto* begin = static_cast<const std::byte*>(tensor.data);
  if (tensor.contiguous()) {
    range(begin, begin + tensor.bytes());
    return;
  }
  const std::size_t size = size_of(tensor.dtype);
  const auto row_bytes = static_cast<std::size_t>(tensor.columns()) * size;
  for (std::int64_t row = 0; row < tensor.rows(); ++row) {
    const std::byte* at = begin + static_cast<std::size_t>(row * tensor.row_stride) * size;
    range(at, at + row_bytes);
  }
}

}  // namespace

void Origin::add(const Origin& other) {
  records.insert(other.records.begin(), other.records.end());
  left_out = left_out || other.left_out;
}

/// Splits the piece that contains `at` in its middle.
void Writers::cut(const std::byte* at) {
  const auto next = pieces_.upper_bound(at);
  if (next == pieces_.begin()) return;
  const auto piece = std::prev(next);
  if (piece->first == at || piece->second.end <= at) return;
  pieces_.emplace_hint(next, at, piece->second);
  piece->second.end = at;
}

void Writers::wrote(const ConstTensor& tensor, Origin origin) {
  const auto shared = std::make_shared<const Origin>(std::move(origin));
  each_range(tensor, [&](const std::byte* begin, const std::byte* end) {
    cut(begin);
    cut(end);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
    pieces_.emplace(begin, Piece{end, shared});
  });
}

std::optional<Origin> Writers::of(const ConstTensor& tensor) const {
  std::optional<Origin> all;
  const Origin* added = nullptr;  // the rows of a strided tensor mostly have one origin
  each_range(tensor, [&](const std::byte* begin, const std::byte* end) {
    auto piece = pieces_.upper_bound(begin);
    if (piece != pieces_.begin() && std::prev(piece)->second.end > begin) --piece;
    for (; piece != pieces_.end() && piece->first < end; ++piece) {
      const Origin* origin = piece->second.origin.get();
      if (!all) all.emplace();
      if (origin != added) all->add(*origin);
      added = origin;
    }
  });
  return all;
}

}  // namespace babelring
