// NCCL all-reduces tracked by the MPI communicator, with compute before and after them, between fake and real GPUs. If
// a host has fewer GPUs than ranks, ranks share them: NCCL is told that the ranks are on different hosts. That is slow,
// but sufficient for this test.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <iostream>

#include "base/digest.h"
#include "nmt/comm/collective.h"
#include "nmt/comm/mpi/session.h"
#include "nmt/comm/nccl/communicator.h"
#include "nmt/core/random.h"
#include "nmt/ops/backend.h"
#include "nmt/ops/cuda_module.h"
#include "nmt/ops/elementwise.h"
#include "tests/nmt/comm/fake_device_stream.h"
#include "tests/nmt/comm/fake_nccl.h"

namespace babelring {
namespace {

using testing::Each;

struct Setting {
  bool gpu;
  GradientWire wire;
};

constexpr std::int64_t element_count = 300'007, bucket = 100'003;

/// Rank `rank`'s gradients in update `update`.
std::vector<float> gradients_of(int rank, int update) {
  Random random(derive_seed(11, static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(update)));
  std::vector<float> values(element_count);
  for (float& value : values) value = static_cast<float>(random.uniform() * 2 - 1);
  return values;
}

class NcclTest : public testing::TestWithParam<Setting> {
 protected:
  NcclTest() : control_(make_mpi_communicator({.deadline = std::chrono::seconds(60)})) {}

  /// Opens the GPUs. Returns false if this machine cannot run the test.
  bool open() {
    if (GetParam().gpu && !find_cuda()) return false;
    backend_ = GetParam().gpu ? make_cuda_backend(control_->local_rank() % find_cuda()->count) : make_cpu_backend(1);
    auto stream = GetParam().gpu ? backend_->make_stream() : std::make_unique<FakeDeviceStream>();
    trial_ = stream->allocate(bucket * sizeof(float));
    const Tensor trial = trial_.view({bucket}, DType::f32);
    backend_->upload(std::vector<float>(bucket, 1.0f).data(), trial);
    nccl_ = open_nccl(GetParam().gpu ? find_nccl() : FakeNccl::library(), *control_, std::move(stream),
                      {.wire = GetParam().wire, .deadline = std::chrono::seconds(60), .trial = trial})
                .value();
    if (control_->rank() == 0) std::cout << nccl_->description() << "\n";
    return true;
  }

  /// Returns the sum over ranks of twice the gradients, plus this rank's gradients once more.
  std::vector<float> update(int number) {
    const std::vector<float> own = gradients_of(control_->rank(), number);
    const Buffer memory = nccl_->allocate(own.size() * sizeof(float)), addend = backend_->allocate(memory.bytes());
    const Tensor gradient = memory.view({element_count}, DType::f32), x = addend.view({element_count}, DType::f32);
    backend_->upload(own.data(), gradient);
    backend_->upload(own.data(), x);
    // The last bucket first. The host does not wait between compute and communication.
    for (std::int64_t begin = element_count / bucket * bucket; begin >= 0; begin -= bucket) {
      const std::int64_t count = std::min(bucket, element_count - begin);
      const Tensor part(gradient.as<float>() + begin, {count}, DType::f32);
      backend_->run(Add{.x = ConstTensor(x.as<float>() + begin, {count}, DType::f32), .y = part});
      nccl_->all_reduce_start(part);
    }
    nccl_->all_reduce_finish();
    backend_->run(Add{.x = x, .y = gradient});
    std::vector<float> result(own.size());
    backend_->download(gradient, result.data());
    control_->barrier();
    return result;
  }

  void expect_right(const std::vector<float>& result, int number) {
    const int ranks = control_->size();
    std::vector<double> expected(element_count), magnitude(element_count);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<float> values = gradients_of(rank, number);
      for (std::size_t i = 0; i < values.size(); ++i) {
        expected[i] += 2 * static_cast<double>(values[i]);
        magnitude[i] += 2 * std::abs(static_cast<double>(values[i]));
      }
    }
    const std::vector<float> own = gradients_of(control_->rank(), number);
    const double rounding = GetParam().wire == GradientWire::bf16 ? 1.01 * (ranks + 1) / 256 : 1e-6;
    double excess = 0;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const double error = std::abs(expected[i] + static_cast<double>(own[i]) - static_cast<double>(result[i]));
      excess = std::max(excess, error - rounding * magnitude[i] - 1e-6);
    }
    EXPECT_EQ(excess, 0) << "update " << number;
  }

  std::unique_ptr<Communicator> control_;
  std::unique_ptr<Backend> backend_;
  Buffer trial_;
  std::unique_ptr<Communicator> nccl_;
};

TEST_P(NcclTest, SumsBetweenComputeSteps) {
  if (!open()) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  const CommTotals before = nccl_->totals();
  for (int number = 0; number < 3; ++number) {
    const std::vector<float> result = update(number);
    expect_right(result, number);
  }
  const int ranks = control_->size(), element = GetParam().wire == GradientWire::bf16 ? 2 : 4;
  const CommTotals after = nccl_->totals();
  EXPECT_NEAR(static_cast<double>(after.bytes_sent - before.bytes_sent),
              3.0 * element_count * element * 2 * (ranks - 1) / ranks, 3.0 * 4);
  EXPECT_GT(after.busy_ms, before.busy_ms);
}

