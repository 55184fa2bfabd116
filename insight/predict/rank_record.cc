#include "insight/predict/rank_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/failure.h"
#include "base/json.h"
#include "base/records/fields.h"
#include "base/result.h"
#include "base/text.h"
#include "insight/predict/fits.h"

namespace babelring::insight {

double OpModel::ms(const OpWork& work) const {
  return work.calls * fixed_ms + work.gflop * ms_per_gflop + work.gb * ms_per_gb;
}

OpModel fit_op(std::span<const OpWork> works) {
  std::vector<std::vector<double>> rows;
  std::vector<double> targets;
  for (const OpWork& work : works) {
    if (work.ms <= 0) continue;
    rows.push_back({work.calls / work.ms, work.gflop / work.ms, work.gb / work.ms});
    targets.push_back(1);
  }
  if (rows.empty()) return {};
  const std::vector<double> fitted = non_negative_least_squares(rows, targets);
  return {fitted[0], fitted[1], fitted[2]};
}

namespace {

/// The work of an op at a size between the recorded ones.
OpWork work_at(const OpRecord& op, double size) {
  std::vector<CurvePoint> calls, gflop, gb;
  for (const OpWork& work : op.work) {
    calls.push_back({work.size, work.calls});
    gflop.push_back({work.size, work.gflop});
    gb.push_back({work.size, work.gb});
  }
  return {.size = size, .calls = Curve(calls).at(size), .gflop = Curve(gflop).at(size), .gb = Curve(gb).at(size)};
}

Status check_numbers(const RankRecord& record) {
  const auto fault = [](const char* member, double found, const char* expected) {
    return Error{fmt::format("{}: found {}, expected {}", member, found, expected)};
  };
  const auto wrong = [](double x) { return !std::isfinite(x) || x < 0; };
  if (wrong(record.size) || record.size == 0) return fault("size", record.size, "a number above 0");
  for (const OpRecord& op : record.ops) {
    for (const double x : {op.fixed_ms, op.ms_per_gflop, op.ms_per_gb}) {
      if (wrong(x)) return fault(op.op.c_str(), x, "times of at least 0");
    }
    for (const OpWork& work : op.work) {
      if (wrong(work.calls) || wrong(work.gflop) || wrong(work.gb)) return fault("ops.work", work.calls, "at least 0");
    }
  }
  for (const PhaseTime& time : record.times) {
    if (wrong(time.ms)) return fault("times.ms", time.ms, "at least 0");
  }
  for (const Bucket& bucket : record.buckets) {
    if (wrong(bucket.megabytes) || bucket.megabytes == 0)
      return fault("buckets.megabytes", bucket.megabytes, "above 0");
    if (wrong(bucket.ready) || bucket.ready > 1) return fault("buckets.ready", bucket.ready, "0 to 1");
  }
  for (const auto* samples : {&record.make_batch_ms, &record.other_ms, &record.jitter}) {
    for (const double x : *samples) {
      if (wrong(x)) return fault("make_batch_ms, other_ms, jitter", x, "samples of at least 0");
    }
  }
  const Calibration& calibration = record.calibration;
  if (!std::isfinite(calibration.slowdown) || calibration.slowdown < 1) {
    return fault("slowdown_beside_communication", calibration.slowdown, "at least 1");
  }
  for (const double factor : {calibration.crowding, calibration.inside_share, calibration.between_share}) {
    if (wrong(factor) || factor == 0) return fault("crowding, inside_share, between_share", factor, "above 0");
  }
  if (wrong(calibration.busy_share)) return fault("busy_share", calibration.busy_share, "at least 0");
  if (wrong(calibration.sum_overhead_ms)) return fault("sum_overhead_ms", calibration.sum_overhead_ms, "at least 0");
  if (record.threads < 1) return fault("threads", static_cast<double>(record.threads), "at least 1");
  if (record.neighbours < 0) return fault("neighbours", static_cast<double>(record.neighbours), "at least 0");
  if (record.processors < 0) return fault("processors", static_cast<double>(record.processors), "at least 0");
  if (wrong(record.compute_error)) return fault("compute_error", record.compute_error, "at least 0");
  if (wrong(record.step_error)) return fault("step_error", record.step_error, "at least 0");
  if (record.step_ranks < 0) return fault("step_ranks", static_cast<double>(record.step_ranks), "at least 0");
  return {};
}

Status check_phases(const RankRecord& record) {
  const auto known = [](const std::string& phase) {
    return std::ranges::find(phase_names, phase) != std::end(phase_names);
  };
  std::vector<std::string> found;
  for (const OpRecord& op : record.ops) found.push_back(op.phase);
  for (const PhaseTime& time : record.times) found.push_back(time.phase);
  if (found.empty()) return Error{"ops, times: both are empty, expected the times of at least one phase"};
  for (const std::string& phase : found) {
    if (!known(phase)) {
      return Error{fmt::format("phase: found '{}', expected {}", phase, fmt::join(phase_names, ", "))};
    }
  }
  try {
    for (const std::string_view phase : phase_names) static_cast<void>(record.phase_ms(phase));
  } catch (const UsageFailure& failure) {
    return Error{failure.what()};
  }
  return {};
}

}  // namespace

Curve RankRecord::phase_ms(std::string_view phase) const {
  std::set<double> sizes;
  for (const OpRecord& op : ops) {
    if (op.phase != phase) continue;
    for (const OpWork& work : op.work) sizes.insert(work.size);
  }
  std::vector<CurvePoint> whole, sum;
  for (const PhaseTime& time : times) {
    if (time.phase == phase) whole.push_back({time.size, time.ms});
  }
  const Curve of_times(std::move(whole));
  for (const CurvePoint& point : of_times.points()) sizes.insert(point.x);
  for (const double at : sizes) {
    double ms = of_times.at(at);
    for (const OpRecord& op : ops) {
      if (op.phase == phase) ms += op.model().ms(work_at(op, at));
    }
    sum.push_back({at, ms});
  }
  return Curve(std::move(sum));
}

std::pair<double, double> RankRecord::recorded_sizes() const {
  std::set<double> sizes;
  for (const std::string_view phase : {phase_names[1], phase_names[2]}) {
    const Curve curve = phase_ms(phase);
    for (const CurvePoint& point : curve.points()) sizes.insert(point.x);
  }
  if (sizes.empty()) return {0, 0};
  return {*sizes.begin(), *sizes.rbegin()};
}

std::string RankRecord::difference_from(const RecordedModel& run) const {
  if (parameters != 0 && run.parameters != 0 && parameters != run.parameters) {
    return fmt::format("the record is of a model with {} parameters, the run's has {}",
                       grouped(static_cast<double>(parameters)), grouped(static_cast<double>(run.parameters)));
  }
  const auto differ = [](const std::string& a, const std::string& b) { return !a.empty() && !b.empty() && a != b; };
  if (differ(task, run.task)) return fmt::format("the record is of task {}, the run of task {}", task, run.task);
  if (differ(precision, run.precision)) {
    return fmt::format("the record is of precision {}, the run of {}", precision, run.precision);
  }
  return "";
}

std::string RankRecord::size_warning(double of_update) const {
  const auto [smallest, largest] = recorded_sizes();
  if (largest > 0 && of_update > 2 * largest) {
    return fmt::format("size {} is {:.1f} times the largest recorded one, {}", of_update, of_update / largest, largest);
  }
  if (of_update > 0 && 2 * of_update < smallest) {
    return fmt::format("size {} is {:.1f} times smaller than the smallest recorded one, {}", of_update,
                       smallest / of_update, smallest);
  }
  return "";
}

double RankRecord::processors_of_rank() const {
  const auto own = static_cast<double>(threads), ranks = static_cast<double>(1 + neighbours);
  return processors > 0 ? std::min(own, static_cast<double>(processors) / ranks) : own;
}

double RankRecord::spare_processors_of_rank() const {
  return std::max(static_cast<double>(processors) / static_cast<double>(1 + neighbours) - processors_of_rank(), 0.0);
}

double RankRecord::gradient_megabytes() const {
  double sum = 0;
  for (const Bucket& bucket : buckets) sum += bucket.megabytes;
  return sum;
}

json::object to_json(const RankRecord& record) {
  json::object object{{"format", rank_record_format}};
  FieldWriter writer(object);
  visit_fields(record, writer);
  writer.finish();
  return object;
}

Result<RankRecord> rank_record_from_json(const json::value& value) {
  if (!value.is_object()) return Error{"expected an object"};
  const json::object& object = value.get_object();
  if (const std::string format = get_text(object, "format"); format != rank_record_format) {
    return Error{
        fmt::format("format: found '{}', expected {}, as `nmt emulate record` writes it", format, rank_record_format)};
  }
  RankRecord record;
  FieldReader reader(object, "");
  reader.leave("format");
  visit_fields(record, reader);
  if (const std::string& error = reader.finish(); !error.empty()) return Error{error};
  if (Status status = check_numbers(record); !status) return Error{status.error()};
  if (Status status = check_phases(record); !status) return Error{status.error()};
  return record;
}

std::vector<Bucket> even_buckets(std::int64_t parameters, double bucket_mb) {
  const double total = 4e-6 * static_cast<double>(parameters);
  std::vector<Bucket> buckets;
  for (double done = 0; done < total * (1 - 1e-12);) {
    const double size = std::min(bucket_mb, total - done);
    done += size;
    buckets.push_back({size, std::min(1.0, done / total)});
  }
  return buckets;
}

std::vector<Bucket> rebucketed(const std::vector<Bucket>& buckets, double bucket_mb) {
  const double room = bucket_mb * (1 + 1e-9);  // for rounding
  std::vector<Bucket> out;
  for (const Bucket& bucket : buckets) {
    double left = bucket.megabytes;
    if (!out.empty() && out.back().megabytes + left <= room) {
      out.back() = {out.back().megabytes + left, bucket.ready};
      continue;
    }
    for (; left > room; left -= bucket_mb) out.push_back({bucket_mb, bucket.ready});
    out.push_back({left, bucket.ready});
  }
  return out;
}

}  // namespace babelring::insight
