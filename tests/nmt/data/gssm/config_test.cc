#include "nmt/data/gssm/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nmt/data/gssm/generator.h"
#include "nmt/data/gssm/graph_text.h"
#include "tests/nmt/data/gssm/graphs.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(GssmConfig, ReadsNodesInBothNotations) {
  const std::string nodes =
      "- {name: Z1, state_dim: 4, parents: [X], alpha: 0.125, mode: slow, kernel: product}\n"
      "  - {name: X, state_dim: 32, parents: [Z1], observed: true}\n";
  const GssmConfig whole = read_gssm_config(
      "gssm:\n  alpha_X: 2e-3\n  kernel_seed: 7\n  nodes:\n  " + nodes + "data: {sequence_length: 64}\n", "run.yaml",
      {"gssm.nodes.1.alpha=0.5", "training.seed=3"});
  EXPECT_EQ(whole.gssm.alpha_x, 2e-3);
  EXPECT_EQ(whole.gssm.kernel_seed, 7);
  EXPECT_EQ(whole.sequence_length, 64);
  EXPECT_EQ(whole.seed, 3);
  EXPECT_EQ(whole.gssm.nodes[0].alpha, 0.5);
  const GssmConfig list = read_gssm_config("gssm:\n  " + nodes, "nodes.yaml", {});
  ASSERT_EQ(list.gssm.nodes.size(), 2);
  EXPECT_EQ(list.gssm.nodes[0].mode, GssmMode::slow);
  EXPECT_EQ(list.gssm.nodes[0].kernel, GssmForm::product);
  EXPECT_TRUE(list.gssm.nodes[1].observed);
}

TEST(GssmConfig, RefusesWithPlaceAndReason) {
  const auto refused = [](const std::string& yaml, const std::vector<std::string>& overrides, const char* message) {
    EXPECT_THAT([&] { read_gssm_config(yaml, "run.yaml", overrides); }, ThrowsMessage<UsageFailure>(message));
  };
  refused("gssm:\n  - {name: A, state_dim: 2, parents: [B]}\n  - {name: X, state_dim: 2}\n", {},
          "run.yaml:2:29: gssm.nodes.1.parents: unknown node 'B'; did you mean 'A'?");
  refused("gssm:\n  - {name: A}\n  - {name: X, state_dim: 2}\n", {},
          "run.yaml:2:5: gssm.nodes.1.state_dim: missing; expected an integer of at least 2");
  refused("gssm:\n  - {name: X, state_dim: 1}\n", {},
          "run.yaml:2:26: gssm.nodes.1.state_dim: expected an integer from 2 to 1048576, found '1'");
  refused("gssm:\n  - {name: X, state_dim: 2, alpha: 0}\n", {},
          "run.yaml:2:36: gssm.nodes.1.alpha: expected a number from 1e-06 to 1000000 or auto, found '0'");
  refused("gssm:\n  - {name: X, state_dim: 2, mode: default}\n", {"gssm.nodes.1.mode=slow"},
          "run.yaml:2:5: gssm.nodes.1.mode: the observed node cannot be slow, expected default or context");
  refused("data: {sequence_length: 2}\n", {}, "gssm.nodes: missing; expected nodes, one of them observed");
}

TEST(GssmGraphText, ShowsNodesSizesAndEdges) {
  GssmOptions options = chain_graph();
  options.nodes[2].mode = GssmMode::slow;
  const GssmGraph graph = make_gssm_graph(options);
  const std::string table = gssm_graph_table(graph);
  EXPECT_THAT(table, HasSubstr("A            2        0.7        24            48  fullrank  default  X, B\n"));
  EXPECT_THAT(table, HasSubstr("B            3        0.7        24            72  fullrank  slow     C, X\n"));
  EXPECT_THAT(table, HasSubstr("observed: X, vocabulary 4 (ln 4 = 1.3863 nats)\n"
                               "kernels: 140 entries; joint states: 12; likelihood: 96 multiply-adds a token\n"));
  const std::string dot = gssm_graph_dot(graph);
  EXPECT_THAT(dot, HasSubstr("  A [shape=ellipse, label=\"A\\n2 states\"];\n"));
  EXPECT_THAT(dot, HasSubstr("  X [shape=box, label=\"X\\n4 states\"];\n"));
  EXPECT_THAT(dot, HasSubstr("  A -> A [style=dashed];\n  X -> A [style=dashed];\n  B -> A;\n"));
  EXPECT_THAT(dot, HasSubstr("  C -> X;\n  A -> X;\n}\n"));
  const json::object object = gssm_graph_json(graph);
  EXPECT_EQ(object.at("joint_states"), json::value(12));
  EXPECT_EQ(object.at("nodes").at(1).at("mode"), json::value("slow"));
  EXPECT_EQ(object.at("nodes").at(3).at("observed"), json::value(true));
}

/// Another program can draw the same sequences from what is printed.
TEST(GssmGraphText, PrintsKernelsWithAllBits) {
  const GssmGraph graph = make_gssm_graph(chain_graph());
  const GssmKernels kernels = GssmGenerator(graph).kernels({});
  const json::array nodes = gssm_kernels_json(graph, kernels);
  const std::string table = gssm_kernels_table(graph, kernels);
  ASSERT_EQ(nodes.size(), graph.nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const GssmNode& node = graph.nodes[i];
    const json::array& rows = nodes[i].at("probabilities").as_array();
    ASSERT_EQ(std::ssize(rows), node.rows);
    for (std::int64_t row = 0; row < node.rows; ++row) {
      const json::value back = parse_json(to_text(rows[static_cast<std::size_t>(row)])).value();
      for (std::size_t state = 0; state < back.as_array().size(); ++state) {
        EXPECT_EQ(back.at(state).to_number<double>(), kernels[i]->row(row)[state]) << node.name << ' ' << row;
      }
    }
    std::string last;  // all inputs in their last states
    for (std::size_t input = 0; input < node.inputs.size(); ++input) {
      const json::value& shown = nodes[i].at("inputs").at(input);
      EXPECT_EQ(shown.at("stride").to_number<std::int64_t>(), node.inputs[input].stride);
      last += fmt::format("{}{}={}", input == 0 ? "\n" : " ", std::string(shown.at("node").as_string()),
                          node.inputs[input].states - 1);
    }
    EXPECT_THAT(table, HasSubstr(last + ": "));
  }
}

}  // namespace
}  // namespace babelring
