#include "nmt/data/gssm/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/nmt/data/gssm/graphs.h"

namespace babelring {
namespace {

using testing::ElementsAre;

std::vector<std::string> names(const GssmGraph& graph) {
  std::vector<std::string> names;
  for (const GssmNode& node : graph.nodes) names.push_back(node.name);
  return names;
}

TEST(GssmGraph, OrdersLatentNodesParentsFirstAndTheObservedNodeLast) {
  const GssmGraph graph = make_gssm_graph(chain_graph());
  EXPECT_THAT(names(graph), ElementsAre("C", "B", "A", "X"));
  const GssmNode& a = graph.nodes[2];
  ASSERT_EQ(a.inputs.size(), 3);  // its own old state, X, B
  EXPECT_EQ(a.inputs[0].node, 2);
  EXPECT_EQ(a.inputs[1].node, 3);
  EXPECT_EQ(a.inputs[2].node, 1);
  EXPECT_EQ(a.inputs[0].stride, 12);
  EXPECT_EQ(a.inputs[1].stride, 3);
  EXPECT_EQ(a.inputs[2].stride, 1);
  EXPECT_EQ(a.rows, 24);
  EXPECT_EQ(a.alpha, 0.7);
  EXPECT_EQ(graph.observed().rows, 4);
  EXPECT_EQ(graph.observed().alpha, 0.5);
}

TEST(GssmGraph, TellsItsSizes) {
  const GssmGraph graph = make_gssm_graph(published_graph(4, 4, 32, 1e-3, 0.125));
  EXPECT_EQ(graph.vocabulary(), 32);
  EXPECT_EQ(graph.joint_states(), 256);
  EXPECT_EQ(graph.kernel_entries(), 4 * 4 * 32 * 4 + 256 * 32);
  EXPECT_EQ(graph.likelihood_cost(), 256 * (16 + 1));
}

TEST(GssmGraph, ANodeMayBeObservedWhateverItsName) {
  GssmOptions options = chain_graph();
  options.nodes[3].observed = true;
  options.nodes[2].parents = {"C"};
  options.nodes[1].parents = {"B"};
  options.nodes[0].parents = {"A"};
  const GssmGraph graph = make_gssm_graph(options);
  EXPECT_THAT(names(graph), ElementsAre("B", "A", "X", "C"));
}

TEST(GssmGraph, DigestTellsGraphsApart) {
  const GssmOptions options = chain_graph();
  GssmOptions seed = options, alpha = options, mode = options, reordered = options;
  seed.kernel_seed = 43;
  alpha.nodes[1].alpha = 0.9;
  mode.nodes[2].mode = GssmMode::slow;
  std::swap(reordered.nodes[0], reordered.nodes[2]);
  const auto digest = [](const GssmOptions& gssm) { return make_gssm_graph(gssm).digest(); };
  EXPECT_EQ(digest(options), digest(chain_graph()));
  EXPECT_NE(digest(options), digest(seed));
  EXPECT_NE(digest(options), digest(alpha));
  EXPECT_NE(digest(options), digest(mode));
  EXPECT_EQ(digest(options), digest(reordered));
}

struct BadGraph {
  std::function<void(std::vector<GssmNodeOptions>&)> change;
  const char* key;
  const char* detail;
};

class BadGraphTest : public testing::TestWithParam<BadGraph> {};

TEST_P(BadGraphTest, NamesKeyFoundAndExpected) {
  GssmOptions options = chain_graph();  // nodes X, A, B, C
  GetParam().change(options.nodes);
  try {
    make_gssm_graph(options);
    FAIL() << "expected: " << GetParam().detail;
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.key, GetParam().key);
    EXPECT_EQ(error.detail, std::string(GetParam().key) + ": " + GetParam().detail);
  }
}

using Nodes = std::vector<GssmNodeOptions>;

/// Six latent parents of X with 64 states each, and 2^20 tokens.
void make_huge(Nodes& nodes) {
  nodes = {{.name = "X", .state_dim = 1 << 20}};
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    nodes.push_back({.name = name, .state_dim = 64});
    nodes[0].parents.push_back(name);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, BadGraphTest,
    testing::Values(
        BadGraph{[](Nodes& n) { n.clear(); }, "gssm.nodes", "missing; expected nodes, one of them observed"},
        BadGraph{[](Nodes& n) { n[1].name = ""; }, "gssm.nodes.2.name",
                 "expected 1 to 64 letters, digits and _, found ''"},
        BadGraph{[](Nodes& n) { n[1].name = "a\"\n"; }, "gssm.nodes.2.name",
                 "expected 1 to 64 letters, digits and _, found 'a\"\\x0a'"},
        BadGraph{[](Nodes& n) { n[2].name = "A"; }, "gssm.nodes.3.name", "'A' is also the name of node 2"},
        BadGraph{[](Nodes& n) { n[1].state_dim = 0; }, "gssm.nodes.2.state_dim",
                 "missing; expected an integer of at least 2"},
        BadGraph{[](Nodes& n) { n[1].parents = {"D"}; }, "gssm.nodes.2.parents", "unknown node 'D'; did you mean 'X'?"},
        BadGraph{[](Nodes& n) { n[1].parents = {"X", "X"}; }, "gssm.nodes.2.parents", "'X' appears twice"},
        BadGraph{[](Nodes& n) { n[1].parents = {"A"}; }, "gssm.nodes.2.parents",
                 "A is the node itself, whose old state is always an input"},
        BadGraph{[](Nodes& n) { n[0].parents = {"X"}; }, "gssm.nodes.1.parents", "X does not see its own past"},
        BadGraph{[](Nodes& n) { n[3].parents = {"A"}; }, "gssm.nodes.4.parents",
                 "cycle of latent nodes: A needs B needs C needs A"},
        BadGraph{[](Nodes& n) { n[0].name = n[1].parents[0] = n[2].parents[1] = "Y"; }, "gssm.nodes",
                 "none is observed; expected one with observed: true, or named X"},
        BadGraph{[](Nodes& n) { n[1].observed = n[3].observed = true; }, "gssm.nodes.4.observed",
                 "A is observed already, expected one observed node"},
        BadGraph{[](Nodes& n) { n[0].mode = GssmMode::slow; }, "gssm.nodes.1.mode",
                 "the observed node cannot be slow, expected default or context"},
        BadGraph{[](Nodes& n) { n[0].mode = GssmMode::dead; }, "gssm.nodes.1.mode",
                 "the observed node cannot be dead, expected default or context"},
        BadGraph{[](Nodes& n) { n[0].state_dim = 1 << 24; }, "gssm.nodes",
                 "kernels of 570425348 entries, 301989888 of them of B; expected at most 67108864"},
        BadGraph{make_huge, "gssm.nodes",
                 "kernels of 72057594037952512 entries, 72057594037927936 of them of X; expected at most 67108864"},
        BadGraph{[](Nodes& n) { n[3].state_dim = 4'000'000, n[2].parents = {}, n[0].parents = {}; }, "gssm.nodes",
                 "kernels of 16000000000061 entries, 16000000000000 of them of C; expected at most 67108864"},
        BadGraph{[](Nodes& n) {
                   n = {{.name = "X", .state_dim = 2}};
                   for (const char* name : {"a", "b", "c", "d", "e"}) n.push_back({.name = name, .state_dim = 100});
                 },
                 "gssm.nodes", "10000000000 joint states of the latent nodes, expected at most 16777216"}));

}  // namespace
}  // namespace babelring
