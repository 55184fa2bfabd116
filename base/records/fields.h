#pragma once

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/const_or_not.h"
#include "base/records/records.h"

namespace babelring {

// One visit_fields() for each record type lists its members in output order. To add a field, add a line here and in
// docs/formats.md. In JSON, `field(name, member)` is optional and `field.required(name, member)` is mandatory.
// `field.if_known(name, member)` is optional and left out if the number is NaN or the integer 0, the flag false, the
// text or the array empty, or the value null.

template <const_or_not<StepRecord> Step, class Visitor>
void visit_fields(Step& step, Visitor&& field) {
  field.required("update", step.update);
  field("epoch", step.epoch);
  field("loss", step.loss);
  field("nll", step.nll);
  field.if_known("entropy", step.entropy);
  field.if_known("alignment_loss", step.alignment_loss);
  field.if_known("r_drop_loss", step.r_drop_loss);
  field.if_known("corpus_loss", step.corpus_loss);
  field.if_known("corpus_tokens", step.corpus_tokens);
  field("gradient_norm", step.gradient_norm);
  field("learning_rate", step.learning_rate);
  field("sentences", step.sentences);
  field("source_tokens", step.source_tokens);
  field("target_tokens", step.target_tokens);
  field("update_target_tokens", step.update_target_tokens);
  for (const StepTimesMember& member : step_times_members) field(member.key, step.times.*member.value);
  field("communication_bytes", step.communication_bytes);
  field("network_rx_bytes", step.network_rx_bytes);
  field("network_tx_bytes", step.network_tx_bytes);
  field("network_link_bytes_per_second", step.network_link_bytes_per_second);
  field("flops", step.flops);
  field("busy_fraction", step.busy_fraction);
  field("power_w", step.power_w);
  field("power_limit_w", step.power_limit_w);
  field("memory_bytes", step.memory_bytes);
  field("gpu", step.gpu);
  field("fraction_done", step.fraction_done);
  field("seconds_left", step.seconds_left);
  field("skipped", step.skipped);
  field("weights_digest", step.weights_digest);
}

template <const_or_not<EvalSample> Sample, class Visitor>
void visit_fields(Sample& sample, Visitor&& field) {
  field.required("source", sample.source);
  field.required("reference", sample.reference);
  field.required("hypothesis", sample.hypothesis);
}

template <const_or_not<Resamples> Some, class Visitor>
void visit_fields(Some& resamples, Visitor&& field) {
  field.required("metric", resamples.metric);
  field.required("signature", resamples.signature);
  field.required("references", resamples.references);
  field.required("statistics", resamples.statistics);
  field.required("score", resamples.score);
  field.required("scores", resamples.scores);
}

template <const_or_not<EvalRecord> Eval, class Visitor>
void visit_fields(Eval& eval, Visitor&& field) {
  field.required("update", eval.update);
  field.required("set", eval.set);
  field("loss", eval.loss);
  field("nll", eval.nll);
  field.if_known("loss_unknown", eval.loss_unknown);
  field.if_known("entropy", eval.entropy);
  field("accuracy", eval.accuracy);
  field("sacrebleu", eval.sacrebleu);
  field("chrf", eval.chrf);
  field("teacher_forced_bleu", eval.teacher_forced_bleu);
  field("signature", eval.signature);
  field.if_known("set_digest", eval.set_digest);
  field.if_known("scoring", eval.scoring);
  field("seconds", eval.seconds);
  field("best", eval.best);
  field.if_known("best_before", eval.best_before);
  field.if_known("bleu_above_best", eval.above_best.difference);
  field.if_known("p_value", eval.above_best.p_value);
  field("samples", eval.samples);
  field.if_known("resamples", eval.resamples);
}

template <const_or_not<CheckpointFile> File, class Visitor>
void visit_fields(File& file, Visitor&& field) {
  field.required("name", file.name);
  field.required("size", file.size);
  field.required("sha256", file.sha256);
}

template <const_or_not<CheckpointRecord> Checkpoint, class Visitor>
void visit_fields(Checkpoint& checkpoint, Visitor&& field) {
  field.required("update", checkpoint.update);
  field.required("name", checkpoint.name);
  field("folder", checkpoint.folder);
  field("files", checkpoint.files);
  field("sacrebleu", checkpoint.sacrebleu);
  field("loss", checkpoint.loss);
  field("best", checkpoint.best);
  field("removed", checkpoint.removed);
  field("write_seconds", checkpoint.write_seconds);
  field("version", checkpoint.version);
  field("world_size", checkpoint.world_size);
}

template <const_or_not<ArtifactRecord> Artifact, class Visitor>
void visit_fields(Artifact& artifact, Visitor&& field) {
  field("update", artifact.update);
  field.required("name", artifact.name);
  field.required("artifact", artifact.artifact);
  field("folder", artifact.folder);
  field("size", artifact.size);
  field("sha256", artifact.sha256);
  field("removed", artifact.removed);
  field("content", artifact.content);
}

template <const_or_not<LogRecord> Log, class Visitor>
void visit_fields(Log& log, Visitor&& field) {
  field.required("level", log.level);
  field.required("text", log.text);
}

template <const_or_not<LifecycleRecord> Lifecycle, class Visitor>
void visit_fields(Lifecycle& lifecycle, Visitor&& field) {
  field.required("event", lifecycle.event);
  field("detail", lifecycle.detail);
  field("name", lifecycle.name);
  field("config", lifecycle.config);
  field("version", lifecycle.version);
  field("world_size", lifecycle.world_size);
  field("pid", lifecycle.pid);
  field("parameters", lifecycle.parameters);
  field("max_updates", lifecycle.max_updates);
  field("device", lifecycle.device);
  field("update", lifecycle.update);
  field("end", lifecycle.end);
  field("may_end_sooner", lifecycle.may_end_sooner);
  field("data", lifecycle.data);
  field("bucket_mb", lifecycle.bucket_mb);
  field("optimizer", lifecycle.optimizer);
  field("labels", lifecycle.labels);
  field("peak_flops", lifecycle.peak_flops);
  field("peak_bytes_per_second", lifecycle.peak_bytes_per_second);
  field.if_known("libraries", lifecycle.libraries);
}

/// A JSON value as text, shortened for an error message.
std::string found_json(const json::value& value);

/// A visitor for visit_fields() that reads a record's members from a JSON object; the inverse of FieldWriter. Keeps the
/// first error and reads nothing after it.
class FieldReader {
 public:
  /// `place` prefixes each member name in errors: "records[3].". Unknown members are an error, unless `unknown` is
  /// given to count them.
  FieldReader(const json::object& in, std::string place, UnknownMembers* unknown = nullptr);

