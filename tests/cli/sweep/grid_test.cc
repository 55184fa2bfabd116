#include "cli/sweep/grid.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/files.h"
#include "base/options/options.h"
#include "nmt/train/setup/config.h"
#include "tests/cli/sweep/grid_file.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;

TEST(SweepGrid, CrossesItsAxesTheLastFastest) {
  const GridFolder folder;
  const SweepGrid grid = folder.grid(
      "ranks: 2\nset: {training.stop_after: 5u}\ngrid: {model.width: [32, 64], training.seed: [0, 1, 2]}\nzip: []\n");
  EXPECT_EQ(grid.ranks, 2);
  EXPECT_THAT(grid.set, ElementsAre(Pair("training.stop_after", "5u")));
  ASSERT_EQ(grid.size(), 6);
  EXPECT_THAT(grid.coordinates(0), ElementsAre(Pair("model.width", "32"), Pair("training.seed", "0")));
  EXPECT_THAT(grid.coordinates(4), ElementsAre(Pair("model.width", "64"), Pair("training.seed", "1")));
}

TEST(SweepGrid, ZippedKeysGoTogether) {
  const GridFolder folder;
  const SweepGrid grid = folder.grid(
      "grid: {model.width: [32, 64], training.seed: [0, 1, 2], model.inner: [128, 256]}\n"
      "zip: [[model.width, model.inner]]\n");
  ASSERT_EQ(grid.size(), 6);
  EXPECT_THAT(grid.coordinates(5),
              ElementsAre(Pair("model.width", "64"), Pair("model.inner", "256"), Pair("training.seed", "2")));
}

TEST(SweepGrid, WithoutAxesIsASingleCell) {
  const GridFolder folder;
  EXPECT_EQ(folder.grid("").size(), 1);
  EXPECT_TRUE(folder.grid("grid: {}\n").coordinates(0).empty());
}

