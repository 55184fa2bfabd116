#include "lab/parameters/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lab/parameters/window_summary.h"

namespace babelring {

namespace {

/// Sums over the rows of a unit.
class UnitSum {
 public:
  void add(const RowCount& row) {
    changed_ += row.changed, visible_ += row.visible, untouched_ += row.counted - row.touched;
    unit_.changed_elements += static_cast<double>(row.changed_elements);
    unit_.ratio += static_cast<double>(mean_ratio(row));
    unit_.max_ratio = std::max(unit_.max_ratio, static_cast<double>(row.max_ratio));
    ++unit_.rows;
  }
  UnitCount result(std::string name, std::string label, std::int64_t updates) const {
    UnitCount unit = unit_;
    const auto rows = static_cast<double>(unit.rows), each = rows * static_cast<double>(updates);
    unit.name = std::move(name), unit.label = std::move(label);
    unit.changed = static_cast<double>(changed_) / each;
    unit.visible = static_cast<double>(visible_) / each;
    unit.untouched = static_cast<double>(untouched_) / each;
    unit.changed_elements /= static_cast<double>(updates);
    unit.ratio /= rows;
    return unit;
  }

 private:
  UnitCount unit_;
  std::int64_t changed_ = 0, visible_ = 0, untouched_ = 0;
};

/// "decoder.0.cross" of decoder.0.cross.key_value.weight.
std::string attention_of(const std::string& parameter) {
  const std::string linear = parameter.substr(0, parameter.rfind('.'));
  return linear.substr(0, linear.rfind('.'));
}

class UnitCounter {
 public:
  UnitCounter(const ParameterWindow& window, ParameterUnit unit, const Vocabulary* vocabulary)
      : window_(window), unit_(unit), vocabulary_(vocabulary) {}

  std::vector<UnitCount> count() {
    for (const TracedParameter& parameter : window_.parameters) {
      if (unit_ == ParameterUnit::parameter) add_parameter(parameter);
      if (unit_ == ParameterUnit::row) add_rows(parameter, nullptr);
      if (unit_ == ParameterUnit::neuron && parameter.kind == RowKind::neurons && parameter.name.ends_with(".weight")) {
        add_rows(parameter, bias_of(parameter));
      }
      if (unit_ == ParameterUnit::head && parameter.kind == RowKind::heads) add_to_heads(parameter);
    }
    for (const auto& [name, sum] : heads_) units_.push_back(sum.result(name, "", window_.updates));
    return std::move(units_);
  }

 private:
  const RowCount& row_of(const TracedParameter& parameter, std::int64_t row) const {
    return window_.rows[static_cast<std::size_t>(parameter.first_row + row)];
  }
  void add_parameter(const TracedParameter& parameter) {
    UnitSum sum;
    for (std::int64_t row = 0; row < parameter.rows; ++row) sum.add(row_of(parameter, row));
    units_.push_back(sum.result(parameter.name, "", window_.updates));
  }
  /// The bias of the same layer; null if its elements were not counted, as in windows of older versions.
  const TracedParameter* bias_of(const TracedParameter& weight) const {
    const std::string name = weight.name.substr(0, weight.name.rfind('.')) + ".bias";
    const auto bias = std::ranges::find(window_.parameters, name, &TracedParameter::name);
    return bias != window_.parameters.end() && bias->rows == weight.rows ? &*bias : nullptr;
  }
  /// `bias`: a parameter whose rows join those of the same number; null: none.
  void add_rows(const TracedParameter& parameter, const TracedParameter* bias) {
    for (std::int64_t row = 0; row < parameter.rows; ++row) {
      UnitSum sum;
      sum.add(row_of(parameter, row));
      if (bias != nullptr) sum.add(row_of(*bias, row));
      const bool vector = parameter.kind == RowKind::vector;
      units_.push_back(sum.result(vector ? parameter.name : fmt::format("{}[{}]", parameter.name, row),
                                  row_label(parameter, row, window_.heads, vocabulary_), window_.updates));
    }
  }
  void add_to_heads(const TracedParameter& parameter) {
    for (std::int64_t row = 0; row < parameter.rows; ++row) {
      const std::string name =
          fmt::format("{} head {}", attention_of(parameter.name), head_of(parameter, row, window_.heads).head);
      const auto [place, is_new] = places_.emplace(name, heads_.size());
      if (is_new) heads_.emplace_back(name, UnitSum());
      heads_[place->second].second.add(row_of(parameter, row));
    }
  }

  const ParameterWindow& window_;
  ParameterUnit unit_;
  const Vocabulary* vocabulary_;
  std::vector<UnitCount> units_;
  std::vector<std::pair<std::string, UnitSum>> heads_;
  std::map<std::string, std::size_t> places_;  // in heads_, by name
};

}  // namespace

std::vector<UnitCount> count_units(const ParameterWindow& window, ParameterUnit unit, const Vocabulary* vocabulary) {
  return UnitCounter(window, unit, vocabulary).count();
}

}  // namespace babelring
