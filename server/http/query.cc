#include "server/http/query.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <set>

#include "base/log.h"
#include "base/nearest.h"

namespace babelring::http {
namespace {

constexpr std::size_t max_shown_bytes = 100;

Problem unknown_parameter(const std::string& name, const std::vector<std::string>& known) {
  const std::string nearest = did_you_mean(name, known);
  const std::string taken =
      known.empty() ? "; none is taken here" : fmt::format("; expected one of {}", fmt::join(known, ", "));
  return {400, "unknown_parameter",
          fmt::format("query parameter '{}' is unknown{}", printable(name.substr(0, max_shown_bytes)),
                      nearest.empty() ? taken : nearest)};
}

}  // namespace

std::optional<Problem> query_fault(const std::string& target, const std::vector<std::string>& known) {
  if (target.find('?') == std::string::npos) return std::nullopt;
  const auto url = boost::urls::parse_origin_form(target);
  if (!url) return Problem(400, "malformed", "request target is not a path with an optional query");
  std::set<std::string> seen;
  for (const auto& parameter : url->params()) {
    const std::string name(parameter.key);
    if (name.empty() && !parameter.has_value) continue;  // "?", or "&" at the end
    if (std::find(known.begin(), known.end(), name) == known.end()) return unknown_parameter(name, known);
    if (!seen.insert(name).second) {
      return Problem(400, "bad_parameter", fmt::format("query parameter '{}' is given twice", name));
    }
  }
  return std::nullopt;
}

}  // namespace babelring::http
