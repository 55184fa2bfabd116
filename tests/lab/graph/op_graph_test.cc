#include "lab/graph/op_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/small_training.h"

namespace babelring {
namespace {

using testing::HasSubstr;

class OpCounter : public OpObserver {
 public:
  Watch watch() const override { return Watch::order; }
  void ran(const OpRun&) override { ++ops; }
  std::size_t ops = 0;
};

constexpr DryBatch sizes{.vocabulary = 50, .source_tokens = 12, .target_tokens = 9};

class OpGraphTest : public testing::TestWithParam<const char*> {
 protected:
  static TrainConfig config() {
    TrainConfig config;
    config.model = model_preset(GetParam());
    return config;
  }
  OpGraph graph(bool training) {
    DryUpdate update(config(), sizes);
    return trace_graph(update, training);
  }
};

/// Names of the parameters that any node reads.
std::set<std::string> parameters_read(const OpGraph& graph) {
  std::set<std::string> names;
  for (const GraphNode& node : graph.nodes) {
    for (const GraphTensor& tensor : node.reads) names.insert(tensor.parameter);
  }
  names.erase("");
  return names;
}

TEST_P(OpGraphTest, HasANodeForEachOp) {
  for (const bool training : {false, true}) {
    DryUpdate update(config(), sizes);
    OpCounter counter;
    update.replica().backend.observe(&counter);
    training ? update.run() : update.run_inference();
    EXPECT_EQ(graph(training).nodes.size(), counter.ops);
  }
}

TEST_P(OpGraphTest, ReadsEveryParameter) {
  DryUpdate update(config(), sizes);
  const std::set<std::string> forward = parameters_read(graph(false)), training = parameters_read(graph(true));
  for (const Parameter& parameter : update.replica().model.parameters().all()) {
    EXPECT_TRUE(forward.contains(parameter.name)) << parameter.name;
    EXPECT_TRUE(training.contains(parameter.name)) << parameter.name;
  }
}

TEST_P(OpGraphTest, EveryTensorThatIsReadHasAWriterOrIsAnInputOrAWeight) {
  const OpGraph traced = graph(true);
  std::set<std::string> inputs;
  for (std::size_t i = 0; i < traced.nodes.size(); ++i) {
    for (const GraphTensor& tensor : traced.nodes[i].reads) {
      EXPECT_TRUE(!tensor.sources.empty() || !tensor.parameter.empty() || tensor.is_input);
      for (const int source : tensor.sources) EXPECT_LT(source, static_cast<int>(i));
      if (tensor.is_input) inputs.insert(traced.nodes[i].op + '.' + tensor.field);
    }
  }
  EXPECT_LE(inputs.size(), 16U) << testing::PrintToString(inputs);
  std::set<std::string> phases;
  for (const GraphNode& node : traced.nodes) phases.insert(node.phase);
  EXPECT_THAT(phases, testing::IsSupersetOf({"forward", "output_loss", "backward", "optimizer"}));
}

TEST_P(OpGraphTest, LayersTogetherDoTheWorkOfAllOps) {
  const OpGraph ops = graph(true), layers = by_layer(ops);
  double flops = 0, layer_flops = 0;
  std::int64_t count = 0;
  for (const GraphNode& node : ops.nodes) flops += node.flops;
  for (std::size_t i = 0; i < layers.nodes.size(); ++i) {
    layer_flops += layers.nodes[i].flops;
    count += layers.nodes[i].ops;
    for (const GraphTensor& tensor : layers.nodes[i].reads) {
      EXPECT_THAT(tensor.sources, testing::Not(testing::Contains(static_cast<int>(i))));
    }
  }
  EXPECT_GT(flops, 0);
  EXPECT_DOUBLE_EQ(layer_flops, flops);
  EXPECT_EQ(count, std::ssize(ops.nodes));
  EXPECT_LT(layers.nodes.size(), ops.nodes.size());
  EXPECT_EQ(parameters_read(layers), parameters_read(ops));
}

/// A layer reads what comes before it, so that a drawing has one direction.
TEST_P(OpGraphTest, LayersComeBehindThoseThatTheyRead) {
  for (const bool training : {false, true}) {
    const OpGraph layers = by_layer(graph(training));
    std::set<std::string> names;
    for (std::size_t i = 0; i < layers.nodes.size(); ++i) {
      const GraphNode& node = layers.nodes[i];
      EXPECT_TRUE(names.insert(node.name).second) << node.name;
      EXPECT_FALSE(node.writes.empty()) << node.name << " has shapes";
      for (const GraphTensor& tensor : node.reads) {
        for (const int source : tensor.sources) EXPECT_LT(source, static_cast<int>(i)) << node.name;
      }
    }
  }
}

TEST_P(OpGraphTest, AttentionAndResidualsAreNodesOfTheirLayer) {
  const OpGraph layers = by_layer(graph(false));
  std::multiset<std::string> nodes;
  for (const GraphNode& node : layers.nodes) nodes.insert(node.cluster + ' ' + node.title);
  for (const char* node : {"encoder.0.attention qkv", "encoder.0.attention attention", "encoder.0.attention output",
                           "decoder.0.self attention", "decoder.0.cross attention", " output", " embedding",
                           "encoder norm", "encoder.0 attention_norm"}) {
    EXPECT_EQ(nodes.count(node), 1U) << node;
  }
  EXPECT_EQ(nodes.count("encoder.0 residual_dropout"), 2U);
  EXPECT_EQ(nodes.count("decoder.0 residual_dropout"), 3U);
}

TEST(OpGraph, HasTheLossOfGuidedAttentionInTrainingAlone) {
  TrainConfig config;
  config.model = model_preset("transformer-tiny");
  config.training.guided_alignment = 0.1;
  for (const bool training : {false, true}) {
    DryUpdate update(config, sizes);
    const auto guided = [](const GraphNode& node) { return node.op == "guided_attention"; };
    EXPECT_EQ(std::ranges::count_if(trace_graph(update, training).nodes, guided), training ? 1 : 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, OpGraphTest, testing::Values("transformer-tiny", "transformer-base", "modern-tiny"));

OpGraph small_graph() {
  TrainConfig config = small_config();
  DryUpdate update(config, sizes);
  return trace_graph(update, true);
}

TEST(GraphFormats, JsonHasTheNodesInOrder) {
  const OpGraph graph = small_graph();
  const json::object object = to_json(graph);
  const json::array& nodes = object.at("nodes").as_array();
  ASSERT_EQ(nodes.size(), graph.nodes.size());
  EXPECT_EQ(nodes.back().at("id").to_number<std::size_t>(), nodes.size() - 1);
  EXPECT_EQ(nodes.back().at("phase"), "optimizer");
}

TEST(GraphFormats, GraphvizAcceptsTheDotFile) {
  if (std::system("dot -V 2>/dev/null") != 0) GTEST_SKIP() << "Graphviz is not installed";
  const TemporaryFolder folder;
  for (const OpGraph& graph : {small_graph(), by_layer(small_graph())}) {
    const auto file = folder.write("graph.dot", dot_of(graph));
    EXPECT_EQ(std::system(("dot -Tcanon -o /dev/null " + file.string()).c_str()), 0);
  }
}

TEST(GraphFormats, DotAndSvgNameEachNode) {
  const OpGraph graph = by_layer(small_graph());
  const std::string dot = dot_of(graph), svg = svg_of(graph);
  EXPECT_THAT(dot, testing::StartsWith("digraph update {"));
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) EXPECT_THAT(dot, HasSubstr(fmt::format("  n{} [label=", i)));
  EXPECT_THAT(svg, testing::AllOf(testing::StartsWith("<svg "), testing::EndsWith("</svg>\n")));
  for (const GraphNode& node : graph.nodes) EXPECT_THAT(svg, HasSubstr(node.layer + ' '));
}

/// Boxes nest as the names of the layers do, and none stands around a single node.
TEST(GraphFormats, DotHasABoxAroundTwoNodesOrMore) {
  const std::string dot = dot_of(by_layer(small_graph()));
  for (const char* label : {"\"encoder\"", "\"encoder.0\"", "\"attention\"", "\"feed_forward\"", "\"forward\""}) {
    EXPECT_THAT(dot, HasSubstr(std::string("label=") + label + ";"));
  }
  std::vector<int> open;  // nodes in each open box
  std::istringstream lines(dot);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("subgraph") != std::string::npos) open.push_back(0);
    if (line.find(" [label=") != std::string::npos) {
      for (int& nodes : open) ++nodes;
    }
    if (line.ends_with("}") && !open.empty()) {
      EXPECT_GE(open.back(), 2) << line;
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
}

/// An edge to the row above or below is a line in the box's margin; others bend beside the boxes.
TEST(GraphFormats, SvgDrawsNoLineThroughBoxes) {
  OpGraph graph;
  for (int i = 0; i < 4; ++i) graph.nodes.push_back({.name = std::to_string(i), .layer = "a", .op = "add"});
  graph.nodes[1].reads.push_back({.field = "x", .sources = {0, 3}});
  const std::string svg = svg_of(graph);
  const std::regex line("class=\"edge\"");
  EXPECT_EQ(std::distance(std::sregex_iterator(svg.begin(), svg.end(), line), std::sregex_iterator()), 1);
  EXPECT_THAT(svg, HasSubstr("class=\"edge far\""));
}

using testing::ElementsAre;
using testing::IsEmpty;

class LastWriterTest : public testing::Test {
 protected:
  std::array<float, 64> values_{};
  const ConstTensor matrix_{values_.data(), Shape{8, 8}, DType::f32};
  LastWriter writers_;
};

TEST_F(LastWriterTest, NobodyHasWrittenAtFirst) {
  EXPECT_THAT(writers_.of(matrix_).ops, IsEmpty());
  EXPECT_TRUE(writers_.of(matrix_).unwritten);
}

TEST_F(LastWriterTest, PartsOfAnOlderWriteRemain) {
  writers_.write(matrix_, 1);
  writers_.write(matrix_.row_slice(2, 3), 2);
  EXPECT_THAT(writers_.of(matrix_).ops, ElementsAre(1, 2));
  EXPECT_FALSE(writers_.of(matrix_).unwritten);
  EXPECT_THAT(writers_.of(matrix_.row_slice(0, 2)).ops, ElementsAre(1));
  EXPECT_THAT(writers_.of(matrix_.row_slice(3, 1)).ops, ElementsAre(2));
  EXPECT_THAT(writers_.of(matrix_.row_slice(5, 3)).ops, ElementsAre(1));
  writers_.write(matrix_, 3);
  EXPECT_THAT(writers_.of(matrix_).ops, ElementsAre(3));
}

TEST_F(LastWriterTest, ColumnsOfOneMatrixHaveDifferentWriters) {
  writers_.write(matrix_.column_slice(0, 4), 1);
  writers_.write(matrix_.column_slice(4, 2), 2);
  EXPECT_THAT(writers_.of(matrix_.column_slice(0, 4)).ops, ElementsAre(1));
  EXPECT_THAT(writers_.of(matrix_.column_slice(4, 2)).ops, ElementsAre(2));
  EXPECT_THAT(writers_.of(matrix_).ops, ElementsAre(1, 2));
  EXPECT_TRUE(writers_.of(matrix_).unwritten) << "columns 6 and 7";
  EXPECT_THAT(writers_.of(matrix_.column_slice(6, 2)).ops, IsEmpty());
}

}  // namespace

}  // namespace babelring
