#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "lab/dry_update.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// Remembers for each byte which op wrote it last.
class LastWriter {
 public:
  struct Sources {
    std::vector<int> ops;    // ascending, each once
    bool unwritten = false;  // some bytes were never written
  };

  void write(const ConstTensor& tensor, int op);
  /// The ops that wrote the tensor's elements last.
  Sources of(const ConstTensor& tensor) const;

 private:
  struct Range {
    std::uintptr_t end = 0;
    int op = 0;
  };
  void write(std::uintptr_t begin, std::uintptr_t end, int op);

  std::map<std::uintptr_t, Range> ranges_;  // by first address; disjoint
};

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
  std::string op;        // of several ops: their number
  std::string cluster;   // the boxes around the node, from the outermost on: encoder.0.attention; empty: none
  std::string title;     // in these boxes: qkv
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

/// The same with one node for each layer with parameters in each phase, and for each op without parameters, such as
/// attention and the residual sum. The projection to logits has a node for its forward and one for its backward ops.
/// Tensors inside a layer are left out: `writes` are those that others read. A node comes behind those that it reads.
OpGraph by_layer(const OpGraph& graph);

json::object to_json(const OpGraph& graph);
/// For Graphviz, with nested boxes: encoder.0 around its attention, and that around qkv. A box holds at least two
/// nodes.
std::string dot_of(const OpGraph& graph);
/// A drawing that needs no other program: a line for each node, in the order of execution.
std::string svg_of(const OpGraph& graph);
/// A serialized GraphDef (tensorflow/core/framework/graph.proto), for TensorBoard.
std::string graph_def_of(const OpGraph& graph);

}  // namespace babelring
