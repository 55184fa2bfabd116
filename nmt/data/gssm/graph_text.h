#pragma once

#include <string>

#include "base/json.h"
#include "nmt/data/gssm/generator.h"
#include "nmt/data/gssm/graph.h"

namespace babelring {

/// A table of the nodes with their inputs and kernel sizes, then the joint states and the cost of the likelihood.
std::string gssm_graph_table(const GssmGraph& graph);

/// The graph in the language of Graphviz. Edges from states of the previous step are dashed.
std::string gssm_graph_dot(const GssmGraph& graph);

/// The figures of the table, and the text for Graphviz as `dot`.
json::object gssm_graph_json(const GssmGraph& graph);

/// The kernels as text: a line for each row, with the states of the node's inputs and the probabilities of its new
/// states, to six digits.
std::string gssm_kernels_table(const GssmGraph& graph, const GssmKernels& kernels);
/// The kernels with all bits: for each node its inputs, with the stride of each one's state in the number of a row, and
/// an array for each row.
json::array gssm_kernels_json(const GssmGraph& graph, const GssmKernels& kernels);

}  // namespace babelring
