#include "lab/parameters/window_summary.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "nmt/model/transformer.h"
#include "nmt/ops/dry_backend.h"
#include "tests/lab/parameters/example_window.h"

namespace babelring {
namespace {

TEST(WindowSummary, SumsTheRowsOfEachParameter) {
  const json::object summary = summarize(example_window(), nullptr);
  EXPECT_EQ(summary.at("rows"), 29);
  EXPECT_EQ(summary.at("updates"), 100);
  const json::object& table = summary.at("parameters").at(0).as_object();
  EXPECT_EQ(table.at("name"), "encoder.embedding");
  EXPECT_EQ(table.at("rows_are"), "subwords");
  EXPECT_EQ(to_text(table.at("changed")), R"({"min":0,"mean":50,"max":100})");
  EXPECT_EQ(to_text(table.at("visible")), R"({"min":0,"mean":33.333,"max":100})");
  EXPECT_EQ(to_text(table.at("untouched")), R"({"min":0,"mean":53.333,"max":100})");
  EXPECT_EQ(to_text(table.at("ratio")), R"({"min":0,"mean":0.083333,"max":0.25})");
  EXPECT_EQ(to_text(table.at("histogram")), "[1,0,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,1]");
  EXPECT_EQ(to_text(table.at("hottest").at(0)), R"({"row":0,"changed":100,"ratio":0.25})");
  EXPECT_EQ(to_text(table.at("coldest").at(0)), R"({"row":1,"changed":0,"ratio":0})");
  const json::object& heads = summary.at("parameters").at(1).as_object();
  EXPECT_EQ(heads.at("hottest").as_array().size(), 10U);
  EXPECT_EQ(heads.at("hottest").at(0).at("label"), "q head 0");
  EXPECT_FALSE(summary.at("parameters").at(5).as_object().contains("hottest")) << "a vector is one row";
}

TEST(WindowSummary, NamesWhatIsColdAndWhatIsLostInRounding) {
  ParameterWindow window = example_window();
  const RowFractions table = fractions_of(window, 0, 3);
  EXPECT_NEAR(table.cold, 1.0 / 3, 1e-12);
  EXPECT_NEAR(table.lost_in_rounding, 50.0 / 150, 1e-12);
  EXPECT_NEAR(table.untouched, 160.0 / 300, 1e-12);
  window.rows[1].changed = 1;  // 1 % of the updates
  EXPECT_EQ(fractions_of(window, 0, 3).cold, 0);
  window.rows[0] = window.rows[1] = window.rows[2] = {.counted = 100};
  EXPECT_EQ(fractions_of(window, 0, 3).lost_in_rounding, 0) << "nothing changed";
}

/// A record carries up to 256 KiB.
TEST(WindowSummary, IsSmallEnoughToTravelForTransformerBase) {
  const auto backend = make_dry_backend();
  const Transformer model(model_preset("transformer-base"), 32000, 0, *backend, DType::bf16);
  Adam adam(model.parameters(), *backend, {});
  ParameterWindow window = example_window();
  window.heads = 8;
  window.parameters = traced_parameters(model.parameters(), adam);
  window.rows.assign(static_cast<std::size_t>(window.parameters.back().first_row + window.parameters.back().rows), {});
  for (std::size_t row = 0; row < window.rows.size(); ++row) {
    window.rows[row].counted = window.rows[row].measured = 100;
    window.rows[row].changed = window.rows[row].touched = static_cast<std::int32_t>(row % 101);
    window.rows[row].ratios = 1.23456789 / static_cast<double>(row + 1);
  }
  EXPECT_LT(to_text(summarize(window, nullptr)).size(), 256U << 10);
}

}  // namespace
}  // namespace babelring
