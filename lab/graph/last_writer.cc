#include "lab/graph/last_writer.h"

#include <algorithm>
#include <iterator>

namespace babelring {
namespace {

/// Calls each(begin, end) for the byte ranges of a tensor: one, or one for each row if it is strided.
template <class Each>
void for_each_range(const ConstTensor& tensor, Each each) {
  if (!tensor || tensor.shape.elements() == 0) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (tensor.contiguous()) return each(begin, begin + tensor.bytes());
  const auto element = static_cast<std::uintptr_t>(size_of(tensor.dtype));
  for (std::int64_t row = 0; row < tensor.rows(); ++row) {
    const std::uintptr_t at = begin + static_cast<std::uintptr_t>(row * tensor.row_stride) * element;
    each(at, at + static_cast<std::uintptr_t>(tensor.columns()) * element);
  }
}

}  // namespace

void LastWriter::write(const ConstTensor& tensor, int op) {
  for_each_range(tensor, [&](std::uintptr_t begin, std::uintptr_t end) { write(begin, end, op); });
}

void LastWriter::write(std::uintptr_t begin, std::uintptr_t end, int op) {
  auto next = ranges_.lower_bound(begin);
  if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    const Range old = before->second;
    if (old.end > begin) before->second.end = begin;
    if (old.end > end) ranges_[end] = old;
  }
  while (next != ranges_.end() && next->first < end) {
    const Range old = next->second;
    next = ranges_.erase(next);
    if (old.end > end) next = ranges_.emplace(end, old).first;
  }
  ranges_[begin] = {end, op};
}

LastWriter::Sources LastWriter::of(const ConstTensor& tensor) const {
  Sources sources;
  for_each_range(tensor, [&](std::uintptr_t begin, std::uintptr_t end) {
    auto next = ranges_.upper_bound(begin);
    if (next != ranges_.begin()) --next;
    for (; begin < end && next != ranges_.end() && next->first < end; ++next) {
      if (next->second.end <= begin) continue;
      if (next->first > begin) sources.unwritten = true;
      sources.ops.push_back(next->second.op);
      begin = next->second.end;
    }
    if (begin < end) sources.unwritten = true;
  });
  std::sort(sources.ops.begin(), sources.ops.end());
  sources.ops.erase(std::unique(sources.ops.begin(), sources.ops.end()), sources.ops.end());
  return sources;
}

}  // namespace babelring
