#include "insight/tables/gpu_profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/failure.h"
#include "base/text.h"

namespace babelring::insight {
namespace {

/// Least squares of a line; the slope and the value at 0.
struct Line {
  double at_0 = 0, slope = 0;
  double at(double x) const { return at_0 + slope * x; }
};

Line fit_line(const std::vector<CurvePoint>& points) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const CurvePoint& point : points) {
    // Relative errors count, so that small batches weigh as much as large ones.
    const double weight = point.y != 0 ? 1 / (point.y * point.y) : 1;
    n += weight;
    x += weight * point.x;
    y += weight * point.y;
    xx += weight * point.x * point.x;
    xy += weight * point.x * point.y;
  }
  const double determinant = n * xx - x * x;
  if (points.size() < 2 || determinant == 0) return {n > 0 ? y / n : 0, 0};
  const double slope = (n * xy - x * y) / determinant;
  return {(y - slope * x) / n, slope};
}

TwoGpuFit fit_two(const std::string& gpu, const std::string& model, const Curve& one, std::vector<TwoGpuPoint> points) {
  TwoGpuFit fit;
  fit.gpu = gpu;
  fit.model = model;
  fit.points = std::move(points);
  std::vector<CurvePoint> overhead, scatter, rest;
  for (TwoGpuPoint& point : fit.points) {
    point.half_ms = one.at(point.batch / 2);
    point.by_halving_ms = one.at(point.batch) / 2;
    overhead.push_back({point.batch, point.measured_ms - point.half_ms});
    if (point.scatter_ms) scatter.push_back({point.batch, *point.scatter_ms});
  }
  std::vector<double> errors, halving;
  for (TwoGpuPoint& point : fit.points) {
    std::vector<CurvePoint> others;
    std::ranges::copy_if(overhead, std::back_inserter(others), [&](const auto& each) { return each.x != point.batch; });
    point.predicted_ms = point.half_ms + fit_line(others).at(point.batch);
    errors.push_back(point.predicted_ms / point.measured_ms - 1);
    halving.push_back(point.by_halving_ms / point.measured_ms - 1);
  }
  const Line scattered = scatter.empty() ? Line() : fit_line(scatter);
  for (const CurvePoint& point : overhead) rest.push_back({point.x, point.y - scattered.at(point.x)});
  const Line left = fit_line(rest);
  fit.scatter_fixed_ms = scattered.at_0;
  fit.scatter_ms_per_image = scattered.slope;
  fit.fixed_ms = left.at_0;
  fit.ms_per_image = left.slope;
  fit.error = summary_of(errors);
  fit.halving = summary_of(halving);
  return fit;
}

}  // namespace

std::vector<GpuProfile> gpu_profiles(const CsvTable& table, std::size_t* skipped) {
  struct Points {
    std::vector<CurvePoint> compute, transfer;
  };
  std::vector<std::pair<std::string, std::string>> order;
  std::map<std::pair<std::string, std::string>, Points> by_name;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto compute = table.optional_number(row, "compute_ms");
    if (!compute) {
      if (skipped != nullptr) ++*skipped;
      continue;
    }
    const double batch = table.number(row, "batch");
    if (batch <= 0) throw UsageFailure(fmt::format("{}: batch: found {}, expected above 0", table.place(row), batch));
    const std::pair name(table.text(row, "gpu"), table.text(row, "model"));
    if (!by_name.contains(name)) order.push_back(name);
    Points& points = by_name[name];
    points.compute.push_back({batch, *compute});
    if (const auto transfer = table.optional_number(row, "transfer_ms")) points.transfer.push_back({batch, *transfer});
  }
  std::vector<GpuProfile> profiles;
  for (const auto& name : order) {
    Points& points = by_name[name];
    try {
      profiles.push_back(
          {name.first, name.second, Curve(std::move(points.compute)), Curve(std::move(points.transfer))});
    } catch (const UsageFailure& failure) {
      throw UsageFailure(fmt::format("{} on {}: {}", name.second, name.first, failure.what()));
    }
  }
  if (profiles.empty()) throw UsageFailure("the table has no row with a compute time, expected at least one");
  return profiles;
}

