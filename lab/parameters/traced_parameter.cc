#include "lab/parameters/traced_parameter.h"

#include <fmt/format.h>

#include "base/failure.h"

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

}  // namespace babelring
