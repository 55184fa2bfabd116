#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/const_or_not.h"
#include "base/json.h"
#include "base/result.h"
#include "insight/predict/fits.h"

namespace babelring::insight {

/// The work of an op in one update, and the time that it took.
struct OpWork {
  double size = 0;  // of the rank's part of the update, in the record's unit
  double calls = 0, gflop = 0, gb = 0;
  double ms = 0;  // of all calls together
};

/// Time of an op from its work: calls · fixed_ms + gflop · ms_per_gflop + gb · ms_per_gb. Coefficients are never
/// negative.
struct OpModel {
  double fixed_ms = 0, ms_per_gflop = 0, ms_per_gb = 0;

  double ms(const OpWork& work) const;
};

/// The model with the smallest sum of squared relative errors over `works`; those without time are left out. Requires
/// at least one. FLOPs and bytes of one op at several sizes are often proportional; then one of both explains the time.
OpModel fit_op(std::span<const OpWork> works);

inline constexpr std::string_view rank_record_format = "babelring-rank-record-1";

/// The phases of an update. `transfer`: the batch goes to the device.
inline constexpr std::string_view phase_names[] = {"transfer", "forward", "backward", "optimizer"};

/// An op in one phase: its model, and its work at each recorded size.
struct OpRecord {
  std::string phase, op;
  double fixed_ms = 0, ms_per_gflop = 0, ms_per_gb = 0;  // OpModel
  std::vector<OpWork> work;

  OpModel model() const { return {fixed_ms, ms_per_gflop, ms_per_gb}; }
};

/// Measured time of a whole phase, where the record has no ops.
struct PhaseTime {
  std::string phase;
  double size = 0, ms = 0;
};

/// A part of the gradient that is summed as one message.
struct Bucket {
  double megabytes = 0;  // 10^6 bytes of f32
  double ready = 1;      // part of backward that is done when the bucket is complete, 0 to 1
};

/// How ranks that run together slow each other down, which neither the times of one rank nor a test of the links tells.
/// Fitted to measured runs by calibrate(); the defaults change nothing.
struct Calibration {
  double crowding = 1;         // factor on the compute times of several ranks, unless they read one copy of the weights
  double slowdown = 1;         // factor on backward while a sum is in progress; not fitted
  double busy_share = 1;       // factor on the processor time that a test of the links found for messages
  double inside_share = 1;     // part of the rate of the links inside hosts that sums reach
  double between_share = 1;    // the same, between hosts
  double sum_overhead_ms = 0;  // of each sum, beside its messages
};

/// Model, task and precision of a run: the times of a rank tell nothing of a run with others.
struct RecordedModel {
  std::int64_t parameters = 0;  // of the model; 0: unknown
  std::string task;             // as the configuration's keys: translation, gssm; empty: unknown
  std::string precision;        // of matmuls: f32, bf16; empty: unknown
};

/// One rank's times of an update, without other ranks. The time of a phase at a size is the sum over its ops, whose
/// work is interpolated, and of its phase times. Phases have no times at all if they take none.
struct RankRecord {
  std::string model;    // name of the model or of the configuration
  std::string machine;  // processor or GPU
  std::string version;  // of the program that wrote the record; empty: made from a table
  std::string date;     // RFC 3339; empty: unknown
  std::string unit;     // of sizes: "target tokens", "images"
  double size = 0;      // of this rank's part of an update as recorded
  std::int64_t parameters = 0;
  std::string task, precision;  // as of RecordedModel
  std::vector<OpRecord> ops;
  std::vector<PhaseTime> times;
  std::vector<Bucket> buckets;        // in the order of their sums; empty: no gradients are summed
  std::vector<double> make_batch_ms;  // samples; empty: batches take no time
  std::vector<double> other_ms;       // samples of the time outside all phases
  std::vector<double> jitter;         // samples of (time of all phases) / (median), by which compute is multiplied
  Calibration calibration;
  std::int64_t threads = 1;              // compute threads
  std::int64_t neighbours = 0;           // ranks that computed beside it on the same machine
  std::int64_t processors = 0;           // of that machine; 0: unknown
  double compute_error = 0;              // relative error of the predicted compute time; 0: unknown
  std::int64_t compute_comparisons = 0;  // that compute_error rests on
  double step_error = 0;                 // mean relative error of predicted steps against measured runs; 0: unknown
  std::int64_t step_comparisons = 0;     // runs that step_error rests on
  std::int64_t step_ranks = 0;           // ranks of the largest of them; 0: unknown
  std::string quality;                   // "good", or why the record is doubtful

