#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/options/options.h"

namespace babelring {

/// How a row of a kernel is changed after it is drawn.
enum class GssmMode {
  unchanged,  // "default"
  slow,       // swaps the largest probability with the self-transition
  dead,       // swaps the largest probability with that of state 0
  context,    // the kernel is drawn anew for each sequence or update
};

enum class GssmForm {
  fullrank,  // a row is drawn for each combination of inputs
  product,   // a row is the normalised product of one row of a small kernel for each input
};

/// When kernels of nodes in context mode are drawn.
enum class GssmContext { sequence, update };

/// The words of the configuration.
const Choices<GssmMode>& gssm_modes();
const Choices<GssmForm>& gssm_forms();

/// A node as it is configured.
struct GssmNodeOptions {
  static constexpr double of_graph = 0;  // value of alpha that means "auto"
  static constexpr double min_alpha = 1e-6, max_alpha = 1e6;

  std::string name;
  int state_dim = 0;  // 0: missing
  std::vector<std::string> parents;
  double alpha = of_graph;
  GssmMode mode = GssmMode::unchanged;
  GssmForm kernel = GssmForm::fullrank;
  bool observed = false;

  void bind(OptionBinder& binder);
};

/// A generator of sequences: a graph-structured state-space model (GSSM). Latent nodes and one observed node, whose
/// states are the tokens. make_gssm_graph() checks it.
struct GssmOptions {
  std::vector<GssmNodeOptions> nodes;
  double alpha_x = 1e-3;
  double alpha_z = 0.125;
  std::int64_t kernel_seed = 42;
  GssmContext context_per = GssmContext::sequence;

  void bind(OptionBinder& binder);
};

}  // namespace babelring
