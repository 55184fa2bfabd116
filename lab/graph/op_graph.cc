#include "lab/graph/op_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "lab/op_place.h"

namespace babelring {
namespace {

/// Calls each(begin, end) for the byte ranges of a tensor: one, or one for each row if it is strided.
template <class Each>
void for_each_range(const ConstTensor& tensor, Each each) {
  if (!tensor || tensor.shape.elements() == 0) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (tensor.contiguous()) return each(begin, begin + tensor.bytes());
  const auto element = static_cast<std::uintptr_t>(size_of(tensor.dtype));
  for (std::int64_t row = 0; row < tensor.rows(); ++row) {
    const std::uintptr_t at = begin + static_cast<std::uintptr_t>(row * tensor.row_stride) * element;
    each(at, at + static_cast<std::uintptr_t>(tensor.columns()) * element);
  }
}

}  // namespace

void LastWriter::write(const ConstTensor& tensor, int op) {
  for_each_range(tensor, [&](std::uintptr_t begin, std::uintptr_t end) { write(begin, end, op); });
}

void LastWriter::write(std::uintptr_t begin, std::uintptr_t end, int op) {
  auto next = ranges_.lower_bound(begin);
  if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    const Range old = before->second;
    if (old.end > begin) before->second.end = begin;
    if (old.end > end) ranges_[end] = old;
  }
  while (next != ranges_.end() && next->first < end) {
    const Range old = next->second;
    next = ranges_.erase(next);
    if (old.end > end) next = ranges_.emplace(end, old).first;
  }
  ranges_[begin] = {end, op};
}

LastWriter::Sources LastWriter::of(const ConstTensor& tensor) const {
  Sources sources;
  for_each_range(tensor, [&](std::uintptr_t begin, std::uintptr_t end) {
    auto next = ranges_.upper_bound(begin);
    if (next != ranges_.begin()) --next;
    for (; begin < end && next != ranges_.end() && next->first < end; ++next) {
      if (next->second.end <= begin) continue;
      if (next->first > begin) sources.unwritten = true;
      sources.ops.push_back(next->second.op);
      begin = next->second.end;
    }
    if (begin < end) sources.unwritten = true;
  });
  std::sort(sources.ops.begin(), sources.ops.end());
  sources.ops.erase(std::unique(sources.ops.begin(), sources.ops.end()), sources.ops.end());
  return sources;
}

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
    node.cluster = node.layer == node.phase ? "" : node.layer;
    node.title = node.op;
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

bool has_parameter(const GraphNode& node) {
  const auto named = [](const GraphTensor& tensor) { return !tensor.parameter.empty(); };
  return std::any_of(node.reads.begin(), node.reads.end(), named) ||
         std::any_of(node.writes.begin(), node.writes.end(), named);
}

/// "attention" of "attention_forward".
std::string without_direction(const std::string& op) {
  for (const std::string_view end : {"_forward", "_backward"}) {
    if (op.ends_with(end)) return op.substr(0, op.size() - end.size());
  }
  return op;
}

/// Says which ops form a node: those of a layer's parameters, and each op without parameters by itself.
class Grouping {
 public:
  /// Returns an empty node for the group of `node`, whose name is the key of the group. Call it for all ops in order.
  GraphNode group_of(const GraphNode& node) {
    GraphNode group{.phase = node.phase, .layer = node.layer, .ops = 0};
    const bool backward = node.op.find("backward") != std::string::npos;
    if (has_parameter(node)) {
      newest_[node.phase] = node.layer;
      const std::size_t dot = node.layer.rfind('.');
      group.cluster = dot == std::string::npos ? "" : node.layer.substr(0, dot);
      group.title = dot == std::string::npos ? node.layer : node.layer.substr(dot + 1);
      group.name =
          fmt::format("{}/{}{}", node.phase, node.layer, backward && node.phase != "backward" ? "/backward" : "");
      return group;
    }
    const std::string& newest = newest_[node.phase];
    group.cluster = node.layer == node.phase ? "" : node.layer;
    group.title = without_direction(node.op);
    // Attention belongs to the part of the layer (encoder.0.attention) whose parameters come right before it.
    const std::size_t part = newest.find('.', node.layer.size() + 1);
    const bool inside = newest.starts_with(node.layer + '.') && part != std::string::npos;
    if (group.title == "attention" && inside) group.cluster = group.layer = newest.substr(0, part);
    group.name = fmt::format("{}/{}/{} after {}", node.phase, node.layer, node.op, newest);
    return group;
  }

