#include "lab/op_place.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "base/failure.h"
#include "base/text.h"

namespace babelring {
namespace {

/// The N of "first10" with the prefix "first".
std::optional<std::size_t> count_after(std::string_view prefix, std::string_view item) {
  if (!item.starts_with(prefix) || item.size() == prefix.size()) return std::nullopt;
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(item.data() + prefix.size(), item.data() + item.size(), count);
  if (error != std::errc() || end != item.data() + item.size()) return std::nullopt;
  return count;
}

/// The names that an op's layer may have: layers, and the ranges of ops without parameters.
std::vector<std::string> all_names(const std::vector<std::string>& layers) {
  std::vector<std::string> names = layers;
  for (const std::string& layer : layers) {
    const std::size_t stack = layer.find('.');
    const std::size_t dot = stack == std::string::npos ? stack : layer.find('.', stack + 1);
    if (dot == std::string::npos) continue;
    const std::string range = layer.substr(0, dot);
    if (std::find(names.begin(), names.end(), range) == names.end()) names.push_back(range);
  }
  for (const char* range : {"micro_batch", "forward", "output_loss", "backward", "gradient_sum", "optimizer"}) {
    names.emplace_back(range);
  }
  return names;
}

}  // namespace

bool matches_glob(const std::string& glob, std::string_view text) {
  return fnmatch(glob.c_str(), std::string(text).c_str(), 0) == 0;
}

std::vector<std::string> layers_of(const ParameterStore& store) {
  std::vector<std::string> layers;
  for (const Parameter& parameter : store.all()) {
    const std::string layer(layer_of(parameter));
    if (std::find(layers.begin(), layers.end(), layer) == layers.end()) layers.push_back(layer);
  }
  if (std::find(layers.begin(), layers.end(), output_layer) == layers.end()) layers.emplace_back(output_layer);
  return layers;
}

LayerFilter::LayerFilter(const std::string& option, const std::string& list, const ParameterStore& store) {
  const std::vector<std::string> layers = layers_of(store), names = all_names(layers);
  std::istringstream items(list);
  for (std::string item; std::getline(items, item, ',');) {
    if (item == "all") {
      all_ = true;
    } else if (const auto first = count_after("first", item)) {
      names_.insert(names_.end(), layers.begin(),
                    layers.begin() + static_cast<std::ptrdiff_t>(std::min(*first, layers.size())));
    } else if (const auto last = count_after("last", item)) {
      names_.insert(names_.end(), layers.end() - static_cast<std::ptrdiff_t>(std::min(*last, layers.size())),
                    layers.end());
    } else if (std::any_of(names.begin(), names.end(),
                           [&](const std::string& name) { return matches_glob(item, name); })) {
      globs_.push_back(item);
    } else {
      const std::string nearest = did_you_mean(item, names);
      throw UsageFailure(fmt::format(
          "{}: '{}' matches no layer{}", option, item,
          nearest.empty() ? fmt::format("; layers are {}, …, {}", layers.front(), layers.back()) : nearest));
    }
  }
  if (!all_ && names_.empty() && globs_.empty()) {
    throw UsageFailure(
        fmt::format("{}: expected all, firstN, lastN or globs such as decoder.*, found '{}'", option, list));
  }
}

bool LayerFilter::takes(std::string_view layer) const {
  return all_ || std::find(names_.begin(), names_.end(), layer) != names_.end() ||
         std::any_of(globs_.begin(), globs_.end(), [&](const std::string& glob) { return matches_glob(glob, layer); });
}

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