  template <class T>
  void required(std::string_view name, T& value) {
    if (in_.contains(name)) {
      (*this)(name, value);
    } else if (error_.empty()) {
      error_ = fmt::format("{}{}: expected, but absent", place_, name);
    }
  }
  template <class T>
  void operator()(std::string_view name, T& value) {
    known_.emplace_back(name);
    const json::value* member = in_.if_contains(name);
    if (member != nullptr && error_.empty()) read(name, *member, value);
  }

  template <class T>
  void if_known(std::string_view name, T& value) {
    (*this)(name, value);
  }

  /// Marks a member as known without reading it.
  void leave(std::string_view name) { known_.emplace_back(name); }

  /// The first error so far, or "".
  const std::string& error() const { return error_; }

  /// Call after the last member: checks for unknown members. Returns the first error, or "".
  const std::string& finish();

 private:
  bool knows(std::string_view name) const;
  void set_error(std::string_view name, std::string_view wanted, const json::value& value);

  void read(std::string_view name, const json::value& in, double& out);
  void read(std::string_view name, const json::value& in, std::int64_t& out);
  void read(std::string_view name, const json::value& in, bool& out);
  void read(std::string_view name, const json::value& in, std::string& out);
  void read(std::string_view, const json::value& in, json::value& out) { out = in; }
  void read(std::string_view name, const json::value& in, std::map<std::string, std::int64_t>& out);
  void read(std::string_view name, const json::value& in, std::map<std::string, double>& out);
  void read(std::string_view name, const json::value& in, std::vector<double>& out);
  template <class T>
  void read(std::string_view name, const json::value& in, std::vector<T>& out) {
    if (!in.is_array()) return set_error(name, "an array of objects", in);
    for (std::size_t i = 0; i < in.get_array().size() && error_.empty(); ++i) {
      const json::value& element = in.get_array()[i];
      const std::string place = fmt::format("{}[{}]", name, i);
      if (!element.is_object()) return set_error(place, "an object", element);
      FieldReader reader(element.get_object(), place_ + place + ".", unknown_);
      visit_fields(out.emplace_back(), reader);
      error_ = reader.finish();
    }
  }

