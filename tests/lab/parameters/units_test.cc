#include "lab/parameters/units.h"

#include <gtest/gtest.h>

#include "tests/lab/parameters/example_window.h"

namespace babelring {
namespace {

std::vector<std::string> names(ParameterUnit unit) {
  std::vector<std::string> found;
  for (const UnitCount& count : count_units(example_window(), unit, nullptr)) found.push_back(count.name);
  return found;
}

TEST(Units, GroupRows) {
  EXPECT_EQ(names(ParameterUnit::parameter).size(), 6U);
  EXPECT_EQ(names(ParameterUnit::row).size(), 29U);
  EXPECT_EQ(names(ParameterUnit::row)[1], "encoder.embedding[1]");
  EXPECT_EQ(names(ParameterUnit::row)[28], "encoder.0.feed_forward.first.bias[0]");
  EXPECT_EQ(names(ParameterUnit::neuron), std::vector<std::string>{"encoder.0.feed_forward.first.weight[0]"});
  EXPECT_EQ(names(ParameterUnit::head),
            (std::vector<std::string>{"encoder.0.attention head 0", "encoder.0.attention head 1",
                                      "decoder.0.cross head 0", "decoder.0.cross head 1"}));
}

TEST(Units, AverageTheirRows) {
  const UnitCount table = count_units(example_window(), ParameterUnit::parameter, nullptr)[0];
  EXPECT_EQ(table.rows, 3);
  EXPECT_NEAR(table.changed, 0.5, 1e-12);
  EXPECT_NEAR(table.visible, 1.0 / 3, 1e-12);
  EXPECT_NEAR(table.untouched, 160.0 / 300, 1e-12);
  EXPECT_NEAR(table.ratio, 0.25 / 3, 1e-7);
  EXPECT_EQ(table.max_ratio, 0.5);
  EXPECT_NEAR(table.changed_elements, (400 + static_cast<double>(std::int64_t{5} << 32)) / 100, 1e-3);
}

TEST(Units, ANeuronHasItsBias) {
  ParameterWindow window = example_window();
  window.rows[28].changed = 50;
  const auto neuron = [&window] { return count_units(window, ParameterUnit::neuron, nullptr)[0]; };
  EXPECT_EQ(neuron().rows, 2);
  EXPECT_NEAR(neuron().changed, 0.75, 1e-12);
  EXPECT_EQ(neuron().changed_elements, 8);
  window.parameters.pop_back();  // a layer without biases
  EXPECT_EQ(neuron().rows, 1);
  EXPECT_EQ(neuron().changed, 1);
}

/// Rows of queries, keys and values of a head: 2 of 4 each.
TEST(Units, AHeadHasItsRowsOfEachPart) {
  ParameterWindow window = example_window();
  for (const std::int64_t row : {3 + 2, 3 + 4 + 2, 3 + 8 + 3}) window.rows[static_cast<std::size_t>(row)].changed = 40;
  const auto heads = count_units(window, ParameterUnit::head, nullptr);
  EXPECT_EQ(heads[1].rows, 6);
  EXPECT_NEAR(heads[1].changed, (3 * 0.4 + 3) / 6, 1e-12);
  EXPECT_EQ(heads[0].changed, 1);
  EXPECT_EQ(count_units(window, ParameterUnit::row, nullptr)[3 + 8 + 3].label, "v head 1");
  EXPECT_EQ(heads[3].rows, 6) << "of two weights";
}

}  // namespace
}  // namespace babelring
