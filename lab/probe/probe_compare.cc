#include "lab/probe/probe_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/failure.h"
#include "nmt/checkpoint/safetensors.h"

namespace babelring {

namespace {

/// The whole tensors of a probe, if it stored any.
class WholeTensors {
 public:
  explicit WholeTensors(const Probe& probe) {
    if (probe.header.tensors.empty()) return;
    if (std::filesystem::exists(tensors_file(probe.file))) {
      reader_.emplace(tensors_file(probe.file));
    } else {
      missing_ = tensors_file(probe.file).string();
    }
  }
  /// The file that the probe says it has, if it does not exist; else empty.
  const std::string& missing() const { return missing_; }
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
  std::string missing_;
};

/// The records of a probe that are compared with another's.
class ComparedRecords {
 public:
  ComparedRecords(const Probe& probe, const Probe& other, bool ranks_only)
      : probe_(probe), ranks_only_(ranks_only), filtered_(other.header.layers != "all") {
    for (const ProbeRecord& record : other.records) {
      others_layers_.insert(record.layer);
      others_sums_ = others_sums_ || record.op == sum;
    }
  }
  bool has(const ProbeRecord& record) const {
    if (ranks_only_ && (!equal_on_ranks(record) || (record.op == sum && !others_sums_))) return false;
    return !filtered_ || others_layers_.contains(record.layer);
  }
  std::vector<const ProbeRecord*> list() const {
    std::vector<const ProbeRecord*> records;
    for (const ProbeRecord& record : probe_.records) {
      if (has(record)) records.push_back(&record);
    }
    return records;
  }
  /// The layers that the other probe does not record.
  std::size_t left_out_layers() const {
    std::set<std::string_view> layers;
    for (const ProbeRecord& record : probe_.records) {
      if (filtered_ && !others_layers_.contains(record.layer)) layers.insert(record.layer);
    }
    return layers.size();
  }

 private:
  /// True if all ranks must have equal bits.
  static bool equal_on_ranks(const ProbeRecord& record) {
    return record.phase == "start" || record.op == sum || record.op == "adam_update";
  }
  static constexpr std::string_view sum = "gradient_sum";  // ranks with one copy of the model have none

  const Probe& probe_;
  bool ranks_only_, filtered_, others_sums_ = false;
  std::set<std::string> others_layers_;  // that the other probe records
};

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
    note_limits();
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
    if (a != b) result_.header_lines.push_back(header_difference(name, a, b));
  }
  void compare_headers();
  void note_limits();
  void pair_up();
  void add_pair(const ProbeRecord* a, const ProbeRecord* b);
  RecordPair pair_of(const ProbeRecord& a, const ProbeRecord& b) const;
  void measure(RecordPair& pair) const;
  void find_first();
  FirstCause cause_of(const RecordPair& pair);
  void make_rows();
  void add_to_row(const RecordPair& pair);
  /// The pairs of a record's inputs; null for one that is not compared.
  std::vector<const RecordPair*> inputs(const RecordPair& pair) const;

  const Probe& a_;
  const Probe& b_;
  const CompareOptions& options_;
  WholeTensors whole_a_, whole_b_;
  bool ranks_only_;
  ProbeComparison result_;
  std::unordered_map<const ProbeRecord*, std::size_t> pair_of_record_;  // index of the pair, of records of both
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
  EnvironmentDifferences environment = compare_environments(a.environment, b.environment);
  result_.library_lines = std::move(environment.libraries);
  for (std::string& line : environment.others) result_.header_lines.push_back(std::move(line));
}

void Comparer::note_limits() {
  for (const WholeTensors* whole : {&whole_a_, &whole_b_}) {
    if (whole->missing().empty()) continue;
    result_.notes.push_back(
        fmt::format("{} is missing: distances are of sampled elements, not of whole tensors", whole->missing()));
  }
  const ComparedRecords of_a(a_, b_, ranks_only_), of_b(b_, a_, ranks_only_);
  for (const auto& [records, probe] : {std::pair{&of_a, &a_}, {&of_b, &b_}}) {
    const std::size_t layers = records->left_out_layers();
    if (layers == 0) continue;
    result_.notes.push_back(fmt::format("{} layer{} that only {} records {} not compared", layers,
                                        layers == 1 ? "" : "s", probe->file.string(), layers == 1 ? "is" : "are"));
  }
}

