#include "nmt/optim/row_counting.h"

#include <algorithm>

#include "base/failure.h"

namespace babelring {

namespace {

constexpr std::int64_t block = SquaredNorm::block;
static_assert(Shards::grain % block == 0 && block % ParameterStore::alignment == 0);

/// The pieces of all rows, and for each block the index of its first piece.
struct RowLayout {
  std::vector<std::int32_t> blocks;
  std::vector<RowPiece> pieces;
  std::int32_t parts = 0;

  /// Adds the row of elements [begin, end) of the flat array. Rows are added in order.
  void add(std::int32_t row, std::int64_t begin, std::int64_t end) {
    const auto count = static_cast<std::int32_t>((end - 1) / block - begin / block + 1);
    for (std::int32_t part = 0; part < count; ++part) {
      const std::int64_t of_block = begin / block + part;
      const std::int64_t first = std::max(begin, of_block * block), last = std::min(end, (of_block + 1) * block);
      if (std::ssize(blocks) == of_block) blocks.push_back(static_cast<std::int32_t>(pieces.size()));
      pieces.push_back({.row = row,
                        .begin = static_cast<std::int32_t>(first - of_block * block),
                        .count = static_cast<std::int32_t>(last - first),
                        .part = part,
                        .parts = count,
                        .first_part = parts});
    }
    if (count > 1) parts += count;
  }
};

template <class Element>
Shape words_of(std::int64_t count) {
  return {count, RowCounters::words<Element>};
}

/// A copy of the elements in the backend's memory.
template <class Element>
Buffer upload(Backend& backend, const std::vector<Element>& elements) {
  Buffer buffer = backend.allocate(elements.size() * sizeof(Element), MemoryPurpose::tools);
  backend.upload(elements.data(), buffer.view({std::ssize(elements), RowCounters::words<Element>}, DType::i32));
  return buffer;
}

}  // namespace

RowCounting::RowCounting(const ParameterStore& store, Backend& backend,
                         const std::function<Buffer(std::size_t bytes)>& allocate)
    : backend_(backend) {
  RowLayout layout;
  for (const Parameter& parameter : store.all()) {
    first_rows_.push_back(rows_);
    const std::int64_t width = parameter.shape.elements() / rows_of(parameter);
    for (std::int64_t row = 0; row < rows_of(parameter); ++row) {
      const std::int64_t begin = parameter.offset + row * width;
      layout.add(static_cast<std::int32_t>(rows_++), begin, begin + width);
    }
    layout.pieces.back().padding = static_cast<std::int32_t>(store.padded_size(parameter) - parameter.shape.elements());
  }
  layout.blocks.push_back(static_cast<std::int32_t>(layout.pieces.size()));
  block_count_ = std::ssize(layout.blocks);
  piece_count_ = std::ssize(layout.pieces);
  part_count_ = std::max(layout.parts, 1);
  blocks_ = upload(backend, layout.blocks);
  pieces_ = upload(backend, layout.pieces);
  counts_ = allocate(static_cast<std::size_t>(rows_) * sizeof(RowCount));
  parts_ = allocate(static_cast<std::size_t>(part_count_) * sizeof(RowPart));
}

Tensor RowCounting::counts() const {
  return counts_.view(words_of<RowCount>(rows_), DType::i32);
}

RowCounters RowCounting::of(const ElementRange& range) const {
  if (range.begin % block != 0)
    fail("rows are counted in blocks of {} elements, a range begins at {}", block, range.begin);
  const std::int64_t blocks = SquaredNorm::blocks(range.end - range.begin);
  return {.blocks = blocks_.view({block_count_}, DType::i32).row_slice(range.begin / block, blocks + 1),
          .pieces = pieces_.view(words_of<RowPiece>(piece_count_), DType::i32),
          .counts = counts(),
          .parts = parts_.view(words_of<RowPart>(part_count_), DType::i32)};
}

std::vector<RowCount> RowCounting::read() const {
  std::vector<RowCount> rows(static_cast<std::size_t>(rows_));
  backend_.download(counts(), rows.data());
  return rows;
}

void RowCounting::reset() {
  const std::vector<RowCount> zeros(static_cast<std::size_t>(rows_));
  backend_.upload(zeros.data(), counts());
}

}  // namespace babelring
