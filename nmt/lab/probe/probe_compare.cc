#include "nmt/lab/probe/probe_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "base/failure.h"
#include "nmt/checkpoint/safetensors.h"

namespace babelring {

namespace {

/// The whole tensors of a probe, if it stored any.
class WholeTensors {
 public:
  explicit WholeTensors(const Probe& probe) {
    if (!probe.header.tensors.empty() && std::filesystem::exists(tensors_file(probe.file))) {
      reader_.emplace(tensors_file(probe.file));
    }
  }
  /// The bits of all elements; nullopt if the tensor was not stored.
  std::optional<std::vector<std::uint32_t>> bits(const ProbeRecord& record) const {
    if (!reader_ || reader_->find(tensor_name(record)) == nullptr) return std::nullopt;
    const ConstTensor tensor = reader_->tensor(tensor_name(record), record.shape, record.dtype);
    const auto count = static_cast<std::size_t>(tensor.shape.elements());
    if (record.dtype != DType::bf16) return std::vector(tensor.as<std::uint32_t>(), tensor.as<std::uint32_t>() + count);
    return std::vector<std::uint32_t>(tensor.as<std::uint16_t>(), tensor.as<std::uint16_t>() + count);
  }

 private:
  std::optional<SafetensorsReader> reader_;
};

/// True if all ranks must have equal bits.
bool equal_on_ranks(const ProbeRecord& record) {
  return record.phase == "start" || record.op == "gradient_sum" || record.op == "adam_update";
}

class Comparer {
 public:
  Comparer(const Probe& a, const Probe& b, const CompareOptions& options)
      : a_(a),
        b_(b),
        options_(options),
        whole_a_(a),
        whole_b_(b),
        ranks_only_(options.ranks || a.header.ranks != b.header.ranks) {}

  ProbeComparison run() {
    require_alike();
    compare_headers();
    pair_up();
    find_first();
    make_rows();
    return std::move(result_);
  }

 private:
  void refuse(const std::string& what, const std::string& a, const std::string& b) const {
    if (a == b || options_.anyway) return;
    throw UsageFailure(
        fmt::format("{} and {} have different {}: {:.12} and {:.12}; --anyway compares them all the same",
                    a_.file.string(), b_.file.string(), what, a, b));
  }
  void require_alike() const {
    refuse("models", a_.header.model, b_.header.model);
    refuse("modes", a_.header.mode, b_.header.mode);
    if (!ranks_only_) refuse("batches", a_.batch, b_.batch);
  }
  void differ(const std::string& name, const std::string& a, const std::string& b) {
    if (a != b)
      result_.header_lines.push_back(
          fmt::format("{}: {} and {}", name, a.empty() ? "none" : a, b.empty() ? "none" : b));
  }
  void compare_headers();
  void pair_up();
  RecordPair pair_of(const ProbeRecord& a, const ProbeRecord& b) const;
  void find_first();
  void make_rows();
  void add_to_row(const RecordPair& pair);
  LayerRow& row_of(const std::string& layer);
  const RecordPair* input(std::int64_t number) const;