 private:
  std::map<std::string, std::string> newest_;  // layer with parameters, by phase
};

/// Adds an op to its group. `group_of`: of each op.
void merge(GraphNode& into, const GraphNode& from, const std::vector<int>& group_of, int own, bool read_outside) {
  into.op = ++into.ops == 1 ? from.op : fmt::format("{} ops", into.ops);
  into.flops += from.flops;
  for (GraphTensor tensor : from.reads) {
    std::set<int> sources;
    for (const int source : tensor.sources) sources.insert(group_of[static_cast<std::size_t>(source)]);
    const bool inside = sources.erase(own) > 0 && sources.empty();
    if (inside) continue;
    tensor.sources.assign(sources.begin(), sources.end());
    into.reads.push_back(std::move(tensor));
  }
  for (const GraphTensor& tensor : from.writes) {
    const auto same = [&](const GraphTensor& other) {
      return other.field == tensor.field && other.shape == tensor.shape && other.parameter == tensor.parameter;
    };
    const bool repeated = std::any_of(into.writes.begin(), into.writes.end(), same);
    if (read_outside && !repeated) into.writes.push_back(tensor);
  }
}

/// For each op, whether an op of another group reads what it writes, or none at all does.
std::vector<bool> read_outside(const OpGraph& graph, const std::vector<int>& group_of) {
  std::vector<bool> outside(graph.nodes.size()), read(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const GraphTensor& tensor : graph.nodes[i].reads) {
      for (const int source : tensor.sources) {
        const auto at = static_cast<std::size_t>(source);
        read[at] = true;
        if (group_of[at] != group_of[i]) outside[at] = true;
      }
    }
  }
  for (std::size_t i = 0; i < outside.size(); ++i) outside[i] = outside[i] || !read[i];
  return outside;
}

/// Moves nodes behind those that they read, and keeps the order else.
void sort_by_data(std::vector<GraphNode>& nodes) {
  std::vector<int> order, place(nodes.size(), -1);
  while (order.size() < nodes.size()) {
    int next = -1;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (place[i] >= 0) continue;
      if (next < 0) next = static_cast<int>(i);  // stays if all that are left read each other
      const auto waits = [&](const GraphTensor& tensor) {
        return std::any_of(tensor.sources.begin(), tensor.sources.end(),
                           [&](int source) { return place[static_cast<std::size_t>(source)] < 0; });
      };
      if (std::any_of(nodes[i].reads.begin(), nodes[i].reads.end(), waits)) continue;
      next = static_cast<int>(i);
      break;
    }
    place[static_cast<std::size_t>(next)] = static_cast<int>(order.size());
    order.push_back(next);
  }
  std::vector<GraphNode> sorted;
  for (const int i : order) sorted.push_back(std::move(nodes[static_cast<std::size_t>(i)]));
  for (GraphNode& node : sorted) {
    for (GraphTensor& tensor : node.reads) {
      for (int& source : tensor.sources) source = place[static_cast<std::size_t>(source)];
      std::sort(tensor.sources.begin(), tensor.sources.end());
    }
  }
  nodes = std::move(sorted);
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
  Grouping grouping;
  std::map<std::string, int> places;
  std::vector<int> group_of;
  for (const GraphNode& node : graph.nodes) {
    GraphNode group = grouping.group_of(node);
    const auto [place, fresh] = places.try_emplace(group.name, static_cast<int>(merged.nodes.size()));
    group_of.push_back(place->second);
    if (fresh) merged.nodes.push_back(std::move(group));
  }
  const std::vector<bool> outside = read_outside(graph, group_of);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const int own = group_of[i];
    merge(merged.nodes[static_cast<std::size_t>(own)], graph.nodes[i], group_of, own, outside[i]);
  }
  sort_by_data(merged.nodes);
  std::map<std::string, int> names;
  for (GraphNode& node : merged.nodes) {
    node.name = node.phase + '/' + (node.cluster.empty() ? "" : node.cluster + '.') + node.title;
    if (const int number = ++names[node.name]; number > 1) node.name += fmt::format("_{}", number);
  }
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