TEST(SweepGrid, RefusesBadInputWithItsPlace) {
  const GridFolder folder;
  const std::pair<const char*, const char*> wrong[] = {
      {"gird: {}\n", "grid.yaml:3:7: gird: unknown key; did you mean 'grid'?"},
      {"ranks: 0\n", "grid.yaml:3:8: ranks: expected 1 to 4096, found '0'"},
      {"ranks: two\n", "ranks: expected 1 to 4096, found 'two'"},
      {"set: [a]\n", "grid.yaml:3:6: set: expected keys with values"},
      {"set: {model: {width: 3}}\n", "model: expected a value, found keys; write keys with dots, such as model.width"},
      {"set: {a.b: 1, a.b: 2}\n", "a.b: given twice"},
      {"set: {a.b: 1}\ngrid: {a.b: [2]}\n", "a.b: in both set and grid"},
      {"set: {name: x}\n", "name: a sweep names its runs itself"},
      {"grid: {a.b: 3}\n", "grid.yaml:3:13: a.b: expected a list"},
      {"grid: {a.b: []}\n", "a.b: expected at least one value"},
      {"grid: {a.b: [[1]]}\n", "a.b: expected a value, found no single value"},
      {"grid: {a.b: [1, 2], c.d: [1]}\nzip: [[a.b, c.d]]\n", "zip: c.d has 1 values, a.b has 2"},
      {"grid: {a.b: [1, 2]}\nzip: [[a.b, c.d]]\n", "zip: c.d is no key of grid, or is in zip twice"},
      {"grid: {a.b: [1]}\nzip: [[a.b, a.b]]\n", "zip: a.b is no key of grid, or is in zip twice"},
      {"grid: {a: [}\n", "grid.yaml:3:"}};
  for (const auto& [lines, message] : wrong) {
    EXPECT_THAT([&] { folder.grid(lines); }, ThrowsMessage<ConfigError>(HasSubstr(message))) << lines;
  }
  std::string many = "grid: {training.seed: [0";
  for (int seed = 1; seed <= 10'000; ++seed) many += ", " + std::to_string(seed);
  EXPECT_THAT([&] { folder.grid(many + "]}\n"); }, ThrowsMessage<ConfigError>(HasSubstr("more than 10000 cells")));
  EXPECT_THAT([&] { folder.grid("set: {a.b: " + std::string(257, 'x') + "}\n"); },
              ThrowsMessage<ConfigError>(HasSubstr("grid.yaml:3:12: a.b: a value of more than 256 bytes")));
  std::string keys = "grid: {k0: [1]";
  for (int key = 1; key <= 60; ++key) keys += fmt::format(", k{}: [1]", key);
  EXPECT_THAT([&] { folder.grid(keys + "}\n"); }, ThrowsMessage<ConfigError>(HasSubstr("grid: more than 60 keys")));
  EXPECT_THAT([&] { folder.grid("#" + std::string(1 << 20, 'x') + "\n"); },
              ThrowsMessage<ConfigError>(HasSubstr("a grid of more than 1 MiB")));
  const auto read = [&](const char* yaml) { return [&folder, yaml] { read_sweep_grid(yaml, folder.file()); }; };
  EXPECT_THAT(read("base: base.yaml\n"), ThrowsMessage<ConfigError>(HasSubstr("name: missing")));
  EXPECT_THAT(read("name: a/b\nbase: base.yaml\n"), ThrowsMessage<ConfigError>(HasSubstr("found 'a/b'")));
  EXPECT_THAT(read("name: a\nbase: none.yaml\n"), ThrowsMessage<ConfigError>(HasSubstr("base: no file 'none.yaml'")));
  EXPECT_THAT(read("3\n"), ThrowsMessage<ConfigError>(HasSubstr("expected keys such as name")));
}

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(SweepCells, HaveResolvedConfigurationsAndAreNamedByThem) {
  const GridFolder folder;
  const auto cells =
      expand_sweep(folder.grid("set: {training.stop_after: 5u}\ngrid: {model.width: [32, 64], training.seed: [7]}\n"));
  ASSERT_EQ(cells.size(), 2);
  const TrainConfig config = read_config(cells[0].config, "cell", {});
  EXPECT_EQ(config.model.width, 32);
  EXPECT_EQ(config.training.seed, 7);
  EXPECT_EQ(config.training.stop_after.text(), "5u");
  EXPECT_EQ(config.name, "toy-" + cells[0].id);
  EXPECT_EQ(cells[0].text(), "model.width=32 training.seed=7");
  EXPECT_EQ(cells[0].id.size(), 12);
  EXPECT_NE(cells[0].id, cells[1].id);
  // However a configuration is written, its cell is the same.
  const auto again =
      expand_sweep(folder.grid("set: {training.stop_after: 5u, model.width: 64}\ngrid: {training.seed: [7]}\n"));
  EXPECT_EQ(again[0].id, cells[1].id);
}

TEST(SweepCells, InvalidAndRepeatedOnesAreLeftOutWithAReason) {
  const GridFolder folder;
  const auto cells =
      expand_sweep(folder.grid("grid: {optimizer.learning_rate: [1e-3, 0.001], model.width: [64, 30]}\n"));
  ASSERT_EQ(cells.size(), 4);
  EXPECT_EQ(cells[0].problem, "");
  EXPECT_THAT(cells[1].problem, HasSubstr("model.heads: 4 does not divide model.width 30"));
  EXPECT_EQ(cells[2].problem, "the same configuration as cell 1");
  EXPECT_EQ(cells[2].id, "");
  EXPECT_NO_THROW(report_left_out(cells, false));
  EXPECT_THAT([&] { report_left_out(cells, true); },
              ThrowsMessage<UsageFailure>(HasSubstr("--strict: cell 2 (optimizer.learning_rate=1e-3 model.width=30)")));
}

TEST(SweepCells, AreValidForThePublishedSizes) {
  const std::string file = BABELRING_SOURCE_DIR "/configs/gssm-sweep.yaml";
  const auto cells = expand_sweep(read_sweep_grid(read_file(file), file));
  EXPECT_EQ(cells.size(), 288);
  for (const SweepCell& cell : cells) EXPECT_EQ(cell.problem, "") << cell.text();
}

TEST(SweepCells, AreRefusedTogetherIfNoneCanBeValid) {
  const GridFolder folder;
  EXPECT_THAT([&] { expand_sweep(folder.grid("grid: {model.widht: [64]}\n")); },
              ThrowsMessage<ConfigError>(HasSubstr("unknown key 'model.widht'; did you mean 'model.width'?")));
  EXPECT_THAT([&] { expand_sweep(folder.grid("grid: {model.width: [30, 31]}\n")); },
              ThrowsMessage<UsageFailure>(HasSubstr("sweep toy: none of 2 cells is valid; the first: ")));
  EXPECT_THAT([&] { expand_sweep(folder.grid("ranks: 3\nset: {training.reproducible: ranks}\n")); },
              ThrowsMessage<UsageFailure>(HasSubstr("found 3 ranks, expected a power of two")));
}

}  // namespace

}  // namespace babelring
