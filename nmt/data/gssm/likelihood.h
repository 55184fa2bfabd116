#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nmt/data/gssm/generator.h"
#include "nmt/data/gssm/graph.h"

namespace babelring {

/// How hard sequences are to compress: bytes of zlib at level 9 of the tokens as little-endian int64, sequence after
/// sequence, over the number of tokens. The published definition. zlib sees 32 KiB and no latent states: setups of
/// equal difficulty may differ several times over in entropy. Another library makes other bytes: see zlib_library().
double compressed_bytes_per_token(std::span<const std::int32_t> tokens);

/// The difficulty of sequences [0, sequences) of the update of `place`, of `length` tokens each. Throws Failure unless
/// both are positive.
double measure_difficulty(const GssmGenerator& generator, const SequenceId& place, std::int64_t sequences,
                          std::int64_t length);

/// The difficulty of uniform noise over `vocabulary` tokens, the largest there is, for the same number of tokens.
double noise_difficulty(std::int64_t vocabulary, std::int64_t tokens);

/// The version of the zlib library that this process has loaded: "1.2.13", or "1.3.1.zlib-ng". Figures of difficulty
/// compare only by one library: others differ by several per cent, and may change the order of two graphs.
std::string zlib_library();

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

/// An estimate of a generator's entropy: the mean of -log p over the tokens of generated sequences.
struct GssmEntropy {
  double nats = 0;            // per token
  double standard_error = 0;  // of nats, from the spread between sequences; NaN for one sequence
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;  // scored tokens: all but the first of each sequence
};

/// The mean of the sequences' values and its standard error. `nats_of_sequences`: the mean of -log p of each sequence.
/// Throws Failure if there is no sequence.
GssmEntropy summarise_entropy(std::span<const double> nats_of_sequences, std::int64_t tokens_per_sequence);

/// Generates sequences [0, sequences) of the update of `place`, of `length` tokens each, and computes their likelihood
/// on `threads` threads. The result does not depend on the number of threads. Throws Failure unless sequences and
/// threads are positive and length is at least 2.
GssmEntropy estimate_entropy(const GssmGenerator& generator, const SequenceId& place, std::int64_t sequences,
                             std::int64_t length, int threads);

}  // namespace babelring
