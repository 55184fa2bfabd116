#include "lab/record/rank_recorder.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "insight/predict/fits.h"
#include "nmt/ops/emulated/emulated_backend.h"

namespace babelring {

namespace {

// Wider variation of an update's ops means that something else was running.
constexpr double disturbed_spread = 0.15;

double median_of(std::vector<double> values) {
  return insight::quantiles_of(std::move(values)).median;
}

/// Medians over the updates of one size.
std::map<std::pair<std::string, std::string>, insight::OpWork> median_ops(const RecordedSize& recorded) {
  std::map<std::pair<std::string, std::string>, insight::OpWork> medians;
  for (const auto& [name, first] : recorded.updates.front().ops) {
    const auto median = [&](double insight::OpWork::* member) {
      std::vector<double> values;
      for (const RecordedUpdate& update : recorded.updates) {
        const auto found = update.ops.find(name);
        values.push_back(found == update.ops.end() ? 0 : found->second.*member);
      }
      return median_of(std::move(values));
    };
    medians[name] = {.size = recorded.size,
                     .calls = median(&insight::OpWork::calls),
                     .gflop = median(&insight::OpWork::gflop),
                     .gb = median(&insight::OpWork::gb),
                     .ms = median(&insight::OpWork::ms)};
  }
  return medians;
}

insight::OpRecord op_record(const std::pair<std::string, std::string>& name, std::vector<insight::OpWork> work) {
  const insight::OpModel model = insight::fit_op(work);
  return {name.first, name.second, model.fixed_ms, model.ms_per_gflop, model.ms_per_gb, std::move(work)};
}

/// Relative errors of each size's compute time as predicted from the other sizes. Empty with one size.
std::vector<double> errors_without_each(const std::vector<insight::OpRecord>& ops, std::size_t sizes) {
  std::vector<double> errors;
  if (sizes < 2) return errors;
  for (std::size_t left_out = 0; left_out < sizes; ++left_out) {
    double predicted = 0, measured = 0;
    for (const insight::OpRecord& op : ops) {
      if (op.work.size() != sizes) continue;
      std::vector<insight::OpWork> others = op.work;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(left_out));
      predicted += insight::fit_op(others).ms(op.work[left_out]);
      measured += op.work[left_out].ms;
    }
    if (measured > 0) errors.push_back(predicted / measured - 1);
  }
  return errors;
}

/// Buckets from the end of the gradient, as GradientBuckets cuts them.
std::vector<insight::Bucket> buckets_of(const std::vector<RecordedUpdate>& updates,
                                        const std::vector<std::int64_t>& counts, double bucket_mb) {
  std::vector<insight::Bucket> buckets;
  double latest = 0;
  for (std::size_t i = counts.size(); i-- > 0;) {
    std::vector<double> ready;
    for (const RecordedUpdate& update : updates) {
      if (i < update.ready.size()) ready.push_back(update.ready[i]);
    }
    // Buckets are summed in this order, so none is ready before those ahead of it.
    latest = std::max(latest, ready.empty() ? 1.0 : median_of(std::move(ready)));
    const double megabytes = 4e-6 * static_cast<double>(counts[i]);
    if (buckets.empty() || buckets.back().megabytes + megabytes > bucket_mb) {
      buckets.push_back({megabytes, latest});
    } else {
      buckets.back().megabytes += megabytes;
      buckets.back().ready = latest;
    }
  }
  return buckets;
}

/// Adds the time of each phase in which no op ran: medians over the updates.
void add_between_ops(const RecordedSize& recorded, insight::RankRecord& record) {
  std::map<std::string, std::vector<double>> by_phase;
  for (const RecordedUpdate& update : recorded.updates) {
    for (const auto& [phase, ms] : update.between_ops_ms) by_phase[phase].push_back(ms);
  }
  for (auto& [phase, values] : by_phase) {
    const double ms = median_of(std::move(values));
    if (ms > 0) record.times.push_back({phase, recorded.size, ms});
  }
}

/// Adds the variation of the updates and judges it.
void add_variation(const RecordedSize& recorded, insight::RankRecord& record) {
  std::vector<double> compute;
  for (const RecordedUpdate& update : recorded.updates) {
    compute.push_back(update.op_ms());
    record.other_ms.push_back(update.other_ms);
  }
  const double median = median_of(compute);
  for (const double ms : compute) record.jitter.push_back(median > 0 ? ms / median : 1);
  std::vector<double> sorted = record.jitter;
  std::ranges::sort(sorted);
  const double spread = insight::quantile(sorted, 0.9) - insight::quantile(sorted, 0.1);
  record.quality = "good";
  if (spread > disturbed_spread) {
    record.quality =
        fmt::format("the machine was disturbed: the ops of four updates in five vary by {:.0f} %", 100 * spread);
  }
}

}  // namespace

