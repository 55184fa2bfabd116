#include "lab/parameters/traced_parameter.h"

#include <gtest/gtest.h>

#include <map>

#include "nmt/model/transformer.h"
#include "nmt/ops/dry_backend.h"

namespace babelring {
namespace {

/// Every parameter of a model with three tables has the kind that its name says.
TEST(TracedParameters, KnowWhatTheRowsOfAModelAre) {
  ModelConfig config = model_preset("transformer-tiny");
  config.tied_embeddings = TiedEmbeddings::none;
  const auto backend = make_dry_backend();
  const Transformer model(config, 100, 0, *backend, DType::f32);
  Adam adam(model.parameters(), *backend, {});
  adam.freeze(model.parameters().all()[0]);
  std::map<std::string, int> kinds;
  std::int64_t rows = 0;
  for (const TracedParameter& parameter : traced_parameters(model.parameters(), adam)) {
    ++kinds[name_of(parameter.kind)];
    EXPECT_EQ(parameter.first_row, rows) << parameter.name;
    EXPECT_EQ(parameter.frozen, rows == 0) << parameter.name;
    rows += parameter.rows;
  }
  EXPECT_EQ(kinds["subwords"], 3);
  EXPECT_EQ(kinds["neurons"], 2 * 8) << "weights and biases of 4 + 4 layers";
  EXPECT_EQ(kinds["heads"], 4 + 4 * 3);
  EXPECT_EQ(kinds["outputs"], 4 * 2 + 4 * 3);
}

TEST(TracedParameters, NameTheHeadOfARow) {
  const TracedParameter qkv{.name = "encoder.0.attention.qkv.weight", .rows = 24, .width = 8, .kind = RowKind::heads};
  EXPECT_EQ(row_label(qkv, 0, 2, nullptr), "q head 0");
  EXPECT_EQ(row_label(qkv, 7, 2, nullptr), "q head 1");
  EXPECT_EQ(row_label(qkv, 8, 2, nullptr), "k head 0");
  EXPECT_EQ(row_label(qkv, 23, 2, nullptr), "v head 1");
  const TracedParameter kv{.name = "decoder.0.cross.key_value.weight", .rows = 16, .width = 8, .kind = RowKind::heads};
  EXPECT_EQ(row_label(kv, 4, 2, nullptr), "k head 1");
  EXPECT_EQ(row_label(kv, 8, 2, nullptr), "v head 0");
  const TracedParameter table{.name = "embedding", .rows = 3, .width = 8, .kind = RowKind::subwords};
  EXPECT_EQ(row_label(table, 2, 2, nullptr), "") << "no vocabulary";
}

}  // namespace
}  // namespace babelring
