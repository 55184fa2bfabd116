#include "nmt/ops/row_counters.h"

#include <fmt/format.h>

#include "nmt/ops/check.h"

namespace babelring {

void RowCounters::check(const OpCheck& check, std::int64_t range_blocks) const {
  const auto words_of = [&check](const Field& field, std::int64_t row_words) {
    check.rank(field, 2);
    if (field.tensor.shape[1] != row_words) {
      check.refuse(fmt::format("{} has shape {}, rows of {} words are needed", field.name, field.tensor.shape.text(),
                               row_words));
    }
    check.type(field, DType::i32);
    check.contiguous({field});
  };
  const Field pieces_field{"row_pieces", pieces}, counts_field{"row_counts", counts}, parts_field{"row_parts", parts};
  words_of(pieces_field, words<RowPiece>);
  words_of(counts_field, words<RowCount>);
  words_of(parts_field, words<RowPart>);
  check.shape({"row_blocks", blocks}, {range_blocks + 1}, pieces_field);
  check.type({"row_blocks", blocks}, DType::i32);
  check.distinct(counts_field, {parts_field, pieces_field, {"row_blocks", blocks}});
  check.distinct(parts_field, {pieces_field, {"row_blocks", blocks}});
}

}  // namespace babelring
