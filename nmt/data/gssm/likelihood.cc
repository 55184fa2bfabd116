#include "nmt/data/gssm/likelihood.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/failure.h"
#include "nmt/data/gssm/generator.h"

namespace babelring {
namespace {

/// Counts the bytes that zlib makes of a stream. Keeps none of them.
class CompressedSize {
 public:
  CompressedSize() {
    if (deflateInit(&stream_, Z_BEST_COMPRESSION) != Z_OK) fail("zlib: cannot start");
  }
  ~CompressedSize() { deflateEnd(&stream_); }
  CompressedSize(const CompressedSize&) = delete;
  CompressedSize& operator=(const CompressedSize&) = delete;

  void add(std::span<const std::int32_t> tokens) {
    std::array<unsigned char, 8 * 1024> bytes;
    for (std::size_t at = 0; at < tokens.size(); at += bytes.size() / 8) {
      const auto part = tokens.subspan(at, std::min(bytes.size() / 8, tokens.size() - at));
      for (std::size_t i = 0; i < part.size(); ++i) {
        for (std::size_t byte = 0; byte < 8; ++byte) {
          bytes[8 * i + byte] = static_cast<unsigned char>(static_cast<std::int64_t>(part[i]) >> (8 * byte));
        }
      }
      compress(bytes.data(), 8 * part.size(), Z_NO_FLUSH);
    }
  }
  std::int64_t finish() {
    compress(nullptr, 0, Z_FINISH);
    return static_cast<std::int64_t>(stream_.total_out);
  }

 private:
  void compress(unsigned char* data, std::size_t size, int flush) {
    std::array<unsigned char, 16 * 1024> out;
    stream_.next_in = data;
    stream_.avail_in = static_cast<unsigned>(size);
    do {
      stream_.next_out = out.data();
      stream_.avail_out = static_cast<unsigned>(out.size());
      if (deflate(&stream_, flush) == Z_STREAM_ERROR) fail("zlib: cannot compress");
    } while (stream_.avail_out == 0);
  }

  z_stream stream_ = {};
};

}  // namespace

double compressed_bytes_per_token(std::span<const std::int32_t> tokens) {
  if (tokens.empty()) fail("difficulty: no tokens, expected at least 1");
  CompressedSize size;
  size.add(tokens);
  return static_cast<double>(size.finish()) / static_cast<double>(tokens.size());
}

double measure_difficulty(const GssmGenerator& generator, const SequenceId& place, std::int64_t sequences,
                          std::int64_t length) {
  if (sequences < 1 || length < 1) {
    fail("difficulty: {} sequences of {} tokens, expected at least 1 each", sequences, length);
  }
  CompressedSize size;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < sequences; ++i) {
    const SequenceId at{.seed = place.seed, .update = place.update, .sequence = i};
    generator.generate(generator.kernels(at), at, tokens);
    size.add(tokens);
  }
  return static_cast<double>(size.finish()) / static_cast<double>(sequences * length);
}

double noise_difficulty(std::int64_t vocabulary, std::int64_t tokens) {
  Random random(1);
  std::vector<std::int32_t> noise(static_cast<std::size_t>(tokens));
  for (std::int32_t& token : noise)
    token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary)));
  return compressed_bytes_per_token(noise);
}

std::string zlib_library() {
  return zlibVersion();
}

