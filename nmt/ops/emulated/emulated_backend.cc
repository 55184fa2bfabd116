#include "nmt/ops/emulated/emulated_backend.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/failure.h"
#include "nmt/core/random.h"
#include "nmt/ops/every_op.h"

namespace babelring {
namespace {

constexpr double min_wait_ms = 0.1;
// Longer delays are stalls of the machine, which would have stalled a computation too.
constexpr double max_credit_ms = 1;

}  // namespace

double computed_ms(double elapsed_ms, double others_ms, const RankProcessors& processors) {
  if (processors.computing <= 0) return elapsed_ms;
  const double taken_ms = std::max(others_ms - processors.spare * elapsed_ms, 0.0);
  return std::max(elapsed_ms - taken_ms / processors.computing, elapsed_ms / 2);
}

void Waiting::add(double ms) {
  due_ms_ += ms;
  if (due_ms_ >= min_wait_ms) finish();
}

void Waiting::finish() {
  while (due_ms_ > 0) {
    const Stopwatch watch;
    const double others_before_ms = other_threads_ms();
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(due_ms_));
    due_ms_ -= computed_ms(watch.elapsed_ms(), other_threads_ms() - others_before_ms, processors_);
  }
  due_ms_ = std::max(due_ms_, -max_credit_ms);
}

namespace {

constexpr std::string_view micro_batch_range = "micro_batch", first_range_of_update = "data";

/// Zeros without physical memory until somebody writes.
Buffer map_zeros(std::size_t bytes) {
  if (bytes == 0) return {};
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (data == MAP_FAILED) fail("out of addresses: {} bytes were needed", bytes);
  return Buffer(data, bytes, [bytes](void* mapped) { ::munmap(mapped, bytes); });
}

class EmulatedBackend final : public EveryOp<EmulatedBackend> {
 public:
  EmulatedBackend(const EmulatedTimes& times, bool lock)
      : times_(times), lock_(lock), random_(times.seed), waiting_(times.processors) {
    for (const EmulatedOp& op : times_.ops) by_name_[{op.phase, op.op}] = &op;
    draw_factor();
  }

  void upload(const void*, Tensor) override {}
  void download(ConstTensor from, void* host) override {
    waiting_.finish();
    std::memset(host, 0, from.bytes());
  }
  void synchronize() override { waiting_.finish(); }
  std::string description() const override { return "emulated"; }

  template <class Op>
  void launch(const Op& op) {
    const auto known = by_name_.find({recorded_phase(range(), Op::name), Op::name});
    if (known == by_name_.end()) {
      waiting_.finish();
      cpu_->run(op);
      return;
    }
    const EmulatedOp& times = *known->second;
    const OpCost cost = cost_of(op);
    waiting_.add(factor_ *
                 (times.ms_per_call + 1e-9 * (cost.flops * times.ms_per_gflop + cost.bytes * times.ms_per_gb)));
  }

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose) override {
    Buffer zeros = map_zeros(bytes);
    if (lock_) lock_memory(zeros.data(), bytes);
    return zeros;
  }
  void do_begin_range(const char* name) override {
    if (ranges_.empty() && name == first_range_of_update) draw_factor();
    ranges_.emplace_back(name);
  }
  void do_end_range() override { ranges_.pop_back(); }

  /// Like OpPlace::phase().
  std::string_view range() const {
    if (ranges_.empty()) return "";
    return ranges_.size() > 1 && ranges_.front() == micro_batch_range ? ranges_[1] : ranges_.front();
  }
  void draw_factor() {
    if (!times_.factors.empty()) factor_ = times_.factors[random_.below(times_.factors.size())];
  }

  const EmulatedTimes times_;
  const bool lock_;
  std::map<std::pair<std::string_view, std::string_view>, const EmulatedOp*> by_name_;
  Random random_;
  double factor_ = 1;
  std::vector<std::string> ranges_;
  Waiting waiting_;
  std::unique_ptr<Backend> cpu_ = make_cpu_backend(1);
};

}  // namespace

std::string_view recorded_phase(std::string_view range, std::string_view op) {
  if (range == "output_loss") return op == LinearForward::name ? "forward" : "backward";
  if (range == "gradient_sum") return "optimizer";
  return range == "backward" || range == "optimizer" ? range : "forward";
}

std::unique_ptr<Backend> make_emulated_backend(const EmulatedTimes& times, bool lock) {
  return std::make_unique<EmulatedBackend>(times, lock);
}

void lock_memory(const void* begin, std::size_t bytes) {
  if (bytes == 0 || ::mlock(begin, bytes) == 0) return;
  throw UsageFailure(fmt::format("lab.emulated.balloon: {} bytes cannot be locked ({}); raise the limit (ulimit -l)",
                                 bytes, std::generic_category().message(errno)));
}

}  // namespace babelring
