#include "insight/tables/stalls.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/failure.h"
#include "base/text.h"
#include "insight/predict/fits.h"
#include "insight/predict/predict.h"
#include "insight/report/report_text.h"
#include "insight/tables/gpu_profiles.h"

namespace babelring::insight {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// The times of an epoch in s.
struct Epoch {
  double wait = 0, transfer = 0, compute = 0;
  double total() const { return wait + transfer + compute; }
};

Epoch epoch_of(const CsvTable& table, std::size_t row) {
  const Epoch epoch{table.number(row, "data_wait_s"), table.number(row, "transfer_s"), table.number(row, "compute_s")};
  if (epoch.total() <= 0) throw UsageFailure(fmt::format("{}: found an epoch of 0 s, expected more", table.place(row)));
  return epoch;
}

void require_rows(const CsvTable& table, const char* figure) {
  if (table.rows() == 0)
    throw UsageFailure(fmt::format("{}: found a table without rows, expected at least one", figure));
}

/// Bars of a figure's points over their categories: a series for each part and origin of one group.
Plot bars(const Figure& figure, const std::string& group, Plot::Kind kind, std::string title, std::string x_label) {
  Plot plot{.kind = kind, .title = std::move(title), .x_label = std::move(x_label), .y_label = figure.unit};
  std::vector<std::string> names;
  for (const FigurePoint& point : figure.points) {
    if (point.group != group) continue;
    if (std::ranges::find(plot.categories, point.category) == plot.categories.end()) {
      plot.categories.push_back(point.category);
    }
    const std::string name = fmt::format("{} ({})", point.part, word_of(point.origin));
    if (std::ranges::find(names, name) != names.end()) continue;
    names.push_back(name);
    plot.series.push_back({name, {}, point.origin != Origin::measured});
  }
  for (PlotSeries& series : plot.series) series.values.assign(plot.categories.size(), unknown);
  for (const FigurePoint& point : figure.points) {
    if (point.group != group) continue;
    const auto category = std::ranges::find(plot.categories, point.category) - plot.categories.begin();
    const auto name = std::ranges::find(names, fmt::format("{} ({})", point.part, word_of(point.origin)));
    plot.series[static_cast<std::size_t>(name - names.begin())].values[static_cast<std::size_t>(category)] =
        point.value;
  }
  for (const std::string& note : figure.notes) plot.note += (plot.note.empty() ? "" : "; ") + note;
  return plot;
}

std::string error_text(const ErrorSummary& error) {
  return fmt::format("predictions: mean error {:.2f} %, largest {:.2f} %, {} points", 100 * error.mean,
                     100 * error.largest, error.count);
}

struct DiskPoint {
  double cached = 0;
  Epoch epoch;
};

/// The stall for a part not cached is proportional to it; the rate is fitted to all points but one.
double stall_without(const std::vector<DiskPoint>& points, std::size_t left_out) {
  std::vector<std::vector<double>> rows;
  std::vector<double> stalls;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i == left_out) continue;
    rows.push_back({1 - points[i].cached});
    stalls.push_back(points[i].epoch.wait);
  }
  if (rows.empty()) throw UsageFailure("cached_share: found one point of a disk, expected at least two");
  return non_negative_least_squares(rows, stalls)[0] * (1 - points[left_out].cached);
}

struct ModelRuns {
  std::map<int, Epoch> by_workers;
  double held_back() const { return by_workers.begin()->second.wait; }
};

}  // namespace

std::string_view word_of(Origin origin) {
  return origin == Origin::measured ? "measured" : origin == Origin::redrawn ? "redrawn" : "predicted";
}

std::string csv_of(const Figure& figure) {
  std::string text = "group,category,part,origin,value,unit\n";
  for (const FigurePoint& point : figure.points) {
    text += fmt::format("{},{},{},{},{:.6g},{}\n", csv_field(point.group), csv_field(point.category),
                        csv_field(point.part), word_of(point.origin), point.value, csv_field(figure.unit));
  }
  return text;
}

Figure fetch_stalls(const CsvTable& table) {
  Figure figure{.name = "figure3", .unit = "% of the epoch"};
  double largest = 0;
  require_rows(table, "figure 3");
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const Epoch epoch = epoch_of(table, row);
    const double percent = 100 * (epoch.wait - table.number(row, "data_wait_cached_s")) / epoch.total();
    const std::string& model = table.text(row, "model");
    figure.points.push_back({"", model, "fetch stall", Origin::measured, percent});
    if (const auto plotted = table.optional_number(row, "plotted_percent", true)) {
      figure.points.push_back({"", model, "fetch stall", Origin::redrawn, *plotted});
      largest = std::max(largest, std::abs(*plotted - percent));
    }
  }
  figure.notes = {fmt::format("measured and redrawn values differ by at most {:.2f} points", largest)};
  figure.plots = {bars(figure, "", Plot::Kind::bars, "Fetch stalls with about a third of the data cached", "")};
  return figure;
}

