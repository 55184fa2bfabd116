#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
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
#include "nmt/ops/loss_chunks.h"
#include "nmt/ops/product_report.h"
#include "nmt/ops/work_marks.h"

namespace babelring {

/// The least work that an op takes.
struct OpCost {
  double flops = 0;  // of matrix products
  double bytes = 0;  // read and written, each operand once; twice if it is added to or updated
};

/// Called after every op: for timing, FLOP counts, traces, NaN hunting.
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
  /// Packs a contiguous weight [out, in], f32 or bf16, for LinearForward::packed. Null where that would not make
  /// products faster.
  virtual std::unique_ptr<const PackedWeight> pack(ConstTensor weight) {
    static_cast<void>(weight);
    return nullptr;
  }
  /// Whether the host can access the memory of allocate() directly, or only by upload() and download().
  virtual bool host_memory() const { return true; }
  /// Whether arenas for this backend pad rows, for a processor's caches (Arena::make_rows()).
  virtual bool pads_rows() const { return host_memory(); }
  /// Copies contiguous elements from the host, or to it; complete on return.
  virtual void upload(const void* host, Tensor to) = 0;
  virtual void download(ConstTensor from, void* host) = 0;
  /// As download(), for f32, but without waiting: the numbers are valid after the next await_fetched(), synchronize()
  /// or download().
  virtual std::shared_ptr<const std::vector<float>> fetch(ConstTensor from) {
    auto numbers = std::make_shared<std::vector<float>>(static_cast<std::size_t>(from.shape.elements()));
    download(from, numbers->data());
    return numbers;
  }
  /// Waits for every op before the last fetch(), not for those after it; throws Failure of any op that it waits for.
  virtual void await_fetched() { synchronize(); }
  /// Waits for every op so far; throws Failure of any earlier op.
  virtual void synchronize() = 0;
  /// "cpu", "reference": for logs and reports, with the kernels in use, e.g. "cpu (oneDNN 2.6, avx512_core_bf16, 2
  /// threads)".
  virtual std::string description() const = 0;
  /// Of the memory that allocate() takes.
  virtual MemoryRoom memory() const { return host_memory_room(); }
  /// For timing parts of the work without waiting for it. Null where run() is synchronous.
  virtual std::unique_ptr<WorkMarks> make_marks() { return nullptr; }
  /// Runs `work`, which only runs ops on this backend, and returns the tensor that it returns. A device may record work
  /// and repeat the recording when the same ops come again with tensors of the same sizes at the same addresses; lists
  /// in the host's memory, keys of dropout and CrossEntropy::gradient_scale may be others. `work` may therefore be
  /// called more than once, and must make the same calls each time.
  virtual ConstTensor repeat(const std::function<ConstTensor()>& work) { return work(); }
  /// A stream of work that runs beside the backend's own. Null where run() is synchronous.
  virtual std::unique_ptr<DeviceStream> make_stream() { return nullptr; }
  /// Words in a row of the LinearForward::relu_mask that this op, given without one, can write for the backward; 0 if
  /// this backend writes none for it.
  virtual std::int64_t relu_mask_words(const LinearForward&) { return 0; }
  /// Whether one matrix product is to be preferred to several smaller ones of one input, although the weights have to
  /// be copied to one place for it.
  virtual bool joins_products() const { return false; }
  /// How the output loss divides a pass.
  virtual LossChunks loss_chunks() const { return {}; }
  /// From now on a matrix product is computed by the fastest of the algorithms that the device's library proposes,
  /// timed when a product of its shape first comes, instead of by the library's first proposal. Results may then differ
  /// in rounding from those of another choice. Choices are kept in `file`, and those that are there are used again; an
  /// empty path: they are not kept. Returns what the user should know of the file, in one line; empty: nothing. Throws
  /// Failure if the file cannot be read or written. A backend whose products leave no choice does nothing.
  virtual std::string tune_products(const std::filesystem::path& file) {
    static_cast<void>(file);
    return "";
  }
  /// How this backend computes the matrix products that have come so far. Empty where there is no choice.
  virtual std::vector<ProductReport> product_reports() const { return {}; }
  /// Names the work given until end_range() for the device's profiler. Ranges nest. See WorkRange.
  virtual void begin_range(const char*) {}
  virtual void end_range() {}

  /// What memory is being allocated for, as messages say when there is none left. See AllocationPurpose.
  const char* allocation_purpose() const { return allocation_purpose_; }

  /// Matrix-product operations since the start.
  double flops() const { return flops_; }
  /// Null: no observer. Not owned. An observed backend synchronizes after each op.
  void observe(OpObserver* observer) { observer_ = observer; }

 protected:
  /// Counts operations that are replayed without run().
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

/// While it lives, the backend's allocations are for `purpose`.
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

/// Names the work given while it lives (a layer, a phase) for profilers. Costs one call where none is attached.
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

/// The CPU: bf16 products in AMX tiles where it has them, oneDNN for other products, our own kernels for the rest;
/// `threads` OpenMP threads (0: all that this process may use).
std::unique_ptr<Backend> make_cpu_backend(int threads = 0);

}  // namespace babelring
