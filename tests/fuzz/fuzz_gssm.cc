// The YAML configuration of a generator. A graph that is accepted keeps its limits, has parents before their children,
// and reads back to the same graph.

#include <string>
#include <string_view>

#include "nmt/data/gssm/config.h"
#include "tests/fuzz/expect.h"

using namespace babelring;

namespace {

void expect_sound(const GssmGraph& graph) {
  expect(graph.kernel_entries() <= GssmGraph::max_kernel_entries, "kernels are bounded");
  expect(graph.joint_states() <= GssmGraph::max_joint_states, "joint states are bounded");
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    std::int64_t rows = 1;
    for (const GssmNode::Input& input : graph.nodes[i].inputs) {
      const auto at = static_cast<std::size_t>(input.node);
      expect(at <= i || at == graph.latents(), "inputs are nodes before this one, or the previous token");
      rows *= input.states;
    }
    expect(rows == graph.nodes[i].rows, "a kernel has a row for each combination of inputs");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  GssmConfig config;
  try {
    config = read_gssm_config(text, "fuzz.yaml", {});
  } catch (const UsageFailure& failure) {
    expect(*failure.what() != 0, "a refusal has a reason");
    return 0;
  }
  const GssmGraph graph = make_gssm_graph(config.gssm);
  expect_sound(graph);
  OptionBinder binder;
  config.bind(binder);
  const GssmConfig again = read_gssm_config(dump_yaml(binder), "dumped.yaml", {});  // throws: that is the finding
  expect(make_gssm_graph(again.gssm).digest() == graph.digest(), "a graph reads back to the same");
  return 0;
}
