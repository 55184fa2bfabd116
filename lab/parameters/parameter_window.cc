#include "lab/parameters/parameter_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/result.h"
#include "lab/parameters/window_summary.h"
#include "nmt/checkpoint/safetensors.h"

namespace babelring {

std::string name_of(RowKind kind) {
  switch (kind) {
    case RowKind::subwords:
      return "subwords";
    case RowKind::neurons:
      return "neurons";
    case RowKind::heads:
      return "heads";
    case RowKind::outputs:
      return "outputs";
    case RowKind::vector:
      return "vector";
  }
  fail("row kind {} is unknown", static_cast<int>(kind));
}

RowKind row_kind(const std::string& name, int dimensions) {
  if (is_neuron_bias(name)) return RowKind::neurons;
  if (dimensions == 1) return RowKind::vector;
  const auto ends_with = [&name](std::string_view end) { return name.ends_with(end); };
  if (ends_with("embedding") || name == "output") return RowKind::subwords;
  if (ends_with(".feed_forward.first.weight")) return RowKind::neurons;
  if (ends_with(".qkv.weight") || ends_with(".query.weight") || ends_with(".key_value.weight")) return RowKind::heads;
  return RowKind::outputs;
}

std::vector<TracedParameter> traced_parameters(const ParameterStore& store, const Adam& adam) {
  std::vector<TracedParameter> traced;
  std::int64_t first_row = 0;
  for (const Parameter& parameter : store.all()) {
    const std::int64_t rows = RowCounting::rows_of(parameter);
    traced.push_back({.name = parameter.name,
                      .rows = rows,
                      .width = parameter.shape.elements() / rows,
                      .first_row = first_row,
                      .kind = row_kind(parameter.name, parameter.shape.rank()),
                      .frozen = adam.freezes(parameter)});
    first_row += rows;
  }
  return traced;
}

/// Queries, keys and values of all heads lie one behind the other, each [width, width].
HeadRow head_of(const TracedParameter& parameter, std::int64_t row, std::int64_t heads) {
  const char* const parts = parameter.name.ends_with(".key_value.weight") ? "kv" : "qkv";
  return {.part = parts[row / parameter.width], .head = row % parameter.width / (parameter.width / heads)};
}

std::string row_label(const TracedParameter& parameter, std::int64_t row, std::int64_t heads,
                      const Vocabulary* vocabulary) {
  if (parameter.kind == RowKind::subwords && vocabulary != nullptr && row < vocabulary->size()) {
    return vocabulary->piece(static_cast<std::int32_t>(row));
  }
  if (parameter.kind != RowKind::heads) return "";
  const HeadRow place = head_of(parameter, row, heads);
  return fmt::format("{} head {}", place.part, place.head);
}

namespace {

constexpr std::int64_t format = 1;

/// The columns of the safetensors file, each [rows].
struct RowColumns {
  explicit RowColumns(std::size_t rows)
      : changed(rows),
        visible(rows),
        untouched(rows),
        measured(rows),
        changed_elements(rows),
        ratio(rows),
        max_ratio(rows) {}
  void set(std::size_t row, const RowCount& count) {
    changed[row] = count.changed;
    visible[row] = count.visible;
    untouched[row] = count.counted - count.touched;
    measured[row] = count.measured;
    changed_elements[row] = count.changed_elements;
    ratio[row] = mean_ratio(count);
    max_ratio[row] = count.max_ratio;
  }
  RowCount get(std::size_t row, std::int64_t updates) const {
    RowCount count{.changed_elements = changed_elements[row],
                   .ratios = static_cast<double>(ratio[row]) * measured[row],
                   .max_ratio = max_ratio[row],
                   .counted = static_cast<std::int32_t>(updates)};
    count.changed = changed[row], count.visible = visible[row], count.measured = measured[row];
    count.touched = count.counted - untouched[row];
    return count;
  }
  /// Calls each(name, tensor). A changed_elements is 64 bits: two words, the low one first.
  template <class Each>
  void visit(Each&& each) {
    const std::int64_t rows = std::ssize(changed);
    static_assert(std::endian::native == std::endian::little);
    each("changed", Tensor(changed.data(), {rows}, DType::i32));
    each("visible", Tensor(visible.data(), {rows}, DType::i32));
    each("untouched", Tensor(untouched.data(), {rows}, DType::i32));
    each("measured", Tensor(measured.data(), {rows}, DType::i32));
    each("changed_elements", Tensor(changed_elements.data(), {rows, 2}, DType::i32));
    each("ratio", Tensor(ratio.data(), {rows}, DType::f32));
    each("max_ratio", Tensor(max_ratio.data(), {rows}, DType::f32));
  }

