#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "nmt/core/buffer.h"
#include "nmt/core/device_stream.h"
#include "nmt/core/machine.h"
#include "nmt/core/memory_ledger.h"
#include "nmt/ops/linear.h"
#include "nmt/ops/observer.h"
#include "nmt/ops/op_list.h"

namespace babelring {

/// The device that a user wants. `emulated`: nothing is computed, see nmt/ops/emulated.
enum class DeviceChoice { automatic, cpu, cuda, emulated };

/// The CPU backend's kernels on this CPU: "amx kernels, oneDNN 2.6.3, avx512_core_amx". Throws UsageFailure if
/// BABELRING_CPU_ISA names an instruction set that is not available.
std::string cpu_kernels();

/// The same without the version of oneDNN: "amx kernels, oneDNN for avx512_core_amx".
std::string cpu_instruction_sets();

/// Whether these kernels have products of bytes, without which int8 is no faster than f32.
bool cpu_multiplies_bytes();

/// The version of oneDNN that this process runs with: "2.6.3".
std::string onednn_version();

/// The algorithm choice for matmuls of one shape: the library's algorithm and its time.
struct MatmulReport {
  std::string matmul;     // "x W^T 25600x512x2048 bf16"; rows are rounded up to the size that shares the choice
  std::string epilogue;   // requested from the library; empty if none
  bool found = false;     // false if the library has no suitable algorithm and our own kernels are used
  int candidates = 0;     // number of algorithms proposed by the library
  double first_ms = 0;    // time of the library's first proposal, with cold caches; 0 if not timed
  double chosen_ms = 0;   // time of the chosen algorithm; 0 if not timed
  double waves = 0;       // number of times its blocks fill the device
  std::string algorithm;  // its settings as the library's numbers; empty if none
};

/// Chunking of the output loss: only the logits of one chunk of rows are in memory at a time. The projection's gradient
/// is summed over chunks, so its rounding depends on the chunk size.
struct LossChunks {
  std::int64_t bytes = std::int64_t{160} << 20;  // max size of a chunk's logits, unless min_rows rows need more
  std::int64_t min_rows = 256;
  bool equal = false;  // chunks of equal size; false: full chunks and a shorter last one

  /// Chunking for a device with `memory_bytes` of total memory: 2 GiB, or 1/32 of the memory if smaller. Larger chunks
  /// give matmuls more tiles to distribute over the multiprocessors and access the projection's gradient less often.
  /// Depends on total rather than free memory, so that runs are reproducible bit by bit.
  static constexpr LossChunks on_device(std::size_t memory_bytes) {
    constexpr std::size_t max_bytes = std::size_t{2} << 30;
    const auto part = static_cast<std::int64_t>(std::min(max_bytes, memory_bytes / 32));
    return {.bytes = std::max(LossChunks().bytes, part), .equal = true};
  }

  /// Max rows per chunk, for logits of `row_bytes` bytes per row.
  constexpr std::int64_t max_rows(std::int64_t row_bytes) const { return std::max(min_rows, bytes / row_bytes); }

  /// Rows per chunk for a pass over `rows` rows; the last chunk may have fewer.
  constexpr std::int64_t chunk_rows(std::int64_t rows, std::int64_t row_bytes) const {
    const std::int64_t most = max_rows(row_bytes);
    if (!equal) return most;
    const std::int64_t chunks = std::max<std::int64_t>(1, (rows + most - 1) / most);
    return (rows + chunks - 1) / chunks;
  }
};

/// Runs ops on one device, in the order given. Results are visible to the host after synchronize(). Not thread-safe: a
/// backend is used by one thread.
class Backend : protected OpInterface<AllOps> {
 public:
  ~Backend() override = default;

  /// Checks and runs the op. Throws Failure (op, field, found shape, expected) if it is invalid.
  template <class Op>
  void run(const Op& op) {
    op.check();
    flops_ += flops_of(op);
    if (observer_ == nullptr) {
      do_run(op);
      return;
    }
    OpRun run{.op = Op::name, .cost = cost_of(op)};
    observed_fields_.clear();
    for_each_field(op, [this](std::string_view name, const ConstTensor& tensor, Access access) {
      observed_fields_.push_back({name, tensor, access});
    });
    begin_observed(run);
    do_run(op);
    end_observed(run);
  }

