#pragma once

#include <string>
#include <vector>

namespace babelring::insight {

/// A series of a plot: one value for each of the plot's positions. NaN leaves a gap.
struct PlotSeries {
  std::string name;
  std::vector<double> values;
  bool dashed = false;  // a dashed line or pale bars: not measured
};

/// A plot with axes, of lines over numbers or of bars over categories.
struct Plot {
  enum class Kind {
    lines,         // over x
    bars,          // the series side by side, over categories
    stacked_bars,  // the series on top of each other, over categories; negative values count as 0
  };

  Kind kind = Kind::lines;
  std::string title, x_label = {}, y_label = {};
  std::string note = {};                     // below the plot, such as the origin of the values
  bool log_x = false;                        // lines over positive x only
  std::vector<double> x = {};                // positions of lines
  std::vector<std::string> categories = {};  // positions of bars
  std::vector<PlotSeries> series = {};
};

/// White for a file; with none the plot takes the text colour of its page.
enum class Background { white, none };

/// The plot as an SVG document of fixed size, without scripts or external fonts. All texts are escaped. The y axis of
/// lines begins below the least value, unless 0 costs less than a third of its height. Throws Failure if a series does
/// not have one value for each position.
std::string svg_of(const Plot& plot, Background background = Background::white);

/// Round numbers from 0 or below `low` to `high` or above, about `count` of them, for an axis.
std::vector<double> axis_ticks(double low, double high, int count);

}  // namespace babelring::insight
