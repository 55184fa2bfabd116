#include "lab/backends/widening_backend.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "nmt/ops/every_op.h"

namespace babelring {

namespace {

/// Copies of the bf16 tensors of one op in f32.
class WideCopies {
 public:
  void widen(ConstTensor& view, Access) { view = widened(view, true); }
  void widen(Tensor& view, Access access) {
    const Tensor narrow = view;
    view = widened(narrow, access == Access::updates);
    results_.push_back({narrow, view.as<float>()});
  }
  /// Rounds what the op has written to where it belongs.
  void round() const {
    for (const auto& [narrow, wide] : results_) {
      const float* from = wide;
      for (std::int64_t row = 0; row < narrow.rows(); ++row) {
        auto* const to = narrow.as<BFloat16>() + row * narrow.row_stride;
        for (std::int64_t column = 0; column < narrow.columns(); ++column) to[column] = BFloat16(*from++);
      }
    }
  }

 private:
  Tensor widened(const ConstTensor& narrow, bool copy) {
    copies_.push_back(allocate_host(static_cast<std::size_t>(narrow.shape.elements()) * sizeof(float)));
    const Tensor wide = copies_.back().view(narrow.shape, DType::f32);
    auto* to = wide.as<float>();
    for (std::int64_t row = 0; copy && row < narrow.rows(); ++row) {
      const auto* const from = narrow.as<BFloat16>() + row * narrow.row_stride;
      for (std::int64_t column = 0; column < narrow.columns(); ++column) *to++ = static_cast<float>(from[column]);
    }
    return wide;
  }

  struct Result {
    Tensor narrow;
    const float* wide;
  };
  std::vector<Buffer> copies_;
  std::vector<Result> results_;
};

class WideningBackend final : public EveryOp<WideningBackend> {
 public:
  explicit WideningBackend(std::unique_ptr<Backend> cpu) : cpu_(std::move(cpu)) {}

  void upload(const void* host, Tensor to) override { cpu_->upload(host, to); }
  void download(ConstTensor from, void* host) override { cpu_->download(from, host); }
  void synchronize() override { cpu_->synchronize(); }
  std::string description() const override { return fmt::format("f32 by {}", cpu_->description()); }
  bool prefers_fused_bias_gradients() const override { return cpu_->prefers_fused_bias_gradients(); }

  template <class Op>
  void launch(const Op& op) {
    Op wide = op;
    if constexpr (requires { wide.packed; }) wide.packed = nullptr;
    if constexpr (requires { wide.bias_copy; }) wide.bias_copy = {};
    WideCopies copies;
    for_each_field(wide, [&](std::string_view, auto& view, Access access) {
      if (view.dtype == DType::bf16 && view.shape.elements() > 0) copies.widen(view, access);
    });
    cpu_->run(wide);
    copies.round();
  }
  void launch(const AdamUpdate& op) { cpu_->run(op); }

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose purpose) override { return cpu_->allocate(bytes, purpose); }

  std::unique_ptr<Backend> cpu_;
};

}  // namespace

std::unique_ptr<Backend> make_widening_backend(std::unique_ptr<Backend> cpu) {
  return std::make_unique<WideningBackend>(std::move(cpu));
}

}  // namespace babelring