  const json::object& in_;
  std::string place_;
  std::string error_;
  UnknownMembers* unknown_;
  std::vector<std::string> known_;
  const json::object* non_finite_ = nullptr;
  std::size_t non_finite_used_ = 0;
};

/// A visitor for visit_fields() that adds a record's members to a JSON object. A non-finite number is written as null;
/// the member `non_finite` then maps its name to "nan", "inf" or "-inf".
class FieldWriter {
 public:
  explicit FieldWriter(json::object& out) : out_(out) {}

  template <class T>
  void required(std::string_view name, const T& value) {
    (*this)(name, value);
  }
  /// Writes nothing if the number is NaN.
  void if_known(std::string_view name, double value) {
    if (!std::isnan(value)) (*this)(name, value);
  }
  /// Writes nothing if the text is empty.
  void if_known(std::string_view name, const std::string& value) {
    if (!value.empty()) (*this)(name, value);
  }
  /// Writes nothing if the value is null.
  void if_known(std::string_view name, const json::value& value) {
    if (!value.is_null()) (*this)(name, value);
  }
  /// Writes nothing if it is false.
  void if_known(std::string_view name, bool value) {
    if (value) (*this)(name, value);
  }
  /// Writes nothing if the number is 0.
  void if_known(std::string_view name, std::int64_t value) {
    if (value != 0) (*this)(name, value);
  }
  /// Writes nothing if there are no elements.
  template <class T>
  void if_known(std::string_view name, const std::vector<T>& values) {
    if (!values.empty()) (*this)(name, values);
  }
  template <class Number>
  void if_known(std::string_view name, const std::map<std::string, Number>& values) {
    if (!values.empty()) (*this)(name, values);
  }
  void operator()(std::string_view name, double value);
  void operator()(std::string_view name, std::int64_t value) { out_.emplace(name, value); }
  void operator()(std::string_view name, bool value) { out_.emplace(name, value); }
  void operator()(std::string_view name, const std::string& value) { out_.emplace(name, value); }
  void operator()(std::string_view name, const json::value& value) { out_.emplace(name, value); }
  template <class Number>
  void operator()(std::string_view name, const std::map<std::string, Number>& values) {
    json::object object;
    for (const auto& [key, value] : values) object.emplace(key, value);
    out_.emplace(name, std::move(object));
  }
  void operator()(std::string_view name, const std::vector<double>& values) {
    out_.emplace(name, json::array(values.begin(), values.end()));
  }
  template <class T>
  void operator()(std::string_view name, const std::vector<T>& values) {
    json::array array;
    for (const T& value : values) {
      json::object object;
      FieldWriter writer(object);
      visit_fields(value, writer);
      array.push_back(std::move(object));
    }
    out_.emplace(name, std::move(array));
  }
  /// Call after the last member: adds `non_finite` if needed.
  void finish();

 private:
  json::object& out_;
  json::object non_finite_;
};

}  // namespace babelring