  /// The time of a phase in ms as a function of the size.
  Curve phase_ms(std::string_view phase) const;
  /// The range of sizes that was recorded; both 0 if sizes do not matter.
  std::pair<double, double> recorded_sizes() const;
  /// The first difference between what was recorded and `run`, "the record is of …, the run …"; empty if they agree
  /// in all that both know.
  std::string difference_from(const RecordedModel& run) const;
  /// A line that says by which factor a size is outside of what was recorded; empty up to a factor of 2.
  std::string size_warning(double of_update) const;
  /// Processors over which the processor time of a rank's messages is spread: its compute threads, or its part where
  /// the machine has fewer processors than its ranks have compute threads.
  double processors_of_rank() const;
  /// The rest of the rank's part of the machine, which its compute threads leave idle; 0 if the machine is unknown.
  double spare_processors_of_rank() const;
  /// MB of all buckets.
  double gradient_megabytes() const;
};

template <const_or_not<OpWork> Work, class Visitor>
void visit_fields(Work& work, Visitor&& field) {
  field.required("size", work.size);
  field.required("calls", work.calls);
  field("gflop", work.gflop);
  field("gb", work.gb);
  field("ms", work.ms);
}

template <const_or_not<OpRecord> Op, class Visitor>
void visit_fields(Op& op, Visitor&& field) {
  field.required("phase", op.phase);
  field.required("op", op.op);
  field("fixed_ms", op.fixed_ms);
  field("ms_per_gflop", op.ms_per_gflop);
  field("ms_per_gb", op.ms_per_gb);
  field.required("work", op.work);
}

template <const_or_not<PhaseTime> Time, class Visitor>
void visit_fields(Time& time, Visitor&& field) {
  field.required("phase", time.phase);
  field.required("size", time.size);
  field.required("ms", time.ms);
}

template <const_or_not<Bucket> One, class Visitor>
void visit_fields(One& bucket, Visitor&& field) {
  field.required("megabytes", bucket.megabytes);
  field.required("ready", bucket.ready);
}

template <const_or_not<RankRecord> Record, class Visitor>
void visit_fields(Record& record, Visitor&& field) {
  field("model", record.model);
  field("machine", record.machine);
  field("version", record.version);
  field("date", record.date);
  field.required("unit", record.unit);
  field.required("size", record.size);
  field("parameters", record.parameters);
  field("task", record.task);
  field("precision", record.precision);
  field("ops", record.ops);
  field("times", record.times);
  field("buckets", record.buckets);
  field("make_batch_ms", record.make_batch_ms);
  field("other_ms", record.other_ms);
  field("jitter", record.jitter);
  field("slowdown_beside_communication", record.calibration.slowdown);
  field("busy_share", record.calibration.busy_share);
  field("crowding", record.calibration.crowding);
  field("inside_share", record.calibration.inside_share);
  field("between_share", record.calibration.between_share);
  field("sum_overhead_ms", record.calibration.sum_overhead_ms);
  field("threads", record.threads);
  field("neighbours", record.neighbours);
  field("processors", record.processors);
  field("compute_error", record.compute_error);
  field("compute_comparisons", record.compute_comparisons);
  field("step_error", record.step_error);
  field("step_comparisons", record.step_comparisons);
  field("step_ranks", record.step_ranks);
  field("quality", record.quality);
}

/// The record as a JSON object with the member `format`.
json::object to_json(const RankRecord& record);
/// The inverse of to_json(). The Error names the member, the value found and the value expected. Unknown members, other
/// formats, negative times and sizes of 0 are errors.
Result<RankRecord> rank_record_from_json(const json::value& value);

/// Buckets of `bucket_mb` (the last takes the rest) of a gradient of `parameters` that is complete evenly over
/// backward.
std::vector<Bucket> even_buckets(std::int64_t parameters, double bucket_mb);

/// Buckets of up to `bucket_mb` over the same gradient. As the worker puts whole parameters into a bucket until the
/// next has no room, so do recorded buckets form larger ones; larger recorded buckets are cut. Requires bucket_mb > 0.
std::vector<Bucket> rebucketed(const std::vector<Bucket>& buckets, double bucket_mb);

}  // namespace babelring::insight
