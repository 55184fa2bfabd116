#include "cli/sweep/cells.h"

#include <gmock/gmock.h>

#include "base/atomic_file.h"
#include "base/options/options.h"
#include "nmt/train/setup/config.h"
#include "tests/cli/sweep/grid_file.h"

namespace babelring {
namespace {

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

TEST(SweepCells, OfThePublishedSizesAreValid) {
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
