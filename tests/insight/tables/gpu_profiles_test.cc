#include "insight/tables/gpu_profiles.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>

#include "base/failure.h"
#include "tests/insight/tables/lab_tables.h"

namespace babelring::insight {
namespace {

using testing::HasSubstr;

class GpuProfilesLabTest : public LabTables {};

std::string message_of(const auto& call) {
  try {
    call();
  } catch (const UsageFailure& failure) {
    return failure.what();
  }
  return "accepted";
}

TEST_F(GpuProfilesLabTest, OneBatchSizeOfP100IsPredictedFromTheOthers) {
  std::vector<double> errors;
  int models = 0;
  for (const GpuProfile& profile : gpu_profiles(lab_table("gpu-profiles/compute.csv"))) {
    if (profile.gpu != "p100" || profile.compute_ms.points().size() != 3) continue;
    ++models;
    const auto own = leave_one_out(profile.compute_ms);
    errors.insert(errors.end(), own.begin(), own.end());
  }
  EXPECT_EQ(models, 16);
  const ErrorSummary summary = summary_of(errors);
  EXPECT_LE(summary.mean, 0.004);
  EXPECT_LE(summary.largest, 0.02);
}

TEST_F(GpuProfilesLabTest, BatchSizesOfV100ArePredictedFromTheOthers) {
  const auto profiles = gpu_profiles(lab_table("gpu-profiles/compute.csv"));
  for (const auto& [model, limit, in_proportion] :
       {std::tuple{"alexnet", 0.03, 0.20}, {"mobilenet_v2", 0.035, 0.14}, {"resnet18", 0.01, 0.037}}) {
    const GpuProfile& profile = find_profile(profiles, "v100", model);
    std::vector<CurvePoint> large;  // a batch below 16 is dominated by launches
    std::copy_if(profile.compute_ms.points().begin(), profile.compute_ms.points().end(), std::back_inserter(large),
                 [](const CurvePoint& point) { return point.x >= 16; });
    EXPECT_LE(summary_of(leave_one_out(Curve(large))).mean, limit) << model;
    std::vector<double> proportional;  // from batch 64, the rule of thumb
    for (const CurvePoint& point : large) {
      if (point.x != 64) proportional.push_back(profile.compute_ms.at(64) * point.x / 64 / point.y - 1);
    }
    EXPECT_NEAR(summary_of(proportional).mean, in_proportion, 0.01) << model;
  }
}

TEST_F(GpuProfilesLabTest, TwoGpusArePredicted) {
  const auto fits = two_gpu_fits(lab_table("gpu-profiles/one_and_two_gpus.csv"));
  ASSERT_EQ(fits.size(), 1);
  const TwoGpuFit& fit = fits[0];
  EXPECT_EQ(fit.points.size(), 4);
  EXPECT_LE(fit.error.largest, 0.01);
  EXPECT_NEAR(fit.halving.largest, 0.131, 0.001);
  const std::vector<double> rule = {-0.131, -0.097, -0.076, -0.068};
  for (std::size_t i = 0; i < rule.size(); ++i) {
    EXPECT_NEAR(fit.points[i].by_halving_ms / fit.points[i].measured_ms - 1, rule[i], 0.001);
  }
  EXPECT_GT(fit.ms_per_image, 0);
  EXPECT_GT(fit.fixed_ms, 0);
  for (const TwoGpuPoint& point : fit.points) {
    const double parts = point.half_ms + fit.scatter_fixed_ms + fit.fixed_ms +
                         (fit.scatter_ms_per_image + fit.ms_per_image) * point.batch;
    EXPECT_NEAR(parts / point.measured_ms, 1, 0.01);
  }
}

TEST_F(GpuProfilesLabTest, MakesARecord) {
  const auto profiles = gpu_profiles(lab_table("gpu-profiles/compute.csv"));
  const RankRecord record = record_of(find_profile(profiles, "p100", "resnet18"), 128, 11'689'512, 25);
  EXPECT_EQ(record.size, 128);
  EXPECT_NEAR(record.phase_ms("forward").at(128) + record.phase_ms("backward").at(128), 748.014, 1e-9);
  EXPECT_NEAR(record.phase_ms("transfer").at(128), 6.301, 1e-9);
  EXPECT_NEAR(record.gradient_megabytes(), 46.758, 1e-3);
  EXPECT_EQ(record.buckets.size(), 2);
  EXPECT_EQ(record.compute_comparisons, 3);
  EXPECT_TRUE(rank_record_from_json(to_json(record)));
  EXPECT_EQ(image_model_parameters("resnet18"), 11'689'512);
  EXPECT_EQ(image_model_parameters("resnet19"), 0);
}

TEST(GpuProfilesTest, SkipsRowsWithoutATimeAndRefusesOthers) {
  std::size_t skipped = 0;
  const auto profiles =
      gpu_profiles(CsvTable("t", "gpu,model,batch,transfer_ms,compute_ms\nk80,a,64,,10\nk80,a,128,1,N/A\n"), &skipped);
  EXPECT_EQ(skipped, 1);
  EXPECT_EQ(profiles[0].compute_ms.points().size(), 1);
  const RankRecord one = record_of(profiles[0], 0, 0, 25);
  EXPECT_THAT(one.quality, HasSubstr("one batch size only"));
  EXPECT_EQ(one.compute_error, 0);
  const std::string head = "gpu,model,batch,transfer_ms,compute_ms\n";
  EXPECT_THAT(message_of([&] { gpu_profiles(CsvTable("t", head + "k80,a,0,1,2\n")); }),
              HasSubstr("t:2: batch: found 0"));
  EXPECT_THAT(message_of([&] { gpu_profiles(CsvTable("t", head + "k80,a,1,1,2\nk80,a,1,1,3\n")); }),
              HasSubstr("a on k80: found two values for 1"));
  EXPECT_THAT(message_of([&] { gpu_profiles(CsvTable("t", head + "k80,a,1,1,\n")); }),
              HasSubstr("no row with a compute time"));
  EXPECT_THAT(message_of([&] { find_profile(profiles, "p100", "a"); }),
              HasSubstr("found p100, expected one of the table's, k80"));
  EXPECT_THAT(message_of([&] { find_profile(profiles, "k80", "b"); }), HasSubstr("no b on k80"));
  EXPECT_THAT(message_of([&] {
                two_gpu_fits(CsvTable("t", "model,gpu,gpus,total_batch,step_compute_ms,scatter_ms\na,k80,3,1,2,\n"));
              }),
              HasSubstr("t:2: gpus: found 3"));
}

TEST(GpuProfilesTest, NamesModelsWithTooFewSizes) {
  std::string rows = "model,gpu,gpus,total_batch,step_compute_ms,scatter_ms\n";
  for (const char* model : {"full", "few"}) {
    for (const int batch : {32, 64, 128}) {
      if (model == std::string("full") || batch == 32) rows += fmt::format("{},k80,1,{},{},\n", model, batch, batch);
      rows += fmt::format("{},k80,2,{},{},1\n", model, 2 * batch, batch + 5);
    }
  }
  std::vector<std::string> left_out;
  EXPECT_EQ(two_gpu_fits(CsvTable("t", rows), &left_out).size(), 1);
  ASSERT_EQ(left_out.size(), 1);
  EXPECT_EQ(left_out[0],
            "few on k80 has 1 batch size on one GPU and 3 batch sizes on two, expected at least two and three");
}

}  // namespace
}  // namespace babelring::insight
