#include "tests/bench/train_measurement.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "tests/bench/device_peaks.h"

namespace babelring {

namespace {

/// Resets the largest resident size, so that the arrays for the peaks do not count.
void reset_memory_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

std::int64_t memory_peak() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

/// The rates that all ranks reach together when they measure at the same time.
MachinePeaks shared_peaks(Backend& backend, Communicator& communicator, const MeasurementOptions& options) {
  communicator.barrier();
  MachinePeaks peaks = measure_peaks(backend, static_cast<int>(options.threads), options.peak_seconds);
  std::vector<double> sums = {peaks.bf16_flops, peaks.f32_flops, peaks.triad_bytes, peaks.read_bytes};
  communicator.sum(sums);
  peaks.threads *= communicator.size();
  peaks.bf16_flops = sums[0];
  peaks.f32_flops = sums[1];
  peaks.triad_bytes = sums[2];
  peaks.read_bytes = sums[3];
  reset_memory_peak();
  return peaks;
}

UpdateCost cost_of(const TimedUpdate& update, Communicator& communicator) {
  std::vector<double> sums = {update.record.flops, update.unavoidable_bytes};
  communicator.sum(sums);
  return {.wall_ms = update.wall_ms,
          .source_tokens = update.source_tokens,
          .target_tokens = update.target_tokens,
          .flops = sums[0],
          .unavoidable_bytes = sums[1]};
}

/// value(element) for each.
template <class Range, class Value>
std::vector<double> column(const Range& range, Value value) {
  std::vector<double> values;
  for (const auto& element : range) values.push_back(static_cast<double>(value(element)));
  return values;
}

double total(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

void add_rates(json::object& result, const std::vector<UpdateCost>& costs) {
  const auto wall = column(costs, [](const UpdateCost& cost) { return cost.wall_ms; });
  const auto target = column(costs, [](const UpdateCost& cost) { return cost.target_tokens; });
  const auto source = column(costs, [](const UpdateCost& cost) { return cost.source_tokens; });
  const auto rate = column(
      costs, [](const UpdateCost& cost) { return 1e3 * static_cast<double>(cost.target_tokens) / cost.wall_ms; });
  const auto [slowest, fastest] = std::minmax_element(rate.begin(), rate.end());
  const auto [shortest, longest] = std::minmax_element(wall.begin(), wall.end());
  result["target_tokens_per_s"] = median(rate);
  result["target_tokens_per_s_min"] = *slowest;
  result["target_tokens_per_s_max"] = *fastest;
  result["target_tokens_per_s_mean"] = 1e3 * total(target) / total(wall);
  result["tokens_per_s_mean"] = 1e3 * (total(source) + total(target)) / total(wall);
  result["target_tokens_per_step"] = total(target) / static_cast<double>(target.size());
  result["source_tokens_per_step"] = total(source) / static_cast<double>(source.size());
  result["step_ms"] = median(wall);
  result["step_ms_min"] = *shortest;
  result["step_ms_max"] = *longest;
}

void add_split(json::object& result, const std::vector<TimedUpdate>& updates) {
  for (const StepTimesMember& member : step_times_members) {
    if (member.value == &StepTimes::step || member.value == &StepTimes::other) continue;
    result[member.key] =
        median(column(updates, [&](const TimedUpdate& update) { return update.record.times.*member.value; }));
  }
  result["communication_bytes"] = updates.back().record.communication_bytes;  // sent by this rank in an update
  result["report_ms"] = median(column(updates, [](const TimedUpdate& update) { return update.report_ms; }));
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double roofline_ms(const MachinePeaks& peaks, DType type, double flops, double bytes) {
  return 1e3 * (flops / peaks.flops(type) + bytes / peaks.triad_bytes);
}

TrainMeasurement measure_training(TrainingCase& training, Communicator& communicator,
                                  const MeasurementOptions& options) {
  TrainMeasurement all{.type = training.precision()};
  all.first_loss = training.update(options.records).record.loss;
  for (int i = 1; i < options.warm_up; ++i) training.update(options.records);
  MachinePeaks before = shared_peaks(training.backend(), communicator, options);
  all.peaks = before;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    const std::size_t first = all.costs.size();
    for (int i = 0; i < options.updates; ++i) all.updates.push_back(training.update(options.records));
    // Afterwards, since a collective would wait for weights that the next update waits for.
    for (std::size_t i = first; i < all.updates.size(); ++i) {
      all.costs.push_back(cost_of(all.updates[i], communicator));
    }
    all.memory_bytes = std::max(all.memory_bytes, memory_peak());
    if (!training.backend().host_memory()) {
      const MemoryInfo room = training.backend().memory();
      all.device_bytes = std::max(all.device_bytes, static_cast<std::int64_t>(room.total - room.free));
    }
    const MachinePeaks after = shared_peaks(training.backend(), communicator, options),
                       around = larger_of(before, after);
    for (std::size_t i = first; i < all.costs.size(); ++i) {
      UpdateCost& cost = all.costs[i];
      cost.roofline_ms = roofline_ms(around, training.precision(), cost.flops, cost.unavoidable_bytes);
    }
    all.peaks = larger_of(all.peaks, after);
    before = after;
  }
  return all;
}

json::object summarize(const TrainMeasurement& measurement) {
  const std::vector<UpdateCost>& costs = measurement.costs;
  const auto middle = [&](auto value) { return median(column(costs, value)); };
  json::object result;
  add_rates(result, costs);
  add_split(result, measurement.updates);
  result["matmul_gflop_per_step"] = middle([](const UpdateCost& cost) { return cost.flops / 1e9; });
  result["matmul_gflop_per_s"] = middle([](const UpdateCost& cost) { return cost.flops / cost.wall_ms / 1e6; });
  result["flop_utilisation"] = middle([&](const UpdateCost& cost) {
    return roofline_ms(measurement.peaks, measurement.type, cost.flops, 0) / cost.wall_ms;
  });
  result["unavoidable_megabytes_per_step"] =
      middle([](const UpdateCost& cost) { return cost.unavoidable_bytes / 1e6; });
  result["roofline_ms"] = middle([](const UpdateCost& cost) { return cost.roofline_ms; });
  result["roofline_fraction"] = middle([](const UpdateCost& cost) { return cost.roofline_ms / cost.wall_ms; });
  result["peak_memory_bytes"] = measurement.memory_bytes;
  if (measurement.device_bytes > 0) result["device_used_bytes"] = measurement.device_bytes;
  result["first_loss"] = measurement.first_loss;
  result["last_loss"] = measurement.updates.back().record.loss;
  result["peaks"] = to_json(measurement.peaks);
  return result;
}

}  // namespace babelring
