#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nmt/data/gssm/options.h"

namespace babelring {

/// A node of a GssmGraph. In one step, nodes draw their new states one after another. A node's new state depends on the
/// states that its inputs have at that moment: a latent node's own old state and the previous token, but new states of
/// latent parents, which precede it.
struct GssmNode {
  struct Input {
    int node;             // index into GssmGraph::nodes
    int states;           // of that node
    std::int64_t stride;  // of its state in the row number of the kernel
  };

  std::string name;
  int states = 0;
  std::vector<Input> inputs;  // the own old state first (latent nodes only), then parents in the configured order
  std::int64_t rows = 1;      // of the kernel: product of the inputs' states
  double alpha = 0;
  GssmMode mode = GssmMode::unchanged;
  GssmForm form = GssmForm::fullrank;
};

/// A checked generator.
struct GssmGraph {
  static constexpr std::int64_t max_kernel_entries = std::int64_t{1} << 26;
  static constexpr std::int64_t max_joint_states = std::int64_t{1} << 24;

  std::vector<GssmNode> nodes;  // latent nodes, parents first; then the observed node
  std::uint64_t kernel_seed = 0;
  GssmContext context_per = GssmContext::sequence;

  std::size_t latents() const { return nodes.size() - 1; }
  const GssmNode& observed() const { return nodes.back(); }
  std::int64_t vocabulary() const { return observed().states; }
  /// Number of combinations of latent states.
  std::int64_t joint_states() const;
  /// Probabilities in all kernels.
  std::int64_t kernel_entries() const;
  /// Multiply-adds that the likelihood of one token takes.
  std::int64_t likelihood_cost() const;
  /// A digest of everything that determines the kernels. Graphs with equal digests generate the same sequences from
  /// the same seed.
  std::string digest() const;
};

/// Checks the options and orders the nodes. Throws ConfigError with the key of the node at fault, such as
/// gssm.nodes.2.parents.
GssmGraph make_gssm_graph(const GssmOptions& options);

}  // namespace babelring
