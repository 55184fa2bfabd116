#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/protobuf.h"
#include "base/text.h"
#include "lab/graph/op_graph.h"

namespace babelring {
namespace {

/// TensorBoard groups nodes by the parts of their names between slashes.
std::string grouped_name(std::string name) {
  std::replace(name.begin(), name.end(), '.', '/');
  return name;
}

/// A NodeDef: name = 1, op = 2, input = 3, attr = 5.
ProtobufMessage node_def(const std::string& name, std::string_view op, const std::vector<std::string>& inputs,
                         const std::map<std::string, std::string>& texts) {
  constexpr int attribute_key = 1, attribute_value = 2, value_text = 2;
  ProtobufMessage node;
  node.bytes(1, name).bytes(2, op);
  for (const std::string& input : inputs) node.bytes(3, input);
  for (const auto& [key, text] : texts) {
    node.message(5, ProtobufMessage()
                        .bytes(attribute_key, key)
                        .message(attribute_value, ProtobufMessage().bytes(value_text, text)));
  }
  return node;
}

}  // namespace

std::string graph_def_of(const OpGraph& graph) {
  ProtobufMessage graph_def;
  const auto add = [&graph_def](const ProtobufMessage& node) { graph_def.message(1, node); };
  std::map<std::string, std::string> outside;  // name of a parameter or input → its op
  for (const GraphNode& node : graph.nodes) {
    std::set<std::string> inputs;
    std::map<std::string, std::string> shapes;
    for (const GraphTensor& tensor : node.reads) {
      for (const int source : tensor.sources)
        inputs.insert(grouped_name(graph.nodes[static_cast<std::size_t>(source)].name));
      if (!tensor.sources.empty()) continue;
      const std::string name =
          tensor.parameter.empty() ? "inputs/" + tensor.field : "parameters/" + grouped_name(tensor.parameter);
      outside[name] = tensor.parameter.empty() ? "Placeholder" : "Variable";
      inputs.insert(name);
    }
    for (const GraphTensor& tensor : node.writes) shapes[tensor.field] = tensor.shape;
    if (node.flops > 0) shapes["flops"] = std::to_string(node.flops);
    add(node_def(grouped_name(node.name), node.op, {inputs.begin(), inputs.end()}, shapes));
  }
  for (const auto& [name, op] : outside) add(node_def(name, op, {}, {}));
  constexpr int versions = 4, producer = 1;
  return graph_def.message(versions, ProtobufMessage().integer(producer, 22)).text();
}

namespace {

std::string dot_quoted(std::string_view text) {
  std::string escaped = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped + '"';
}

/// `boxes`: those around the node that are not drawn.
std::string label_of(const GraphNode& node, const std::string& boxes = "") {
  std::string label = (boxes.empty() ? "" : boxes + '.') + node.title;
  if (node.op != node.title) label += '\n' + node.op;
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
constexpr double node_height = 26, box_left = 260, box_width = 420;

std::string svg_edges(const OpGraph& graph) {
  std::string text;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const int source : sources_of(graph.nodes[i])) {
      const double from = node_height * (source + 1.5), to = node_height * (static_cast<double>(i) + 1.5);
      if (std::abs(to - from) <= node_height) {
        text += fmt::format("<path class=\"edge\" d=\"M {0} {1} V {2}\"/>\n", box_left + 20, from + 9, to - 9);
        continue;
      }
      const double bend = std::min(240.0, 20 + std::abs(to - from) / 6);
      text += fmt::format("<path class=\"edge far\" d=\"M {0} {1} C {3} {1} {3} {2} {0} {2}\"/>\n",
                          box_left + box_width, from, to, box_left + box_width + bend);
    }
  }
  return text;
}

/// A box of a drawing for Graphviz, with boxes and nodes in it.
struct Box {
  std::map<std::string, Box> boxes;
  std::vector<std::size_t> nodes;

  /// The box at `path`, whose parts dots separate.
  Box& at(std::string_view path) {
    if (path.empty()) return *this;
    const std::size_t dot = std::min(path.find('.'), path.size());
    Box& box = boxes[std::string(path.substr(0, dot))];
    return box.at(path.substr(std::min(dot + 1, path.size())));
  }
  std::size_t size() const {
    std::size_t size = nodes.size();
    for (const auto& [name, box] : boxes) size += box.size();
    return size;
  }
};

/// Writes the boxes and nodes of an update. A box of one node is left out; the node then has its name.
class BoxWriter {
 public:
  explicit BoxWriter(const OpGraph& graph) : graph_(graph) {}
  void write(const Box& box, const std::string& label, const std::string& left_out) {
    const bool drawn = !label.empty() && box.size() > 1;
    if (drawn) {
      text_ += fmt::format("{}subgraph cluster_{} {{\n", std::string(indent_, ' '), clusters_++);
      indent_ += 2;
      text_ += fmt::format("{}label={};\n", std::string(indent_, ' '), dot_quoted(label));
    }
    for (const std::size_t i : box.nodes) {
      text_ += fmt::format("{}n{} [label={}];\n", std::string(indent_, ' '), i,
                           dot_label(label_of(graph_.nodes[i], drawn ? "" : left_out)));
    }
    for (const auto& [name, inner] : box.boxes) {
      const std::string path = drawn || label.empty() ? name : left_out + '.' + name;
      const bool stack = std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
      write(inner, stack ? label + '.' + name : name, path);
    }
    if (!drawn) return;
    indent_ -= 2;
    text_ += std::string(indent_, ' ') + "}\n";
  }
  const std::string& text() const { return text_; }

 private:
  const OpGraph& graph_;
  std::string text_;
  std::size_t indent_ = 2;
  int clusters_ = 0;
};

std::string dot_boxes(const OpGraph& graph) {
  Box all;
  std::set<std::string> phases;
  for (const GraphNode& node : graph.nodes) phases.insert(node.phase);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    Box& phase = phases.size() > 1 && !node.phase.empty() ? all.boxes[node.phase] : all;
    phase.at(node.cluster).nodes.push_back(i);
  }
  BoxWriter writer(graph);
  writer.write(all, "", "");
  return writer.text();
}

}  // namespace

std::string dot_of(const OpGraph& graph) {
  std::string text =
      "digraph update {\n  node [shape=box, fontname=\"sans-serif\"];\n  graph [fontname=\"sans-serif\"];\n" +
      dot_boxes(graph);
  const auto is_op = [](const GraphNode& node) { return node.title == node.op; };
  const bool ops = std::all_of(graph.nodes.begin(), graph.nodes.end(), is_op);
  std::set<std::string> parameters;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const int source : sources_of(graph.nodes[i])) text += fmt::format("  n{} -> n{};\n", source, i);
    if (!ops) continue;  // a layer's name stands for its parameters
    for (const std::string& parameter : parameters_of(graph.nodes[i])) {
      text += fmt::format("  {} -> n{};\n", dot_quoted(parameter), i);
      parameters.insert(parameter);
    }
  }
  for (const std::string& parameter : parameters) text += fmt::format("  {} [shape=ellipse];\n", dot_quoted(parameter));
  return text + "}\n";
}

std::string svg_of(const OpGraph& graph) {
  const double height = node_height * (static_cast<double>(graph.nodes.size()) + 2);
  std::string text =
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\">\n<style>{}</style>\n",
                  box_left + box_width + 260, height, svg_style);
  text += svg_edges(graph);
  std::string phase;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    const double y = node_height * (static_cast<double>(i) + 1.5);
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
