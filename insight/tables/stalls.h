#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/csv.h"
#include "insight/plot.h"
#include "insight/predict/fits.h"

namespace babelring::insight {

/// Where a value comes from.
enum class Origin { measured, redrawn, predicted };  // redrawn: read off a published plot

/// A value of a figure.
struct FigurePoint {
  std::string group;     // "ssd", "workers 3"
  std::string category;  // position on the x axis: a model, a cached part, a number of workers
  std::string part;      // "fetch stall", "compute"
  Origin origin = Origin::measured;
  double value = 0;
};

/// A figure about data stalls: its values, plots and notes.
struct Figure {
  std::string name, unit;  // "figure3", "%"
  std::vector<FigurePoint> points = {};
  std::vector<Plot> plots = {};
  ErrorSummary error = {};              // of predicted values against measured ones; count 0: none predicted
  std::vector<std::string> notes = {};  // disagreements and assumptions
};

/// Fetch stalls of models at about a third of the data cached: (wait − wait with all cached) / (wait + transfer +
/// compute). Columns: model, data_wait_s, transfer_s, compute_s, data_wait_cached_s, plotted_percent.
Figure fetch_stalls(const CsvTable& table);

/// The epoch by cached part on each disk: fetch stall, transfer and compute. The stall is predicted from the disk's
/// other points, as the part that is not cached over a rate. Columns: disk, cached_share, fetch_stall_s, transfer_s,
/// compute_s.
Figure epoch_splits(const CsvTable& table);

/// Throughput by loader workers: the epoch takes max(work / (workers · rate of one), transfer + compute + start-up).
/// The work is that of `reference`, the model that one worker holds back most; transfer and compute are those of each
/// model with the most workers. Columns: model, workers, data_wait_s, transfer_s, compute_s. Unit: files/s of `files`
/// in an epoch.
Figure loader_throughput(const CsvTable& table, double files, double start_up_s);

/// Preparation stalls with all data cached: wait / (wait + transfer + compute), beside the published values. Columns:
/// model, workers, data_wait_s, transfer_s, compute_s, plotted_percent.
Figure preparation_stalls(const CsvTable& table);

/// Images per second by number of GPUs: one and two in one process as measured, from the table of two_gpu_fits(), and
/// 1, 2, 4 and 8 ranks of one host predicted from the table of gpu_profiles(), for `model` on the GPU of the first
/// table.
Figure gpu_scaling(const CsvTable& one_and_two, const CsvTable& compute, std::string_view model);

/// An epoch of our own pipeline.
struct MeasuredStall {
  int workers = 1;                      // threads that made updates
  double cached_asked = 1, cached = 1;  // part of the data in memory at the start: wanted, and found
  std::int64_t updates = 0;
  double wait_s = 0, compute_s = 0;  // of the epoch, which is the sum of both
};

/// Our own epochs by cached part, a group for each number of workers: compute, preparation stall (the wait with all
/// data cached) and fetch stall (the rest of the wait). Requires a point with all cached for each number of workers.
Figure own_stalls(const std::vector<MeasuredStall>& epochs);

std::string_view word_of(Origin origin);
/// The points as CSV with the columns group, category, part, origin, value and unit.
std::string csv_of(const Figure& figure);

}  // namespace babelring::insight
