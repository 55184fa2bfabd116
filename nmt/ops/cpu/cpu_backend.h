#pragma once

#include <string>

#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/team_waiting.h"
#include "nmt/ops/every_op.h"

namespace babelring::cpu {

/// Runs ops synchronously on the calling thread and its OpenMP team.
class CpuBackend final : public EveryOp<CpuBackend> {
 public:
  explicit CpuBackend(int threads);

  std::unique_ptr<const PackedWeight> pack(ConstTensor weight) override;
  void upload(const void* host, Tensor to) override;
  void download(ConstTensor from, void* host) override;
  void synchronize() override {}
  void fix_blocking() override { context_.fix_blocking(); }
  std::string description() const override;
  template <class Op>
  void launch(const Op& op);

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose) override { return allocate_host(bytes); }

  CpuContext context_;
  TeamWaiting waiting_;
};

}  // namespace babelring::cpu
