#include "insight/report/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/records/records.h"
#include "insight/steps.h"

namespace babelring::insight {

std::size_t LossCurve::best() const {
  return static_cast<std::size_t>(std::ranges::min_element(nll) - nll.begin());
}

std::vector<double> LossCurve::excess() const {
  std::vector<double> values;
  for (std::size_t i = 0; i < size(); ++i) values.push_back(nll[i] - entropy[i]);
  return values;
}

bool LossCurve::knows_entropy() const {
  return size() > 0 && std::isfinite(entropy.back());
}

double LossCurve::least() const {
  return knows_entropy() ? std::clamp(entropy.back(), 0.0, nll[best()]) : 0;
}

double nll_of(const EvalRecord& eval) {
  return eval.nll > 0 ? eval.nll : eval.loss;
}

std::string main_set(const RunHistory& history) {
  std::string configured = verdict::config_scalar(history.config, "data.valid_set");
  std::string first;
  for (const HistoryEval& each : history.evals) {
    if (each.eval.set == configured) return configured;
    if (first.empty() && each.eval.set != train_sample_set) first = each.eval.set;
  }
  return first;
}

ComparableEvals comparable_evals(const RunHistory& history, const std::string& set) {
  ComparableEvals found;
  std::string content;
  for (const HistoryEval& each : history.evals) {
    if (each.eval.set != set) continue;
    if (!each.eval.set_digest.empty()) content = each.eval.set_digest;
    if (!each.eval.scoring.empty()) found.scoring = each.eval.scoring;
  }
  for (const HistoryEval& each : history.evals) {
    if (each.eval.set != set) continue;
    const bool same = content.empty() || each.eval.set_digest.empty() || each.eval.set_digest == content;
    if (same) {
      found.evals.push_back(&each.eval);
    } else {
      ++found.left_out;
    }
  }
  return found;
}

LossCurve loss_curve(const RunHistory& history, const std::string& set) {
  LossCurve curve;
  for (const EvalRecord* eval : comparable_evals(history, set).evals) {
    const double nll = nll_of(*eval);
    if (!std::isfinite(nll) || nll <= 0 || eval->update < 1) continue;
    curve.updates.push_back(static_cast<double>(eval->update));
    curve.nll.push_back(nll);
    curve.entropy.push_back(eval->entropy);
  }
  return curve;
}

Plot curve_plot(const std::string& title, const std::string& y_label, const std::vector<double>& updates) {
  return {.kind = Plot::Kind::lines, .title = title, .x_label = "update", .y_label = y_label, .x = updates};
}

namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Sums of squares and products about the means.
struct Moments {
  double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
};

Moments moments_of(std::span<const double> x, std::span<const double> y) {
  Moments m{.mean_x = mean_of(x), .mean_y = mean_of(y)};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - m.mean_x, dy = y[i] - m.mean_y;
    m.xx += dx * dx;
    m.yy += dy * dy;
    m.xy += dx * dy;
  }
  return m;
}

/// Ranks from 1; equal values have the mean of their ranks.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = static_cast<double>(first + end + 1) / 2;
    first = end;
  }
  return ranks;
}

}  // namespace

double student_t95(std::size_t degrees_of_freedom) {
  // Tabulated to 30; beyond, the expansion 1.96 + 2.37/n + 2.8/n² is right to 0.001.
  constexpr std::array table = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  if (degrees_of_freedom <= table.size()) return table[std::max<std::size_t>(degrees_of_freedom, 1) - 1];
  const auto n = static_cast<double>(degrees_of_freedom);
  return 1.95996 + 2.3723 / n + 2.8 / (n * n);
}

std::optional<Estimate> slope_of(std::span<const double> x, std::span<const double> y) {
  if (x.size() < 3) return std::nullopt;
  const Moments m = moments_of(x, y);
  if (m.xx <= 0) return std::nullopt;
  const double slope = m.xy / m.xx, residual = std::max(0.0, m.yy - slope * m.xy);
  const std::size_t freedom = x.size() - 2;
  const double error = student_t95(freedom) * std::sqrt(residual / static_cast<double>(freedom) / m.xx);
  return Estimate{slope, slope - error, slope + error};
}

double PowerLaw::at(double u) const {
  return a + b * std::pow(u, -c);
}

namespace {

constexpr double first_c = 0.05, last_c = 3;
constexpr int grid_steps = 120;

/// The exponent at a place of the grid, which is even in log c.
double exponent_at(double place) {
  return first_c * std::exp(place * std::log(last_c / first_c) / grid_steps);
}

std::vector<double> above(std::span<const double> y, double least) {
  std::vector<double> values;
  for (const double each : y) values.push_back(each - least);
  return values;
}

/// Moments of y over (u / u₁)^−c.
Moments power_moments(std::span<const double> u, std::span<const double> y, double c) {
  std::vector<double> x;
  for (const double each : u) x.push_back(std::pow(each / u.front(), -c));
  return moments_of(x, y);
}

/// The sum of squares over b for one c: least + curvature (b − best)².
struct Parabola {
  double least = 0, best = 0, curvature = 0;

