#include "cli/gssm/difficulty_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "base/parse_number.h"

namespace babelring {
namespace {

constexpr double min_alpha = GssmNodeOptions::min_alpha, max_alpha = GssmNodeOptions::max_alpha;
constexpr std::int64_t max_alphas = 1000;

bool is_alpha(const std::optional<double>& number) {
  return number && *number >= min_alpha && *number <= max_alpha;
}

/// The name of the observed node.
std::string observed_name(const GssmOptions& options) {
  return make_gssm_graph(options).observed().name;
}

/// Throws UsageFailure unless a node takes the alpha that `option` varies.
void require_taken(const GssmOptions& options, bool of_observed, const char* option) {
  const std::string observed = observed_name(options);
  for (const GssmNodeOptions& node : options.nodes) {
    if ((node.name == observed) == of_observed && node.alpha == GssmNodeOptions::of_graph) return;
  }
  throw UsageFailure(fmt::format("{}: each {} node sets alpha; remove it from the configuration", option,
                                 of_observed ? "observed" : "latent"));
}

}  // namespace

std::vector<double> parse_alphas(const std::string& text, const std::string& option) {
  const std::size_t first = text.find(':'), second = first == std::string::npos ? first : text.find(':', first + 1);
  if (first == std::string::npos) {
    const auto alpha = parse_decimal<double>(text);
    if (is_alpha(alpha)) return {*alpha};
  } else if (second != std::string::npos) {
    const auto low = parse_decimal<double>(text.substr(0, first));
    const auto high = parse_decimal<double>(text.substr(first + 1, second - first - 1));
    const auto count = parse_decimal<std::int64_t>(text.substr(second + 1));
    if (is_alpha(low) && is_alpha(high) && *low < *high && count && *count >= 2 && *count <= max_alphas) {
      std::vector<double> alphas;
      for (std::int64_t i = 0; i < *count; ++i) {
        const double part = static_cast<double>(i) / static_cast<double>(*count - 1);
        alphas.push_back(i + 1 == *count ? *high : *low * std::pow(*high / *low, part));
      }
      return alphas;
    }
  }
  throw UsageFailure(
      fmt::format("{}: expected an alpha or LOW:HIGH:COUNT, with alphas from {} to {} and at most {} of "
                  "them, found '{}'",
                  option, min_alpha, max_alpha, max_alphas, printable(text)));
}

std::vector<GssmOptions> difficulty_cells(const GssmOptions& options, const DifficultyGrid& grid) {
  if (!grid.alphas_x.empty()) require_taken(options, true, "--alphas-x");
  if (!grid.alphas_z.empty()) require_taken(options, false, "--alphas-z");
  std::vector<GssmOptions> cells;
  for (const double alpha_x : grid.alphas_x.empty() ? std::vector{options.alpha_x} : grid.alphas_x) {
    for (const double alpha_z : grid.alphas_z.empty() ? std::vector{options.alpha_z} : grid.alphas_z) {
      for (std::int64_t seed = 0; seed < grid.kernel_seeds; ++seed) {
        GssmOptions cell = options;
        cell.alpha_x = alpha_x;
        cell.alpha_z = alpha_z;
        cell.kernel_seed += seed;
        cells.push_back(std::move(cell));
      }
    }
  }
  return cells;
}

json::object difficulty_line(const DifficultyCell& cell, const DifficultyResult& result) {
  const GssmGraph graph = make_gssm_graph(cell.options);
  const double noise = std::log(static_cast<double>(graph.vocabulary()));
  json::object line = {{"key", difficulty_key(cell)},
                       {"alpha_X", cell.options.alpha_x},
                       {"alpha_Z", cell.options.alpha_z},
                       {"kernel_seed", cell.options.kernel_seed},
                       {"vocabulary", graph.vocabulary()},
                       {"sequences", cell.sequences},
                       {"length", cell.length},
                       {"difficulty", result.difficulty},
                       {"difficulty_normalised", result.difficulty_normalised}};
  if (cell.entropy_sequences == 0) return line;
  line["entropy_nats"] = result.entropy.nats;
  line["entropy_standard_error"] = result.entropy.standard_error;
  line["entropy_bits"] = result.entropy.nats / std::log(2.0);
  line["entropy_share"] = result.entropy.nats / noise;
  line["entropy_sequences"] = result.entropy.sequences;
  return line;
}

std::string difficulty_key(const DifficultyCell& cell) {
  const std::string entropy = cell.entropy_sequences > 0 ? fmt::format("-entropy{}", cell.entropy_sequences) : "";
  return fmt::format("{:.16}-seed{}-{}x{}{}", make_gssm_graph(cell.options).digest(), cell.seed, cell.sequences,
                     cell.length, entropy);
}

std::set<std::string> finished_keys(std::string_view lines) {
  std::set<std::string> keys;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    const Result<json::value> line = parse_json(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (!line || !line->is_object()) continue;
    const json::value* key = line->get_object().if_contains("key");
    if (key != nullptr && key->is_string()) keys.emplace(key->get_string());
  }
  return keys;
}

}  // namespace babelring
