#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nmt/base/clock.h"
#include "nmt/core/arena.h"
#include "nmt/core/buffer.h"
#include "nmt/core/device_stream.h"
#include "nmt/core/memory_room.h"
#include "nmt/ops/adam.h"
#include "nmt/ops/attention.h"
#include "nmt/ops/cross_entropy.h"
#include "nmt/ops/dropout.h"
#include "nmt/ops/elementwise.h"
#include "nmt/ops/embedding.h"
#include "nmt/ops/layer_norm.h"
#include "nmt/ops/linear.h"
#include "nmt/ops/work_marks.h"

namespace babelring {

/// What an op has to do at least.
struct OpCost {
  double flops = 0;  // of matrix products
  double bytes = 0;  // read and written, each operand once; twice if it is added to or updated
};

/// Sees every op that runs: timing, FLOP counts, traces, NaN hunting.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void ran(std::string_view op, const OpCost& cost, Nanoseconds duration) = 0;
};

/// Runs ops on one device. Ops run in the order given; results are visible to the host after synchronize().
/// Not thread-safe: one thread drives a backend.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Checks the op (Failure: op, field, found shape, expected) and runs it.
  template <class Op>
  void run(const Op& op) {
    op.check();
    flops_ += op.flops();
    if (observer_ == nullptr) {
      do_run(op);
      return;
    }
    const auto start = SteadyClock::now();
    do_run(op);
    synchronize();
    observer_->ran(Op::name, {op.flops(), op.bytes()}, SteadyClock::now() - start);
  }

  /// 256-byte aligned, zeroed. Throws Failure (bytes needed and free) when there is none.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// A copy for LinearForward::packed of a contiguous weight [out, in], f32 or bf16. Null where products would gain
  /// nothing by it.
  virtual std::unique_ptr<const PackedWeight> pack(ConstTensor weight) {
    static_cast<void>(weight);
    return nullptr;
  }
  /// Whether the host can read and write what allocate() gives; elsewhere upload() and download() do.
  virtual bool host_memory() const { return true; }
  /// Copies contiguous elements from the host, or to it; complete on return.
  virtual void upload(const void* host, Tensor to) = 0;
  virtual void download(ConstTensor from, void* host) = 0;
  /// As download(), of f32, but nothing is waited for: the numbers are there after the next synchronize() or
  /// download().
  virtual std::shared_ptr<const std::vector<float>> fetch(ConstTensor from) {
    auto numbers = std::make_shared<std::vector<float>>(static_cast<std::size_t>(from.shape.elements()));
    download(from, numbers->data());
    return numbers;
  }
  /// Waits for every op so far; throws Failure of any earlier op.
  virtual void synchronize() = 0;
  /// "cpu", "reference": for logs and reports, with the kernels in use, e.g. "cpu (oneDNN 2.6, avx512_core_bf16, 2
  /// threads)".
  virtual std::string description() const = 0;
  /// Of the memory that allocate() takes.
  virtual MemoryRoom memory() const { return host_memory_room(); }
  /// For timing parts of the work without waiting for it. Null where run() returns when the op is done.
  virtual std::unique_ptr<WorkMarks> make_marks() { return nullptr; }
  /// Runs `work`, which gives this backend ops and nothing else, and returns a tensor of theirs. The key tells it from
  /// all other work: under one key it gives the same ops on the same tensors, so that a device may record it once and
  /// repeat it as a whole.
  virtual ConstTensor repeat(const std::vector<std::int64_t>& key, const std::function<ConstTensor()>& work) {
    static_cast<void>(key);
    return work();
  }
  /// A queue of work beside the backend's own, for what runs meanwhile. Null where run() returns when the op is done.
  virtual std::unique_ptr<DeviceStream> make_stream() { return nullptr; }
  /// How many words a row of LinearForward::relu_mask has, if this op (still without one) shall write it for the
  /// backward. 0: this backend writes none for it, or has no use for one.
  virtual std::int64_t relu_mask_words(const LinearForward&) { return 0; }
  /// Names the work given until end_range(), for a profiler of the device, nested: see WorkRange.
  virtual void begin_range(const char*) {}
  virtual void end_range() {}

  /// What memory that is allocated now is for: said when there is none. See AllocationPurpose.
  const char* allocation_purpose() const { return allocation_purpose_; }

  /// Matrix-product operations since the start.
  double flops() const { return flops_; }
  /// Null: no observer. Not owned. An observed backend synchronizes after each op.
  void observe(OpObserver* observer) { observer_ = observer; }

 protected:
  /// Counts operations that are repeated without run().
  void add_flops(double flops) { flops_ += flops; }
  bool observed() const { return observer_ != nullptr; }

 private:
  friend class AllocationPurpose;
  virtual void do_run(const LinearForward&) = 0;
  virtual void do_run(const LinearBackwardData&) = 0;
  virtual void do_run(const LinearBackwardWeight&) = 0;
  virtual void do_run(const LayerNormForward&) = 0;
  virtual void do_run(const ResidualNormForward&) = 0;
  virtual void do_run(const LayerNormBackward&) = 0;
  virtual void do_run(const Dropout&) = 0;
  virtual void do_run(const ResidualDropout&) = 0;
  virtual void do_run(const EmbeddingForward&) = 0;
  virtual void do_run(const EmbeddingBackward&) = 0;
  virtual void do_run(const AttentionForward&) = 0;
  virtual void do_run(const AttentionBackward&) = 0;
  virtual void do_run(const DecodeAttention&) = 0;
  virtual void do_run(const CrossEntropy&) = 0;
  virtual void do_run(const LogSoftmaxTopK&) = 0;
  virtual void do_run(const AdamUpdate&) = 0;
  virtual void do_run(const SquaredNorm&) = 0;
  virtual void do_run(const SumWithNorm&) = 0;
  virtual void do_run(const Cast&) = 0;
  virtual void do_run(const Fill&) = 0;
  virtual void do_run(const Add&) = 0;

  OpObserver* observer_ = nullptr;
  double flops_ = 0;
  const char* allocation_purpose_ = "buffers";
};

/// While it lives, `purpose` is what a backend allocates for.
class AllocationPurpose {
 public:
  AllocationPurpose(Backend& backend, const char* purpose)
      : backend_(backend), before_(std::exchange(backend.allocation_purpose_, purpose)) {}
  ~AllocationPurpose() { backend_.allocation_purpose_ = before_; }
  AllocationPurpose(const AllocationPurpose&) = delete;
  AllocationPurpose& operator=(const AllocationPurpose&) = delete;

 private:
  Backend& backend_;
  const char* before_;
};

/// Names the work that is given while it lives, for profilers: a layer, a phase. Costs a call where none is attached.
class WorkRange {
 public:
  WorkRange(Backend& backend, const char* name) : backend_(backend) { backend.begin_range(name); }
  WorkRange(Backend& backend, const std::string& name) : WorkRange(backend, name.c_str()) {}
  ~WorkRange() { backend_.end_range(); }
  WorkRange(const WorkRange&) = delete;
  WorkRange& operator=(const WorkRange&) = delete;

 private:
  Backend& backend_;
};

/// The processor: bf16 products in AMX tiles where it has them, oneDNN for other products, own kernels for the rest,
/// `threads` OpenMP threads (0: all this process may use).
std::unique_ptr<Backend> make_cpu_backend(int threads = 0);

}  // namespace babelring