/// Spans have the device's times, on the host's clock.
TEST_P(NcclTest, RecordsEachAllReduceOnceOnEveryRank) {
  if (!open()) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  nccl_->tracer()->record_spans(true);
  update(0);
  std::vector<CommSpan> spans = nccl_->tracer()->take_spans();
  nccl_->tracer()->record_spans(false);
  std::erase_if(spans, [](const CommSpan& span) { return span.bytes == 0; });  // the barrier
  ASSERT_EQ(spans.size(), 3U);
  std::string own;
  for (const CommSpan& span : spans) {
    EXPECT_LE(span.asked, span.begun);
    EXPECT_LE(span.begun, span.done);
    EXPECT_THAT(span.name, testing::HasSubstr("by NCCL"));
    own += fmt::format("{} {} ", span.number, span.bytes);
  }
  EXPECT_LE(spans[0].done, spans[1].begun) << "all-reduces run one after another on the device";
  EXPECT_THAT(nccl_->all_gather(own), Each(own));
}

/// A sum that is scattered in stripes and then gathered is the sum; a part of the last round is not a stripe for each
/// rank.
TEST_P(NcclTest, ScattersSumsAndGathersThem) {
  if (!open()) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  HostExchange& exchange = *nccl_->host_exchange();
  const int ranks = control_->size();
  const std::int64_t stripe = 16'384, round = stripe * ranks;
  const std::vector<float> own = gradients_of(control_->rank(), 5);
  const Buffer memory = nccl_->allocate(own.size() * sizeof(float));
  const Tensor gradient = memory.view({element_count}, DType::f32);
  backend_->upload(own.data(), gradient);
  PartsByPosition parts(static_cast<std::size_t>(ranks));
  for (std::int64_t begin = 0; begin < element_count; begin += round) {
    exchange.reduce_scatter_start(gradient.row_slice(begin, std::min(round, element_count - begin)), stripe);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t first = begin + rank * stripe, last = std::min(element_count, first + stripe);
      if (first < last) parts[static_cast<std::size_t>(rank)].push_back({first, last});
    }
  }
  exchange.finish(exchange.all_gather_start(gradient, parts));
  std::vector<float> sum(own.size());
  backend_->download(gradient, sum.data());
  std::vector<double> expected(element_count), magnitude(element_count);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> values = gradients_of(rank, 5);
    for (std::size_t i = 0; i < values.size(); ++i) {
      expected[i] += static_cast<double>(values[i]);
      magnitude[i] += std::abs(static_cast<double>(values[i]));
    }
  }
  const double rounding = GetParam().wire == GradientWire::bf16 ? 1.01 * (ranks + 1) / 256 : 1e-6;
  double excess = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double error = std::abs(expected[i] - static_cast<double>(sum[i]));
    excess = std::max(excess, error - rounding * magnitude[i] - 1e-6);
  }
  EXPECT_EQ(excess, 0);
  const std::string digest = Sha256().add(sum.data(), sum.size() * sizeof(float)).hex();
  EXPECT_THAT(nccl_->all_gather(digest), Each(digest));
}

/// All ranks get the same bits.
TEST_P(NcclTest, SumsAreBitEqualOnAllRanks) {
  if (!open()) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  const std::vector<float> own = gradients_of(control_->rank(), 9);
  const Buffer memory = nccl_->allocate(own.size() * sizeof(float));
  const Tensor gradient = memory.view({element_count}, DType::f32);
  backend_->upload(own.data(), gradient);
  nccl_->all_reduce_start(gradient);
  nccl_->all_reduce_finish();
  std::vector<float> sum(own.size());
  backend_->download(gradient, sum.data());
  const std::string digest = Sha256().add(sum.data(), sum.size() * sizeof(float)).hex();
  EXPECT_THAT(nccl_->all_gather(digest), Each(digest));
}

std::string name_of_setting(const testing::TestParamInfo<Setting>& info) {
  return std::string(info.param.gpu ? "cuda" : "fake") + (info.param.wire == GradientWire::f32 ? "_f32" : "_bf16");
}

INSTANTIATE_TEST_SUITE_P(Gpus, NcclTest,
                         testing::Values(Setting{false, GradientWire::f32}, Setting{false, GradientWire::bf16},
                                         Setting{true, GradientWire::f32}, Setting{true, GradientWire::bf16}),
                         name_of_setting);

/// Must run before NCCL reads its environment.
void let_ranks_share_gpus() {
  const auto number = [](const char* name) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::atoi(text) : 0;
  };
  if (!find_cuda() || find_cuda()->count >= number("OMPI_COMM_WORLD_LOCAL_SIZE")) return;
  const std::string host = "r" + std::to_string(number("OMPI_COMM_WORLD_RANK"));
  for (const auto& [name, value] : {std::pair<const char*, std::string>{"NCCL_HOSTID", host},
                                    {"NCCL_NET", "Socket"},
                                    {"NCCL_SOCKET_IFNAME", "lo"},
                                    {"NCCL_IB_DISABLE", "1"},
                                    {"NCCL_MNNVL_ENABLE", "0"},
                                    {"NCCL_NVLS_ENABLE", "0"},
                                    {"NCCL_MAX_NCHANNELS", "1"},
                                    {"NCCL_RAS_ENABLE", "0"}}) {
    ::setenv(name, value.c_str(), 0);
  }
}

}  // namespace
}  // namespace babelring

/// Ranks other than 0 only report failures.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    const babelring::MpiSession session(argc, argv);
    babelring::let_ranks_share_gpus();
    return RUN_ALL_TESTS();
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    babelring::abort_mpi(1);
  }
}