namespace {

/// Strides of the latent nodes in the joint state; the last one has stride 1.
std::vector<std::int64_t> joint_strides(const GssmGraph& graph) {
  std::vector<std::int64_t> strides(graph.latents(), 1);
  for (std::size_t i = graph.latents(); i-- > 1;) strides[i - 1] = strides[i] * graph.nodes[i].states;
  return strides;
}

/// The part of a row number that latent inputs other than `own` add, if the joint state is `joint`.
std::int64_t row_of_latents(const GssmGraph& graph, const GssmNode& node, int own, std::int64_t joint,
                            const std::vector<std::int64_t>& strides) {
  std::int64_t row = 0;
  for (const GssmNode::Input& input : node.inputs) {
    const auto at = static_cast<std::size_t>(input.node);
    if (input.node != own && at < graph.latents()) row += joint / strides[at] % input.states * input.stride;
  }
  return row;
}

/// to[n, i] = sum over o of from[o, i] * p(n | o), for the arrays [states, inner] of one combination of the nodes
/// before. `rows` is the kernel's row for old state 0, `own_stride` that between old states. `fixed_states` is the
/// number of states or 0; compilers unroll the loops over a fixed number.
template <int fixed_states>
void sum_out_block(const double* __restrict from, double* __restrict to, const double* __restrict rows,
                   std::int64_t own_stride, int states, std::int64_t inner) {
  const std::int64_t n = fixed_states > 0 ? fixed_states : states;
  for (std::int64_t new_state = 0; new_state < n; ++new_state) {
    double* __restrict of_new = to + new_state * inner;
    if constexpr (fixed_states > 0) {
      double probabilities[fixed_states];
      for (int old_state = 0; old_state < fixed_states; ++old_state) {
        probabilities[old_state] = rows[old_state * own_stride * n + new_state];
      }
      for (std::int64_t i = 0; i < inner; ++i) {
        double sum = 0;
        for (int old_state = 0; old_state < fixed_states; ++old_state)
          sum += from[old_state * inner + i] * probabilities[old_state];
        of_new[i] = sum;
      }
    } else {
      std::fill(of_new, of_new + inner, 0.0);
      for (std::int64_t old_state = 0; old_state < n; ++old_state) {
        const double probability = rows[old_state * own_stride * n + new_state];
        for (std::int64_t i = 0; i < inner; ++i) of_new[i] += from[old_state * inner + i] * probability;
      }
    }
  }
}

}  // namespace

GssmLikelihood::GssmLikelihood(const GssmGraph& graph)
    : graph_(graph),
      joint_(static_cast<std::size_t>(graph.joint_states())),
      next_(static_cast<std::size_t>(graph.joint_states())) {
  const std::vector<std::int64_t> strides = joint_strides(graph);
  for (std::size_t i = 0; i < graph.latents(); ++i) {
    const GssmNode& node = graph.nodes[i];
    Axis axis{.states = node.states,
              .outer = graph.joint_states() / (node.states * strides[i]),
              .inner = strides[i],
              .own_stride = node.inputs.front().stride,
              .token_stride = 0,
              .parent_rows = {}};
    for (const GssmNode::Input& input : node.inputs) {
      if (static_cast<std::size_t>(input.node) == graph.latents()) axis.token_stride = input.stride;
    }
    for (std::int64_t outer = 0; outer < axis.outer; ++outer) {
      const std::int64_t joint = outer * node.states * axis.inner;
      axis.parent_rows.push_back(row_of_latents(graph, node, static_cast<int>(i), joint, strides));
    }
    axes_.push_back(std::move(axis));
  }
  for (std::int64_t joint = 0; joint < graph.joint_states(); ++joint) {
    observed_rows_.push_back(static_cast<std::uint32_t>(row_of_latents(graph, graph.observed(), -1, joint, strides)));
  }
}

void GssmLikelihood::run(const GssmKernels& kernels, std::span<const std::int32_t> tokens,
                         std::span<double> log_probabilities) {
  check(tokens, log_probabilities.size());
  transpose(kernels.back());
  std::fill(joint_.begin(), joint_.end(), 0.0);
  joint_.front() = 1;  // all states start at 0
  for (std::size_t t = 1; t < tokens.size(); ++t) {
    for (std::size_t i = 0; i < axes_.size(); ++i) replace_state(axes_[i], *kernels[i], tokens[t - 1]);
    const double probability = weigh(tokens[t]);
    log_probabilities[t - 1] = std::log(probability);
    for (double& value : joint_) value /= probability;
  }
}

void GssmLikelihood::check(std::span<const std::int32_t> tokens, std::size_t results) const {
  if (tokens.empty() || results != tokens.size() - 1) {
    fail("gssm likelihood: {} tokens, {} results; expected at least 1 token and one result fewer", tokens.size(),
         results);
  }
  if (tokens.front() != 0) fail("gssm likelihood: the first token is {}, expected 0", tokens.front());
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= graph_.vocabulary()) {
      fail("gssm likelihood: token {}, expected 0 to {}", token, graph_.vocabulary() - 1);
    }
  }
}

