#pragma once

#include <string>
#include <vector>

#include "nmt/data/gssm/options.h"

namespace babelring {

/// The published kind of graph: latent nodes Z1, Z2, … that depend on X, and X, which depends on all of them.
inline GssmOptions published_graph(int latents, int states, int vocabulary, double alpha_x, double alpha_z) {
  GssmOptions options{.nodes = {}, .alpha_x = alpha_x, .alpha_z = alpha_z};
  GssmNodeOptions observed{.name = "X", .state_dim = vocabulary};
  for (int i = 1; i <= latents; ++i) {
    const std::string name = "Z" + std::to_string(i);
    options.nodes.push_back({.name = name, .state_dim = states, .parents = {"X"}});
    observed.parents.push_back(name);
  }
  options.nodes.push_back(observed);
  return options;
}

/// Three latent nodes in a chain, in an order in which parents come last: A with 2 states depends on B with 3 and X, B
/// on C with 2 and X, and X with 4 tokens on A and C.
inline GssmOptions chain_graph() {
  return {.nodes = {{.name = "X", .state_dim = 4, .parents = {"C", "A"}},
                    {.name = "A", .state_dim = 2, .parents = {"X", "B"}},
                    {.name = "B", .state_dim = 3, .parents = {"C", "X"}},
                    {.name = "C", .state_dim = 2}},
          .alpha_x = 0.5,
          .alpha_z = 0.7};
}

}  // namespace babelring
