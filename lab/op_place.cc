#include "lab/op_place.h"

namespace babelring {

namespace {

constexpr std::string_view micro_batch_range = "micro_batch", output_range = "output_loss";

}  // namespace

std::string_view layer_of(const Parameter& parameter) {
  const std::string_view name = parameter.name;
  for (const std::string_view part : {".weight", ".bias", ".gain"}) {
    if (name.ends_with(part)) return name.substr(0, name.size() - part.size());
  }
  return name;
}

const Parameter* parameter_of(const ParameterStore& store, const ConstTensor& tensor) {
  if (!tensor || tensor.shape.elements() == 0) return nullptr;
  const std::int64_t span = (tensor.rows() - 1) * tensor.row_stride + tensor.columns();
  const auto* last = tensor.as<char>() + static_cast<std::size_t>(span) * size_of(tensor.dtype) - 1;
  const std::optional<ParameterElement> begin = store.at(tensor.data), end = store.at(last);
  return begin && end && begin->parameter == end->parameter && begin->array == end->array ? begin->parameter : nullptr;
}

void OpPlace::begin_update() {
  ranges_.clear();
  micro_batches_ = 0;
}

void OpPlace::enter(std::string_view range) {
  if (range == micro_batch_range) ++micro_batches_;
  ranges_.emplace_back(range);
}

void OpPlace::leave() {
  if (!ranges_.empty()) ranges_.pop_back();
}

std::string_view OpPlace::phase() const {
  if (ranges_.empty()) return "";
  return ranges_.size() > 1 && ranges_.front() == micro_batch_range ? ranges_[1] : ranges_.front();
}

std::optional<int> OpPlace::micro_batch() const {
  if (ranges_.empty() || ranges_.front() != micro_batch_range) return std::nullopt;
  return micro_batches_ - 1;
}

std::string_view OpPlace::layer(const OpRun& run) const {
  for (const OpField& field : run.fields) {
    const Parameter* parameter = parameter_of(store_, field.tensor);
    if (parameter == nullptr) continue;
    return !ranges_.empty() && ranges_.back() == output_range ? output_layer : layer_of(*parameter);
  }
  return ranges_.empty() ? std::string_view() : ranges_.back();
}

}  // namespace babelring
