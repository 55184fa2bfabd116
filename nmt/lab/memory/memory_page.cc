#include <fmt/format.h>

#include <algorithm>

#include "base/grouped.h"
#include "base/xml_text.h"
#include "nmt/lab/memory/memory_report.h"

namespace babelring {
namespace {

constexpr double plot_left = 90, plot_top = 30, plot_width = 980, plot_height = 300;

constexpr std::string_view style = R"css(
  body { font: 14px system-ui, sans-serif; margin: 2em; color: #1c1c1c; background: #fff; }
  td, th { padding: 2px 12px 2px 0; text-align: left; } td:first-child { text-align: right; }
  svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
  .saved { fill: #4477aa; } .scratch { fill: #ccbb44; } .line { stroke: #888; stroke-width: 1; }
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

/// The area between two curves, of which `low` and `high` give the bytes at a moment.
template <class Low, class High>
std::string area(const MemoryReport& report, const Scale& scale, std::string_view name, Low low, High high) {
  std::string points;
  for (std::size_t i = 0; i < report.moments.size(); ++i) {
    points += fmt::format("{:.1f},{:.1f} ", scale.x(i), scale.y(high(report.moments[i])));
  }
  for (std::size_t i = report.moments.size(); i-- > 0;) {
    points += fmt::format("{:.1f},{:.1f} ", scale.x(i), scale.y(low(report.moments[i])));
  }
  return fmt::format("<polygon class=\"{}\" points=\"{}\"/>\n", name, points);
}

/// A vertical line where each phase begins, with its name.
std::string phases(const MemoryReport& report, const Scale& scale) {
  std::string text;
  for (std::size_t i = 0; i < report.moments.size(); ++i) {
    const std::string& phase = report.moments[i].phase;
    if (i > 0 && phase == report.moments[i - 1].phase) continue;
    const double x = scale.x(i) - plot_width / 2 / static_cast<double>(scale.ops);
    text += fmt::format("<line class=\"line\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>", x, plot_top,
                        plot_top + plot_height);
    text += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}</text>\n", x + 3, plot_top + plot_height + 14, xml_text(phase));
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
  const Scale scale{report.moments.size(), peak.bytes()};
  const auto saved = [](const MemoryMoment& moment) { return moment.saved; };
  std::string text = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Used bytes after each op\">\n",
                                 plot_left + plot_width + 10, plot_top + plot_height + 30);
  text += area(
      report, scale, "saved", [](const MemoryMoment&) { return std::int64_t{0}; }, saved);
  text += area(report, scale, "scratch", saved, [](const MemoryMoment& moment) { return moment.bytes(); });
  text += phases(report, scale) + axis(scale);
  const double x = scale.x(report.peak);
  text += fmt::format("<line class=\"peak\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>", x, plot_top,
                      plot_top + plot_height);
  text += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"{}\">peak: {} of {}, {} bytes</text>\n</svg>\n", x,
                      plot_top - 8, x > plot_left + plot_width / 2 ? "end" : "start", xml_text(peak.op),
                      xml_text(peak.layer), grouped(static_cast<double>(peak.bytes())));
  return text;
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
      "<p>Blue: activations, which backward reads again. Yellow: scratch, which ends with its layer.</p>\n{}"
      "<h2>What lay in memory at the peak</h2>\n{}</html>\n",
      style, xml_text(text.substr(0, text.find('\n'))), drawing(report), owners_table(report));
}

}  // namespace babelring
