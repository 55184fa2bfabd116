#include "insight/plot/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "base/failure.h"
#include "base/xml_text.h"

namespace babelring::insight {
namespace {

constexpr double image_width = 760, image_height = 420, margin_left = 70, margin_right = 20, margin_top = 40,
                 margin_bottom = 90;
constexpr double axes_width = image_width - margin_left - margin_right,
                 axes_height = image_height - margin_top - margin_bottom;
/// A line with more positions is drawn without a mark and a label at each.
constexpr std::size_t max_marked_positions = 12;
/// Colours that differ for all kinds of colour vision (Okabe and Ito 2008).
constexpr std::array colours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#666666", "#000000"};

const char* colour(std::size_t series) {
  return colours[series % colours.size()];
}

/// The largest and smallest value on the y axis.
std::pair<double, double> value_range(const Plot& plot) {
  double low = 0, high = 0;
  for (std::size_t i = 0; i < std::max(plot.x.size(), plot.categories.size()); ++i) {
    double stack = 0;
    for (const PlotSeries& series : plot.series) {
      const double value = series.values[i];
      if (!std::isfinite(value)) continue;
      stack += std::max(0.0, value);
      if (plot.kind != Plot::Kind::stacked_bars) low = std::min(low, value);
      high = std::max(high, plot.kind == Plot::Kind::stacked_bars ? stack : value);
    }
  }
  return {low, high > low ? high : low + 1};
}

class Writer {
 public:
  explicit Writer(const Plot& plot) : plot_(plot) {
    const auto [low, high] = value_range(plot);
    ticks_ = axis_ticks(low, high, 6);
    if (plot.kind == Plot::Kind::lines && !plot.x.empty()) {
      const auto [first, last] = std::ranges::minmax(plot.x);
      first_ = scaled(first);
      last_ = scaled(last);
    }
  }

