#include "nmt/ops/cuda/cudnn_batches.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>

namespace babelring::cuda {

namespace {

constexpr std::int64_t shortest_cudnn_length = 256;  // what its backward fills shorter sentences up to

std::int64_t rows_of(std::span<const std::int32_t> offsets, std::int32_t sentence) {
  const auto s = static_cast<std::size_t>(sentence);
  return offsets[s + 1] - offsets[s];
}

bool belongs_to_keys(Packed tensor) {
  return tensor == Packed::k || tensor == Packed::v || tensor == Packed::dk || tensor == Packed::dv;
}

}  // namespace

std::vector<CudnnBatch> cudnn_batches(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                                      std::span<const std::int32_t> sentences, std::int64_t heads) {
  std::map<std::int64_t, std::vector<std::int32_t>, std::greater<>> by_length;
  for (const std::int32_t sentence : sentences) {
    const std::int64_t rows = std::max(rows_of(q_offsets, sentence), rows_of(k_offsets, sentence));
    if (rows == 0) continue;
    const auto length = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
    by_length[std::max(length, shortest_cudnn_length)].push_back(sentence);
  }
  std::vector<CudnnBatch> batches;
  for (const auto& [length, members] : by_length) {
    const std::int64_t room = std::max<std::int64_t>(1, max_cudnn_scores / (heads * length * length));
    for (std::size_t first = 0; first < members.size(); first += static_cast<std::size_t>(room)) {
      const auto begin = members.begin() + static_cast<std::ptrdiff_t>(first);
      const auto count = std::min<std::ptrdiff_t>(room, members.end() - begin);
      batches.push_back({.sentences = room, .length = length, .members = {begin, begin + count}});
    }
  }
  return batches;
}

bool one_side_is_empty(std::span<const std::int32_t> q_offsets, std::span<const std::int32_t> k_offsets,
                       std::span<const std::int32_t> sentences) {
  return std::any_of(sentences.begin(), sentences.end(), [&](std::int32_t sentence) {
    return (rows_of(q_offsets, sentence) == 0) != (rows_of(k_offsets, sentence) == 0);
  });
}

std::vector<std::int32_t> cudnn_lists(const CudnnShape& shape, std::span<const std::int32_t> members,
                                      std::span<const std::int32_t> q_offsets,
                                      std::span<const std::int32_t> k_offsets) {
  std::vector<std::int32_t> lists;
  const auto fill_up = [&](std::size_t list, std::int32_t value) {
    lists.resize((list + 1) * static_cast<std::size_t>(cudnn_list_length(shape.sentences)), value);
  };
  std::size_t list = 0;
  for (; list < shape.strides.size(); ++list) {
    const auto offsets = belongs_to_keys(static_cast<Packed>(list)) ? k_offsets : q_offsets;
    const auto stride = static_cast<std::int32_t>(shape.strides[list]);
    for (const std::int32_t s : members) lists.push_back(offsets[static_cast<std::size_t>(s)] * stride);
    fill_up(list, offsets[static_cast<std::size_t>(members.back()) + 1] * stride);
  }
  for (const auto offsets : {q_offsets, k_offsets}) {
    for (const std::int32_t s : members) lists.push_back(static_cast<std::int32_t>(rows_of(offsets, s)));
    fill_up(list++, 0);
  }
  return lists;
}

}  // namespace babelring::cuda