  /// The values of b between `low` and `high` with at most that sum of squares; an empty range is reversed.
  std::pair<double, double> within(double most, double low, double high) const {
    if (least > most) return {1, 0};
    const double half = std::sqrt((most - least) / curvature);
    return {std::max(low, best - half), std::min(high, best + half)};
  }
};

/// With the best a for each b, which is not negative for b up to mean y / mean x.
Parabola with_best_a(const Moments& m) {
  return {m.yy - m.xy * m.xy / m.xx, m.xy / m.xx, m.xx};
}

/// With a = 0.
Parabola without_a(const Moments& m, std::size_t points) {
  const auto n = static_cast<double>(points);
  const double xx = m.xx + n * m.mean_x * m.mean_x, xy = m.xy + n * m.mean_x * m.mean_y,
               yy = m.yy + n * m.mean_y * m.mean_y;
  return {yy - xy * xy / xx, xy / xx, xx};
}

/// The least-squares fit with that c, and its sum of squares; infinite if the values do not fall.
struct PowerFit {
  PowerLaw law;
  double error = std::numeric_limits<double>::infinity();
};

PowerFit power_fit(std::span<const double> u, std::span<const double> y, double c) {
  const Moments m = power_moments(u, y, c);
  if (m.xx <= 0 || m.xy <= 0) return {};
  const double scale = std::pow(u.front(), c), b = m.xy / m.xx, a = m.mean_y - b * m.mean_x;
  if (a >= 0) return {{a, b * scale, c}, m.yy - b * m.xy};
  const Parabola zero = without_a(m, u.size());
  return {{0, zero.best * scale, c}, zero.least};
}

}  // namespace

std::optional<PowerLaw> fit_power_law(std::span<const double> u, std::span<const double> y, double least) {
  if (u.size() < 4) return std::nullopt;
  // A grid of log c finds the valley of the sum of squares, which may have several; golden sections find its bottom.
  constexpr double golden = 0.6180339887498949;
  constexpr int sections = 40;  // the last section is under 1e-9 of c
  const std::vector<double> values = above(y, least);
  const auto at = [&](double place) { return power_fit(u, values, exponent_at(place)); };
  PowerFit best;
  int place = 0;
  for (int i = 0; i <= grid_steps; ++i) {
    PowerFit fit = at(i);
    if (fit.error < best.error) best = fit, place = i;
  }
  if (!std::isfinite(best.error) || place == 0 || place == grid_steps) return std::nullopt;
  double low = place - 1, high = place + 1;
  for (int i = 0; i < sections; ++i) {
    const double left = high - golden * (high - low), right = low + golden * (high - low);
    at(left).error < at(right).error ? high = right : low = left;
  }
  const PowerFit refined = at((low + high) / 2);
  PowerLaw law = refined.error < best.error ? refined.law : best.law;
  law.a += least;
  return law;
}

Estimate change_by_doubling(std::span<const double> u, std::span<const double> y, const PowerLaw& law, double least) {
  const std::vector<double> values = above(y, least);
  double error = 0;
  for (std::size_t i = 0; i < u.size(); ++i) error += (y[i] - law.at(u[i])) * (y[i] - law.at(u[i]));
  const std::size_t freedom = u.size() - 3;
  const double t = student_t95(freedom), most = error * (1 + t * t / static_cast<double>(freedom));
  const double change = law.at(2 * u.back()) - law.at(u.back());
  Estimate estimate{change, change, change};
  for (int i = 0; i <= grid_steps; ++i) {
    const double c = exponent_at(i);
    const Moments m = power_moments(u, values, c);
    if (m.xx <= 0) continue;
    const double per_b = std::pow(u.back() / u.front(), -c) * (std::pow(2, -c) - 1);  // negative
    const double border = m.mean_y / m.mean_x;
    constexpr double unbounded = std::numeric_limits<double>::infinity();
    for (const auto& [low, high] :
         {with_best_a(m).within(most, 0, border), without_a(m, u.size()).within(most, border, unbounded)}) {
      if (low > high) continue;
      estimate.low = std::min(estimate.low, high * per_b);
      estimate.high = std::max(estimate.high, low * per_b);
    }
  }
  return estimate;
}

std::optional<Estimate> pearson(std::span<const double> x, std::span<const double> y) {
  if (x.size() < 4) return std::nullopt;
  const Moments m = moments_of(x, y);
  if (m.xx <= 0 || m.yy <= 0) return std::nullopt;
  const double r = std::clamp(m.xy / std::sqrt(m.xx * m.yy), -1.0, 1.0);
  if (std::abs(r) >= 1 - 1e-12) return Estimate{r, r, r};
  const double z = std::atanh(r), error = 1.95996 / std::sqrt(static_cast<double>(x.size()) - 3);
  return Estimate{r, std::tanh(z - error), std::tanh(z + error)};
}

std::optional<Estimate> spearman(std::span<const double> x, std::span<const double> y) {
  const std::vector<double> rank_x = ranks_of(x), rank_y = ranks_of(y);
  return pearson(rank_x, rank_y);
}

}  // namespace babelring::insight