  std::vector<std::int32_t> changed, visible, untouched, measured;
  std::vector<std::int64_t> changed_elements;
  std::vector<float> ratio, max_ratio;
};

TracedParameter read_parameter(const json::object& from, std::int64_t first_row) {
  TracedParameter parameter{.name = get_text(from, "name"),
                            .rows = get_integer(from, "rows"),
                            .width = get_integer(from, "width"),
                            .first_row = first_row,
                            .frozen = get_flag(from, "frozen")};
  const std::string kind = get_text(from, "rows_are");
  for (const RowKind known : {RowKind::subwords, RowKind::neurons, RowKind::heads, RowKind::outputs, RowKind::vector}) {
    if (name_of(known) == kind) parameter.kind = known;
  }
  return parameter;
}

/// All but the rows.
ParameterWindow read_header(const std::filesystem::path& file) {
  const Result<json::value> parsed = parse_json(read_file(file));
  if (!parsed) fail("{}: {}", file.string(), parsed.error());
  const json::object* object = parsed->if_object();
  if (object == nullptr || get_integer(*object, "format") != format) {
    fail("{}: format is {}, {} is needed", file.string(), object != nullptr ? get_integer(*object, "format") : 0,
         format);
  }
  ParameterWindow window{.run = get_text(*object, "run"),
                         .time_ms = get_integer(*object, "time_ms"),
                         .first_update = get_integer(*object, "first_update"),
                         .last_update = get_integer(*object, "last_update"),
                         .updates = get_integer(*object, "updates"),
                         .heads = std::max<std::int64_t>(get_integer(*object, "heads"), 1),
                         .precision = get_text(*object, "precision"),
                         .parameters = {},
                         .rows = {}};
  const json::value* list = object->if_contains("parameters");
  if (list == nullptr || !list->is_array() || list->get_array().empty()) fail("{}: no parameters", file.string());
  std::int64_t rows = 0;
  for (const json::value& parameter : list->get_array()) {
    if (!parameter.is_object()) fail("{}: parameters has an element that is no object", file.string());
    window.parameters.push_back(read_parameter(parameter.get_object(), rows));
    const TracedParameter& read = window.parameters.back();
    if (read.rows < 1 || read.width < 1) {
      fail("{}: parameter '{}' has {} rows of {} elements, at least 1 is needed", file.string(), read.name, read.rows,
           read.width);
    }
    rows += read.rows;
  }
  window.rows.resize(static_cast<std::size_t>(rows));
  return window;
}

}  // namespace

std::string window_name(std::int64_t last_update) {
  return fmt::format("parameters-{:08}", last_update);
}

boost::json::object window_json(const ParameterWindow& window, const Vocabulary* vocabulary) {
  if (window.updates == 0) {
    fail("parameters: no update from {} to {} was counted, all were skipped", window.first_update, window.last_update);
  }
  json::object content = summarize(window, vocabulary);
  content["format"] = format;
  content["rows_file"] = window_name(window.last_update) + ".safetensors";
  return content;
}

void write_rows(const ParameterWindow& window, const std::filesystem::path& file) {
  RowColumns columns(window.rows.size());
  for (std::size_t row = 0; row < window.rows.size(); ++row) columns.set(row, window.rows[row]);
  std::vector<NamedTensor> tensors;
  columns.visit([&](const char* column, const Tensor& tensor) { tensors.push_back({column, tensor}); });
  static_cast<void>(write_safetensors(file, tensors));
}

ParameterWindow read_window(const std::filesystem::path& json_file) {
  ParameterWindow window = read_header(json_file);
  if (window.updates == 0) fail("{}: the window has no counted update", json_file.string());
  const SafetensorsReader file(std::filesystem::path(json_file).replace_extension("safetensors"));
  RowColumns columns(window.rows.size());
  columns.visit([&](const char* column, const Tensor& tensor) {
    std::memcpy(tensor.data, file.tensor(column, tensor.shape, tensor.dtype).data, tensor.bytes());
  });
  for (std::size_t row = 0; row < window.rows.size(); ++row) window.rows[row] = columns.get(row, window.updates);
  return window;
}

std::vector<std::filesystem::path> find_windows(const std::filesystem::path& run_folder) {
  const std::filesystem::path folder = run_folder / "lab";
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("parameters-") && name.ends_with(".json")) files.push_back(entry.path());
    }
  }
  if (files.empty()) {
    fail("{}: found no parameters-*.json; lab.parameters.window=1000u makes a run write one every 1000 updates",
         folder.string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace babelring
