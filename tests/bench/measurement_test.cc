// The arithmetic of the benchmarks, on figures that are given.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "nmt/data/vocabulary.h"
#include "tests/bench/bench_tensors.h"
#include "tests/bench/device_peaks.h"
#include "tests/bench/op_times.h"
#include "tests/bench/train_measurement.h"
#include "tests/reference/closed_backend.h"

namespace babelring {
namespace {

using std::chrono::microseconds;

const MachinePeaks peaks{.bf16_flops = 2e9, .f32_flops = 1e9, .int8_flops = 8e9, .triad_bytes = 4e9};

TEST(RandomUpdateTest, SharesOfRanksAreTheWholeUpdate) {
  const RandomUpdateOptions options{.sentences = 5, .source_length = 3, .target_length = 4, .vocabulary = 50};
  const PackedBatch whole = random_update(options, 0, 1).micro_batches[0];
  std::vector<std::int32_t> source, target;
  std::int64_t row = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const UpdateBatches update = random_update(options, rank, 3);
    EXPECT_EQ(update.global_target_tokens, 20);
    const PackedBatch& part = update.micro_batches[0];
    EXPECT_EQ(part.first_target_row, row);
    row += part.target_in.tokens();
    source.insert(source.end(), part.source.ids.begin(), part.source.ids.end());
    target.insert(target.end(), part.target_in.ids.begin(), part.target_in.ids.end());
  }
  EXPECT_EQ(source, whole.source.ids);
  EXPECT_EQ(target, whole.target_in.ids);
}

TEST(RandomUpdateTest, TheDecoderReadsWhatItHasToSayOnePlaceLater) {
  const RandomUpdateOptions options{.sentences = 2, .source_length = 3, .target_length = 4, .vocabulary = 50};
  const PackedBatch batch = random_update(options, 0, 1).micro_batches[0];
  EXPECT_EQ(batch.target_in.offsets, (std::vector<std::int32_t>{0, 4, 8}));
  for (std::size_t sentence = 0; sentence < 8; sentence += 4) {
    EXPECT_EQ(batch.target_in.ids[sentence], bos_id);
    EXPECT_EQ(batch.target_out[sentence + 3], eos_id);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(batch.target_in.ids[sentence + i + 1], batch.target_out[sentence + i]);
      EXPECT_GE(batch.target_out[sentence + i], first_free_id);
    }
  }
}

TEST(RandomUpdateTest, AVocabularyOfControlPiecesIsRefused) {
  EXPECT_THROW(random_update({.vocabulary = first_free_id}, 0, 1), Failure);
}

/// Tells `times` that an op ran for `duration`.
void record(OpTimes& times, std::string_view op, const OpCost& cost, microseconds duration) {
  const SteadyClock::time_point begin{};
  times.ran({.op = op, .cost = cost, .begin = begin, .end = begin + duration, .fields = {}});
}

TEST(OpTimesTest, KeepsTheShorterUpdateOfEachOp) {
  OpTimes first(false), second(false);
  record(first, "slow", {.flops = 10}, microseconds(2000));
  record(first, "slow", {.flops = 20}, microseconds(1000));
  record(first, "fast", {.bytes = 8}, microseconds(10));
  record(second, "slow", {.flops = 30}, microseconds(1500));
  record(second, "fast", {.bytes = 8}, microseconds(20));
  first.keep_shorter(second);
  const std::vector<OpTime> rows = first.rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].name, "slow");
  EXPECT_DOUBLE_EQ(rows[0].ms, 1.5);
  EXPECT_EQ(rows[0].calls, 1);
  EXPECT_EQ(rows[0].flops, 30);
  EXPECT_DOUBLE_EQ(rows[1].ms, 0.01);
  EXPECT_DOUBLE_EQ(first.total_ms(), 1.51);
}

TEST(OpTimesTest, BySizeTellsSizesApart) {
  OpTimes times(true);
  record(times, "product", {.flops = 1e9, .bytes = 1e6}, microseconds(5));
  record(times, "product", {.flops = 2e9, .bytes = 1e6}, microseconds(7));
  ASSERT_EQ(times.rows().size(), 2U);
  EXPECT_EQ(times.rows()[0].name, "product 2 GFLOP 1 MB");
}

TEST(RooflineTest, AnOpIsBoundByMatmulsOrByMemory) {
  EXPECT_DOUBLE_EQ(floor_ms({.flops = 2e6, .bytes = 1e3}, peaks, DType::bf16), 1);
  EXPECT_DOUBLE_EQ(floor_ms({.flops = 2e6, .bytes = 1e3}, peaks, DType::f32), 2);
  EXPECT_DOUBLE_EQ(floor_ms({.flops = 2e3, .bytes = 8e6}, peaks, DType::bf16), 2);
}

TEST(RooflineTest, AnUpdateDoesOneAfterTheOther) {
  EXPECT_DOUBLE_EQ(roofline_ms(peaks, DType::bf16, 2e6, 4e6), 1 + 1);
  EXPECT_DOUBLE_EQ(roofline_ms(peaks, DType::f32, 2e6, 4e6), 2 + 1);
  EXPECT_DOUBLE_EQ(roofline_ms(peaks, DType::int8, 8e6, 4e6), 1 + 1);
}

