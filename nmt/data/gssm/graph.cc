#include "nmt/data/gssm/graph.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/digest.h"
#include "base/log.h"
#include "base/text.h"

namespace babelring {
namespace {

constexpr std::size_t max_name_bytes = 64;

/// a * b, or INT64_MAX if that is larger.
std::int64_t bounded_product(std::int64_t a, std::int64_t b) {
  std::int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

std::int64_t bounded_sum(std::int64_t a, std::int64_t b) {
  return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/// Checks one configuration and builds its graph.
class GssmGraphBuilder {
 public:
  explicit GssmGraphBuilder(const GssmOptions& options) : options_(options), nodes_(options.nodes) {}

  GssmGraph build() {
    check_names();
    find_observed();
    find_parents();
    order_latents();
    GssmGraph graph;
    graph.kernel_seed = static_cast<std::uint64_t>(options_.kernel_seed);
    graph.context_per = options_.context_per;
    order_.push_back(observed_);
    for (const std::size_t node : order_) graph.nodes.push_back(make_node(node));
    check_sizes(graph);
    return graph;
  }

 private:
  [[noreturn]] void refuse(std::size_t node, const char* member, const std::string& detail) const {
    const std::string key = fmt::format("gssm.nodes.{}.{}", node + 1, member);
    throw ConfigError(key, key + ": " + detail);
  }

  void check_names() {
    if (nodes_.empty()) throw ConfigError("gssm.nodes", "gssm.nodes: missing; expected nodes, one of them observed");
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const std::string& name = nodes_[i].name;
      const bool plain =
          std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
      if (name.empty() || !plain || name.size() > max_name_bytes) {
        refuse(i, "name",
               fmt::format("expected 1 to {} letters, digits and _, found '{}'", max_name_bytes, printable(name)));
      }
      const auto same = std::find(names_.begin(), names_.end(), name);
      if (same != names_.end()) {
        refuse(i, "name", fmt::format("'{}' is also the name of node {}", name, same - names_.begin() + 1));
      }
      names_.push_back(name);
      if (nodes_[i].state_dim == 0) refuse(i, "state_dim", "missing; expected an integer of at least 2");
    }
  }

  std::optional<std::size_t> find_name(const std::string& name) const {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end()) return std::nullopt;
    return static_cast<std::size_t>(at - names_.begin());
  }

  void find_observed() {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!nodes_[i].observed) continue;
      if (found)
        refuse(i, "observed", fmt::format("{} is observed already, expected one observed node", names_[*found]));
      found = i;
    }
    if (!found) found = find_name("X");
    if (!found) {
      throw ConfigError("gssm.nodes", "gssm.nodes: none is observed; expected one with observed: true, or named X");
    }
    observed_ = *found;
    const GssmMode mode = nodes_[observed_].mode;
    if (mode == GssmMode::slow || mode == GssmMode::dead) {
      refuse(observed_, "mode",
             fmt::format("the observed node cannot be {}, expected default or context",
                         mode == GssmMode::slow ? "slow" : "dead"));
    }
  }