  std::string write() {
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" width="{}" height="{}" role="img")", image_width,
        image_height, image_width, image_height);
    add(" aria-label=\"{0}\" font-family=\"sans-serif\" font-size=\"12\">\n<title>{0}</title>\n",
        xml_text(plot_.title));
    add("<rect width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>\n", image_width, image_height);
    text(image_width / 2, 20, "middle", plot_.title, R"( font-size="15")");
    write_axes();
    plot_.kind == Plot::Kind::lines ? write_lines() : write_bars();
    write_legend();
    text(margin_left, image_height - 8, "start", plot_.note, R"( font-size="11" fill="#444444")");
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  void text(double x, double y, const char* anchor, const std::string& content, const char* more = "") {
    if (content.empty()) return;
    add("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more, xml_text(content));
  }
  double scaled(double x) const { return plot_.log_x ? std::log10(x) : x; }
  double x_of(double x) const {
    return margin_left + (last_ > first_ ? (scaled(x) - first_) / (last_ - first_) : 0.5) * axes_width;
  }
  double y_of(double value) const {
    return margin_top + axes_height - (value - ticks_.front()) / (ticks_.back() - ticks_.front()) * axes_height;
  }

  void write_axes() {
    for (const double tick : ticks_) {
      add("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", margin_left,
          image_width - margin_right, y_of(tick), y_of(tick), tick == 0 ? "#444444" : "#dddddd");
      text(margin_left - 6, y_of(tick) + 4, "end", fmt::format("{:.6g}", tick));
    }
    text(margin_left + axes_width / 2, margin_top + axes_height + 36, "middle", plot_.x_label);
    add("<g transform=\"translate(16 {:.1f}) rotate(-90)\">", margin_top + axes_height / 2);
    text(0, 0, "middle", plot_.y_label);
    out_ += "</g>\n";
    for (const double x : x_ticks()) text(x_of(x), margin_top + axes_height + 18, "middle", fmt::format("{:.6g}", x));
    for (std::size_t i = 0; i < plot_.categories.size(); ++i) {
      text(margin_left + (static_cast<double>(i) + 0.5) * slot(), margin_top + axes_height + 18, "middle",
           plot_.categories[i], plot_.categories.size() > 9 ? R"( font-size="9")" : "");
    }
  }
  /// Each position if they are few. Otherwise round numbers, or on a logarithmic axis powers of 2 or 10.
  std::vector<double> x_ticks() const {
    if (plot_.x.size() <= max_marked_positions) return plot_.x;
    const auto [first, last] = std::ranges::minmax(plot_.x);
    std::vector<double> ticks;
    if (plot_.log_x) {
      const double factor = last / first > 1000 ? 10 : 2;
      for (double tick = first; tick <= last; tick *= factor) ticks.push_back(tick);
    } else {
      ticks = axis_ticks(first, last, 8);
      std::erase_if(ticks, [&](double tick) { return tick < first || tick > last; });
    }
    return ticks;
  }
  double slot() const { return axes_width / static_cast<double>(plot_.categories.size()); }

  void write_lines() {
    for (std::size_t s = 0; s < plot_.series.size(); ++s) {
      const PlotSeries& series = plot_.series[s];
      std::string path;
      bool drawing = false;
      for (std::size_t i = 0; i < plot_.x.size(); ++i) {
        const double value = series.values[i];
        if (std::isfinite(value)) {
          path += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", x_of(plot_.x[i]), y_of(value));
        }
        if (std::isfinite(value) && plot_.x.size() <= max_marked_positions) {
          add("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x_of(plot_.x[i]), y_of(value), colour(s));
        }
        drawing = std::isfinite(value);
      }
      add("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", path, colour(s),
          series.dashed ? R"( stroke-dasharray="6 4")" : "");
    }
  }

  void write_bars() {
    const bool stacked = plot_.kind == Plot::Kind::stacked_bars;
    const double bar = slot() * 0.8 / (stacked ? 1 : static_cast<double>(plot_.series.size()));
    for (std::size_t i = 0; i < plot_.categories.size(); ++i) {
      double base = 0;
      for (std::size_t s = 0; s < plot_.series.size(); ++s) {
        const double value = plot_.series[s].values[i];
        if (!std::isfinite(value) || (stacked && value <= 0)) continue;
        const double x =
            margin_left + (static_cast<double>(i) + 0.1) * slot() + (stacked ? 0 : bar * static_cast<double>(s));
        const double from = y_of(base), to = y_of(base + value);
        add("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"{}><title>{}: {:.6g}</title>"
            "</rect>\n",
            x, std::min(from, to), bar, std::abs(from - to), colour(s),
            plot_.series[s].dashed ? R"( fill-opacity="0.45" stroke="#444444" stroke-dasharray="3 2")" : "",
            xml_text(plot_.series[s].name), value);
        if (stacked) base += value;
      }
    }
  }

  void write_legend() {
    double x = margin_left;
    for (std::size_t s = 0; s < plot_.series.size(); ++s) {
      add("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"{}/>\n", x, image_height - 38,
          colour(s), plot_.series[s].dashed ? R"( fill-opacity="0.45")" : "");
      text(x + 16, image_height - 28, "start", plot_.series[s].name);
      x += 34 + 6.5 * static_cast<double>(plot_.series[s].name.size());
    }
  }

  const Plot& plot_;
  std::string out_;
  std::vector<double> ticks_;
  double first_ = 0, last_ = 1;
};

}  // namespace

std::vector<double> axis_ticks(double low, double high, int count) {
  const double rough = (high - low) / std::max(1, count);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  for (double n = std::floor(low / step); n * step < high + step * 0.999; ++n) ticks.push_back(n * step);
  return ticks;
}

std::string svg_of(const Plot& plot) {
  const bool lines = plot.kind == Plot::Kind::lines;
  const std::size_t positions = lines ? plot.x.size() : plot.categories.size();
  for (const PlotSeries& series : plot.series) {
    if (series.values.size() == positions) continue;
    fail("plot '{}': series '{}' has {} values, expected {}", plot.title, series.name, series.values.size(), positions);
  }
  if (positions == 0 || plot.series.empty()) fail("plot '{}': found no values, expected at least one", plot.title);
  for (const double x : plot.x) {
    if (plot.log_x && x <= 0) fail("plot '{}': found x {} on a logarithmic axis, expected above 0", plot.title, x);
  }
  return Writer(plot).write();
}

}  // namespace babelring::insight
