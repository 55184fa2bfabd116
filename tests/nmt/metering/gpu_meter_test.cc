#include "nmt/metering/gpu_meter.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>

#include "nmt/ops/backend.h"
#include "nmt/ops/cuda_module.h"
#include "nmt/parallel/device.h"
#include "tests/nmt/metering/fake_nvml.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const std::string fake_identity = "00112233445566778899aabbccddeeff";

/// Opens the fake library a second time to control its state, which is reset first.
class OpenedFake {
 public:
  explicit OpenedFake(const std::string& name)
      : path((std::filesystem::canonical("/proc/self/exe").parent_path() / name).string()),
        library_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(::dlerror());
    state = reinterpret_cast<FakeNvml* (*)()>(::dlsym(library_, "fake_nvml"))();
    *state = FakeNvml();
  }
  ~OpenedFake() { ::dlclose(library_); }

  std::string path;
  FakeNvml* state = nullptr;

 private:
  void* library_;
};

TEST(Nvml, ReadsAllValues) {
  const OpenedFake fake("libfake_nvml.so");
  const auto source = open_nvml(fake_identity, fake.path).value();
  const GpuReading reading = source->read().value();
  EXPECT_EQ(reading.power_w, 412.5);
  EXPECT_EQ(reading.power_limit_w, 700);
  EXPECT_THAT(reading.values, ElementsAre(Pair("clock_mhz", 1980), Pair("memory_clock_mhz", 3201),
                                          Pair("memory_used_bytes", 600), Pair("utilization_percent", 93)));
  EXPECT_EQ(reading.process_bytes, 0) << "the driver does not list this process";
  // The fake does not support nvlink_rx_bytes.
  EXPECT_THAT(reading.counters,
              ElementsAre(Pair("nvlink_tx_bytes", 5 * 1024), Pair("pcie_rx_bytes", 200), Pair("pcie_tx_bytes", 100)));
}

TEST(Nvml, FindsTheMemoryOfThisProcess) {
  const OpenedFake fake("libfake_nvml.so");
  const auto source = open_nvml(fake_identity, fake.path).value();
  fake.state->pid = static_cast<unsigned>(::getpid());
  fake.state->process_memory = 500;
  EXPECT_EQ(source->read()->process_bytes, 500);
  fake.state->process_memory = ~0ULL;  // the driver lists the process, but does not know its memory
  EXPECT_EQ(source->read()->process_bytes, 0);
}

TEST(Nvml, OmitsUnsupportedValues) {
  const OpenedFake fake("libfake_old_nvml.so");
  const auto source = open_nvml(fake_identity, fake.path).value();
  fake.state->power_status = 3;  // not supported
  const GpuReading reading = source->read().value();
  EXPECT_EQ(reading.power_w, 0);
  EXPECT_EQ(reading.power_limit_w, 0);
  EXPECT_EQ(reading.process_bytes, 0);
  EXPECT_THAT(reading.values,
              ElementsAre(Pair("clock_mhz", 1980), Pair("memory_clock_mhz", 3201), Pair("utilization_percent", 93)));
  EXPECT_TRUE(reading.counters.empty());
}

TEST(Nvml, FindsAMigInstance) {
  const OpenedFake fake("libfake_nvml.so");
  fake.state->uuid = "MIG-00112233-4455-6677-8899-aabbccddeeff";
  EXPECT_TRUE(open_nvml(fake_identity, fake.path).ok());
}

TEST(Nvml, ReportsErrorsInOneLine) {
  EXPECT_THAT(open_nvml(fake_identity, "libno-such-nvml.so").error(), HasSubstr("libno-such-nvml.so"));
  EXPECT_THAT(open_nvml(fake_identity, "libm.so.6").error(), HasSubstr("libm.so.6 has no nvmlInit_v2"));
  const OpenedFake fake("libfake_nvml.so");
  fake.state->init_status = 9;
  EXPECT_EQ(open_nvml(fake_identity, fake.path).error(), "nvmlInit: Driver Not Loaded");
  fake.state->init_status = 0;
  EXPECT_EQ(open_nvml("ffeeddccbbaa99887766554433221100", fake.path).error(),
            "NVML does not know GPU-ffeeddcc-bbaa-9988-7766-554433221100: Not Found");
  EXPECT_EQ(fake.state->shutdowns, 1);
}

TEST(Nvml, ShutsDownOnce) {
  const OpenedFake fake("libfake_nvml.so");
  open_nvml(fake_identity, fake.path).value().reset();
  EXPECT_EQ(fake.state->inits, 1);
  EXPECT_EQ(fake.state->shutdowns, 1);
}

TEST(Nvml, ReadsTheGpuThatCudaUses) {
  if (!find_cuda()) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  for (int rank = 0; rank < find_cuda()->count; ++rank) {
    const auto source = open_nvml(find_gpu(rank).value().identity);
    ASSERT_TRUE(source.ok()) << source.error();
    const auto backend = make_cuda_backend(rank);
    const Buffer held = backend->allocate(std::size_t{1} << 30);
    const GpuReading reading = (*source)->read().value();
    EXPECT_GE(reading.values.at("memory_used_bytes"), std::int64_t{1} << 30);
    EXPECT_TRUE(reading.process_bytes == 0 || reading.process_bytes >= std::int64_t{1} << 30) << reading.process_bytes;
    EXPECT_GT(reading.power_w, 0);
    EXPECT_GE(reading.power_limit_w, 100);
    EXPECT_GT(reading.values.at("clock_mhz"), 0);
  }
}

