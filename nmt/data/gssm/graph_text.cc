#include "nmt/data/gssm/graph_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace babelring {
namespace {

/// Whether node `i` sees the state that the input has from the previous step.
bool sees_old_state(const GssmGraph& graph, std::size_t i, const GssmNode::Input& input) {
  const auto at = static_cast<std::size_t>(input.node);
  return at == i || (at == graph.latents() && i != at);
}

std::vector<std::string> parent_names(const GssmGraph& graph, std::size_t i) {
  std::vector<std::string> names;
  for (const GssmNode::Input& input : graph.nodes[i].inputs) {
    if (static_cast<std::size_t>(input.node) != i)
      names.push_back(graph.nodes[static_cast<std::size_t>(input.node)].name);
  }
  return names;
}

}  // namespace

std::string gssm_graph_table(const GssmGraph& graph) {
  std::size_t width = 4;
  for (const GssmNode& node : graph.nodes) width = std::max(width, node.name.size());
  std::string text = fmt::format("{:<{}}  {:>8}  {:>9}  {:>8}  {:>12}  {:<8}  {:<7}  {}\n", "node", width, "states",
                                 "alpha", "rows", "entries", "kernel", "mode", "parents");
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GssmNode& node = graph.nodes[i];
    const std::vector<std::string> parents = parent_names(graph, i);
    text += fmt::format("{:<{}}  {:>8}  {:>9g}  {:>8}  {:>12}  {:<8}  {:<7}  {}\n", node.name, width, node.states,
                        node.alpha, node.rows, node.rows * node.states, word_of(gssm_forms(), node.form),
                        word_of(gssm_modes(), node.mode),
                        parents.empty() ? "-" : fmt::format("{}", fmt::join(parents, ", ")));
  }
  return text + fmt::format(
                    "observed: {}, vocabulary {} (ln {} = {:.4f} nats)\n"
                    "kernels: {} entries; joint states: {}; likelihood: {} multiply-adds a token\n"
                    "digest: {}\n",
                    graph.observed().name, graph.vocabulary(), graph.vocabulary(),
                    std::log(static_cast<double>(graph.vocabulary())), grouped(graph.kernel_entries()),
                    grouped(graph.joint_states()), grouped(graph.likelihood_cost()), graph.digest());
}

std::string gssm_graph_dot(const GssmGraph& graph) {
  std::string text = "digraph gssm {\n";
  for (const GssmNode& node : graph.nodes) {
    const bool observed = &node == &graph.nodes.back();
    text += fmt::format("  {} [shape={}, label=\"{}\\n{} states\"];\n", node.name, observed ? "box" : "ellipse",
                        node.name, node.states);
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const GssmNode::Input& input : graph.nodes[i].inputs) {
      text += fmt::format("  {} -> {}{};\n", graph.nodes[static_cast<std::size_t>(input.node)].name,
                          graph.nodes[i].name, sees_old_state(graph, i, input) ? " [style=dashed]" : "");
    }
  }
  return text + "}\n";
}

json::object gssm_graph_json(const GssmGraph& graph) {
  json::array nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GssmNode& node = graph.nodes[i];
    const std::vector<std::string> parents = parent_names(graph, i);
    nodes.push_back(json::object{{"name", node.name},
                                 {"observed", i == graph.latents()},
                                 {"states", node.states},
                                 {"alpha", node.alpha},
                                 {"kernel", word_of(gssm_forms(), node.form)},
                                 {"mode", word_of(gssm_modes(), node.mode)},
                                 {"parents", json::array(parents.begin(), parents.end())},
                                 {"rows", node.rows},
                                 {"entries", node.rows * node.states}});
  }
  return {{"digest", graph.digest()},
          {"vocabulary", graph.vocabulary()},
          {"kernel_entries", graph.kernel_entries()},
          {"joint_states", graph.joint_states()},
          {"likelihood_cost", graph.likelihood_cost()},
          {"nodes", std::move(nodes)},
          {"dot", gssm_graph_dot(graph)}};
}

std::string gssm_kernels_table(const GssmGraph& graph, const GssmKernels& kernels) {
  std::string text;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GssmNode& node = graph.nodes[i];
    text += fmt::format("\nkernel of {}: probabilities of states 0 to {}\n", node.name, node.states - 1);
    for (std::int64_t row = 0; row < kernels[i]->rows(); ++row) {
      std::vector<std::string> states;
      for (const GssmNode::Input& input : node.inputs) {
        const std::string& name = graph.nodes[static_cast<std::size_t>(input.node)].name;
        states.push_back(fmt::format("{}={}", name, row / input.stride % input.states));
      }
      text += fmt::format("{}: {:.6g}\n", states.empty() ? "always" : fmt::format("{}", fmt::join(states, " ")),
                          fmt::join(kernels[i]->row(row), " "));
    }
  }
  return text;
}

json::array gssm_kernels_json(const GssmGraph& graph, const GssmKernels& kernels) {
  json::array nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    json::array inputs, rows;
    for (const GssmNode::Input& input : graph.nodes[i].inputs) {
      inputs.push_back(json::object{{"node", graph.nodes[static_cast<std::size_t>(input.node)].name},
                                    {"states", input.states},
                                    {"stride", input.stride}});
    }
    for (std::int64_t row = 0; row < kernels[i]->rows(); ++row) {
      const std::span<const double> probabilities = kernels[i]->row(row);
      rows.push_back(json::array(probabilities.begin(), probabilities.end()));
    }
    nodes.push_back(
        json::object{{"name", graph.nodes[i].name}, {"inputs", std::move(inputs)}, {"probabilities", std::move(rows)}});
  }
  return nodes;
}

}  // namespace babelring
