#include "cli/gssm/difficulty_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/failure.h"
#include "base/json.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "nmt/data/gssm/likelihood.h"

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
                       {"difficulty_normalised", result.difficulty_normalised},
                       {"zlib", zlib_library()}};
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
  return fmt::format("{:.16}-seed{}-{}x{}{}-zlib{}", make_gssm_graph(cell.options).digest(), cell.seed, cell.sequences,
                     cell.length, entropy, zlib_library());
}

std::map<std::string, json::object> finished_lines(std::string_view lines) {
  std::map<std::string, json::object> finished;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    const Result<json::value> line = parse_json(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (!line || !line->is_object()) continue;
    const json::object& object = line->get_object();
    const json::value* key = object.if_contains("key");
    const bool whole = get_number(object, "alpha_X") && get_number(object, "alpha_Z") &&
                       get_number(object, "difficulty") && get_number(object, "difficulty_normalised");
    if (whole && key != nullptr && key->is_string()) finished.emplace(key->get_string(), object);
  }
  return finished;
}

namespace {

constexpr double map_left = 90, map_top = 40, map_size = 480;

/// From blue for `low` over white to red for `high`.
std::string map_colour(double value, double low, double high) {
  const double part = high > low ? (value - low) / (high - low) : 0.5;
  const auto channel = [](double fraction) {
    return static_cast<int>(std::lround(255 - 155 * std::clamp(fraction, 0.0, 1.0)));
  };
  const double blue = std::max(0.0, 1 - 2 * part), red = std::max(0.0, 2 * part - 1);
  return fmt::format("rgb({},{},{})", channel(blue), channel(std::max(blue, red)), channel(red));
}

std::string map_field(std::size_t column, std::size_t row, double width, double height, const std::string& colour,
                      const std::string& title) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"><title>{}</title></rect>\n",
      map_left + width * static_cast<double>(column), map_top + map_size - height * static_cast<double>(row + 1), width,
      height, colour, title);
}

}  // namespace

std::string difficulty_map(const std::vector<json::object>& lines) {
  std::map<double, std::size_t> columns, rows;
  std::map<std::pair<double, double>, std::pair<double, int>> sums;  // by alpha_Z and alpha_X
  for (const json::object& line : lines) {
    const double alpha_x = *get_number(line, "alpha_X"), alpha_z = *get_number(line, "alpha_Z");
    rows[alpha_x] = columns[alpha_z] = 0;
    auto& [sum, count] = sums[{alpha_z, alpha_x}];
    sum += *get_number(line, "difficulty");
    ++count;
  }
  for (auto* axis : {&columns, &rows}) {
    std::size_t place = 0;
    for (auto& [alpha, at] : *axis) at = place++;
  }
  const auto mean = [](const auto& field) { return field.second.first / field.second.second; };
  const auto [least, most] =
      std::minmax_element(sums.begin(), sums.end(), [&](const auto& a, const auto& b) { return mean(a) < mean(b); });
  const double width = map_size / static_cast<double>(columns.size()),
               height = map_size / static_cast<double>(rows.size());
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 620 600\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"620\" height=\"600\" fill=\"white\"/>\n"
      "<text x=\"{}\" y=\"20\">difficulty, from {:.3g} (blue) to {:.3g} (red) bytes of zlib {} a token</text>\n",
      map_left, mean(*least), mean(*most), zlib_library());
  for (const auto& field : sums) {
    const auto& [alpha_z, alpha_x] = field.first;
    text +=
        map_field(columns[alpha_z], rows[alpha_x], width, height, map_colour(mean(field), mean(*least), mean(*most)),
                  fmt::format("alpha_Z {:.4g}, alpha_X {:.4g}: {:.4f}", alpha_z, alpha_x, mean(field)));
  }
  const double bottom = map_top + map_size;
  const std::pair<double, double> z{columns.begin()->first, columns.rbegin()->first},
      x{rows.begin()->first, rows.rbegin()->first};
  return text + fmt::format(
                    "<text x=\"{0}\" y=\"{1}\">{2:.4g}</text>\n<text x=\"{3}\" y=\"{1}\" "
                    "text-anchor=\"end\">{4:.4g}</text>\n<text x=\"{5}\" y=\"{1}\" text-anchor=\"middle\">alpha_Z"
                    "</text>\n<text x=\"{6}\" y=\"{7}\" text-anchor=\"end\">{8:.4g}</text>\n<text x=\"{6}\" "
                    "y=\"{9}\" text-anchor=\"end\">{10:.4g}</text>\n<text x=\"{6}\" y=\"{11}\" "
                    "text-anchor=\"end\">alpha_X</text>\n</svg>\n",
                    map_left, bottom + 18, z.first, map_left + map_size, z.second, map_left + map_size / 2,
                    map_left - 6, bottom, x.first, map_top + 10, x.second, map_top + map_size / 2);
}

}  // namespace babelring
