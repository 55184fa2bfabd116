#include <algorithm>
#include <map>
#include <set>

#include "base/records/protobuf.h"
#include "lab/graph/op_graph.h"

namespace babelring {
namespace {

using protobuf::bytes_field, protobuf::varint_field;

/// TensorBoard groups nodes by the parts of their names between slashes.
std::string grouped_name(std::string name) {
  std::replace(name.begin(), name.end(), '.', '/');
  return name;
}

/// A NodeDef: name = 1, op = 2, input = 3, attr = 5.
std::string node_def(const std::string& name, std::string_view op, const std::vector<std::string>& inputs,
                     const std::map<std::string, std::string>& texts) {
  constexpr int attribute_key = 1, attribute_value = 2, value_text = 2;
  std::string node = bytes_field(1, name) + bytes_field(2, op);
  for (const std::string& input : inputs) node += bytes_field(3, input);
  for (const auto& [key, text] : texts) {
    node +=
        bytes_field(5, bytes_field(attribute_key, key) + bytes_field(attribute_value, bytes_field(value_text, text)));
  }
  return node;
}

}  // namespace

std::string graph_def_of(const OpGraph& graph) {
  std::string graph_def;
  const auto add = [&graph_def](const std::string& node) { graph_def += bytes_field(1, node); };
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
  return graph_def + bytes_field(versions, varint_field(producer, 22));
}

}  // namespace babelring
