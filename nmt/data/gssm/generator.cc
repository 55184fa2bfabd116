#include "nmt/data/gssm/generator.h"

#include <utility>

namespace babelring {
namespace {

/// Purpose of a random stream; part of its seed.
enum class Stream : std::uint64_t { kernels, context_kernels, tokens };

std::uint64_t stream_seed(const GssmGraph& graph, Stream stream) {
  return derive_seed(graph.kernel_seed, static_cast<std::uint64_t>(stream));
}

/// FNV-1a. A node's kernel depends on its name, not on the order of the configuration.
std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const unsigned char c : name) hash = (hash ^ c) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

GssmGenerator::GssmGenerator(GssmGraph graph) : graph_(std::move(graph)) {
  const std::uint64_t seed = stream_seed(graph_, Stream::kernels);
  for (const GssmNode& node : graph_.nodes) {
    const bool fixed = node.mode != GssmMode::context;
    fixed_.push_back(fixed ? std::make_shared<const GssmKernel>(node, derive_seed(seed, hash_name(node.name)))
                           : nullptr);
  }
}

GssmKernels GssmGenerator::kernels(const GssmPlace& place) const {
  const std::uint64_t sequence =
      graph_.context_per == GssmContext::sequence ? static_cast<std::uint64_t>(place.sequence) : 0;
  const std::uint64_t seed = derive_seed(stream_seed(graph_, Stream::context_kernels), place.seed,
                                         static_cast<std::uint64_t>(place.update), sequence);
  GssmKernels kernels = fixed_;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i]) continue;
    const GssmNode& node = graph_.nodes[i];
    kernels[i] = std::make_shared<const GssmKernel>(node, derive_seed(seed, hash_name(node.name)));
  }
  return kernels;
}

void GssmGenerator::generate(const GssmKernels& kernels, const GssmPlace& place, std::span<std::int32_t> tokens) const {
  Random random(derive_seed(stream_seed(graph_, Stream::tokens), place.seed, static_cast<std::uint64_t>(place.update),
                            static_cast<std::uint64_t>(place.sequence)));
  std::vector<std::int32_t> states(graph_.nodes.size(), 0);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    for (std::size_t i = 0; t > 0 && i < graph_.nodes.size(); ++i) {
      std::int64_t row = 0;
      for (const GssmNode::Input& input : graph_.nodes[i].inputs) {
        row += states[static_cast<std::size_t>(input.node)] * input.stride;
      }
      states[i] = kernels[i]->draw(row, random);
    }
    tokens[t] = states.back();
  }
}

}  // namespace babelring