/// Pairs records of one key. A record that only one probe has stays behind the record that it follows there.
void Comparer::pair_up() {
  const std::vector<const ProbeRecord*> first = ComparedRecords(a_, b_, ranks_only_).list(),
                                        second = ComparedRecords(b_, a_, ranks_only_).list();
  std::unordered_map<std::string, std::size_t> places;  // in `second`
  for (std::size_t i = 0; i < second.size(); ++i) places.emplace(second[i]->key(), i);
  std::vector<bool> shared(second.size());
  std::vector<std::optional<std::size_t>> others(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto other = places.find(first[i]->key());
    if (other == places.end()) continue;
    others[i] = other->second;
    shared[other->second] = true;
  }
  std::size_t next = 0;  // of `second`
  const auto add_before = [&](std::size_t end) {
    for (; next < end; ++next) {
      if (!shared[next]) add_pair(nullptr, second[next]);
    }
  };
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (others[i]) add_before(*others[i]);
    add_pair(first[i], others[i] ? second[*others[i]] : nullptr);
  }
  add_before(second.size());
  if (!result_.pairs.empty()) return;
  throw UsageFailure(fmt::format("{} and {} have no tensor in common: the first records layers {}, the second {}",
                                 a_.file.string(), b_.file.string(), a_.header.layers, b_.header.layers));
}

void Comparer::add_pair(const ProbeRecord* a, const ProbeRecord* b) {
  for (const ProbeRecord* record : {a, b}) {
    if (record != nullptr) pair_of_record_[record] = result_.pairs.size();
  }
  result_.pairs.push_back(a == nullptr || b == nullptr ? RecordPair{.a = a, .b = b, .sameness = Sameness::missing}
                                                       : pair_of(*a, *b));
}

RecordPair Comparer::pair_of(const ProbeRecord& a, const ProbeRecord& b) const {
  RecordPair pair{.a = &a, .b = &b};
  if (a.shape == b.shape && a.dtype == b.dtype && a.summary.sha256 == b.summary.sha256) return pair;
  pair.sameness = Sameness::differs;
  const bool floats = a.dtype != DType::i32 && b.dtype != DType::i32;
  if (a.shape != b.shape || (a.dtype != b.dtype && !floats)) return pair;
  measure(pair);
  const bool close = !options_.tolerance.exact() && options_.tolerance.allows(pair.distance) &&
                     a.summary.non_finite == b.summary.non_finite;
  if (close) pair.sameness = Sameness::close;
  return pair;
}

void Comparer::measure(RecordPair& pair) const {
  const ProbeRecord &a = *pair.a, &b = *pair.b;
  const auto whole_a = whole_a_.bits(a), whole_b = whole_b_.bits(b);
  pair.exact = whole_a && whole_b;
  const std::vector<std::uint32_t>&bits_a = pair.exact ? *whole_a : a.summary.bits,
        &bits_b = pair.exact ? *whole_b : b.summary.bits;
  pair.distance = distance_of(bits_a, a.dtype, bits_b, b.dtype);
  if (pair.distance.different == 0) return;
  const std::vector<std::int64_t> places =
      pair.exact ? std::vector<std::int64_t>() : sampled_places(a.shape.elements());
  const auto element = [&](const TensorDistance::Place& place) {
    return pair.exact ? place.at : places[static_cast<std::size_t>(place.at)];
  };
  pair.element = element(pair.distance.ulp);
  pair.absolute_element = element(pair.distance.absolute);
  pair.relative_element = element(pair.distance.relative);
  const auto at = static_cast<std::size_t>(pair.distance.ulp.at);
  pair.value_a = value_of(bits_a[at], a.dtype);
  pair.value_b = value_of(bits_b[at], b.dtype);
}

std::vector<const RecordPair*> Comparer::inputs(const RecordPair& pair) const {
  std::vector<const RecordPair*> found;
  for (const auto& [record, probe] : {std::pair{pair.a, &a_}, {pair.b, &b_}}) {
    if (record == nullptr) continue;
    for (const std::int64_t number : record->inputs) {
      const auto place = pair_of_record_.find(&probe->records[static_cast<std::size_t>(number)]);
      found.push_back(place == pair_of_record_.end() ? nullptr : &result_.pairs[place->second]);
    }
  }
  return found;
}

