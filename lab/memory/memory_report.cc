#include "lab/memory/memory_report.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/failure.h"
#include "base/grouped.h"
#include "base/json_get.h"

namespace babelring {
namespace {

constexpr std::int64_t memory_format = 1;

json::array moments_json(const MemoryReport& report) {
  json::array moments;
  for (const MemoryMoment& moment : report.moments) {
    moments.push_back(json::array{moment.phase, moment.layer, moment.op, moment.saved, moment.scratch});
  }
  return moments;
}

/// Throws Failure if the value is not an array of the size.
const json::array& row_of(const json::value& value, std::size_t size, const char* what) {
  if (!value.is_array() || value.get_array().size() != size) fail("{}: expected arrays of {} values", what, size);
  return value.get_array();
}

std::string text_in(const json::value& value, const char* what) {
  if (!value.is_string()) fail("{}: expected a text, found {}", what, to_text(value));
  return std::string(std::string_view(value.get_string()));
}

std::int64_t bytes_in(const json::value& value, const char* what) {
  if (!value.is_int64()) fail("{}: expected an integer, found {}", what, to_text(value));
  return value.get_int64();
}

const json::array& list_in(const json::object& object, const char* name) {
  const json::value* list = object.if_contains(name);
  if (list == nullptr || !list->is_array()) fail("{}: expected an array", name);
  return list->get_array();
}

void read_lists(const json::object& object, MemoryReport& report) {
  for (const json::value& value : list_in(object, "owners")) {
    const json::array& row = row_of(value, 4, "owners");
    report.owners.push_back(
        {text_in(row[0], "owners"), text_in(row[1], "owners"), text_in(row[2], "owners"), bytes_in(row[3], "owners")});
  }
  for (const json::value& value : list_in(object, "moments")) {
    const json::array& row = row_of(value, 5, "moments");
    report.moments.push_back({text_in(row[0], "moments"), text_in(row[1], "moments"), text_in(row[2], "moments"),
                              bytes_in(row[3], "moments"), bytes_in(row[4], "moments")});
  }
  if (const json::object* beside = get_object(object, "beside_arenas")) {
    for (const auto& [name, bytes] : *beside) report.beside_arenas[name] = bytes_in(bytes, "beside_arenas");
  }
}

std::string share_of(std::int64_t bytes, std::int64_t total) {
  return fmt::format("{:5.1f} %", total == 0 ? 0.0 : 100.0 * static_cast<double>(bytes) / static_cast<double>(total));
}

std::string size_line(std::string_view name, std::int64_t bytes) {
  return fmt::format("{:<16}{:>18}\n", name, grouped(static_cast<double>(bytes)));
}

}  // namespace

std::int64_t MemoryReport::peak_bytes() const {
  std::int64_t total = moments.at(peak).bytes();
  for (const auto& [name, bytes] : beside_arenas) total += bytes;
  return total;
}

json::object to_json(const MemoryReport& report) {
  json::array owners;
  for (const MemoryOwner& owner : report.owners) {
    owners.push_back(json::array{owner.layer, owner.op, owner.field, owner.bytes});
  }
  json::object beside;
  for (const auto& [name, bytes] : report.beside_arenas) beside[name] = bytes;
  return {{"format", memory_format},
          {"update", report.update},
          {"rank", report.rank},
          {"device", report.device},
          {"precision", report.precision},
          {"source_tokens", report.source_tokens},
          {"target_tokens", report.target_tokens},
          {"beside_arenas", std::move(beside)},
          {"saved_peak", report.saved_peak},
          {"scratch_peak", report.scratch_peak},
          {"peak", static_cast<std::int64_t>(report.peak)},
          {"owners", std::move(owners)},
          {"other", report.other},
          {"moments", moments_json(report)}};
}

Result<MemoryReport> memory_report_from_json(const json::value& value) try {
  if (!value.is_object()) return Error{"memory report: expected an object"};
  const json::object& object = value.get_object();
  if (get_integer(object, "format") != memory_format) {
    return Error{fmt::format("memory report: expected format {}, found {}", memory_format,
                             object.contains("format") ? to_text(object.at("format")) : "none")};
  }
  MemoryReport report{.update = get_integer(object, "update"),
                      .rank = get_integer(object, "rank"),
                      .device = get_text(object, "device"),
                      .precision = get_text(object, "precision")};
  report.source_tokens = get_integer(object, "source_tokens");
  report.target_tokens = get_integer(object, "target_tokens");
  report.saved_peak = get_integer(object, "saved_peak");
  report.scratch_peak = get_integer(object, "scratch_peak");
  report.other = get_integer(object, "other");
  read_lists(object, report);
  const std::int64_t peak = get_integer(object, "peak");
  if (peak < 0 || peak >= std::ssize(report.moments)) {
    return Error{fmt::format("memory report: peak: expected the index of one of {} moments, found {}",
                             report.moments.size(), peak)};
  }
  report.peak = static_cast<std::size_t>(peak);
  return report;
} catch (const Failure& failure) {
  return Error{std::string("memory report: ") + failure.what()};
}

std::string text_of(const MemoryReport& report) {
  const MemoryMoment& peak = report.moments.at(report.peak);
  const std::string source =
      report.source_tokens > 0 ? grouped(static_cast<double>(report.source_tokens)) + " source and " : "";
  std::string text =
      fmt::format("{}, {}, {}{} target tokens\n\n",
                  report.update == 0 ? "dry update" : fmt::format("update {}, rank {}", report.update, report.rank),
                  report.device + " " + report.precision, source, grouped(static_cast<double>(report.target_tokens)));
  for (const auto& [name, bytes] : report.beside_arenas) text += size_line(name, bytes);
  text += size_line("activations", peak.saved) + size_line("scratch", peak.scratch) +
          size_line("peak in bytes", report.peak_bytes());
  text += fmt::format("\npeak at op {} of {}: {} of {} in {}\n\n", report.peak + 1, report.moments.size(), peak.op,
                      peak.layer.empty() ? "no layer" : peak.layer, peak.phase.empty() ? "no phase" : peak.phase);
  text += fmt::format("{:>18}  {:>7}  {}\n", "bytes", "share", "layer, op and tensor");
  for (const MemoryOwner& owner : report.owners) {
    text += fmt::format("{:>18}  {:>7}  {} {}.{}\n", grouped(static_cast<double>(owner.bytes)),
                        share_of(owner.bytes, peak.bytes()), owner.layer, owner.op, owner.field);
  }
  text += fmt::format("{:>18}  {:>7}  others\n", grouped(static_cast<double>(report.other)),
                      share_of(report.other, peak.bytes()));
  return text;
}

std::string csv_of(const MemoryReport& report) {
  std::string text = "op,phase,layer,name,activations_bytes,scratch_bytes\n";
  for (std::size_t i = 0; i < report.moments.size(); ++i) {
    const MemoryMoment& moment = report.moments[i];
    text +=
        fmt::format("{},{},{},{},{},{}\n", i + 1, moment.phase, moment.layer, moment.op, moment.saved, moment.scratch);
  }
  return text;
}

}  // namespace babelring
