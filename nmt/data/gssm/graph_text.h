#pragma once

#include <string>

#include "base/json.h"
#include "nmt/data/gssm/graph.h"

namespace babelring {

/// A table of the nodes with their inputs and kernel sizes, then the joint states and the cost of the likelihood.
std::string gssm_graph_table(const GssmGraph& graph);

/// The graph in the language of Graphviz. Edges from states of the previous step are dashed.
std::string gssm_graph_dot(const GssmGraph& graph);

/// The figures of the table, and the text for Graphviz as `dot`.
json::object gssm_graph_json(const GssmGraph& graph);

}  // namespace babelring
