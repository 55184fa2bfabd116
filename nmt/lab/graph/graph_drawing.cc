#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/xml_text.h"
#include "nmt/lab/graph/op_graph.h"

namespace babelring {
namespace {

std::string dot_quoted(std::string_view text) {
  std::string escaped = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped + '"';
}

std::string label_of(const GraphNode& node) {
  std::string label = node.op;
  for (const GraphTensor& tensor : node.writes) label += "\n" + tensor.field + ' ' + tensor.shape;
  if (node.flops > 0) label += fmt::format("\n{:.3g} MFLOP", node.flops / 1e6);
  return label;
}

/// The quoted label with Graphviz's line breaks.
std::string dot_label(const std::string& label) {
  std::string text = dot_quoted(label);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\n");
  return text;
}

/// Each source once, although several tensors may come from it.
std::set<int> sources_of(const GraphNode& node) {
  std::set<int> sources;
  for (const GraphTensor& tensor : node.reads) sources.insert(tensor.sources.begin(), tensor.sources.end());
  return sources;
}

std::set<std::string> parameters_of(const GraphNode& node) {
  std::set<std::string> parameters;
  for (const GraphTensor& tensor : node.reads) {
    if (!tensor.parameter.empty() && tensor.sources.empty()) parameters.insert(tensor.parameter);
  }
  return parameters;
}

constexpr std::string_view svg_style = R"css(
  text { font: 12px system-ui, sans-serif; fill: #1c1c1c; } .phase { font-weight: bold; } .edge { fill: none; stroke: #4477aa; }
  .far { stroke: #cc6677; } .box { fill: #eef2f7; stroke: #99a; }
)css";
constexpr double row_height = 26, box_left = 260, box_width = 420;

std::string svg_edges(const OpGraph& graph) {
  std::string text;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const int source : sources_of(graph.nodes[i])) {
      const double from = row_height * (source + 1.5), to = row_height * (static_cast<double>(i) + 1.5);
      if (to - from <= row_height) {
        text += fmt::format("<path class=\"edge\" d=\"M {0} {1} V {2}\"/>\n", box_left + 20, from + 9, to - 9);
        continue;
      }
      const double bend = std::min(240.0, 20 + (to - from) / 6);
      text += fmt::format("<path class=\"edge far\" d=\"M {0} {1} C {3} {1} {3} {2} {0} {2}\"/>\n",
                          box_left + box_width, from, to, box_left + box_width + bend);
    }
  }
  return text;
}

}  // namespace

std::string dot_of(const OpGraph& graph) {
  std::string text = "digraph update {\n  node [shape=box, fontname=\"sans-serif\"];\n  compound=true;\n";
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> layers;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    layers[{graph.nodes[i].phase, graph.nodes[i].layer}].push_back(i);
  }
  std::size_t cluster = 0;
  for (const auto& [name, nodes] : layers) {
    text +=
        fmt::format("  subgraph cluster_{} {{\n    label={};\n", cluster++, dot_quoted(name.first + ' ' + name.second));
    for (const std::size_t i : nodes)
      text += fmt::format("    n{} [label={}];\n", i, dot_label(label_of(graph.nodes[i])));
    text += "  }\n";
  }
  std::set<std::string> parameters;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const int source : sources_of(graph.nodes[i])) text += fmt::format("  n{} -> n{};\n", source, i);
    for (const std::string& parameter : parameters_of(graph.nodes[i])) {
      text += fmt::format("  {} -> n{};\n", dot_quoted(parameter), i);
      parameters.insert(parameter);
    }
  }
  for (const std::string& parameter : parameters) text += fmt::format("  {} [shape=ellipse];\n", dot_quoted(parameter));
  return text + "}\n";
}

std::string svg_of(const OpGraph& graph) {
  const double height = row_height * (static_cast<double>(graph.nodes.size()) + 2);
  std::string text =
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\">\n<style>{}</style>\n",
                  box_left + box_width + 260, height, svg_style);
  text += svg_edges(graph);
  std::string phase;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    const double y = row_height * (static_cast<double>(i) + 1.5);
    if (node.phase != phase) {
      phase = node.phase;
      text += fmt::format("<text class=\"phase\" x=\"10\" y=\"{}\">{}</text>\n", y + 4, xml_text(phase));
    }
    text += fmt::format("<rect class=\"box\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"18\" rx=\"3\"/>", box_left, y - 9,
                        box_width);
    text +=
        fmt::format("<text x=\"{}\" y=\"{}\">{} {}{}<title>{}</title></text>\n", box_left + 8, y + 4,
                    xml_text(node.layer), xml_text(node.op),
                    node.flops > 0 ? fmt::format(", {:.3g} MFLOP", node.flops / 1e6) : "", xml_text(label_of(node)));
  }
  return text + "</svg>\n";
}

}  // namespace babelring