Figure epoch_splits(const CsvTable& table) {
  Figure figure{.name = "figure4", .unit = "s in an epoch"};
  std::vector<std::string> disks;
  std::map<std::string, std::vector<DiskPoint>> by_disk;
  require_rows(table, "figure 4");
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const double cached = table.number(row, "cached_share");
    if (cached > 1)
      throw UsageFailure(fmt::format("{}: cached_share: found {}, expected 0 to 1", table.place(row), cached));
    const std::string& disk = table.text(row, "disk");
    if (!by_disk.contains(disk)) disks.push_back(disk);
    by_disk[disk].push_back(
        {cached,
         {table.number(row, "fetch_stall_s"), table.number(row, "transfer_s"), table.number(row, "compute_s")}});
  }
  std::vector<double> errors;
  for (const std::string& disk : disks) {
    const std::vector<DiskPoint>& points = by_disk[disk];
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto& [cached, epoch] = points[i];
      const std::string category = fmt::format("{:.3g} %", 100 * cached);
      const double predicted = stall_without(points, i);
      figure.points.push_back({disk, category, "compute", Origin::measured, epoch.compute});
      figure.points.push_back({disk, category, "transfer", Origin::measured, epoch.transfer});
      figure.points.push_back({disk, category, "fetch stall", Origin::measured, epoch.wait});
      figure.points.push_back({disk, category, "fetch stall", Origin::predicted, predicted});
      errors.push_back((predicted - epoch.wait) / epoch.total());
    }
  }
  figure.error = summary_of(errors);
  figure.notes = {error_text(figure.error) + ", of the epoch",
                  "predicted: the part that is not cached, at a rate fitted to the disk's other points"};
  for (const std::string& disk : disks) {
    figure.plots.push_back(bars(figure, disk, Plot::Kind::bars, "Epoch by cached part, " + disk, "cached"));
  }
  return figure;
}

Figure loader_throughput(const CsvTable& table, double files, double start_up_s) {
  Figure figure{.name = "figure5", .unit = "files/s"};
  std::vector<std::string> models;
  std::map<std::string, ModelRuns> runs;
  require_rows(table, "figure 5");
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const double workers = table.number(row, "workers");
    if (workers < 1)
      throw UsageFailure(fmt::format("{}: workers: found {}, expected at least 1", table.place(row), workers));
    const std::string& model = table.text(row, "model");
    if (!runs.contains(model)) models.push_back(model);
    runs[model].by_workers[static_cast<int>(workers)] = epoch_of(table, row);
  }
  const auto& reference = std::ranges::max_element(runs, {}, [](const auto& each) { return each.second.held_back(); });
  const auto& [fewest, held] = *reference->second.by_workers.begin();
  const double work = held.total() * fewest;
  std::vector<double> errors;
  for (const std::string& model : models) {
    const Epoch& fastest = runs[model].by_workers.rbegin()->second;
    for (const auto& [workers, epoch] : runs[model].by_workers) {
      const double predicted = std::max(work / workers, fastest.transfer + fastest.compute + start_up_s);
      const std::string category = std::to_string(workers);
      figure.points.push_back({model, category, "throughput", Origin::measured, files / epoch.total()});
      figure.points.push_back({model, category, "throughput", Origin::predicted, files / predicted});
      errors.push_back(predicted / epoch.total() - 1);
    }
  }
  figure.error = summary_of(errors);
  figure.notes = {error_text(figure.error), fmt::format("work of one worker from {}: {:.1f} s; start-up {:.3g} s",
                                                        reference->first, work, start_up_s)};
  for (const std::string& model : models) {
    figure.plots.push_back(bars(figure, model, Plot::Kind::bars, "Throughput by loader workers, " + model, "workers"));
  }
  return figure;
}

Figure preparation_stalls(const CsvTable& table) {
  Figure figure{.name = "figure6", .unit = "% of the epoch"};
  std::string worst;
  double largest = -1;
  require_rows(table, "figure 6");
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const Epoch epoch = epoch_of(table, row);
    const double percent = 100 * epoch.wait / epoch.total(), plotted = table.number(row, "plotted_percent");
    const std::string& model = table.text(row, "model");
    figure.points.push_back({"", model, "preparation stall", Origin::measured, percent});
    figure.points.push_back({"", model, "preparation stall", Origin::redrawn, plotted});
    if (std::abs(plotted - percent) > largest) {
      largest = std::abs(plotted - percent);
      worst = fmt::format("{}: {:.1f} against {:.1f} %", model, percent, plotted);
    }
  }
  if (largest > 0.1) figure.notes.push_back("the raw runs and the plotted values disagree, most for " + worst);
  figure.plots = {bars(figure, "", Plot::Kind::bars, "Preparation stalls with all data cached", "")};
  return figure;
}

