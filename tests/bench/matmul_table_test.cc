#include "tests/bench/matmul_table.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tests/reference/emulated_cuda.h"

namespace babelring {
namespace {

std::string text(const json::value& row, const char* key) {
  return std::string(row.at(key).as_string());
}

TEST(MatmulTableTest, HasEveryMatmulOfAnUpdateWithItsTimes) {
  const auto backend = make_emulated_cuda_backend();
  backend->tune_matmuls({}).value();
  std::size_t told = 0;
  const json::array rows = matmul_table(*backend, "tiny", 32, [&](const json::object&) { ++told; });
  EXPECT_EQ(told, rows.size());
  std::map<std::string, std::set<std::string>> epilogues;  // by kind of matmul
  std::set<std::string> layers;
  for (const json::value& row : rows) {
    ASSERT_FALSE(row.as_object().contains("failure")) << to_text(row);
    layers.insert(text(row, "layer"));
    epilogues[text(row, "product").substr(0, 4)].insert(text(row, "epilogue"));
    EXPECT_TRUE(row.at("found").as_bool()) << to_text(row);
    EXPECT_EQ(row.at("candidates"), 3);
    EXPECT_GT(row.at("first_ms").as_double(), 0);
    EXPECT_GT(row.at("chosen_ms").as_double(), 0);
    EXPECT_GT(row.at("waves").as_double(), 0);
  }
  EXPECT_EQ(layers.size(), 6U);
  using Names = std::set<std::string>;
  EXPECT_EQ(epilogues["x W^"], (Names{"", "bias", "bias and ReLU"}));
  EXPECT_EQ(epilogues["dy W"], Names{""});
  EXPECT_EQ(epilogues["dy^T"], Names{""});
}

TEST(MatmulTableTest, IsEmptyWhereThereIsNoChoice) {
  const auto backend = make_cpu_backend(1);
  backend->tune_matmuls({}).value();
  EXPECT_TRUE(matmul_table(*backend, "tiny", 32, [](const json::object&) {}).empty());
}

}  // namespace
}  // namespace babelring