double RecordedUpdate::op_ms() const {
  double sum = 0;
  for (const auto& [name, work] : ops) sum += work.ms;
  return sum;
}

OpObserver* RankRecorder::begin(const UpdateStart& start) {
  if (start.update <= warm_up_updates) return nullptr;
  store_ = &start.replica.model.parameters();
  if (counts_.empty()) {
    for (const Parameter& parameter : store_->all()) counts_.push_back(parameter.shape.elements());
  }
  place_.emplace(*store_);
  place_->begin_update();
  current_ = {};
  complete_.assign(counts_.size(), Time());
  backward_begin_ = backward_end_ = Time();
  return this;
}

void RankRecorder::enter(const char* range) {
  place_->enter(range);
}

void RankRecorder::leave() {
  place_->leave();
}

void RankRecorder::ran(const OpRun& run) {
  const std::string phase(recorded_phase(place_->phase(), run.op));
  insight::OpWork& work = current_.ops[{phase, std::string(run.op)}];
  work.calls += 1;
  work.gflop += run.cost.flops * 1e-9;
  work.gb += run.cost.bytes * 1e-9;
  work.ms += std::chrono::duration<double, std::milli>(run.end - run.begin).count();
  if (phase != "backward") return;
  if (backward_begin_ == Time()) backward_begin_ = run.begin;
  backward_end_ = run.end;
  for (const OpField& field : run.fields) {
    if (field.access != Access::writes && field.access != Access::updates) continue;
    const auto element = store_->at(field.tensor.data);
    if (element && element->array == ParameterArray::gradients) complete_[element->parameter->index] = run.end;
  }
}

void RankRecorder::end(const StepRecord& record) {
  if (!place_ || record.update <= warm_up_updates) return;
  current_.target_tokens = static_cast<double>(record.target_tokens);
  current_.other_ms = record.times.other;
  current_.between_ops_ms = {{"forward", record.times.forward}, {"backward", record.times.backward}};
  current_.between_ops_ms["optimizer"] = record.times.optimizer;
  for (const auto& [name, work] : current_.ops) current_.between_ops_ms[name.first] -= work.ms;
  const double backward = std::chrono::duration<double>(backward_end_ - backward_begin_).count();
  for (const Time time : complete_) {
    const double done = std::chrono::duration<double>(time - backward_begin_).count();
    current_.ready.push_back(time == Time() || backward <= 0 ? 1 : std::clamp(done / backward, 0.0, 1.0));
  }
  updates_.push_back(std::move(current_));
}

insight::RankRecord rank_record_of(const std::vector<RecordedSize>& sizes, std::size_t size,
                                   const std::vector<std::int64_t>& parameter_counts, double bucket_mb) {
  std::map<std::pair<std::string, std::string>, std::vector<insight::OpWork>> works;
  for (const RecordedSize& recorded : sizes) {
    for (const auto& [name, work] : median_ops(recorded)) works[name].push_back(work);
  }
  insight::RankRecord record;
  record.unit = "target tokens";
  record.size = sizes.at(size).size;
  for (auto& [name, work] : works) record.ops.push_back(op_record(name, std::move(work)));
  for (const RecordedSize& recorded : sizes) add_between_ops(recorded, record);
  for (const std::int64_t count : parameter_counts) record.parameters += count;
  record.buckets = buckets_of(sizes[size].updates, parameter_counts, bucket_mb);
  add_variation(sizes[size], record);
  const insight::ErrorSummary error = insight::summary_of(errors_without_each(record.ops, sizes.size()));
  record.compute_error = error.mean;
  if (error.mean > disturbed_spread && record.quality == "good") {
    record.quality =
        fmt::format("a size's time predicts the others within {:.0f} % only; record more updates", 100 * error.mean);
  }
  record.compute_comparisons = static_cast<std::int64_t>(error.count);
  return record;
}

}  // namespace babelring