  void find_parents() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      std::vector<std::size_t> parents;
      for (const std::string& name : nodes_[i].parents) {
        const auto parent = find_name(name);
        if (!parent) {
          refuse(i, "parents", fmt::format("unknown node '{}'{}", printable(name), did_you_mean(name, names_)));
        }
        if (*parent == i) {
          refuse(i, "parents",
                 i == observed_ ? fmt::format("{} does not see its own past", name)
                                : fmt::format("{} is the node itself, whose old state is always an input", name));
        }
        if (std::find(parents.begin(), parents.end(), *parent) != parents.end()) {
          refuse(i, "parents", fmt::format("'{}' appears twice", name));
        }
        parents.push_back(*parent);
      }
      parents_.push_back(std::move(parents));
    }
  }

  /// Fills order_ with the latent nodes, parents first.
  void order_latents() {
    std::vector<std::size_t> path;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (i != observed_) place_after_parents(i, path);
    }
  }

  void place_after_parents(std::size_t node, std::vector<std::size_t>& path) {
    if (std::find(order_.begin(), order_.end(), node) != order_.end()) return;
    path.push_back(node);
    for (const std::size_t parent : parents_[node]) {
      if (parent == observed_) continue;
      const auto cycle = std::find(path.begin(), path.end(), parent);
      if (cycle != path.end()) refuse_cycle({cycle, path.end()}, node);
      place_after_parents(parent, path);
    }
    path.pop_back();
    order_.push_back(node);
  }

  [[noreturn]] void refuse_cycle(std::vector<std::size_t> cycle, std::size_t node) const {
    cycle.push_back(cycle.front());
    std::vector<std::string> names;
    names.reserve(cycle.size());
    for (const std::size_t each : cycle) names.push_back(names_[each]);
    refuse(node, "parents", fmt::format("cycle of latent nodes: {}", fmt::join(names, " needs ")));
  }

  GssmNode make_node(std::size_t node) const {
    const GssmNodeOptions& given = nodes_[node];
    GssmNode made{.name = given.name, .states = given.state_dim, .mode = given.mode, .form = given.kernel};
    made.alpha = given.alpha != GssmNodeOptions::of_graph ? given.alpha
                 : node == observed_                      ? options_.alpha_x
                                                          : options_.alpha_z;
    std::vector<std::size_t> inputs;
    if (node != observed_) inputs.push_back(node);
    inputs.insert(inputs.end(), parents_[node].begin(), parents_[node].end());
    for (const std::size_t input : inputs) {
      const auto at = std::find(order_.begin(), order_.end(), input) - order_.begin();
      made.inputs.push_back({.node = static_cast<int>(at), .states = nodes_[input].state_dim, .stride = 0});
    }
    for (auto input = made.inputs.rbegin(); input != made.inputs.rend(); ++input) {
      input->stride = made.rows;
      made.rows = bounded_product(made.rows, input->states);
    }
    return made;
  }

  void check_sizes(const GssmGraph& graph) const {
    const auto figure = [](std::int64_t number) {
      return number == INT64_MAX ? std::string("more than 2^63") : std::to_string(number);
    };
    if (const std::int64_t entries = graph.kernel_entries(); entries > GssmGraph::max_kernel_entries) {
      const auto largest = std::max_element(graph.nodes.begin(), graph.nodes.end(), [](const auto& a, const auto& b) {
        return bounded_product(a.rows, a.states) < bounded_product(b.rows, b.states);
      });
      throw ConfigError("gssm.nodes",
                        fmt::format("gssm.nodes: kernels of {} entries, {} of them of {}; expected at most {}",
                                    figure(entries), figure(bounded_product(largest->rows, largest->states)),
                                    largest->name, GssmGraph::max_kernel_entries));
    }
    if (const std::int64_t joint = graph.joint_states(); joint > GssmGraph::max_joint_states) {
      throw ConfigError("gssm.nodes",
                        fmt::format("gssm.nodes: {} joint states of the latent nodes, expected at most {}",
                                    figure(joint), GssmGraph::max_joint_states));
    }
  }

  const GssmOptions& options_;
  const std::vector<GssmNodeOptions>& nodes_;
  std::vector<std::string> names_;
  std::size_t observed_ = 0;
  std::vector<std::vector<std::size_t>> parents_;  // of each node, by position in the configuration
  std::vector<std::size_t> order_;                 // positions in the configuration
};

}  // namespace

std::int64_t GssmGraph::joint_states() const {
  std::int64_t product = 1;
  for (std::size_t i = 0; i < latents(); ++i) product = bounded_product(product, nodes[i].states);
  return product;
}

std::int64_t GssmGraph::kernel_entries() const {
  std::int64_t sum = 0;
  for (const GssmNode& node : nodes) sum = bounded_sum(sum, bounded_product(node.rows, node.states));
  return sum;
}

std::int64_t GssmGraph::likelihood_cost() const {
  std::int64_t states = 0;
  for (std::size_t i = 0; i < latents(); ++i) states += nodes[i].states;
  return joint_states() * (states + 1);
}

std::string GssmGraph::digest() const {
  std::string text = fmt::format("gssm 1 seed {} context {}\n", kernel_seed, static_cast<int>(context_per));
  for (const GssmNode& node : nodes) {
    text += fmt::format("{} {} {} {} {}", node.name, node.states, node.alpha, static_cast<int>(node.mode),
                        static_cast<int>(node.form));
    for (const GssmNode::Input& input : node.inputs) text += ' ' + nodes[static_cast<std::size_t>(input.node)].name;
    text += '\n';
  }
  return sha256_hex(text);
}

GssmGraph make_gssm_graph(const GssmOptions& options) {
  return GssmGraphBuilder(options).build();
}

}  // namespace babelring
