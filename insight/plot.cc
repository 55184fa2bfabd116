#include "insight/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <ranges>

#include "base/failure.h"
#include "base/text.h"

namespace babelring::insight {
namespace {

constexpr double image_width = 760, margin_left = 70, margin_right = 20, margin_top = 40;
constexpr double axes_width = image_width - margin_left - margin_right, axes_height = 290;
/// Widths of a character of sans-serif by the size of the font, of the wide side: 6.5 of 12, and in proportion.
constexpr double character_width = 6.5 / 12, font_size = 12, note_size = 11, small_size = 9;
constexpr double sine = 0.574, cosine = 0.819;  // of 35 degrees, at which long names stand
constexpr double legend_row = 18, note_row = 14, mark_width = 34;
/// A line with more positions is drawn without a mark and a label at each.
constexpr std::size_t max_marked_positions = 12;
/// Colours that differ for all kinds of colour vision (Okabe and Ito 2008).
constexpr std::array colours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                "#56b4e9", "#e69f00", "#808080", "currentColor"};

const char* colour(std::size_t series) {
  return colours[series % colours.size()];
}

/// The smallest and largest value on the y axis.
std::pair<double, double> value_range(const Plot& plot) {
  const bool lines = plot.kind == Plot::Kind::lines;
  double low = lines ? INFINITY : 0, high = lines ? -INFINITY : 0;
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
  if (low > high) return {0, 1};           // nothing to draw
  if (low > 0 && 3 * low < high) low = 0;  // a third: chosen by eye, on loss curves
  return {low, high > low ? high : low + 1};
}

/// Characters of a UTF-8 text.
double characters(std::string_view text) {
  return static_cast<double>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

double width_of(std::string_view text, double size) {
  return characters(text) * size * character_width;
}

/// The text in lines that are as wide as the axes, broken at spaces.
std::vector<std::string> wrapped(const std::string& text, double size) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (lines.empty() || width_of(lines.back() + ' ' + word, size) > axes_width) {
      lines.push_back(word);
    } else {
      lines.back() += ' ' + word;
    }
    at = end + 1;
  }
  return lines;
}

class Writer {
 public:
  Writer(const Plot& plot, Background background)
      : plot_(plot), background_(background), note_(wrapped(plot.note, note_size)) {
    const auto [low, high] = value_range(plot);
    ticks_ = axis_ticks(low, high, 6);
    if (plot.kind == Plot::Kind::lines && !plot.x.empty()) {
      const auto [first, last] = std::ranges::minmax(plot.x);
      first_ = scaled(first);
      last_ = scaled(last);
    }
    place_categories();
    place_legend();
  }

