#include "cli/probe/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/failure.h"
#include "cli/runs/table.h"
#include "nmt/lab/probe/layer_filter.h"

namespace babelring {

namespace {

std::string distance_text(const RecordPair& pair) {
  const ProbeRecord& record = pair.record();
  if (pair.sameness == Sameness::missing)
    return pair.a == nullptr ? "missing in the first probe" : "missing in the second probe";
  if (pair.a->shape != pair.b->shape || pair.a->dtype != pair.b->dtype) {
    return fmt::format("{} {} and {} {}", name_of(pair.a->dtype), pair.a->shape.text(), name_of(pair.b->dtype),
                       pair.b->shape.text());
  }
  if (pair.element < 0)
    return fmt::format("at least one element, none of the {} that are stored", pair.distance.compared);
  const ElementDistance& worst = pair.distance.worst;
  return fmt::format("{}{} of {} elements; element {}: {:.9g} and {:.9g}; {}{:.3g} absolute, {:.3g} relative, {} ulp",
                     pair.exact ? "" : "at least ", pair.distance.different, record.shape.elements(), pair.element,
                     value_of(pair.bits_a, record.dtype), value_of(pair.bits_b, record.dtype),
                     pair.exact ? "" : "at least ", worst.absolute, worst.relative, worst.ulp);
}

void print_first(const ProbeComparison& comparison, const Screen& screen) {
  if (!comparison.first) return;
  const RecordPair& first = comparison.pairs[*comparison.first];
  screen.out << "first divergence: " << place_of(first.record()) << '\n' << "  " << distance_text(first) << '\n';
  if (comparison.carried_on_from) {
    screen.out << "  carried on from " << place_of(comparison.pairs[*comparison.carried_on_from].record()) << '\n';
  } else if (first.record().phase == "start") {
    screen.out << "  the weights before the first update differ\n";
  } else if (first.sameness != Sameness::missing) {
    screen.out << "  the op's inputs are the same: this op differs\n";
  }
}

void print_layers(const ProbeComparison& comparison, const ProbeReportOptions& options, const Screen& screen) {
  std::vector<Table::Column> columns = {{.title = "layer", .importance = 100}};
  for (const std::string_view column : LayerRow::columns) columns.push_back({.title = std::string(column)});
  Table table(std::move(columns));
  std::size_t hidden = 0;
  for (const LayerRow& row : comparison.layers) {
    if (!options.all && row.worst() == Sameness::same) {
      ++hidden;
      continue;
    }
    std::vector<Table::Cell> cells = {{.text = row.layer}};
    for (const std::optional<Sameness>& cell : row.cells) {
      cells.push_back(cell ? Table::Cell{std::string(name_of(*cell)), colour_of(*cell)}
                           : Table::Cell{"-", Colour::grey});
    }
    table.add(std::move(cells));
  }
  if (!table.empty()) table.print(screen);
  if (hidden > 0) screen.out << fmt::format("{} of {} layers are the same\n", hidden, comparison.layers.size());
}

void print_tensors(const ProbeComparison& comparison, const ProbeReportOptions& options, const Screen& screen) {
  Table table({{.title = "tensor", .importance = 100},
               {.title = "result", .importance = 100},
               {.title = "distance", .importance = 20}});
  std::size_t hidden = 0;
  for (const RecordPair& pair : comparison.pairs) {
    if (!options.all && pair.sameness == Sameness::same) {
      ++hidden;
      continue;
    }
    table.add({{.text = place_of(pair.record())},
               {std::string(name_of(pair.sameness)), colour_of(pair.sameness)},
               {.text = pair.sameness == Sameness::same ? "" : distance_text(pair)}});
  }
  if (!table.empty()) table.print(screen);
  if (hidden > 0) screen.out << fmt::format("{} of {} tensors are the same\n", hidden, comparison.pairs.size());
}

std::string field_of(const ProbeRecord& record, const std::string& field) {
  const json::object object = to_json(record);
  const json::value* value = object.if_contains(field);
  if (value->is_string()) {
    const std::string text(value->get_string());
    return field == "sha256" ? text.substr(0, 12) : text;
  }
  return value->is_double() ? fmt::format("{:.6g}", value->get_double()) : to_text(*value);
}

}  // namespace

Colour colour_of(Sameness sameness) {
  switch (sameness) {
    case Sameness::same:
      return Colour::green;
    case Sameness::close:
      return Colour::yellow;
    case Sameness::differs:
      return Colour::red;
    case Sameness::missing:
      break;
  }
  return Colour::grey;
}

std::string place_of(const ProbeRecord& record) {
  std::string place = fmt::format("update {}", record.update);
  if (record.micro_batch > 0) place += fmt::format(", micro-batch {}", record.micro_batch);
  place += fmt::format(", {}, layer {}, {}.{}", record.phase, record.layer, record.op, record.member);
  if (record.occurrence > 0) place += fmt::format(" (occurrence {})", record.occurrence);
  return place;
}

void print_comparison(const ProbeComparison& comparison, const ProbeReportOptions& options, const Screen& screen) {
  const bool differ = comparison.sameness == Sameness::differs;
  const std::string_view outcome = differ ? "differ" : name_of(comparison.sameness);
  screen.out << "probes: " << screen.coloured(outcome, colour_of(comparison.sameness)) << '\n';
  print_first(comparison, screen);
  for (const std::string& line : comparison.header_lines) screen.out << "differs: " << line << '\n';
  options.by_tensor ? print_tensors(comparison, options, screen) : print_layers(comparison, options, screen);
}

const std::vector<std::string>& probe_fields() {
  static const std::vector<std::string> fields = {
      "record", "update", "micro_batch", "phase", "layer",  "op",  "member", "occurrence", "role",     "shape", "dtype",
      "sha256", "min",    "max",         "mean",  "absmax", "rms", "zeros",  "non_finite", "elements", "inputs"};
  return fields;
}

void print_probe(const Probe& probe, const std::vector<std::string>& fields, const std::string& layers,
                 const Screen& screen) {
  const json::object header = to_json(probe.header);
  for (const auto& member : header) {
    if (!member.value().is_object())
      screen.out << member.key() << ": "
                 << (member.value().is_string() ? std::string(member.value().get_string()) : to_text(member.value()))
                 << '\n';
  }
  for (const auto& member : probe.header.environment)
    screen.out << member.key() << ": " << (member.value().is_string() ? std::string(member.value().get_string()) : "")
               << '\n';
  std::vector<Table::Column> columns;
  for (const std::string& field : fields) columns.push_back({.title = field, .importance = 100});
  Table table(std::move(columns));
  for (const ProbeRecord& record : probe.records) {
    if (!layers.empty() && !matches_glob(layers, record.layer)) continue;
    std::vector<Table::Cell> cells;
    for (const std::string& field : fields) cells.push_back({.text = field_of(record, field)});
    table.add(std::move(cells));
  }
  if (table.empty())
    throw UsageFailure(fmt::format("--layers: '{}' matches no layer of {}", layers, probe.file.string()));
  table.print(screen);
}

}  // namespace babelring
