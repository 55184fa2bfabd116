#include "cli/emulate/link_text.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/parse_number.h"

namespace babelring {
namespace {

using LinkUnit = std::pair<std::string_view, double>;
constexpr std::array<LinkUnit, 4> rate_units = {{{"gbit", 1}, {"mbit", 1e-3}, {"GB/s", 8}, {"MB/s", 8e-3}}};  // Gbit/s
constexpr std::array<LinkUnit, 2> latency_units = {{{"us", 1}, {"ms", 1e3}}};
constexpr std::array<LinkUnit, 1> busy_units = {{{"ms/GB", 1}}};

/// The text before the unit, and the unit's factor.
template <std::size_t count>
std::optional<std::pair<std::string_view, double>> without_unit(std::string_view text,
                                                                const std::array<LinkUnit, count>& units) {
  for (const auto& [name, factor] : units) {
    if (text.ends_with(name)) return {{text.substr(0, text.size() - name.size()), factor}};
  }
  return std::nullopt;
}

template <std::size_t count>
std::optional<double> quantity(std::string_view text, const std::array<LinkUnit, count>& units) {
  const auto split = without_unit(text, units);
  const auto number = split ? parse_decimal<double>(split->first) : std::nullopt;
  if (!number || *number < 0) return std::nullopt;
  return *number * split->second;
}

bool parse_rate(std::string_view text, insight::Link& link) {
  if (text == "inf") {
    link.gbit_per_s = std::numeric_limits<double>::infinity();
    return true;
  }
  const auto split = without_unit(text, rate_units);
  if (!split) return false;
  const std::size_t dash = split->first.find('-');
  const auto low = parse_decimal<double>(split->first.substr(0, dash));
  const auto high = dash == std::string_view::npos ? low : parse_decimal<double>(split->first.substr(dash + 1));
  if (!low || !high || !(*low > 0) || *high < *low) return false;
  link.gbit_per_s = (*low + *high) / 2 * split->second;
  link.rate_error = (*high - *low) / (*high + *low);
  return true;
}

}  // namespace

Result<insight::Link> parse_link(std::string_view text) {
  const Error wrong{
      fmt::format("found '{}', expected a rate above 0 and a latency, such as 25gbit,20us or 218-231MB/s,50us,300ms/GB",
                  printable(std::string(text)))};
  std::vector<std::string_view> parts;
  for (std::string_view left = text;; left.remove_prefix(left.find(',') + 1)) {
    parts.push_back(left.substr(0, left.find(',')));
    if (left.find(',') == std::string_view::npos) break;
  }
  insight::Link link;
  if (parts.size() > 3 || !parse_rate(parts[0], link)) return wrong;
  if (parts.size() > 1) {
    const auto latency = quantity(parts[1], latency_units);
    if (!latency) return wrong;
    link.latency_us = *latency;
  }
  if (parts.size() > 2) {
    const auto busy = quantity(parts[2], busy_units);
    if (!busy) return wrong;
    link.busy_ms_per_gb = *busy;
  }
  return link;
}

}  // namespace babelring
