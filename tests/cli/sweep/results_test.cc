#include "cli/sweep/results.h"

#include <gmock/gmock.h>

#include <boost/json/object.hpp>
#include <cmath>

#include "cli/sweep/sweep_runs.h"

namespace babelring {
namespace {

using testing::ElementsAre;

json::object run(const char* width, const char* seed, const char* state, json::value excess) {
  json::object item = {{"id", "r_1"},
                       {"state", state},
                       {"update", 60},
                       {"loss", 2.5},
                       {"labels", {{"sweep", "toy"}, {"cell", "c"}, {"model.width", width}, {"training.seed", seed}}}};
  if (!excess.is_null()) {
    item["best"] = json::object{{"excess", excess}, {"loss", 2}};
    item["last_eval"] = json::object{{"excess", 9}, {"loss", 3}};
  }
  return item;
}

std::map<std::string, json::object> some_runs() {
  return {{"a", run("128", "0", "succeeded", 0.5)},
          {"b", run("16", "0", "succeeded", 1.0)},
          {"c", run("16", "1", "succeeded", 2.0)},
          {"d", run("128", "1", "failed", nullptr)}};
}

TEST(SweepResults, AreSortedByCoordinatesAsNumbers) {
  const auto results = sweep_results(some_runs(), "excess", SweepAt::best);
  std::vector<std::string> cells;
  for (const SweepResult& result : results) cells.push_back(result.cell);
  EXPECT_THAT(cells, ElementsAre("b", "c", "a", "d"));
  EXPECT_EQ(results[1].value, 2.0);
  EXPECT_EQ(results[3].value, std::nullopt);
  EXPECT_THAT(coordinate_names(results), ElementsAre("model.width", "training.seed"));
  EXPECT_EQ(coordinate(results[2].coordinates, "model.width"), "128");
  EXPECT_EQ(sweep_results(some_runs(), "excess", SweepAt::last)[0].value, 9);
  EXPECT_EQ(sweep_results(some_runs(), "train_loss", SweepAt::best)[3].value, 2.5);
  EXPECT_EQ(default_metric(some_runs()), "excess");
  EXPECT_EQ(default_metric({{"d", run("8", "1", "failed", nullptr)}}), "loss");
}

TEST(SweepResults, MeansAreOverSeeds) {
  const auto means = sweep_means(sweep_results(some_runs(), "excess", SweepAt::best));
  ASSERT_EQ(means.size(), 2);
  EXPECT_EQ(coordinate(means[0].coordinates, "model.width"), "16");
  EXPECT_EQ(coordinate(means[0].coordinates, "training.seed"), "");
  EXPECT_EQ(means[0].count, 2);
  EXPECT_DOUBLE_EQ(means[0].mean, 1.5);
  EXPECT_DOUBLE_EQ(means[0].deviation, std::sqrt(0.5));
  EXPECT_EQ(means[1].cells, 2);
  EXPECT_EQ(means[1].count, 1);
  EXPECT_DOUBLE_EQ(means[1].mean, 0.5);
  EXPECT_TRUE(std::isnan(means[1].deviation));
}

TEST(SweepResults, StatesAreCounted) {
  EXPECT_EQ(count_states(some_runs()), "1 failed, 3 succeeded");
  EXPECT_EQ(count_states({}), "no run");
}

}  // namespace
}  // namespace babelring
