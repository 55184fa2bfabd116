#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lab/probe/probe_run.h"
#include "nmt/ops/every_op.h"

namespace babelring {

/// The CPU backend with one wrong op: adds ULPs to the first element of the LinearBackwardData that is the nth of an
/// update, counted from 0: of each update, or of one, counted from 1 in the life of the backend.
class WrongBackend final : public EveryOp<WrongBackend> {
 public:
  explicit WrongBackend(int nth, std::uint32_t ulps = 1, int only_update = 0)
      : nth_(nth), ulps_(ulps), only_update_(only_update) {}
  void upload(const void* host, Tensor to) override { cpu_->upload(host, to); }
  void download(ConstTensor from, void* host) override { cpu_->download(from, host); }
  void synchronize() override {}
  std::string description() const override { return cpu_->description(); }

  void launch(const auto& op) { cpu_->run(op); }
  void launch(const LinearBackwardData& op) {
    cpu_->run(op);
    if (calls_++ == nth_ && (only_update_ == 0 || update_ == only_update_)) *op.dx.as<std::uint32_t>() += ulps_;
  }
  void launch(const AdamUpdate& op) {
    cpu_->run(op);
    calls_ = 0;
    ++update_;
  }

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose purpose) override { return cpu_->allocate(bytes, purpose); }

  int nth_, calls_ = 0;
  std::uint32_t ulps_;
  int only_update_, update_ = 1;
  std::unique_ptr<Backend> cpu_ = make_cpu_backend(1);
};

/// Two updates of a small model with dropout, in f32, on random batches.
inline ProbePlan small_plan() {
  ProbePlan plan;
  plan.config.model = {.encoder_layers = 2, .decoder_layers = 2, .width = 32, .heads = 4, .inner = 64, .dropout = 0.1};
  plan.config.training.precision = DType::f32;
  plan.random = RandomBatch{.sentences = 3, .source_tokens = 5, .target_tokens = 7};
  plan.updates = 2;
  return plan;
}

}  // namespace babelring
