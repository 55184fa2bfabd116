#include "nmt/lab/graph/op_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <map>
#include <set>
#include <utility>

#include "nmt/lab/graph/last_writer.h"
#include "nmt/lab/op_place.h"

namespace babelring {
namespace {

bool is_read(Access access) {
  return access != Access::writes;
}

bool is_written(Access access) {
  return access == Access::writes || access == Access::updates;
}

class GraphTrace final : public OpObserver {
 public:
  explicit GraphTrace(const ParameterStore& store) : store_(store), place_(store) {}

  Watch watch() const override { return Watch::order; }
  void enter(const char* range) override { place_.enter(range); }
  void leave() override { place_.leave(); }
  void ran(const OpRun& run) override {
    GraphNode node{.phase = std::string(place_.phase()),
                   .layer = std::string(place_.layer(run)),
                   .op = std::string(run.op),
                   .flops = run.cost.flops};
    node.name = fmt::format("{}/{}/{}_{}", node.phase, node.layer, node.op, nodes_.size());
    for (const OpField& field : run.fields) add(node, field);
    const int number = static_cast<int>(nodes_.size());
    for (const OpField& field : run.fields) {
      if (is_written(field.access)) writers_.write(field.tensor, number);
    }
    nodes_.push_back(std::move(node));
  }
  std::vector<GraphNode> take() { return std::move(nodes_); }

 private:
  void add(GraphNode& node, const OpField& field) const {
    const Parameter* parameter = parameter_of(store_, field.tensor);
    GraphTensor tensor{.field = std::string(field.name),
                       .shape = fmt::format("{} {}", field.tensor.shape.text(), name_of(field.tensor.dtype)),
                       .parameter = parameter == nullptr ? "" : parameter->name};
    if (is_written(field.access)) node.writes.push_back(tensor);
    if (!is_read(field.access)) return;
    if (field.access != Access::reads_host) tensor.sources = writers_.of(field.tensor).ops;
    tensor.is_input = tensor.sources.empty() && parameter == nullptr;
    node.reads.push_back(std::move(tensor));
  }

  const ParameterStore& store_;
  OpPlace place_;
  LastWriter writers_;
  std::vector<GraphNode> nodes_;
};

json::object tensor_json(const GraphTensor& tensor, bool read) {
  json::object object = {{"field", tensor.field}, {"shape", tensor.shape}};
  if (!tensor.parameter.empty()) object["parameter"] = tensor.parameter;
  if (!read) return object;
  object["from"] = json::array(tensor.sources.begin(), tensor.sources.end());
  if (tensor.is_input) object["input"] = true;
  return object;
}

/// Adds what `from` reads from outside of its layer.
void merge(GraphNode& into, const GraphNode& from, const std::vector<int>& layer_of_node, int own) {
  ++into.ops;
  into.flops += from.flops;
  for (GraphTensor tensor : from.reads) {
    std::set<int> sources;
    for (const int source : tensor.sources) sources.insert(layer_of_node[static_cast<std::size_t>(source)]);
    const bool inside = sources.erase(own) > 0 && sources.empty();
    if (inside) continue;
    tensor.sources.assign(sources.begin(), sources.end());
    into.reads.push_back(std::move(tensor));
  }
}

}  // namespace

OpGraph trace_graph(DryUpdate& update, bool training) {
  ModelReplica& replica = update.replica();
  GraphTrace trace(replica.model.parameters());
  replica.backend.observe(&trace);
  if (training) {
    update.run();
  } else {
    update.run_inference();
  }
  replica.backend.observe(nullptr);
  return {.device = update.device(),
          .precision = std::string(name_of(replica.model.compute_dtype())),
          .source_tokens = update.sizes().source_tokens,
          .target_tokens = update.sizes().target_tokens,
          .nodes = trace.take()};
}

OpGraph by_layer(const OpGraph& graph) {
  OpGraph merged = graph;
  merged.nodes.clear();
  std::map<std::pair<std::string, std::string>, int> places;
  std::vector<int> layer_of_node;
  for (const GraphNode& node : graph.nodes) {
    const auto [place, fresh] = places.try_emplace({node.phase, node.layer}, static_cast<int>(merged.nodes.size()));
    layer_of_node.push_back(place->second);
    if (fresh) {
      merged.nodes.push_back(
          {.name = node.phase + '/' + node.layer, .phase = node.phase, .layer = node.layer, .ops = 0});
    }
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const int own = layer_of_node[i];
    merge(merged.nodes[static_cast<std::size_t>(own)], graph.nodes[i], layer_of_node, own);
  }
  for (GraphNode& node : merged.nodes) node.op = fmt::format("{} op{}", node.ops, node.ops == 1 ? "" : "s");
  return merged;
}

json::object to_json(const OpGraph& graph) {
  json::array nodes;
  for (const GraphNode& node : graph.nodes) {
    json::array reads, writes;
    for (const GraphTensor& tensor : node.reads) reads.push_back(tensor_json(tensor, true));
    for (const GraphTensor& tensor : node.writes) writes.push_back(tensor_json(tensor, false));
    nodes.push_back({{"id", static_cast<std::int64_t>(nodes.size())},
                     {"phase", node.phase},
                     {"layer", node.layer},
                     {"op", node.op},
                     {"ops", node.ops},
                     {"flops", node.flops},
                     {"reads", std::move(reads)},
                     {"writes", std::move(writes)}});
  }
  return {{"format", 1},
          {"device", graph.device},
          {"precision", graph.precision},
          {"source_tokens", graph.source_tokens},
          {"target_tokens", graph.target_tokens},
          {"nodes", std::move(nodes)}};
}

}  // namespace babelring
