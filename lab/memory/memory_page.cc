#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "base/grouped.h"
#include "base/xml_text.h"
#include "lab/memory/memory_report.h"

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

}  // namespace babelring
