#include "nmt/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/log.h"
#include "base/text.h"

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
                               {"Gt", 1e9, Interval::Unit::target_tokens}, {"%", 1, Interval::Unit::percent}};

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

namespace {

double in_unit(Interval::Unit unit, const Progress& progress) {
  switch (unit) {
    case Interval::Unit::updates:
      return static_cast<double>(progress.update);
    case Interval::Unit::epochs:
      return progress.epoch;
    case Interval::Unit::target_tokens:
      return static_cast<double>(progress.target_tokens);
    case Interval::Unit::percent:
      break;
  }
  return 100 * progress.fraction;
}

}  // namespace

double Interval::fraction(const Progress& progress) const {
  const double done = in_unit(unit_, progress);
  if (value_ > 0) return done / value_;
  return done > 0 ? std::numeric_limits<double>::infinity() : 1;
}

std::int64_t Interval::times(const Progress& progress) const {
  return value_ > 0 ? static_cast<std::int64_t>(std::floor(fraction(progress) + 1e-9)) : 0;
}

double fraction_done(const Interval& stop_after, double max_minutes, const Progress& progress, double minutes) {
  const double by_clock = max_minutes > 0 ? minutes / max_minutes : 0;
  return std::clamp(std::max(stop_after.fraction(progress), by_clock), 0.0, 1.0);
}

namespace {

bool has_end(Decay decay) {
  return decay == Decay::linear || decay == Decay::cosine || decay == Decay::wsd;
}

}  // namespace

void ScheduleOptions::bind(OptionBinder& b) {
  b.choice(
      "schedule", schedule,
      {{"inverse-sqrt", Decay::inverse_sqrt},
       {"linear", Decay::linear},
       {"cosine", Decay::cosine},
       {"wsd", Decay::wsd},
       {"constant", Decay::constant}},
      "learning-rate decay after warm-up; wsd: constant until cool_down before decay, then falling as 1 - sqrt(x)");
  b.number("learning_rate", learning_rate, 0, 10, "peak learning rate, reached at the end of warm-up");
  b.parsed("warm_up", warm_up,
           "length of the linear warm-up: 4000u updates, 2e epochs, 50Mt target tokens, or 5% of the whole training");
  b.parsed(
      "decay", decay,
      "linear, cosine and wsd schedules: when the learning rate reaches final_fraction, counted from the start of "
      "training and in the unit of warm_up; 100%: when training ends, by stop_after or max_minutes, whichever comes "
      "first");
  b.parsed(
      "cool_down", cool_down,
      "wsd schedule: length of the fall that ends at decay, in the unit of decay; 20%: of the training if decay is in "
      "percent, otherwise of decay");
  b.number("final_fraction", final_fraction, 0, 1,
           "linear, cosine and wsd schedules: final learning rate as a fraction of the peak");
}

std::string ScheduleOptions::unfinished_warm_up(const Interval& end) const {
  if (warm_up.unit() != end.unit() || warm_up.value() <= end.value() || end.value() == 0) return "";
  return fmt::format(
      "training.stop_after {} comes before the end of optimizer.warm_up, {}: the learning rate reaches {:.2g} of its "
      "peak, {}",
      end.text(), warm_up.text(), end.value() / warm_up.value(), learning_rate);
}

std::string ScheduleOptions::zero_rate_at_end(const Interval& end, const Progress& now, const Progress& per_update,
                                              double max_minutes) const {
  if (!has_end(schedule) || final_fraction > 0 || learning_rate == 0) return "";
  if (decay.unit() == Interval::Unit::percent) {
    const double left = 100 - std::max(decay.value(), warm_up.value());
    return left > 0 ? fmt::format("optimizer.decay {} ends before training: the last {:g} % have learning rate 0",
                                  decay.text(), left)
                    : "";
  }
  const bool same_unit = end.unit() == decay.unit();
  // Updates until `end` times the progress that each makes; NaN or infinite if that is unknown.
  const double last = same_unit ? end.value() : in_unit(decay.unit(), per_update) / end.fraction(per_update);
  const double zero_from = std::max({decay.value(), warm_up.value(), in_unit(decay.unit(), now)});
  if (!(last > zero_from) || !std::isfinite(last)) return "";
  const char* unit = decay.unit() == Interval::Unit::updates  ? "update"
                     : decay.unit() == Interval::Unit::epochs ? "epoch"
                                                              : "target token";
  const bool whole = !same_unit && decay.unit() != Interval::Unit::epochs;
  const std::string left = counted(whole ? std::round(last - zero_from) : last - zero_from, unit);
  const std::string limit =
      max_minutes > 0 ? fmt::format(", or as many as training.max_minutes {:g} leaves,", max_minutes) : "";
  return fmt::format("optimizer.decay {} ends before training.stop_after {}: {}the last {}{} have learning rate 0",
                     decay.text(), end.text(), same_unit ? "" : "about ", left, limit);
}

Schedule::Schedule(const ScheduleOptions& options) : options_(options) {
  if (!has_end(options.schedule)) return;
  if (options.decay.unit() != options.warm_up.unit()) {
    throw ConfigError("optimizer.decay",
                      fmt::format("optimizer.decay: '{}' must have the unit of optimizer.warm_up '{}'",
                                  options.decay.text(), options.warm_up.text()));
  }
  const Interval::Unit unit = options.cool_down.unit();
  if (options.schedule == Decay::wsd && unit != options.decay.unit() && unit != Interval::Unit::percent) {
    throw ConfigError(
        "optimizer.cool_down",
        fmt::format("optimizer.cool_down: '{}' must have the unit of optimizer.decay '{}', or be in percent",
                    options.cool_down.text(), options.decay.text()));
  }
}

double Schedule::cool_down() const {
  const Interval &length = options_.cool_down, &decay = options_.decay;
  return length.unit() == decay.unit() ? length.value() : length.value() / 100 * decay.value();
}

double Schedule::learning_rate(const Progress& progress) const {
  const auto& [kind, peak, warm_up, decay, _, final_fraction] = options_;
  const double warm = warm_up.fraction(progress);
  if (warm < 1) return peak * warm;
  if (kind == Decay::inverse_sqrt && warm_up.value() > 0) return peak / std::sqrt(warm);
  if (has_end(kind)) {
    const double begin = kind == Decay::wsd ? std::max(warm_up.value(), decay.value() - cool_down()) : warm_up.value();
    const double start = decay.value() > 0 ? begin / decay.value() : 1;
    const double part = start < 1 ? std::clamp((decay.fraction(progress) - start) / (1 - start), 0.0, 1.0) : 1;
    const double fallen = kind == Decay::linear   ? part
                          : kind == Decay::cosine ? (1 - std::cos(std::numbers::pi * part)) / 2
                                                  : std::sqrt(part);
    return peak * (1 - fallen * (1 - final_fraction));
  }
  return peak;
}

}  // namespace babelring
