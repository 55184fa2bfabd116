#include <dlfcn.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "nmt/ops/cuda/cudnn_batches.h"

/// A program of its own: a driver that runs nothing (fake_driver.c) stands in for libcuda.so.1 in the whole process, so
/// that cuDNN makes plans for a GPU that is only described.
namespace babelring::cuda {
namespace {

using testing::HasSubstr;

/// cuDNN's description of an H200; only a real device tells the rest.
constexpr char h200[] =
    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
    R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
    R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
    R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":150754820096,)"
    R"("smClockRateKHz":1980000,"memClockRateKHz":3201000,"l2CacheSize":62914560,"cudaDeviceId":0,"deviceVer":900,)"
    R"("driverVer":13000,"deviceName":"NVIDIA H200"})";

class CudnnPlanCheck : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // By its name, which it is found under from now on, it is libcuda.so.1 to all that ask for one.
    driver = ::dlopen(BABELRING_FAKE_DRIVER, RTLD_NOW | RTLD_GLOBAL);
    if (driver == nullptr && std::filesystem::exists(BABELRING_FAKE_DRIVER)) FAIL() << ::dlerror();
  }
  void SetUp() override {
    if (driver == nullptr)
      GTEST_SKIP() << BABELRING_FAKE_DRIVER << " is not here: plans are checked where they are built";
    if (plans.description().starts_with("no cuDNN")) GTEST_SKIP() << plans.description();
  }
  static inline void* driver = nullptr;
  CudnnPlans plans{{.capability = 90, .description = h200}};
};

/// Self-attention of a fused projection, 512 wide, with the room that a CudnnBatch of 512 tokens gives it.
CudnnShape self_attention(std::int64_t head_width, bool causal, bool backward) {
  const std::int64_t width = 512, heads = width / head_width, length = 512;
  CudnnShape shape{.backward = backward,
                   .causal = causal,
                   .sentences = max_cudnn_scores / heads / length / length,
                   .length = length,
                   .heads = heads,
                   .head_width = head_width};
  for (const Packed rows : {Packed::q, Packed::k, Packed::v}) shape.strides.of(rows) = 3 * width;
  shape.strides.of(Packed::out) = width;
  shape.strides.of(Packed::log_sum_exp) = heads;
  if (!backward) return shape;
  shape.strides.of(Packed::dout) = width;
  for (const Packed rows : {Packed::dq, Packed::dk, Packed::dv}) shape.strides.of(rows) = 3 * width;
  return shape;
}

struct PresetCase {
  std::int64_t head_width;
  bool causal;
};
/// Each takes most of a second; 64 is the width of every preset's heads.
constexpr PresetCase preset_cases[] = {{64, false}, {64, true}, {32, true}, {128, false}};

TEST_F(CudnnPlanCheck, ForwardHasAPlanWithoutScoresInMemory) {
  for (const auto& [head_width, causal] : preset_cases) {
    const Result<std::int64_t>& bytes = plans.workspace_bytes(self_attention(head_width, causal, false));
    EXPECT_TRUE(bytes) << head_width << " " << causal;
    EXPECT_GE(*bytes, 0);
    EXPECT_LE(*bytes, 1 << 20);
  }
}

/// The plan that repeats bit by bit keeps gradients of scores in memory; the one that adds by atomics does not.
TEST_F(CudnnPlanCheck, BackwardHasAPlanThatRepeatsBitByBit) {
  for (const auto& [head_width, causal] : preset_cases) {
    const Result<std::int64_t>& bytes = plans.workspace_bytes(self_attention(head_width, causal, true));
    EXPECT_TRUE(bytes) << head_width << " " << causal;
    EXPECT_GE(*bytes, 2 * max_cudnn_scores);
    EXPECT_LE(*bytes, 2 * max_cudnn_scores + (8 << 20));
  }
}

/// Attention on an encoder's output: queries and keys have tensors of their own.
TEST_F(CudnnPlanCheck, CrossAttentionHasAPlan) {
  CudnnShape shape = self_attention(64, false, true);
  for (const Packed rows : {Packed::q, Packed::dq}) shape.strides.of(rows) = 512;
  for (const Packed rows : {Packed::k, Packed::v, Packed::dk, Packed::dv}) shape.strides.of(rows) = 1024;
  EXPECT_TRUE(plans.workspace_bytes(shape));
}

TEST_F(CudnnPlanCheck, SaysWhyAShapeHasNone) {
  CudnnShape shape = self_attention(64, true, false);
  shape.head_width = 60;
  EXPECT_EQ(plans.workspace_bytes(shape).error(), "heads are 60 wide, a multiple of 8 up to 128 is needed");
  shape.head_width = 64;
  shape.strides.of(Packed::v) = 1537;
  EXPECT_EQ(plans.workspace_bytes(shape).error(), "rows are 1537 elements apart, a multiple of 8 is needed");
}

TEST_F(CudnnPlanCheck, SaysWhyAGpuHasNone) {
  CudnnPlans turing({.capability = 75, .description = h200});
  EXPECT_EQ(turing.description(), "no cuDNN: the GPU has compute capability 7.5, 9.x or 10.x is needed");
  EXPECT_THAT(turing.workspace_bytes(self_attention(64, true, false)).error(), HasSubstr("compute capability 7.5"));
  std::string blackwell = h200;
  blackwell.replace(blackwell.find("\"deviceVer\":900"), 15, "\"deviceVer\":1000");
  CudnnPlans without_backward({.capability = 100, .description = blackwell});
  EXPECT_THAT(without_backward.workspace_bytes(self_attention(64, true, true)).error(),
              HasSubstr("has no engine for it"));
}

}  // namespace
}  // namespace babelring::cuda
