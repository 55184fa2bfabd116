#include "cli/gssm/difficulty_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "nmt/data/gssm/likelihood.h"
#include "tests/nmt/data/gssm/graphs.h"

namespace babelring {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(DifficultyGrid, AlphasAreInEqualRatios) {
  EXPECT_THAT(parse_alphas("1e-3:10:5", "--alphas-x"),
              ElementsAre(DoubleEq(1e-3), DoubleEq(1e-2), DoubleEq(0.1), DoubleEq(1), DoubleEq(10)));
  EXPECT_THAT(parse_alphas("0.5", "--alphas-x"), ElementsAre(0.5));
  for (const char* wrong :
       {"", "0", "-1", "a", "1:2", "2:1:5", "1:2:1", "1:2:1001", "1:2:3:4", "0:1:5", "1e-3:10:2.5"}) {
    EXPECT_THAT([&] { parse_alphas(wrong, "--alphas-x"); },
                ThrowsMessage<UsageFailure>(HasSubstr("--alphas-x: expected an alpha or LOW:HIGH:COUNT")));
  }
}

TEST(DifficultyGrid, CellsAreEachPairOfAlphasWithEachKernelSeed) {
  const GssmOptions options = published_graph(2, 4, 8, 0.1, 0.2);
  const auto cells = difficulty_cells(options, {.alphas_x = {1, 2}, .alphas_z = {}, .kernel_seeds = 3});
  ASSERT_EQ(cells.size(), 6);
  EXPECT_EQ(cells[4].alpha_x, 2);
  EXPECT_EQ(cells[4].alpha_z, 0.2);
  EXPECT_EQ(cells[4].kernel_seed, 43);
}

TEST(DifficultyGrid, RefusesAlphasThatNoNodeTakes) {
  GssmOptions options = published_graph(1, 4, 8, 0.1, 0.2);
  options.nodes[0].alpha = 3;
  EXPECT_THAT([&] { difficulty_cells(options, {.alphas_x = {1}, .alphas_z = {1}}); },
              ThrowsMessage<UsageFailure>("--alphas-z: each latent node sets alpha; remove it from the "
                                          "configuration"));
  options.nodes[1].alpha = 3;
  EXPECT_THAT([&] { difficulty_cells(options, {.alphas_x = {1}, .alphas_z = {}}); },
              ThrowsMessage<UsageFailure>("--alphas-x: each observed node sets alpha; remove it from the "
                                          "configuration"));
}

TEST(DifficultyGrid, LinesAreFoundAgainAndBrokenOnesSkipped) {
  const DifficultyCell cell{published_graph(1, 4, 8, 0.1, 0.2), 1, 10, 20, 10};
  DifficultyCell other = cell;
  other.options.alpha_x = 0.3;
  const DifficultyResult result{0.5, 0.6, {std::log(8.0) / 2, 0.01, 10, 190}};
  const json::object line = difficulty_line(cell, result);
  EXPECT_EQ(line.at("difficulty"), json::value(0.5));
  EXPECT_DOUBLE_EQ(line.at("entropy_share").as_double(), 0.5);
  EXPECT_DOUBLE_EQ(line.at("entropy_bits").as_double(), 1.5);
  const auto finished = finished_lines("[1]\n{\"key\":\"k\"}\n" + to_text(line) + "\n" + to_text(line).substr(0, 40));
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished.begin()->first, difficulty_key(cell));
  EXPECT_EQ(finished.begin()->second, line);
  EXPECT_EQ(line.at("zlib").as_string(), zlib_library());
  EXPECT_THAT(difficulty_key(cell), EndsWith("-zlib" + zlib_library())) << "another library measures again";
  EXPECT_NE(difficulty_key(other), difficulty_key(cell));
  other = cell;
  other.seed = 2;
  EXPECT_NE(difficulty_key(other), difficulty_key(cell));
  other = cell;
  other.entropy_sequences = 5;
  EXPECT_NE(difficulty_key(other), difficulty_key(cell)) << "another number is measured again";
  other.entropy_sequences = 0;
  EXPECT_NE(difficulty_key(other), difficulty_key(cell));
  EXPECT_FALSE(difficulty_line(other, result).contains("entropy_nats"));
}

TEST(DifficultyGrid, MapHasTheMeanOfEachPairOfAlphas) {
  std::vector<json::object> lines;
  for (const double alpha_x : {0.1, 1.0}) {
    for (const int seed : {1, 2}) {
      DifficultyCell cell{published_graph(1, 4, 8, alpha_x, 0.2), 1, 10, 20};
      cell.options.kernel_seed = seed;
      lines.push_back(difficulty_line(cell, {alpha_x + 0.2 * seed, 0.5, {}}));
    }
  }
  const std::string svg = difficulty_map(lines);
  EXPECT_THAT(svg, HasSubstr("fill=\"rgb(100,100,255)\"><title>alpha_Z 0.2, alpha_X 0.1: 0.4000</title>"));
  EXPECT_THAT(svg, HasSubstr("fill=\"rgb(255,100,100)\"><title>alpha_Z 0.2, alpha_X 1: 1.3000</title>"));
  EXPECT_THAT(svg, HasSubstr("from 0.4 (blue) to 1.3 (red)"));
  EXPECT_THAT(difficulty_map({lines[0]}), HasSubstr("<title>")) << "a single field has a colour, too";
}

}  // namespace
}  // namespace babelring
