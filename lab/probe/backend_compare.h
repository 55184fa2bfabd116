#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "lab/probe/probe_run.h"
#include "lab/probe/tensor_distance.h"
#include "nmt/ops/backend.h"
#include "nmt/ops/every_op.h"
#include "nmt/ops/staging.h"

namespace babelring {

/// Runs every op in f32: bf16 operands are copied to f32, and results are rounded to bf16 at the end. So a difference
/// from it is what an op loses by computing in bf16. AdamUpdate, whose bf16 copy is part of its contract, runs as it
/// is. `cpu` must run ops in host memory. Slow; for comparisons.
std::unique_ptr<Backend> make_widening_backend(std::unique_ptr<Backend> cpu);

/// How far two backends were apart in one member of an op, over all its calls.
struct OpDifference {
  std::string op, member;
  DType dtype = DType::f32;
  std::int64_t calls = 0;
  std::int64_t elements = 0, different = 0;  // over all calls
  double relative = 0;    // the largest absolute difference within one tensor over its largest magnitude by b
  std::uint64_t ulp = 0;  // the largest, see ElementDistance

  // Where `ulp` was found.
  std::string range;      // "micro_batch/forward/encoder.0"
  std::int64_t call = 0;  // of the op, from 0
  Shape shape;
  std::int64_t element = -1;  // -1: no element ever differed
  double value_a = 0, value_b = 0;
};

/// Runs every op by two backends on the same inputs and compares what they write. Work goes on with b's results, so
/// that no difference is inherited. Tensors are in host memory; backends with other memory get copies. Slow.
class ComparingBackend final : public EveryOp<ComparingBackend> {
 public:
  ComparingBackend(std::unique_ptr<Backend> a, std::unique_ptr<Backend> b);

  void upload(const void* host, Tensor to) override;
  void download(ConstTensor from, void* host) override;
  void synchronize() override {}
  std::string description() const override { return b_->description(); }
  bool prefers_fused_bias_gradients() const override {
    return a_->prefers_fused_bias_gradients() || b_->prefers_fused_bias_gradients();
  }

  /// In the order in which ops and their members ran first.
  const std::vector<OpDifference>& differences() const { return differences_; }

  template <class Op>
  void launch(const Op& op) {
    Op on_a = op;
    Staging copies(*a_);
    copies.stage(on_a);
    b_->run(op);
    a_->run(on_a);
    a_->synchronize();
    copies.fetch();
    for_each_field(op, [&](std::string_view member, const ConstTensor& tensor, Access access) {
      if (access == Access::reads || access == Access::reads_host) return;
      compare(Op::name, member, copies.fetched(tensor), tensor);
    });
  }

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose) override { return allocate_host(bytes); }
  void do_begin_range(const char* name) override { ranges_.emplace_back(name); }
  void do_end_range() override { ranges_.pop_back(); }
  OpDifference& difference_of(std::string_view op, std::string_view member, DType dtype);
  void compare(std::string_view op, std::string_view member, const ConstTensor& a, const ConstTensor& b);

  std::unique_ptr<Backend> a_, b_;  // b_ takes tensors in host memory
  std::vector<std::string> ranges_;
  std::vector<OpDifference> differences_;
};

/// Runs the ops that a rank's updates do not need, those of decoding and of sums over ranks among them, on small random
/// tensors of fixed values in host memory. `precision`: type of the activations.
void run_remaining_ops(Backend& backend, DType precision);

/// Two backends and how far they are apart, op by op.
struct BackendComparison {
  std::string a, b;  // descriptions
  std::vector<OpDifference> differences;
};

/// Runs the plan's updates, and the ops that these do not need, by both backends on the same inputs. Every op runs at
/// least once if the plan trains. Throws like save_probe(), and Failure if a backend has no matmul of the plan's
/// precision.
BackendComparison compare_backends(const ProbePlan& plan, std::unique_ptr<Backend> a, std::unique_ptr<Backend> b);

json::object to_json(const BackendComparison& comparison);

/// The names that make_named_backend() knows.
inline const std::vector<std::string> backend_names = {"cpu", "cuda", "emulated-cuda", "f32"};

/// "cpu" with `threads` threads (0: all processors), "cuda": device 0, "emulated-cuda": the GPU's code on the CPU,
/// which builds with tests have beside their programs, or "f32": the CPU with every bf16 operand as f32. Throws
/// UsageFailure, which begins with `option`, if it is not available here.
std::unique_ptr<Backend> make_named_backend(const std::string& option, const std::string& name, int threads);

}  // namespace babelring