Figure own_stalls(const std::vector<MeasuredStall>& epochs) {
  Figure figure{.name = "own", .unit = "s of an epoch"};
  double largest = 0;
  std::vector<std::string> groups;
  for (const MeasuredStall& epoch : epochs) {
    const auto all_cached = std::ranges::find_if(
        epochs, [&](const MeasuredStall& other) { return other.workers == epoch.workers && other.cached_asked == 1; });
    if (all_cached == epochs.end()) fail("own stalls: {} workers have no epoch with all data cached", epoch.workers);
    const std::string group = counted(epoch.workers, "worker");
    const std::string category = fmt::format("{:.0f} %", 100 * epoch.cached_asked);
    const double preparation = std::min(epoch.wait_s, all_cached->wait_s);
    figure.points.push_back({group, category, "compute", Origin::measured, epoch.compute_s});
    figure.points.push_back({group, category, "preparation stall", Origin::measured, preparation});
    figure.points.push_back({group, category, "fetch stall", Origin::measured, epoch.wait_s - preparation});
    largest = std::max(largest, std::abs(epoch.cached - epoch.cached_asked));
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  figure.notes.push_back(fmt::format("found cached by mincore: within {:.1f} points of what was asked", 100 * largest));
  for (const std::string& group : groups) {
    figure.plots.push_back(
        bars(figure, group, Plot::Kind::stacked_bars, "An epoch of our pipeline, " + group, "cached"));
  }
  return figure;
}

Figure gpu_scaling(const CsvTable& one_and_two, const CsvTable& compute, std::string_view model) {
  Figure figure{.name = "figure9", .unit = "images/s"};
  std::vector<std::string> left_out;
  const auto fits = two_gpu_fits(one_and_two, &left_out);
  const auto fit = std::ranges::find(fits, model, &TwoGpuFit::model);
  if (fit == fits.end()) {
    const auto why =
        std::ranges::find_if(left_out, [&](const auto& each) { return each.starts_with(std::string(model) + " on "); });
    throw UsageFailure(why == left_out.end() ? fmt::format("figure 9: the table has no runs of {}", model)
                                             : fmt::format("figure 9: {}", *why));
  }
  const std::vector<GpuProfile> profiles = gpu_profiles(compute);
  const GpuProfile& profile = find_profile(profiles, fit->gpu, model);
  for (const TwoGpuPoint& point : fit->points) {
    const std::string category = fmt::format("{} on 2 in one process", point.batch);
    figure.points.push_back(
        {"one process", category, "rate", Origin::measured, 1000 * point.batch / point.measured_ms});
    figure.points.push_back(
        {"one process", category, "rate", Origin::predicted, 1000 * point.batch / point.predicted_ms});
  }
  const std::int64_t parameters = image_model_parameters(model);
  if (parameters == 0) throw UsageFailure(fmt::format("figure 9: the number of parameters of {} is unknown", model));
  const RankRecord record = record_of(profile, 0, parameters, 25);
  // GPUs of one host have one bus, over which a batch of f32 images takes the recorded transfer time.
  const double megabytes = record.size * 3 * 224 * 224 * 4e-6,
               transfer_ms = record.phase_ms("transfer").at(record.size);
  if (transfer_ms <= 0) throw UsageFailure(fmt::format("figure 9: {} has no transfer times, expected some", model));
  RunSetup setup{.updates = 50};
  setup.topology.inside.gbit_per_s = megabytes * 8 / transfer_ms;
  for (const int ranks : {1, 2, 4, 8}) {
    setup.topology.ranks_per_host = ranks;
    const Prediction prediction = predict(record, setup, 1);
    figure.points.push_back({"ranks", std::to_string(ranks), "rate", Origin::predicted, prediction.size_per_s});
    if (ranks == 1) {
      const double alone = profile.compute_ms.at(record.size) + transfer_ms;
      figure.points.push_back({"ranks", "1", "rate", Origin::measured, 1000 * record.size / alone});
    }
  }
  figure.error = fit->error;
  figure.notes = {error_text(fit->error) + " of two GPUs in one process",
                  fmt::format("ranks: ring over {:.0f} Gbit/s, the rate of the recorded transfers; compute ± {}",
                              setup.topology.inside.gbit_per_s, percent_words(record.compute_error))};
  figure.plots = {
      bars(figure, "one process", Plot::Kind::bars, fmt::format("{} on two {}", model, fit->gpu), "images in a batch"),
      bars(figure, "ranks", Plot::Kind::bars, fmt::format("{} on ranks with a {} each", model, fit->gpu), "ranks")};
  return figure;
}

}  // namespace babelring::insight
