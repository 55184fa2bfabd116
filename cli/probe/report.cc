#include "cli/probe/report.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/text.h"
#include "cli/probe/probe.h"
#include "cli/runs/table.h"
#include "lab/op_place.h"

namespace babelring {
namespace {

struct ProbePrintArguments {
  std::string file, fields = "phase,layer,op,member,shape,sha256,mean,absmax", layers;
};

}  // namespace

void add_probe_print(CLI::App& probe) {
  CLI::App* command = probe.add_subcommand("print", "Prints a probe");
  const auto arguments = std::make_shared<ProbePrintArguments>();
  command->add_option("file", arguments->file, "probe")->required();
  command->add_option("--fields", arguments->fields, "members to show, separated by commas")->capture_default_str();
  command->add_option("--layers", arguments->layers, "glob of the layers to show; default: all");
  command->callback([arguments] {
    const std::vector<std::string> fields = probe_fields(arguments->fields);
    print_probe(read_probe(arguments->file), fields, arguments->layers, Screen::of_stdout());
  });
}

namespace {

/// "; max 2.4e-07 absolute at element 12", where the element with the max ulp has less.
std::string other_maxima(const RecordPair& pair) {
  const TensorDistance& distance = pair.distance;
  const char* const bound = pair.exact ? "" : "at least ";
  std::string text;
  if (distance.worst.absolute > distance.ulp.distance.absolute) {
    text += fmt::format("; max {}{:.3g} absolute at element {}", bound, distance.worst.absolute, pair.absolute_element);
  }
  if (distance.worst.relative > distance.ulp.distance.relative) {
    text += fmt::format("; max {}{:.3g} relative at element {}", bound, distance.worst.relative, pair.relative_element);
  }
  return text;
}

std::string distance_text(const RecordPair& pair) {
  const ProbeRecord& record = pair.record();
  if (pair.sameness == Sameness::missing)
    return pair.a == nullptr ? "missing in the first probe" : "missing in the second probe";
  const bool same_type = pair.a->dtype == pair.b->dtype;
  std::string types = fmt::format("{} {} and {} {}", name_of(pair.a->dtype), pair.a->shape.text(),
                                  name_of(pair.b->dtype), pair.b->shape.text());
  if (pair.distance.compared == 0) return types;
  std::string text = same_type ? "" : types + "; ";
  if (pair.element < 0) {
    return text + (same_type
                       ? fmt::format("at least one element, none of the {} that are stored", pair.distance.compared)
                   : pair.exact ? "all elements are equal"
                                : fmt::format("the {} elements that are stored are equal", pair.distance.compared));
  }
  const ElementDistance& here = pair.distance.ulp.distance;
  text += fmt::format(
      "{}{} of {} elements; element {}: {:.9g} and {:.9g}, apart by {:.3g} absolute, {:.3g} relative, {} ulp",
      pair.exact ? "" : "at least ", pair.distance.different, record.shape.elements(), pair.element, pair.value_a,
      pair.value_b, here.absolute, here.relative, here.ulp);
  return text + other_maxima(pair);
}

std::string cause_text(const ProbeComparison& comparison) {
  using enum FirstCause;
  switch (comparison.cause) {
    case weights:
      return "the weights before the first update differ";
    case carried_on: {
      const RecordPair& from = comparison.pairs[*comparison.carried_on_from];
      return fmt::format("carried on from {}{}", place_of(from.record()),
                         from.sameness == Sameness::missing ? ", which is " + distance_text(from) : "");
    }
    case batch:
      return "the op reads the batch, and the batches differ";
    case not_compared:
      return "not all of its inputs were compared: this op may differ, or have carried on what differs in them";
    case not_recorded:
      return "not all of its inputs were recorded (layers that were left out, or other ranks): this op may differ, or "
             "have carried on what differs in them";
    case op:
      return "the op's inputs are the same: this op differs";
    case none:
    case missing:
      break;
  }
  return "";
}

void print_first(const ProbeComparison& comparison, const Screen& screen) {
  if (!comparison.first) return;
  const RecordPair& first = comparison.pairs[*comparison.first];
  screen.out << "first divergence: " << place_of(first.record()) << '\n' << "  " << distance_text(first) << '\n';
  if (const std::string text = cause_text(comparison); !text.empty()) screen.out << "  " << text << '\n';
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

std::string field_of(const ProbeRecord& record, const std::string& field) {
  const json::object object = to_json(record);
  const json::value* value = object.if_contains(field);
  if (value->is_string()) {
    const std::string text(value->get_string());
    return field == "sha256" ? text.substr(0, 12) : text;
  }
  return value->is_double() ? fmt::format("{:.6g}", value->get_double()) : to_text(*value);
}

/// The member of both records: once if its texts are equal, otherwise "1.5 and 1.6". Absent records have "-".
std::string field_of_both(const RecordPair& pair, const std::string& field) {
  const std::string a = pair.a != nullptr ? field_of(*pair.a, field) : "-";
  const std::string b = pair.b != nullptr ? field_of(*pair.b, field) : "-";
  return a == b ? a : fmt::format("{} and {}", a, b);
}

void print_tensors(const ProbeComparison& comparison, const ProbeReportOptions& options, const Screen& screen) {
  std::vector<Table::Column> columns = {{.title = "tensor", .importance = 100}, {.title = "result", .importance = 100}};
  for (const std::string& field : options.fields) columns.push_back({.title = field, .importance = 100});
  columns.push_back({.title = "distance", .importance = 20});
  Table table(std::move(columns));
  std::size_t hidden = 0;
  for (const RecordPair& pair : comparison.pairs) {
    if (!options.all && pair.sameness == Sameness::same) {
      ++hidden;
      continue;
    }
    std::vector<Table::Cell> cells = {{.text = place_of(pair.record())},
                                      {std::string(name_of(pair.sameness)), colour_of(pair.sameness)}};
    for (const std::string& field : options.fields) cells.push_back({.text = field_of_both(pair, field)});
    cells.push_back({.text = pair.sameness == Sameness::same ? "" : distance_text(pair)});
    table.add(std::move(cells));
  }
  if (!table.empty()) table.print(screen);
  if (hidden > 0) screen.out << fmt::format("{} of {} tensors are the same\n", hidden, comparison.pairs.size());
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
  for (const std::string& line : comparison.library_lines) screen.out << line << '\n';
  print_first(comparison, screen);
  for (const std::string& line : comparison.header_lines) screen.out << "differs: " << line << '\n';
  for (const std::string& note : comparison.notes) screen.out << "note: " << note << '\n';
  options.by_tensor || !options.fields.empty() ? print_tensors(comparison, options, screen)
                                               : print_layers(comparison, options, screen);
}

std::vector<std::string> probe_fields(const std::string& list) {
  static const std::vector<std::string> known = {
      "record", "update", "micro_batch", "phase",    "layer",  "op",       "member", "occurrence",
      "role",   "shape",  "dtype",       "sha256",   "min",    "max",      "mean",   "absmax",
      "rms",    "zeros",  "non_finite",  "elements", "inputs", "left_out", "batch"};
  std::vector<std::string> fields = split_list(list);
  for (const std::string& field : fields) {
    if (std::find(known.begin(), known.end(), field) != known.end()) continue;
    throw UsageFailure(fmt::format("--fields: '{}' is no member of a record{}; members are {}", field,
                                   did_you_mean(field, known), fmt::join(known, ", ")));
  }
  return fields;
}

void print_probe(const Probe& probe, const std::vector<std::string>& fields, const std::string& layers,
                 const Screen& screen) {
  const auto shown = [&](const ProbeRecord& record) { return layers.empty() || matches_glob(layers, record.layer); };
  if (std::none_of(probe.records.begin(), probe.records.end(), shown) && !layers.empty()) {
    throw UsageFailure(fmt::format("--layers: '{}' matches no layer of {}", layers, probe.file.string()));
  }
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
    if (!shown(record)) continue;
    std::vector<Table::Cell> cells;
    for (const std::string& field : fields) cells.push_back({.text = field_of(record, field)});
    table.add(std::move(cells));
  }
  table.print(screen);
}

}  // namespace babelring