/// Replaces the node's old state in the joint state by its new one.
void GssmLikelihood::replace_state(const Axis& axis, const GssmKernel& kernel, std::int32_t previous) {
  const std::int64_t block = axis.states * axis.inner;
  const auto sum_out = axis.states == 2   ? sum_out_block<2>
                       : axis.states == 4 ? sum_out_block<4>
                       : axis.states == 8 ? sum_out_block<8>
                                          : sum_out_block<0>;
  for (std::int64_t outer = 0; outer < axis.outer; ++outer) {
    const std::int64_t row = axis.parent_rows[static_cast<std::size_t>(outer)] + previous * axis.token_stride;
    sum_out(joint_.data() + outer * block, next_.data() + outer * block, kernel.row(row).data(), axis.own_stride,
            axis.states, axis.inner);
  }
  joint_.swap(next_);
}

/// Multiplies the joint state by the token's probabilities. Returns the sum, the token's probability.
double GssmLikelihood::weigh(std::int32_t token) {
  const auto rows = static_cast<std::size_t>(graph_.observed().rows);
  const double* probabilities = transposed_.data() + static_cast<std::size_t>(token) * rows;
  double sum = 0;
  for (std::size_t joint = 0; joint < joint_.size(); ++joint) {
    sum += joint_[joint] *= probabilities[observed_rows_[joint]];
  }
  return sum;
}

void GssmLikelihood::transpose(const std::shared_ptr<const GssmKernel>& kernel) {
  if (kernel == transposed_kernel_) return;
  transposed_kernel_ = kernel;  // also keeps another kernel from taking its address
  const auto rows = static_cast<std::size_t>(kernel->rows()), states = static_cast<std::size_t>(kernel->states());
  transposed_.resize(rows * states);
  const std::span<const double> probabilities = kernel->probabilities();
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t state = 0; state < states; ++state) {
      transposed_[state * rows + row] = probabilities[row * states + state];
    }
  }
}

GssmEntropy summarise_entropy(std::span<const double> nats_of_sequences, std::int64_t tokens_per_sequence) {
  if (nats_of_sequences.empty()) fail("entropy: no sequences, expected at least 1");
  const auto count = static_cast<double>(nats_of_sequences.size());
  const double mean = std::accumulate(nats_of_sequences.begin(), nats_of_sequences.end(), 0.0) / count;
  double squares = 0;
  for (const double nats : nats_of_sequences) squares += (nats - mean) * (nats - mean);
  const auto sequences = static_cast<std::int64_t>(nats_of_sequences.size());
  return {.nats = mean,
          .standard_error =
              sequences > 1 ? std::sqrt(squares / (count - 1) / count) : std::numeric_limits<double>::quiet_NaN(),
          .sequences = sequences,
          .tokens = sequences * tokens_per_sequence};
}

GssmEntropy estimate_entropy(const GssmGenerator& generator, const SequenceId& place, std::int64_t sequences,
                             std::int64_t length, int threads) {
  if (sequences < 1 || length < 2) {
    fail("entropy: {} sequences of {} tokens, expected at least 1 of at least 2", sequences, length);
  }
  std::vector<double> nats(static_cast<std::size_t>(sequences));
  for_each_part(sequences, threads, [&](std::int64_t first, std::int64_t last) {
    GssmLikelihood likelihood(generator.graph());
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
    std::vector<double> log_probabilities(tokens.size() - 1);
    for (std::int64_t i = first; i < last; ++i) {
      const SequenceId at{.seed = place.seed, .update = place.update, .sequence = i};
      const GssmKernels kernels = generator.kernels(at);
      generator.generate(kernels, at, tokens);
      likelihood.run(kernels, tokens, log_probabilities);
      const double sum = std::accumulate(log_probabilities.begin(), log_probabilities.end(), 0.0);
      nats[static_cast<std::size_t>(i)] = -sum / static_cast<double>(log_probabilities.size());
    }
  });
  return summarise_entropy(nats, length - 1);
}

}  // namespace babelring
