#include "insight/tables/stalls.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/failure.h"
#include "tests/insight/tables/lab_tables.h"

namespace babelring::insight {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

class StallsLabTest : public LabTables {
 protected:
  static CsvTable table(const std::string& figure) { return lab_table("stalls/" + figure + ".csv"); }
};

/// The value of a point, NaN if it does not exist.
double value(const Figure& figure, const std::string& group, const std::string& category, Origin origin,
             const std::string& part = "") {
  for (const FigurePoint& point : figure.points) {
    const bool same_part = part.empty() || point.part == part;
    if (point.group == group && point.category == category && point.origin == origin && same_part) return point.value;
  }
  return NAN;
}

TEST_F(StallsLabTest, Figure3FollowsFromTheRawTable) {
  const Figure figure = fetch_stalls(table("figure3"));
  EXPECT_THAT(figure.points, SizeIs(16));
  for (const FigurePoint& point : figure.points) {
    if (point.origin != Origin::redrawn) continue;
    EXPECT_NEAR(value(figure, "", point.category, Origin::measured), point.value, 0.1) << point.category;
  }
  EXPECT_NEAR(value(figure, "", "squeezenet1_1", Origin::measured), 16.58, 0.01);
}

TEST_F(StallsLabTest, Figure4StatesItsError) {
  const Figure figure = epoch_splits(table("figure4"));
  EXPECT_THAT(figure.points, SizeIs(12 * 4));
  EXPECT_THAT(figure.plots, SizeIs(2));
  EXPECT_NEAR(value(figure, "hdd", "43.4 %", Origin::measured, "fetch stall"), 270.85, 1e-9);
  EXPECT_EQ(value(figure, "hdd", "100 %", Origin::predicted, "fetch stall"), 0);
  EXPECT_EQ(figure.error.count, 12);
  EXPECT_LT(figure.error.mean, 0.10);
  EXPECT_LT(figure.error.largest, 0.26);
  EXPECT_THAT(figure.notes, Contains(HasSubstr("of the epoch")));
}

TEST_F(StallsLabTest, Figure5IsPredictedFromOneWorker) {
  const Figure figure = loader_throughput(table("figure5"), 87473, 3);
  EXPECT_EQ(figure.error.count, 24);
  EXPECT_LE(figure.error.mean, 0.01);
  EXPECT_LE(figure.error.largest, 0.05);
  EXPECT_THAT(figure.notes, Contains(HasSubstr("work of one worker from alexnet: 655.5 s")));
  EXPECT_THAT(figure.plots, SizeIs(4));
}

TEST_F(StallsLabTest, Figure6ShowsBothAndSaysSo) {
  const Figure figure = preparation_stalls(table("figure6"));
  EXPECT_NEAR(value(figure, "", "alexnet", Origin::measured), 35.6, 0.05);
  EXPECT_NEAR(value(figure, "", "alexnet", Origin::redrawn), 76.6, 0.05);
  EXPECT_THAT(figure.notes,
              Contains("the raw runs and the plotted values disagree, most for alexnet: 35.6 against 76.6 %"));
  EXPECT_THAT(figure.plots[0].note, HasSubstr("disagree"));
}

TEST_F(StallsLabTest, Figure9HasMeasuredAndPredictedRates) {
  const Figure figure =
      gpu_scaling(lab_table("gpu-profiles/one_and_two_gpus.csv"), lab_table("gpu-profiles/compute.csv"), "alexnet");
  EXPECT_NEAR(value(figure, "one process", "256 on 2 in one process", Origin::measured), 256 / 0.2606, 0.1);
  EXPECT_LE(figure.error.largest, 0.01);
  const double one = value(figure, "ranks", "1", Origin::predicted),
               eight = value(figure, "ranks", "8", Origin::predicted);
  EXPECT_NEAR(one, value(figure, "ranks", "1", Origin::measured), 0.01 * one);
  EXPECT_GT(eight, 6 * one);
  EXPECT_LT(eight, 8 * one);
  EXPECT_THAT(figure.notes, Contains(HasSubstr("98 Gbit/s")));
  EXPECT_THROW(
      gpu_scaling(lab_table("gpu-profiles/one_and_two_gpus.csv"), lab_table("gpu-profiles/compute.csv"), "resnet18"),
      UsageFailure);
}

TEST_F(StallsLabTest, PointsAndPlotsSayWhereTheyComeFrom) {
  const Figure figure = preparation_stalls(table("figure6"));
  EXPECT_THAT(csv_of(figure),
              StartsWith("group,category,part,origin,value,unit\n,alexnet,preparation stall,measured,35.55"));
  const std::string svg = svg_of(figure.plots[0]);
  EXPECT_THAT(svg, HasSubstr("preparation stall (measured)"));
  EXPECT_THAT(svg, HasSubstr("preparation stall (redrawn)"));
}

TEST(StallsTest, RefusesTablesThatDoNotFit) {
  const auto message = [](const auto& call) {
    try {
      call();
    } catch (const UsageFailure& failure) {
      return std::string(failure.what());
    }
    return std::string("accepted");
  };
  const std::string head = "disk,cached_share,fetch_stall_s,transfer_s,compute_s\n";
  EXPECT_THAT(message([&] { epoch_splits(CsvTable("t", head + "ssd,1.5,1,1,1\n")); }),
              HasSubstr("t:2: cached_share: found 1.5, expected 0 to 1"));
  EXPECT_THAT(message([&] { epoch_splits(CsvTable("t", head + "ssd,0.5,1,1,1\n")); }),
              HasSubstr("one point of a disk"));
  EXPECT_THAT(message([&] { epoch_splits(CsvTable("t", head + "ssd,0.5,N/A,1,1\n")); }), HasSubstr("found 'N/A'"));
  const std::string runs = "model,workers,data_wait_s,transfer_s,compute_s\n";
  EXPECT_THAT(message([&] { loader_throughput(CsvTable("t", runs + "a,0,1,1,1\n"), 1, 0); }),
              HasSubstr("workers: found 0"));
  EXPECT_THAT(message([&] { loader_throughput(CsvTable("t", runs), 1, 0); }),
              HasSubstr("figure 5: found a table without rows"));
  EXPECT_THAT(message([&] { epoch_splits(CsvTable("t", head)); }), HasSubstr("figure 4: found a table without rows"));
  const std::string fetch = "model,data_wait_s,transfer_s,compute_s,data_wait_cached_s\n";
  EXPECT_THAT(message([&] { fetch_stalls(CsvTable("t", fetch)); }), HasSubstr("figure 3: found a table without rows"));
  const std::string preparation = "model,workers,data_wait_s,transfer_s,compute_s,plotted_percent\n";
  EXPECT_THAT(message([&] { preparation_stalls(CsvTable("t", preparation)); }),
              HasSubstr("figure 6: found a table without rows"));
  EXPECT_THAT(message([&] { loader_throughput(CsvTable("t", runs + "a,1,0,0,0\n"), 1, 0); }),
              HasSubstr("found an epoch of 0 s"));
}

}  // namespace
}  // namespace babelring::insight
