#include "nmt/optim/interval.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "base/log.h"

namespace babelring {
namespace {

constexpr double max_value = 1e15;  // doubles represent all integers up to here exactly

struct Suffix {
  std::string_view text;
  double factor;
  Interval::Unit unit;
};

constexpr Suffix suffixes[] = {{"u", 1, Interval::Unit::updates},          {"", 1, Interval::Unit::updates},
                               {"e", 1, Interval::Unit::epochs},           {"t", 1, Interval::Unit::target_tokens},
                               {"kt", 1e3, Interval::Unit::target_tokens}, {"Mt", 1e6, Interval::Unit::target_tokens},
                               {"Gt", 1e9, Interval::Unit::target_tokens}};

}  // namespace

Result<Interval> Interval::parse(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (error == std::errc() && value >= 0) {
    for (const Suffix& suffix : suffixes) {
      if (rest == suffix.text && value * suffix.factor <= max_value)
        return Interval(value * suffix.factor, suffix.unit, text);
    }
  }
  return Error{fmt::format("expected a number of updates (4000u), epochs (2e) or target tokens (50Mt), found '{}'",
                           printable(text))};
}

double Interval::fraction(const Progress& progress) const {
  const double done = unit_ == Unit::updates  ? static_cast<double>(progress.update)
                      : unit_ == Unit::epochs ? progress.epoch
                                              : static_cast<double>(progress.target_tokens);
  if (value_ > 0) return done / value_;
  return done > 0 ? std::numeric_limits<double>::infinity() : 1;
}

std::int64_t Interval::times(const Progress& progress) const {
  return value_ > 0 ? static_cast<std::int64_t>(std::floor(fraction(progress) + 1e-9)) : 0;
}

}  // namespace babelring
