#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nmt/data/gssm/graph.h"
#include "nmt/data/gssm/kernel.h"

namespace babelring {

/// Computes the exact likelihood of sequences by the forward algorithm over the joint latent state. Instead of the
/// matrix [joint states, joint states], it applies one latent node's kernel at a time: joint_states() * sum of
/// state_dim multiply-adds a token. Holds buffers of three doubles for each joint state: one object for each thread.
class GssmLikelihood {
 public:
  /// The graph must outlive the object.
  explicit GssmLikelihood(const GssmGraph& graph);

  /// Writes log p(tokens[t] | tokens[0 .. t)) in nats to log_probabilities[t - 1] for t = 1, 2, …. `kernels` are those
  /// that generated the sequence. Throws Failure unless there is one result fewer than tokens, and if a token is
  /// outside the vocabulary or the first is not 0.
  void run(const GssmKernels& kernels, std::span<const std::int32_t> tokens, std::span<double> log_probabilities);

 private:
  /// One latent node as an axis of the joint state [outer, states, inner].
  struct Axis {
    int states;
    std::int64_t outer, inner;
    std::int64_t own_stride, token_stride;  // of the own old state and the previous token in the row number
    std::vector<std::int64_t> parent_rows;  // [outer]: the latent parents' part of the row number
  };
  void check(std::span<const std::int32_t> tokens, std::size_t results) const;
  void replace_state(const Axis& axis, const GssmKernel& kernel, std::int32_t previous);
  double weigh(std::int32_t token);
  void transpose(const std::shared_ptr<const GssmKernel>& kernel);

  const GssmGraph& graph_;
  std::vector<Axis> axes_;
  std::vector<std::uint32_t> observed_rows_;             // [joint states]: row of the observed node's kernel
  std::shared_ptr<const GssmKernel> transposed_kernel_;  // whose probabilities transposed_ holds
  std::vector<double> transposed_;                       // [vocabulary, rows]
  std::vector<double> joint_, next_;                     // p(latent states | tokens so far), [joint states]
};

}  // namespace babelring