TEST(RooflineTest, OnlyProductsOfInt8HaveItsPeak) {
  EXPECT_DOUBLE_EQ(floor_ms({.name = "quantized_linear 8 GFLOP", .flops = 16e6}, peaks, DType::f32), 2);
  EXPECT_DOUBLE_EQ(floor_ms({.name = "decode_attention", .flops = 2e6}, peaks, DType::f32), 2);
}

TEST(PeaksTest, TheLargerOfEachFigureIsKept) {
  const MachinePeaks other{.bf16_flops = 1e9, .f32_flops = 3e9, .triad_bytes = 5e9};
  const MachinePeaks both = larger_of(peaks, other);
  EXPECT_EQ(both.bf16_flops, 2e9);
  EXPECT_EQ(both.f32_flops, 3e9);
  EXPECT_EQ(both.triad_bytes, 5e9);
}

TEST(PeaksTest, EveryFigureIsMeasured) {
  const MachinePeaks measured = measure_machine_peaks(1, 0.001);
  for (const double figure :
       {measured.bf16_flops, measured.f32_flops, measured.int8_flops, measured.triad_bytes, measured.read_bytes}) {
    EXPECT_GT(figure, 0);
  }
  EXPECT_FALSE(measured.bf16_instruction.empty());
}

TEST(PeaksTest, ADeviceIsMeasuredThroughItsOps) {
  const auto device = make_closed_backend();
  const MachinePeaks measured = measure_device_peaks(*device, 0.001, {.matmul_edge = 32, .elements = 5000});
  for (const double figure : {measured.bf16_flops, measured.f32_flops, measured.triad_bytes, measured.read_bytes}) {
    EXPECT_GT(figure, 0);
    EXPECT_TRUE(std::isfinite(figure));
  }
}

TEST(BenchTensorsTest, AreTheSameInTheMemoryOfADevice) {
  const auto device = make_closed_backend(), host = make_cpu_backend(1);
  BenchTensors there(*device), here(*host);
  const Shape shape{3, 400'000};  // more than are drawn
  std::vector<float> copy(1'200'000);
  device->download(there.uniform(shape, DType::f32), copy.data());
  EXPECT_EQ(std::memcmp(copy.data(), here.uniform(shape, DType::f32).data, copy.size() * sizeof(float)), 0);
  EXPECT_EQ(copy[0], copy[1 << 20]);
  std::vector<std::int32_t> ids(7);
  device->download(there.integers(7, 50), ids.data());
  EXPECT_EQ(std::memcmp(ids.data(), here.integers(7, 50).data, sizeof(std::int32_t) * ids.size()), 0);
  EXPECT_EQ(std::memcmp(there.offsets(100, 30).data, here.offsets(100, 30).data, sizeof(std::int32_t) * 4), 0);
}

TEST(BenchTensorsTest, TextIdsAreAsFrequentAsPiecesOfText) {
  const auto backend = make_cpu_backend(1);
  BenchTensors tensors(*backend);
  constexpr std::int64_t count = 100'000, vocabulary = 32'000;
  const Tensor ids = tensors.text_ids(count, vocabulary);
  const std::span<const std::int32_t> values(ids.as<std::int32_t>(), count);
  const auto share = [&](std::int32_t id) {
    return static_cast<double>(std::count(values.begin(), values.end(), id)) / static_cast<double>(count);
  };
  EXPECT_NEAR(share(0), 0.047, 0.003);
  EXPECT_NEAR(share(9), 0.047 * 2.2 / 11.2, 0.002);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), 0);
  EXPECT_GT(*std::max_element(values.begin(), values.end()), vocabulary / 2);
  EXPECT_LT(*std::max_element(values.begin(), values.end()), vocabulary);
}

TEST(SummaryTest, RatesAreMediansAndMeans) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  TrainMeasurement measured{.type = DType::bf16, .peaks = peaks};
  for (const double ms : {10.0, 20.0, 40.0}) {
    measured.updates.push_back({.wall_ms = ms});
    measured.costs.push_back({.wall_ms = ms,
                              .source_tokens = 30,
                              .target_tokens = 100,
                              .flops = 2e6,
                              .unavoidable_bytes = 4e6,
                              .roofline_ms = 2});
  }
  json::object result = summarize(measured);
  const auto number = [&](const char* key) { return result[key].to_number<double>(); };
  EXPECT_DOUBLE_EQ(number("target_tokens_per_s"), 5000);
  EXPECT_DOUBLE_EQ(number("target_tokens_per_s_min"), 2500);
  EXPECT_DOUBLE_EQ(number("target_tokens_per_s_max"), 10000);
  EXPECT_DOUBLE_EQ(number("target_tokens_per_s_mean"), 300e3 / 70);
  EXPECT_DOUBLE_EQ(number("tokens_per_s_mean"), 390e3 / 70);
  EXPECT_DOUBLE_EQ(number("roofline_fraction"), 0.1);
  EXPECT_DOUBLE_EQ(number("flop_utilisation"), 0.05);
}

}  // namespace
}  // namespace babelring