void Comparer::find_first() {
  for (std::size_t i = 0; i < result_.pairs.size(); ++i) {
    const Sameness sameness = std::min(result_.pairs[i].sameness, Sameness::differs);
    if (sameness <= result_.sameness) continue;
    result_.sameness = sameness;
    result_.first = i;
  }
  if (result_.first) result_.cause = cause_of(result_.pairs[*result_.first]);
}

/// Sets carried_on_from. An op is at fault only if everything that it read was recorded, compared and the same.
FirstCause Comparer::cause_of(const RecordPair& pair) {
  if (pair.sameness == Sameness::missing) return FirstCause::missing;
  if (pair.record().phase == "start") return FirstCause::weights;
  bool all_compared = true;
  for (const RecordPair* from : inputs(pair)) {
    all_compared = all_compared && from != nullptr;
    if (from == nullptr || from->sameness == Sameness::same) continue;
    const auto index = static_cast<std::size_t>(from - result_.pairs.data());
    if (!result_.carried_on_from || from->sameness > result_.pairs[*result_.carried_on_from].sameness) {
      result_.carried_on_from = index;
    }
  }
  if (result_.carried_on_from) return FirstCause::carried_on;
  if ((pair.a->batch || pair.b->batch) && a_.batch != b_.batch) return FirstCause::batch;
  if (!all_compared) return FirstCause::not_compared;
  return pair.a->left_out || pair.b->left_out ? FirstCause::not_recorded : FirstCause::op;
}

void Comparer::add_to_row(const RecordPair& pair) {
  const ProbeRecord& record = pair.record();
  std::vector<LayerRow>& rows = result_.layers;
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const LayerRow& row) { return row.layer == record.layer; });
  LayerRow& row = found != rows.end() ? *found : rows.emplace_back(LayerRow{.layer = record.layer, .cells = {}});
  const auto add = [&row](std::size_t column, Sameness sameness) {
    row.cells[column] = std::max(row.cells[column].value_or(Sameness::same), sameness);
  };
  if (record.role == ProbeRole::output) add(0, pair.sameness);
  if (record.role == ProbeRole::grad_input) add(2, pair.sameness);
  if (record.role == ProbeRole::weight_grad) add(3, pair.sameness);
  if (record.role == ProbeRole::weight) add(4, pair.sameness);
  const bool backward = record.role == ProbeRole::grad_input || record.role == ProbeRole::weight_grad;
  if (!backward || record.op == "gradient_sum") return;
  for (const RecordPair* from : inputs(pair)) {
    const bool arrives =
        from != nullptr && from->record().role == ProbeRole::grad_input && from->record().layer != record.layer;
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
  constexpr std::string_view names[] = {"same", "close", "diff", "missing"};
  return names[static_cast<std::size_t>(sameness)];
}

std::string_view name_of(FirstCause cause) {
  constexpr std::string_view names[] = {
      "none", "weights", "missing", "carried_on", "batch", "inputs_not_compared", "inputs_not_recorded", "op"};
  return names[static_cast<std::size_t>(cause)];
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
      object["a"] = pair.value_a;
      object["b"] = pair.value_b;
      object["absolute"] = pair.distance.worst.absolute;
      object["absolute_element"] = pair.absolute_element;
      object["relative"] = pair.distance.worst.relative;
      object["relative_element"] = pair.relative_element;
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
    object["this_op_differs"] = comparison.cause == FirstCause::op;
    object["cause"] = name_of(comparison.cause);
    if (comparison.carried_on_from)
      object["carried_on_from"] = to_object(comparison.pairs[*comparison.carried_on_from]);
  }
  object["libraries"] = json::array(comparison.library_lines.begin(), comparison.library_lines.end());
  object["environment"] = json::array(comparison.header_lines.begin(), comparison.header_lines.end());
  object["notes"] = json::array(comparison.notes.begin(), comparison.notes.end());
  object["pairs"] = std::move(pairs);
  return object;
}

}  // namespace babelring