  const Probe& a_;
  const Probe& b_;
  const CompareOptions& options_;
  WholeTensors whole_a_, whole_b_;
  bool ranks_only_;
  ProbeComparison result_;
  std::unordered_map<std::int64_t, std::size_t> by_number_;  // index of the pair of a record of a_
};

void Comparer::compare_headers() {
  const ProbeHeader &a = a_.header, &b = b_.header;
  differ("program", a.program, b.program);
  differ("configuration", a.configuration.substr(0, 12), b.configuration.substr(0, 12));
  differ("corpus", a.corpus.substr(0, 12), b.corpus.substr(0, 12));
  differ("weights before the first update", a.weights.substr(0, 12), b.weights.substr(0, 12));
  differ("precision", a.precision, b.precision);
  differ("device", a.device, b.device);
  differ("threads", std::to_string(a.threads), std::to_string(b.threads));
  differ("ranks", std::to_string(a.ranks), std::to_string(b.ranks));
  differ("layers", a.layers, b.layers);
  const auto text_of = [](const json::object& object, std::string_view name) {
    const json::value* value = object.if_contains(name);
    return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
  };
  std::vector<std::string> names;
  for (const json::object* object : {&a.environment, &b.environment}) {
    for (const auto& member : *object) names.emplace_back(member.key());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string& name : names) differ(name, text_of(a.environment, name), text_of(b.environment, name));
}

void Comparer::pair_up() {
  std::unordered_map<std::string, const ProbeRecord*> others;
  for (const ProbeRecord& record : b_.records) {
    if (!ranks_only_ || equal_on_ranks(record)) others.emplace(record.key(), &record);
  }
  for (const ProbeRecord& record : a_.records) {
    if (ranks_only_ && !equal_on_ranks(record)) continue;
    by_number_[record.number] = result_.pairs.size();
    const auto other = others.find(record.key());
    if (other == others.end()) {
      result_.pairs.push_back({.a = &record, .sameness = Sameness::missing});
    } else {
      result_.pairs.push_back(pair_of(record, *other->second));
      others.erase(other);
    }
  }
  for (const ProbeRecord& record : b_.records) {
    if (others.contains(record.key())) result_.pairs.push_back({.b = &record, .sameness = Sameness::missing});
  }
}

RecordPair Comparer::pair_of(const ProbeRecord& a, const ProbeRecord& b) const {
  RecordPair pair{.a = &a, .b = &b};
  const bool alike = a.shape == b.shape && a.dtype == b.dtype;
  if (alike && a.summary.sha256 == b.summary.sha256) return pair;
  pair.sameness = Sameness::differs;
  if (!alike) return pair;
  const auto whole_a = whole_a_.bits(a), whole_b = whole_b_.bits(b);
  pair.exact = whole_a && whole_b;
  const std::vector<std::uint32_t>&bits_a = pair.exact ? *whole_a : a.summary.bits,
        &bits_b = pair.exact ? *whole_b : b.summary.bits;
  pair.distance = distance_of(bits_a, bits_b, a.dtype);
  if (pair.distance.worst_at >= 0) {
    const auto at = static_cast<std::size_t>(pair.distance.worst_at);
    pair.element = pair.exact ? pair.distance.worst_at : sampled_places(a.shape.elements())[at];
    pair.bits_a = bits_a[at];
    pair.bits_b = bits_b[at];
  }
  const bool close = !options_.tolerance.exact() && options_.tolerance.allows(pair.distance) &&
                     a.summary.non_finite == b.summary.non_finite;
  if (close) pair.sameness = Sameness::close;
  return pair;
}

const RecordPair* Comparer::input(std::int64_t number) const {
  const auto found = by_number_.find(number);
  return found == by_number_.end() ? nullptr : &result_.pairs[found->second];
}

void Comparer::find_first() {
  for (std::size_t i = 0; i < result_.pairs.size(); ++i) {
    const Sameness sameness = std::min(result_.pairs[i].sameness, Sameness::differs);
    if (sameness <= result_.sameness) continue;
    result_.sameness = sameness;
    result_.first = i;
  }
  if (!result_.first || result_.pairs[*result_.first].a == nullptr) return;
  for (const std::int64_t number : result_.pairs[*result_.first].a->inputs) {
    const RecordPair* pair = input(number);
    if (pair == nullptr || pair->sameness == Sameness::same) continue;
    const auto index = static_cast<std::size_t>(pair - result_.pairs.data());
    if (!result_.carried_on_from || pair->sameness > result_.pairs[*result_.carried_on_from].sameness) {
      result_.carried_on_from = index;
    }
  }
}

LayerRow& Comparer::row_of(const std::string& layer) {
  const auto found = std::find_if(result_.layers.begin(), result_.layers.end(),
                                  [&](const LayerRow& row) { return row.layer == layer; });
  if (found != result_.layers.end()) return *found;
  return result_.layers.emplace_back(LayerRow{.layer = layer, .cells = {}});
}

void Comparer::add_to_row(const RecordPair& pair) {
  const ProbeRecord& record = pair.record();
  LayerRow& row = row_of(record.layer);
  const auto add = [&row](std::size_t column, Sameness sameness) {
    row.cells[column] = std::max(row.cells[column].value_or(Sameness::same), sameness);
  };
  if (record.role == ProbeRole::output) add(0, pair.sameness);
  if (record.role == ProbeRole::grad_input) add(2, pair.sameness);
  if (record.role == ProbeRole::weight_grad) add(3, pair.sameness);
  if (record.role == ProbeRole::weight) add(4, pair.sameness);
  const bool backward = record.role == ProbeRole::grad_input || record.role == ProbeRole::weight_grad;
  if (!backward || pair.a == nullptr || record.op == "gradient_sum") return;
  for (const std::int64_t number : record.inputs) {
    const RecordPair* from = input(number);
    const bool arrives = from != nullptr && from->a->role == ProbeRole::grad_input && from->a->layer != record.layer;
    if (arrives) add(1, from->sameness);
  }
}

/// Rows appear in the order of the forward pass, because the records of the weights before the first update come in
/// that order, and ops without parameters behind them.
void Comparer::make_rows() {
  for (const RecordPair& pair : result_.pairs) {
    if (pair.record().phase != "start" && pair.record().role == ProbeRole::output) add_to_row(pair);
  }
  for (const RecordPair& pair : result_.pairs) {
    if (pair.record().phase == "start" || pair.record().role != ProbeRole::output) add_to_row(pair);
  }
}

}  // namespace

std::string_view name_of(Sameness sameness) {
  switch (sameness) {
    case Sameness::same:
      return "same";
    case Sameness::close:
      return "close";
    case Sameness::differs:
      return "diff";
    case Sameness::missing:
      break;
  }
  return "missing";
}

Sameness LayerRow::worst() const {
  Sameness worst = Sameness::same;
  for (const std::optional<Sameness>& cell : cells) worst = std::max(worst, cell.value_or(Sameness::same));
  return worst;
}

ProbeComparison compare_probes(const Probe& a, const Probe& b, const CompareOptions& options) {
  return Comparer(a, b, options).run();
}

json::object to_json(const ProbeComparison& comparison) {
  const auto to_object = [](const RecordPair& pair) {
    const ProbeRecord& record = pair.record();
    json::object object = {{"update", record.update},
                           {"micro_batch", record.micro_batch},
                           {"phase", record.phase},
                           {"layer", record.layer},
                           {"op", record.op},
                           {"member", record.member},
                           {"occurrence", record.occurrence},
                           {"result", name_of(pair.sameness)}};
    if (pair.sameness == Sameness::missing) {
      object["missing_in"] = pair.a == nullptr ? "a" : "b";
    } else if (pair.element >= 0) {
      object["element"] = pair.element;
      object["a"] = value_of(pair.bits_a, record.dtype);
      object["b"] = value_of(pair.bits_b, record.dtype);
      object["absolute"] = pair.distance.worst.absolute;
      object["relative"] = pair.distance.worst.relative;
      object["ulp"] = pair.distance.worst.ulp;
      object["exact"] = pair.exact;
    }
    return object;
  };
  json::array pairs;
  for (const RecordPair& pair : comparison.pairs) {
    if (pair.sameness != Sameness::same) pairs.push_back(to_object(pair));
  }
  json::object object = {{"probes", comparison.sameness == Sameness::differs ? "differ" : name_of(comparison.sameness)},
                         {"tensors", comparison.pairs.size()}};
  if (comparison.first) {
    object["first"] = to_object(comparison.pairs[*comparison.first]);
    object["this_op_differs"] = !comparison.carried_on_from;
    if (comparison.carried_on_from)
      object["carried_on_from"] = to_object(comparison.pairs[*comparison.carried_on_from]);
  }
  object["environment"] = json::array(comparison.header_lines.begin(), comparison.header_lines.end());
  object["pairs"] = std::move(pairs);
  return object;
}

}  // namespace babelring