  std::string write() {
    const double legend_top = margin_top + axes_height + categories_height_ + 22;
    const double note_top = legend_top + legend_row * static_cast<double>(legend_rows_) + 4;
    const double height = note_top + note_row * static_cast<double>(std::max<std::size_t>(note_.size(), 1));
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" width="{}" height="{}" role="img")", image_width,
        height, image_width, height);
    add(" aria-label=\"{0}\" font-family=\"sans-serif\" font-size=\"12\" "
        "fill=\"currentColor\"{1}>\n<title>{0}</title>\n",
        xml_text(plot_.title), background_ == Background::white ? " color=\"#000000\"" : "");
    if (background_ == Background::white)
      add("<rect width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>\n", image_width, height);
    text(image_width / 2, 20, "middle", plot_.title, R"( font-size="15")");
    write_axes();
    plot_.kind == Plot::Kind::lines ? write_lines() : write_bars();
    write_legend(legend_top);
    for (std::size_t i = 0; i < note_.size(); ++i) {
      text(margin_left, note_top + note_row * static_cast<double>(i) + 6, "start", note_[i],
           R"( font-size="11" fill-opacity="0.75")");
    }
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  void text(double x, double y, const char* anchor, const std::string& content, const std::string& more = "") {
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
      add("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"currentColor\" "
          "stroke-opacity=\"{}\"/>\n",
          margin_left, image_width - margin_right, y_of(tick), y_of(tick), tick == 0 ? 0.75 : 0.15);
      text(margin_left - 6, y_of(tick) + 4, "end", fmt::format("{:.6g}", tick));
    }
    text(margin_left + axes_width / 2, margin_top + axes_height + categories_height_ + 12, "middle", plot_.x_label);
    add("<g transform=\"translate(16 {:.1f}) rotate(-90)\">", margin_top + axes_height / 2);
    text(0, 0, "middle", plot_.y_label);
    out_ += "</g>\n";
    write_x_labels();
    for (std::size_t i = 0; i < plot_.categories.size(); ++i) {
      const double x = margin_left + (static_cast<double>(i) + 0.5) * slot(), y = margin_top + axes_height + 18;
      if (!rotated_) {
        text(x, y, "middle", plot_.categories[i], small_names_ ? R"( font-size="9")" : "");
        continue;
      }
      text(x + 4, y - 4, "end", shortened(plot_.categories[i], x / cosine),
           fmt::format(" transform=\"rotate(-35 {:.1f} {:.1f})\"{}", x + 4, y - 4,
                       small_names_ ? R"( font-size="9")" : ""));
    }
  }
  /// From the last one, which is what a reader looks for first, leaving out those without room beside the one before.
  void write_x_labels() {
    double room_ends = INFINITY;
    for (const double x : x_ticks() | std::views::reverse) {
      const std::string label = fmt::format("{:.6g}", x);
      const double half = width_of(label, font_size) / 2;
      if (x_of(x) + half > room_ends) continue;
      text(x_of(x), margin_top + axes_height + 18, "middle", label);
      room_ends = x_of(x) - half - font_size / 2;
    }
  }
  /// The name, or its beginning if it is wider than the picture has room.
  std::string shortened(const std::string& name, double room) const {
    const double size = small_names_ ? small_size : font_size;
    std::string text = name;
    while (!text.empty() && width_of(text, size) > room) {
      do {
        text.pop_back();
      } while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80);
    }
    return text.size() < name.size() ? text + "…" : text;
  }
  /// Names that are wider than their bar stand aslant below it.
  void place_categories() {
    small_names_ = plot_.categories.size() > 9;
    double widest = 0;
    for (const std::string& name : plot_.categories)
      widest = std::max(widest, width_of(name, small_names_ ? small_size : font_size));
    rotated_ = !plot_.categories.empty() && widest + 4 > slot();
    const double longest = std::min(widest, image_width / cosine);
    categories_height_ = rotated_ ? std::max(24.0, 18 + longest * sine) : 24;
  }
  /// The row and the left end of each series in the legend.
  void place_legend() {
    double x = margin_left;
    for (const PlotSeries& series : plot_.series) {
      const double width = mark_width + width_of(series.name, font_size);
      if (x > margin_left && x + width > image_width - margin_right) {
        x = margin_left;
        ++legend_rows_;
      }
      legend_.emplace_back(x, legend_row * static_cast<double>(legend_rows_ - 1));
      x += width;
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

  /// Dashed lines, which were not measured, are drawn first, below the others.
  void write_lines() {
    for (const bool dashed : {true, false}) {
      for (std::size_t s = 0; s < plot_.series.size(); ++s) {
        if (plot_.series[s].dashed == dashed) write_line(plot_.series[s], colour(s));
      }
    }
  }
  void write_line(const PlotSeries& series, const char* colour) {
    std::string path;
    bool drawing = false;
    for (std::size_t i = 0; i < plot_.x.size(); ++i) {
      const double value = series.values[i];
      if (std::isfinite(value)) {
        path += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", x_of(plot_.x[i]), y_of(value));
      }
      if (std::isfinite(value) && plot_.x.size() <= max_marked_positions) {
        add("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\" stroke=\"{}\"/>\n", x_of(plot_.x[i]), y_of(value),
            series.dashed ? "none" : colour, colour);
      }
      drawing = std::isfinite(value);
    }
    add("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", path, colour,
        series.dashed ? R"( stroke-dasharray="6 4")" : "");
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
            plot_.series[s].dashed ? R"( fill-opacity="0.45" stroke="currentColor" stroke-dasharray="3 2")" : "",
            xml_text(plot_.series[s].name), value);
        if (stacked) base += value;
      }
    }
  }

  void write_legend(double top) {
    for (std::size_t s = 0; s < plot_.series.size(); ++s) {
      const auto [x, below] = legend_[s];
      add("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"{}/>\n", x, top + below, colour(s),
          plot_.series[s].dashed ? R"( fill-opacity="0.45")" : "");
      text(x + 16, top + below + 10, "start", plot_.series[s].name);
    }
  }

  const Plot& plot_;
  Background background_;
  std::string out_;
  std::vector<double> ticks_;
  double first_ = 0, last_ = 1;
  std::vector<std::string> note_;                  // in lines
  bool rotated_ = false, small_names_ = false;     // of the categories
  double categories_height_ = 24;                  // below the axes
  std::vector<std::pair<double, double>> legend_;  // left end and distance to the first row
  std::size_t legend_rows_ = 1;
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

std::string svg_of(const Plot& plot, Background background) {
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
  return Writer(plot, background).write();
}

}  // namespace babelring::insight