const GpuProfile& find_profile(const std::vector<GpuProfile>& profiles, std::string_view gpu, std::string_view model) {
  std::set<std::string> gpus;
  std::vector<std::string> models;
  for (const GpuProfile& each : profiles) {
    if (each.gpu == gpu && each.model == model) return each;
    gpus.insert(each.gpu);
    if (each.gpu == gpu) models.push_back(each.model);
  }
  if (models.empty()) {
    throw UsageFailure(fmt::format("--gpu: found {}, expected one of the table's, {}", gpu, fmt::join(gpus, ", ")));
  }
  throw UsageFailure(fmt::format("--model: the table has no {} on {}{}", model, gpu, did_you_mean(model, models)));
}

std::int64_t image_model_parameters(std::string_view model) {
  static constexpr std::array<std::pair<std::string_view, std::int64_t>, 12> known = {
      {{"alexnet", 61'100'840},
       {"mobilenet_v2", 3'504'872},
       {"resnet18", 11'689'512},
       {"resnet34", 21'797'672},
       {"resnet50", 25'557'032},
       {"resnet101", 44'549'160},
       {"resnet152", 60'192'808},
       {"shufflenet_v2_x0_5", 1'366'792},
       {"squeezenet1_0", 1'248'424},
       {"squeezenet1_1", 1'235'496},
       {"vgg11", 132'863'336},
       {"vgg16", 138'357'544}}};
  const auto found = std::ranges::find(known, model, [](const auto& each) { return each.first; });
  return found == known.end() ? 0 : found->second;
}

RankRecord record_of(const GpuProfile& profile, double batch, std::int64_t parameters, double bucket_mb) {
  RankRecord record;
  record.model = profile.model;
  record.machine = profile.gpu;
  record.unit = "images";
  record.parameters = parameters;
  record.size = batch > 0 ? batch : profile.compute_ms.points().back().x;
  for (const CurvePoint& point : profile.compute_ms.points()) {
    record.times.push_back({"forward", point.x, point.y / 3});
    record.times.push_back({"backward", point.x, point.y * 2 / 3});
  }
  for (const CurvePoint& point : profile.transfer_ms.points()) record.times.push_back({"transfer", point.x, point.y});
  if (parameters > 0) record.buckets = even_buckets(parameters, bucket_mb);
  const ErrorSummary error = summary_of(leave_one_out(profile.compute_ms));
  record.compute_error = error.mean;
  record.compute_comparisons = static_cast<std::int64_t>(error.count);
  record.quality = "good";
  if (profile.compute_ms.points().size() == 1) {
    record.quality = "one batch size only, other sizes are scaled in proportion";
  }
  return record;
}

std::vector<TwoGpuFit> two_gpu_fits(const CsvTable& table, std::vector<std::string>* left_out) {
  std::vector<std::pair<std::string, std::string>> order;
  std::map<std::pair<std::string, std::string>, std::vector<CurvePoint>> one;
  std::map<std::pair<std::string, std::string>, std::vector<TwoGpuPoint>> two;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto step = table.optional_number(row, "step_compute_ms");
    if (!step) continue;
    const std::pair name(table.text(row, "gpu"), table.text(row, "model"));
    if (std::ranges::find(order, name) == order.end()) order.push_back(name);
    const double gpus = table.number(row, "gpus"), batch = table.number(row, "total_batch");
    if (gpus == 1) {
      one[name].push_back({batch, *step});
    } else if (gpus == 2) {
      two[name].push_back(
          {.batch = batch, .measured_ms = *step, .scatter_ms = table.optional_number(row, "scatter_ms")});
    } else {
      throw UsageFailure(fmt::format("{}: gpus: found {}, expected 1 or 2", table.place(row), gpus));
    }
  }
  std::vector<TwoGpuFit> fits;
  for (const auto& name : order) {
    if (one[name].size() < 2 || two[name].size() < 3) {
      const auto sizes = [](std::size_t count) { return counted(static_cast<double>(count), "batch size"); };
      if (left_out == nullptr) continue;
      left_out->push_back(fmt::format("{} on {} has {} on one GPU and {} on two, expected at least two and three",
                                      name.second, name.first, sizes(one[name].size()), sizes(two[name].size())));
      continue;
    }
    fits.push_back(fit_two(name.first, name.second, Curve(one[name]), two[name]));
  }
  if (fits.empty()) {
    throw UsageFailure(
        "the table has no model with two batch sizes on one GPU and three on two, expected at least one");
  }
  return fits;
}

}  // namespace babelring::insight
