#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "nmt/lab/dry_update.h"

namespace babelring {

/// A tensor that an op accesses.
struct GraphTensor {
  std::string field;         // its name in the op
  std::string shape;         // [64, 512] bf16
  std::vector<int> sources;  // nodes that wrote the elements that this op reads, ascending
  std::string parameter;     // the parameter that it is part of; empty: none
  bool is_input = false;     // read, but written by no op and no parameter: ids, moments
};

/// An op, or all ops of one layer in one phase.
struct GraphNode {
  std::string name;   // unique: forward/encoder.0.attention.qkv/linear_forward_12
  std::string phase;  // forward, output_loss, backward, …
  std::string layer;
  std::string op;        // of a layer: the number of its ops
  std::int64_t ops = 1;  // how many ops it stands for
  double flops = 0;      // of matmuls
  std::vector<GraphTensor> reads, writes;
};

/// The data flow between ops: an edge goes from the op that wrote a tensor last to each op that reads it.
struct OpGraph {
  std::string device, precision;
  std::int64_t source_tokens = 0, target_tokens = 0;
  std::vector<GraphNode> nodes;  // in the order of execution
};

/// The graph of an update without data, memory or computing: forward only, or with backward and optimizer.
OpGraph trace_graph(DryUpdate& update, bool training);

/// The same with one node for each layer of each phase. Tensors inside a layer are left out.
OpGraph by_layer(const OpGraph& graph);

json::object to_json(const OpGraph& graph);
/// For Graphviz, with a box for each layer.
std::string dot_of(const OpGraph& graph);
/// A drawing that needs no other program: a line for each node, in the order of execution.
std::string svg_of(const OpGraph& graph);
/// A serialized GraphDef (tensorflow/core/framework/graph.proto), for TensorBoard.
std::string graph_def_of(const OpGraph& graph);

}  // namespace babelring
