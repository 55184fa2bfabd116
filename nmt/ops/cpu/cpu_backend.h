#pragma once

#include <string>

#include "nmt/ops/backend.h"
#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/products.h"
#include "nmt/ops/cpu/team_waiting.h"

namespace babelring::cpu {

/// Ops run at once, on the calling thread and its OpenMP team.
class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int threads);

  Buffer allocate(std::size_t bytes) override { return allocate_host(bytes); }
  std::unique_ptr<const PackedWeight> pack(ConstTensor weight) override;
  void upload(const void* host, Tensor to) override;
  void download(ConstTensor from, void* host) override;
  void synchronize() override {}
  std::string description() const override;

 private:
  void do_run(const LinearForward& op) override;
  void do_run(const LinearBackwardData& op) override;
  void do_run(const LinearBackwardWeight& op) override;
  void do_run(const LayerNormForward& op) override;
  void do_run(const ResidualNormForward& op) override;
  void do_run(const LayerNormBackward& op) override;
  void do_run(const Dropout& op) override;
  void do_run(const ResidualDropout& op) override;
  void do_run(const EmbeddingForward& op) override;
  void do_run(const EmbeddingBackward& op) override;
  void do_run(const AttentionForward& op) override;
  void do_run(const AttentionBackward& op) override;
  void do_run(const DecodeAttention& op) override;
  void do_run(const CrossEntropy& op) override;
  void do_run(const LogSoftmaxTopK& op) override;
  void do_run(const AdamUpdate& op) override;
  void do_run(const SquaredNorm& op) override;
  void do_run(const SumWithNorm& op) override;
  void do_run(const Cast& op) override;
  void do_run(const Fill& op) override;
  void do_run(const Add& op) override;

  /// For the next product. oneDNN asks OpenMP for the calling thread's number of threads.
  Products& products();

  CpuContext workspace_;
  Products products_;
  TeamWaiting waiting_;
};

}  // namespace babelring::cpu
