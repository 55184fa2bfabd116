#include "nmt/ops/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/failure.h"
#include "nmt/core/machine.h"
#include "nmt/ops/backend.h"
#include "nmt/ops/cpu/kernel_sets.h"
#include "nmt/ops/cpu/kernels.h"

namespace babelring::cpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds look_interval{200};

/// Fraction of its time that a thread waits for a processor, on average, from which on brief spinning is faster.
/// Threads of this process that only wake for microseconds, as the communication thread does, stay below.
constexpr double competition = 0.15;

// Competition among this job's own threads ends as soon as they spin briefly, and returns when they spin long: each
// such return doubles the time until the next attempt.
constexpr seconds min_patience{2}, max_patience{120}, soon{2};

bool user_decides() {
  return std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr;
}

}  // namespace

std::optional<Nanoseconds> processor_wait() {
  std::error_code error;
  std::int64_t total = -1;
  for (std::filesystem::directory_iterator task("/proc/self/task", error), end; !error && task != end;
       task.increment(error)) {
    std::ifstream file(task->path() / "schedstat");
    std::int64_t ran = 0, waited = 0;
    if (file >> ran >> waited) total = std::max<std::int64_t>(total, 0) + waited;
  }
  return total < 0 ? std::nullopt : std::optional(Nanoseconds(total));
}

TeamWaiting::TeamWaiting(int threads, Wait wait, Clock clock)
    : threads_(threads),
      wait_(std::move(wait)),
      clock_(std::move(clock)),
      adapts_(threads > 1 && !user_decides()),
      looked_(clock_()),
      competed_(looked_),
      released_(looked_ - 2 * soon),
      patience_(min_patience) {
  const auto waited = adapts_ ? wait_() : std::nullopt;
  adapts_ = waited.has_value();
  waited_ = waited.value_or(waited_);
}

void TeamWaiting::look() {
  if (!adapts_) return;
  const auto now = clock_();
  if (now - looked_ < look_interval) return;
  const Nanoseconds waited = wait_().value_or(waited_);
  const double waiting = static_cast<double>((waited - waited_).count()) / static_cast<double>((now - looked_).count());
  looked_ = now;
  waited_ = waited;
  if (waiting >= competition * threads_) {
    competed_ = now;
    if (brief()) return;
    patience_ = now - released_ < soon ? std::min<Nanoseconds>(2 * patience_, max_patience) : min_patience;
    spin_briefly();
  } else if (brief() && now - competed_ >= patience_) {
    released_ = now;
    spin_long();
  }
}

void TeamWaiting::spin_briefly() {
  over_ = false;
  idle_team_ = std::thread([this] {
    // The team stays as long as this thread. A region that does nothing would be optimised away.
    std::atomic<int> members{0};
#pragma omp parallel num_threads(std::max(2, omp_get_num_procs() - threads_ + 2))
    ++members;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_; });
  });
}

void TeamWaiting::spin_long() {
  if (!brief()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  idle_team_.join();
}

}  // namespace babelring::cpu

namespace babelring {
namespace {

int default_threads() {
  if (std::getenv("OMP_NUM_THREADS") == nullptr) return own_processors().count();
  constexpr int max_threads = 1024;  // as training.threads
  const int threads = omp_get_max_threads();
  if (threads <= max_threads) return threads;
  throw UsageFailure(fmt::format("OMP_NUM_THREADS: found {}, expected 1 to {}", threads, max_threads));
}

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  if (threads < 0) fail("cpu backend: {} threads, 0 (all) or more are needed", threads);
  return std::make_unique<cpu::CpuBackend>(threads == 0 ? default_threads() : threads);
}

std::string cpu_kernels() {
  return fmt::format("{} kernels, {}", cpu::name_of(cpu::kernel_set()), cpu::matmul_description());
}

std::string cpu_instruction_sets() {
  return fmt::format("{} kernels, oneDNN for {}", cpu::name_of(cpu::kernel_set()), cpu::matmul_instruction_set());
}

bool cpu_multiplies_bytes() {
  return cpu::CpuContext(1).multiplies_bytes();
}

std::string onednn_version() {
  return cpu::matmul_library_version();
}

namespace cpu {

CpuBackend::CpuBackend(int threads) : context_(threads), waiting_(threads) {}

std::unique_ptr<const PackedWeight> CpuBackend::pack(ConstTensor weight) {
  if (!weight.contiguous()) fail("pack: {} has a row stride of {}", weight.shape.text(), weight.row_stride);
  Buffer elements = kernels_of(context_.kernel_set()).pack(weight, context_);
  return std::make_unique<PackedWeight>(
      PackedWeight{weight.shape, weight.dtype, enter(MemoryPurpose::decoding, std::move(elements))});
}

void CpuBackend::upload(const void* host, Tensor to) {
  if (!to.contiguous()) fail("upload: {} has a row stride of {}", to.shape.text(), to.row_stride);
  if (to.bytes() > 0) std::memcpy(to.data, host, to.bytes());
}

void CpuBackend::download(ConstTensor from, void* host) {
  if (!from.contiguous()) fail("download: {} has a row stride of {}", from.shape.text(), from.row_stride);
  if (from.bytes() > 0) std::memcpy(host, from.data, from.bytes());
}

std::string CpuBackend::description() const {
  return fmt::format("cpu ({}, {} thread{})", cpu_kernels(), context_.threads(), context_.threads() == 1 ? "" : "s");
}

template <class Op>
void CpuBackend::launch(const Op& op) {
  waiting_.look();
  // oneDNN asks OpenMP for the calling thread's number of threads.
  if (omp_get_max_threads() != context_.threads()) omp_set_num_threads(context_.threads());
  cpu::run(op, context_);
}

}  // namespace cpu

}  // namespace babelring