  /// Allocates zeroed memory, aligned to 256 bytes, and enters it into the ledger until it is released. Throws Failure
  /// (bytes needed, purpose, bytes free) if memory is short.
  Buffer allocate(std::size_t bytes, MemoryPurpose purpose = MemoryPurpose::scratch) {
    return MemoryLedger::enter(ledger_, purpose, do_allocate(bytes, purpose));
  }
  /// Adds memory allocated elsewhere, such as a communicator's, to the ledger. `counted`: see MemoryLedger.
  Buffer enter(MemoryPurpose purpose, Buffer buffer, std::optional<std::size_t> counted = {}) {
    return MemoryLedger::enter(ledger_, purpose, std::move(buffer), counted);
  }
  /// Counts the memory that allocate() and enter() returned.
  const MemoryLedger& ledger() const { return *ledger_; }
  /// Packs a contiguous weight [out, in], f32 or bf16, for LinearForward::packed. Returns null if packing would not
  /// speed up matmuls.
  virtual std::unique_ptr<const PackedWeight> pack(ConstTensor weight) {
    static_cast<void>(weight);
    return nullptr;
  }
  /// True if the host can access memory from allocate() directly, false if only by upload() and download().
  virtual bool host_memory() const { return true; }
  /// True if arenas for this backend should pad rows for CPU caches (Arena::make_rows()).
  virtual bool pads_rows() const { return host_memory(); }
  /// Copies contiguous elements from or to the host. Complete on return.
  virtual void upload(const void* host, Tensor to) = 0;
  virtual void download(ConstTensor from, void* host) = 0;
  /// Like download(), for f32, but asynchronous: the values are valid after the next await_fetched(), synchronize() or
  /// download().
  virtual std::shared_ptr<const std::vector<float>> fetch(ConstTensor from) {
    auto numbers = std::make_shared<std::vector<float>>(static_cast<std::size_t>(from.shape.elements()));
    download(from, numbers->data());
    return numbers;
  }
  /// Waits for all ops before the last fetch(), not for later ones. Throws Failure if one of them failed.
  virtual void await_fetched() { synchronize(); }
  /// Waits for all ops so far. Throws Failure if one failed.
  virtual void synchronize() = 0;
  /// Name and kernels in use, for logs and reports: "cpu (avx512_bf16 kernels, oneDNN 2.6.3,
  /// avx512_core_bf16, 2 threads)".
  virtual std::string description() const = 0;
  /// Free and total memory available to allocate().
  virtual MemoryInfo memory() const { return host_memory_info(); }
  /// Records an event after all ops so far, for timing. Null if run() is synchronous.
  virtual std::unique_ptr<DeviceEvent> mark() { return nullptr; }
  /// Runs `work`, which may only run ops on this backend, and returns its result. A device may record the work and
  /// replay the recording for the same ops with tensors of the same sizes and addresses. Lists in host memory, dropout
  /// keys and CrossEntropy::gradient_scale may differ between calls. `work` may be called more than once and must make
  /// the same calls each time.
  virtual ConstTensor repeat(const std::function<ConstTensor()>& work) { return work(); }
  /// Creates a stream that runs concurrently with the backend's own. Null if run() is synchronous.
  virtual std::unique_ptr<DeviceStream> make_stream() { return nullptr; }
  /// True if one larger matmul is preferable to several smaller ones with the same input, even if the weights must be
  /// copied together.
  virtual bool prefers_fused_matmuls() const { return false; }
  /// True if a bias gradient costs less in the kernel that writes the gradient whose columns it sums
  /// (LinearBackwardData::dbias, LayerNormBackward::dbranch_bias) than in LinearBackwardWeight::dbias.
  virtual bool prefers_fused_bias_gradients() const { return false; }
  /// Chunk sizes of the output loss.
  virtual LossChunks loss_chunks() const { return {}; }
  /// Enables tuning of matmuls: the first matmul of each shape times all algorithms proposed by the device's library
  /// and selects the fastest. Without tuning the library's first proposal is used. Rounding may differ between
  /// algorithms. Choices are read from and appended to `file`; an empty path disables this. The Error says in one line
  /// which choices of the file were discarded, and why; tuning is enabled nevertheless. Throws Failure if the file
  /// cannot be read or written. Does nothing if the backend has no choice of algorithms.
  virtual Status tune_matmuls(const std::filesystem::path& file) {
    static_cast<void>(file);
    return {};
  }
  /// From now on the results of ops do not depend on the number of threads: on the CPU, matmuls are cut by size into
  /// pieces that one thread computes. A device needs no such choice; do not tune its matmuls, since times differ.
  virtual void fix_blocking() {}
  /// The algorithms chosen for matmuls so far. Empty if the backend has no choice.
  virtual std::vector<MatmulReport> matmul_reports() const { return {}; }
  /// Names the work submitted until end_range() for the observer and the device's profiler. Ranges nest. See WorkRange.
  void begin_range(const char* name) {
    if (observer_ != nullptr) observer_->enter(name);
    do_begin_range(name);
  }
  void end_range() {
    do_end_range();
    if (observer_ != nullptr) observer_->leave();
  }

  /// Matmul operations since construction.
  double flops() const { return flops_; }
  /// Sets the observer; null removes it. Not owned. Call outside of ranges. Without one, an op costs a test of a
  /// pointer.
  void observe(OpObserver* observer) { observer_ = observer; }

 protected:
  /// Counts operations that are replayed without run().
  void add_flops(double flops) { flops_ += flops; }
  bool observed() const { return observer_ != nullptr; }
  virtual void do_begin_range(const char*) {}
  virtual void do_end_range() {}

 private:
  virtual Buffer do_allocate(std::size_t bytes, MemoryPurpose purpose) = 0;

  void begin_observed(OpRun& run) {
    run.fields = observed_fields_;
    const auto updated = [](const OpField& field) { return field.access == Access::updates; };
    if (std::any_of(run.fields.begin(), run.fields.end(), updated)) observer_->begins(run);
    run.begin = SteadyClock::now();
  }
  void end_observed(OpRun& run) {
    if (observer_->watch() != Watch::order) synchronize();
    run.end = SteadyClock::now();
    observer_->ran(run);
  }

  OpObserver* observer_ = nullptr;
  std::vector<OpField> observed_fields_;  // of the op that is run
  double flops_ = 0;
  const std::shared_ptr<MemoryLedger> ledger_ = std::make_shared<MemoryLedger>();
};

/// Names the work of a scope (a layer, a phase) for observers and profilers. Costs one call if there is none.
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

/// The CPU backend with `threads` OpenMP threads (0: all CPUs available to this process). Uses AMX for bf16 matmuls if
/// available, oneDNN for other matmuls, and its own kernels for other ops. Throws UsageFailure if BABELRING_CPU_ISA
/// names kernels that are not available here.
std::unique_ptr<Backend> make_cpu_backend(int threads = 0);

/// Runs one small matmul of the given type, so that a device without support for it is detected early. Throws Failure
/// with the backend's description (which names the instruction set), the reason and `way_out`, the user's alternative.
void require_matmul(Backend& backend, DType precision, std::string_view way_out);

}  // namespace babelring
