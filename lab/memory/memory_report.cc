#include "lab/memory/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/json.h"
#include "base/result.h"
#include "base/text.h"

namespace babelring {
namespace {

constexpr double plot_left = 90, plot_top = 30, plot_width = 980, plot_height = 300;
constexpr double row_height = 14, character_width = 6.5;  // of a label
constexpr std::size_t label_rows = 4;

constexpr std::string_view style = R"css(
  body { font: 14px system-ui, sans-serif; margin: 2em; color: #1c1c1c; background: #fff; }
  td, th { padding: 2px 12px 2px 0; text-align: left; } td:first-child { text-align: right; }
  svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
  .activations { fill: #4477aa; background: #4477aa; } .scratch { fill: #ccbb44; background: #ccbb44; }
  .weights { fill: #777; background: #777; } .gradients { fill: #999; background: #999; }
  .moments { fill: #bbb; background: #bbb; } .beside { fill: #ddd; background: #ddd; }
  .key { display: inline-block; width: 1em; height: 1em; } .line { stroke: #888; stroke-width: 1; }
  .peak { stroke: #cc3311; stroke-width: 1.5; stroke-dasharray: 4 3; }
  @media (prefers-color-scheme: dark) { body { color: #eee; background: #181818; } }
)css";

/// Maps ops and bytes to the drawing.
struct Scale {
  std::size_t ops;
  std::int64_t bytes;

  double x(std::size_t op) const {
    return plot_left +
           plot_width * (static_cast<double>(op) + 0.5) / static_cast<double>(std::max<std::size_t>(ops, 1));
  }
  double y(std::int64_t value) const {
    return plot_top +
           plot_height * (1 - static_cast<double>(value) / static_cast<double>(std::max<std::int64_t>(bytes, 1)));
  }
};

/// A part of the memory: what an arena uses after each op, or an allocation beside them, which does not change.
struct Part {
  std::string name;
  std::function<std::int64_t(const MemoryMoment&)> bytes;
};

/// From the bottom of the drawing.
std::vector<Part> parts_of(const MemoryReport& report) {
  std::vector<Part> parts;
  const auto add = [&](const std::string& name, std::int64_t bytes) {
    parts.push_back({name, [bytes](const MemoryMoment&) { return bytes; }});
  };
  for (const char* name : {"weights", "gradients", "moments"}) {
    if (report.beside_arenas.contains(name)) add(name, report.beside_arenas.at(name));
  }
  for (const auto& [name, bytes] : report.beside_arenas) {
    if (name != "weights" && name != "gradients" && name != "moments") add(name, bytes);
  }
  parts.push_back({"activations", [](const MemoryMoment& moment) { return moment.saved; }});
  parts.push_back({"scratch", [](const MemoryMoment& moment) { return moment.scratch; }});
  return parts;
}

std::string class_of(const std::string& part) {
  const bool known =
      part == "weights" || part == "gradients" || part == "moments" || part == "activations" || part == "scratch";
  return known ? part : "beside";
}

/// The parts on top of one another.
std::string areas(const MemoryReport& report, const Scale& scale) {
  std::string text;
  std::vector<std::int64_t> low(report.moments.size());
  for (const Part& part : parts_of(report)) {
    std::string points;
    for (std::size_t i = report.moments.size(); i-- > 0;) {
      points += fmt::format("{:.1f},{:.1f} ", scale.x(i), scale.y(low[i]));
    }
    for (std::size_t i = 0; i < report.moments.size(); ++i) {
      low[i] += part.bytes(report.moments[i]);
      points += fmt::format("{:.1f},{:.1f} ", scale.x(i), scale.y(low[i]));
    }
    text += fmt::format("<polygon class=\"{}\" points=\"{}\"><title>{}</title></polygon>\n", class_of(part.name),
                        points, xml_text(part.name));
  }
  return text;
}

/// A vertical line where each phase begins, with its name in the first row that has room for it.
std::string phases(const MemoryReport& report, const Scale& scale) {
  std::string text;
  std::array<double, label_rows> ends{};
  for (std::size_t i = 0; i < report.moments.size(); ++i) {
    const std::string& phase = report.moments[i].phase;
    if (i > 0 && phase == report.moments[i - 1].phase) continue;
    const double x = scale.x(i) - plot_width / 2 / static_cast<double>(scale.ops);
    const double width = character_width * static_cast<double>(phase.size());
    const double left = std::min(x + 3, plot_left + plot_width - width);
    std::size_t row = 0;
    while (row + 1 < label_rows && ends[row] > left) ++row;
    ends[row] = left + width + character_width;
    const double y = plot_top + plot_height + 14 + row_height * static_cast<double>(row);
    text += fmt::format("<line class=\"line\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>", x, plot_top, y);
    text += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}</text>\n", left, y, xml_text(phase));
  }
  return text;
}

std::string axis(const Scale& scale) {
  std::string text;
  for (int i = 0; i <= 4; ++i) {
    const std::int64_t bytes = scale.bytes * i / 4;
    text += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.2f} MB</text>\n", plot_left - 6,
                        scale.y(bytes) + 4, static_cast<double>(bytes) / 1e6);
  }
  return text;
}

std::string drawing(const MemoryReport& report) {
  const MemoryMoment& peak = report.moments.at(report.peak);
  const Scale scale{report.moments.size(), report.peak_bytes()};
  std::string text = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Used bytes after each op\">\n",
                                 plot_left + plot_width + 10,
                                 plot_top + plot_height + 14 + row_height * static_cast<double>(label_rows));
  text += areas(report, scale) + phases(report, scale) + axis(scale);
  const double x = scale.x(report.peak);
  text += fmt::format("<line class=\"peak\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>", x, plot_top,
                      plot_top + plot_height);
  text += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"{}\">peak: {} of {}, {} bytes</text>\n</svg>\n", x,
                      plot_top - 8, x > plot_left + plot_width / 2 ? "end" : "start", xml_text(peak.op),
                      xml_text(peak.layer), grouped(static_cast<double>(report.peak_bytes())));
  return text;
}

/// The bytes of each part at the peak, with its colour; the uppermost of the drawing first.
std::string parts_table(const MemoryReport& report) {
  std::vector<Part> parts = parts_of(report);
  std::string text = "<table><tr><th>bytes</th><th>at the peak</th></tr>\n";
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    text += fmt::format("<tr><td>{}</td><td><span class=\"key {}\"></span> {}</td></tr>\n",
                        grouped(static_cast<double>(part->bytes(report.moments.at(report.peak)))), class_of(part->name),
                        xml_text(part->name));
  }
  return text +
         fmt::format("<tr><td>{}</td><td>all</td></tr></table>\n", grouped(static_cast<double>(report.peak_bytes())));
}

std::string owners_table(const MemoryReport& report) {
  std::string text = "<table><tr><th>bytes</th><th>layer</th><th>op</th><th>tensor</th></tr>\n";
  for (const MemoryOwner& owner : report.owners) {
    text += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        grouped(static_cast<double>(owner.bytes)), xml_text(owner.layer), xml_text(owner.op),
                        xml_text(owner.field));
  }
  return text +
         fmt::format("<tr><td>{}</td><td>others</td></tr></table>\n", grouped(static_cast<double>(report.other)));
}

}  // namespace

std::string html_of(const MemoryReport& report) {
  const std::string text = text_of(report);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Memory inside an update</title>\n"
      "<style>{}</style>\n<h1>Memory inside an update</h1>\n<p>{}</p>\n"
      "<p>Activations are read again by backward; scratch ends with its layer.</p>\n{}{}"
      "<h2>What lay in the arenas at the peak</h2>\n{}</html>\n",
      style, xml_text(text.substr(0, text.find('\n'))), drawing(report), parts_table(report), owners_table(report));
}

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
  text += fmt::format("{:>18}  {:>7}  {}\n", "bytes", "part", "layer, op and tensor");
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