/// A GPU that returns readings set by the test.
class ScriptedGpu : public GpuSource {
 public:
  struct Script {
    std::mutex mutex;
    std::condition_variable read;
    Result<GpuReading> next = GpuReading{};
    int readings = 0;

    /// Sets the reading and waits until the meter has read it.
    void set(Result<GpuReading> reading) {
      std::unique_lock lock(mutex);
      next = std::move(reading);
      read.wait(lock, [this, wanted = readings + 2] { return readings >= wanted || !next.ok(); });
    }
  };
  explicit ScriptedGpu(Script& script) : script_(script) {}
  Result<GpuReading> read() override {
    const std::lock_guard lock(script_.mutex);
    ++script_.readings;
    script_.read.notify_all();
    return script_.next;
  }

 private:
  Script& script_;
};

GpuReading reading(double power_w, std::int64_t used, std::int64_t sent) {
  return {.power_w = power_w,
          .power_limit_w = 700,
          .values = {{"memory_used_bytes", used}},
          .counters = {{"pcie_tx_bytes", sent}}};
}

TEST(GpuMeter, ReportsCounterDifferencesPerStep) {
  ScriptedGpu::Script script{.next = reading(100, 50, 1000)};
  GpuMeter meter(std::make_unique<ScriptedGpu>(script), std::chrono::milliseconds(1));
  StepRecord step;
  meter.fill(step);
  EXPECT_EQ(step.power_w, 100);
  EXPECT_EQ(step.power_limit_w, 700);
  EXPECT_THAT(step.gpu, ElementsAre(Pair("memory_used_bytes", 50), Pair("pcie_tx_bytes", 0)));
  script.set(reading(300, 80, 1600));
  EXPECT_EQ(meter.newest().power_w, 300);
  EXPECT_THAT(meter.newest().values, ElementsAre(Pair("memory_used_bytes", 80)));
  meter.fill(step);
  EXPECT_EQ(step.power_w, 300);
  EXPECT_EQ(step.gpu.at("pcie_tx_bytes"), 600);
  EXPECT_EQ(step.memory_bytes.at("peak"), 80);
  script.set(reading(300, 60, 40));  // the counter was reset
  meter.fill(step);
  EXPECT_EQ(step.gpu.at("pcie_tx_bytes"), 0);
  EXPECT_EQ(step.memory_bytes.at("peak"), 80);
  script.set(reading(300, 60, 45));
  meter.fill(step);
  EXPECT_EQ(step.gpu.at("pcie_tx_bytes"), 5);
}

TEST(GpuMeter, MemoryAddsUpToWhatTheDriverSaysOfTheProcess) {
  GpuReading with_process = reading(100, 900, 0);
  with_process.process_bytes = 700;
  ScriptedGpu::Script script{.next = with_process};
  GpuMeter meter(std::make_unique<ScriptedGpu>(script), std::chrono::milliseconds(1));
  StepRecord step;
  step.memory_bytes = {{"weights", 300}, {"scratch", 150}};
  meter.fill(step);
  EXPECT_THAT(step.memory_bytes, ElementsAre(Pair("peak", 900), Pair("process", 700), Pair("scratch", 150),
                                             Pair("unaccounted", 250), Pair("weights", 300)));
  with_process.process_bytes = 0;
  script.set(with_process);
  StepRecord unknown;
  meter.fill(unknown);
  EXPECT_THAT(unknown.memory_bytes, ElementsAre(Pair("peak", 900)));
}

TEST(GpuMeter, StopsWhenTheGpuIsLost) {
  const LogCapture log;
  const OpenedFake fake("libfake_nvml.so");
  fake.state->lost = true;
  GpuMeter meter(open_nvml(fake_identity, fake.path).value(), std::chrono::milliseconds(1));
  StepRecord step;
  meter.fill(step);
  EXPECT_EQ(step.power_w, 0);
  EXPECT_TRUE(step.gpu.empty());
  EXPECT_THAT(log.text(), HasSubstr("no longer measured: the GPU is lost"));
}

TEST(GpuMeter, IsNullWithoutAGpuOrNvml) {
  const LogCapture log;
  EXPECT_EQ(make_gpu_meter(""), nullptr);
  EXPECT_EQ(log.text(), "");
  EXPECT_EQ(make_gpu_meter(fake_identity, "libno-such-nvml.so"), nullptr);
  EXPECT_THAT(log.text(), HasSubstr("GPU power, clocks and traffic are not measured: libno-such-nvml.so"));
  const OpenedFake fake("libfake_nvml.so");
  EXPECT_NE(make_gpu_meter(fake_identity, fake.path), nullptr);
}

}  // namespace
}  // namespace babelring
