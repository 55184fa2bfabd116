#include "insight/plot.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "base/failure.h"

namespace babelring::insight {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(PlotTest, DrawsLinesWithAxesAndGaps) {
  const Plot plot{.title = "Throughput",
                  .x_label = "ranks",
                  .y_label = "tokens/s",
                  .note = "predicted",
                  .log_x = true,
                  .x = {1, 2, 4, 8},
                  .series = {{"f32", {1, 2, NAN, 7}}, {"bf16", {1, 2, 3, 8}, true}}};
  const std::string svg = svg_of(plot);
  EXPECT_EQ(count(svg, "<circle"), 7) << svg;
  EXPECT_EQ(count(svg, "<path"), 2);
  EXPECT_EQ(count(svg, "stroke-dasharray"), 1);
  EXPECT_THAT(svg, HasSubstr("M70.0 "));   // the first position is the left end of the axis
  EXPECT_THAT(svg, HasSubstr("M740.0 "));  // behind the gap, the last one is the right end
  for (const char* text : {">ranks<", ">tokens/s<", ">predicted<", ">f32<", ">8<", "<title>Throughput</title>"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

/// The labels below the x axis, from left to right.
std::vector<std::string> x_labels(const std::string& svg) {
  std::map<double, std::string> found;
  for (std::size_t at = svg.find("y=\"348.0\""); at != std::string::npos; at = svg.find("y=\"348.0\"", at + 1)) {
    const std::size_t begin = svg.find('>', at) + 1;
    found[std::stod(svg.substr(svg.rfind("x=\"", at) + 3))] = svg.substr(begin, svg.find('<', begin) - begin);
  }
  std::vector<std::string> labels;
  for (const auto& [x, label] : found) labels.push_back(label);
  return labels;
}

TEST(PlotTest, LabelsBelowTheAxisLeaveRoomForEachOtherAndKeepTheLast) {
  const Plot plot{
      .title = "Loss", .log_x = true, .x = {500, 1000, 2000, 4500, 4714}, .series = {{"s", {5, 4, 3, 2, 2}}}};
  EXPECT_THAT(x_labels(svg_of(plot)), ElementsAre("500", "1000", "2000", "4714"));
}

TEST(PlotTest, LinesBeginAtZeroOnlyWhereThatCostsLittle) {
  Plot plot{.title = "Loss", .x = {1, 2}, .series = {{"s", {3.9, 3.6}}}};
  EXPECT_THAT(svg_of(plot), AllOf(HasSubstr(">3.6<"), Not(HasSubstr(">0<"))));
  plot.series = {{"s", {3.9, 1.2}}};
  EXPECT_THAT(svg_of(plot), HasSubstr(">0<"));
  plot.series = {{"s", {3.9, -0.1}}};
  EXPECT_THAT(svg_of(plot), HasSubstr(">0<"));
  plot.kind = Plot::Kind::bars;
  plot.categories = {"a", "b"};
  plot.series = {{"s", {3.9, 3.6}}};
  EXPECT_THAT(svg_of(plot), HasSubstr(">0<")) << "the length of a bar is its value";
  plot.kind = Plot::Kind::lines;
  plot.series = {{"s", {NAN, NAN}}};
  EXPECT_THAT(svg_of(plot), HasSubstr(">0<"));
}

TEST(PlotTest, DashedLinesAreDrawnBelowTheOthers) {
  const Plot plot{.title = "Loss", .x = {1, 2}, .series = {{"validation", {3, 2}}, {"fit", {3, 2}, true}}};
  const std::string svg = svg_of(plot);
  EXPECT_LT(svg.find("stroke-dasharray"), svg.find("fill=\"#0072b2\""));
  EXPECT_EQ(count(svg, "r=\"3\" fill=\"none\""), 2) << "hollow marks";
}

TEST(PlotTest, TakesTheTextColourOfItsPageAndIsBlackOnWhiteInAFile) {
  const Plot plot{.title = "Loss", .x = {1, 2}, .series = {{"s", {3, 2}}}};
  const std::string file = svg_of(plot), part = svg_of(plot, Background::none);
  EXPECT_THAT(file, AllOf(HasSubstr("fill=\"#ffffff\""), HasSubstr(" color=\"#000000\"")));
  EXPECT_THAT(part, AllOf(HasSubstr("fill=\"currentColor\""), Not(HasSubstr("#ffffff")), Not(HasSubstr("#000000")),
                          Not(HasSubstr("#dddddd"))));
}

TEST(PlotTest, StacksBars) {
  const Plot plot{.kind = Plot::Kind::stacked_bars,
                  .title = "Step",
                  .categories = {"a", "b"},
                  .series = {{"compute", {4, 4}}, {"network", {4, -1}}}};
  const std::string svg = svg_of(plot);
  EXPECT_EQ(count(svg, "<title>compute: 4</title>"), 2);
  EXPECT_EQ(count(svg, "<title>network: 4</title>"), 1) << "a negative part is not drawn";
  EXPECT_THAT(svg, HasSubstr(R"(y="185.0" width="268.0" height="145.0")")) << "half of the axis, which ends at 8";
}

/// The picture's width and height, and the extent of each text to the right of where it stands.
TEST(PlotTest, WrapsNotesAndLegendsInsideThePicture) {
  std::string note;
  for (int i = 0; i < 60; ++i) note += "predicted ";
  Plot plot{.kind = Plot::Kind::bars, .title = "Stalls", .note = note, .categories = {"a"}, .series = {}};
  for (int i = 0; i < 12; ++i) plot.series.push_back({"preparation stall (measured)", {1}});
  const std::string svg = svg_of(plot);
  EXPECT_EQ(count(svg, "predicted"), 60);
  EXPECT_GT(count(svg, "fill-opacity=\"0.75\">predicted"), 3) << "lines of the note";
  std::size_t texts = 0;
  for (std::size_t at = svg.find("<text x="); at != std::string::npos; at = svg.find("<text x=", at + 1)) {
    const double x = std::stod(svg.substr(at + 9)), y = std::stod(svg.substr(svg.find("y=\"", at) + 3));
    const std::size_t begin = svg.find('>', at) + 1;
    const std::string tag = svg.substr(at, begin - at);
    if (tag.find("\"start\"") == std::string::npos) continue;
    ++texts;
    EXPECT_LE(x + 5.5 * static_cast<double>(svg.find('<', begin) - begin), 760) << tag;
    EXPECT_LE(y, std::stod(svg.substr(svg.find("height=\"") + 8))) << tag;
  }
  EXPECT_GT(texts, 15);
}

TEST(PlotTest, NamesThatAreWiderThanTheirBarsStandAslant) {
  Plot plot{.kind = Plot::Kind::bars, .title = "Stalls", .categories = {"a", "b"}, .series = {{"s", {1, 2}}}};
  EXPECT_THAT(svg_of(plot), Not(HasSubstr("rotate(-35")));
  plot.categories = {"mobilenet_v2", "shufflenet_v2_x0_5", "resnet18", "resnet50", "alexnet", "squeezenet1_1", "vgg11"};
  plot.series = {{"s", std::vector<double>(7, 1)}};
  const std::string svg = svg_of(plot);
  EXPECT_EQ(count(svg, "rotate(-35"), 7);
  EXPECT_THAT(svg, HasSubstr(">shufflenet_v2_x0_5<"));
  plot.categories[0] = std::string(300, 'x');
  EXPECT_THAT(svg_of(plot), HasSubstr("…<"));
}

TEST(PlotTest, EscapesTexts) {
  const Plot plot{.kind = Plot::Kind::bars, .title = "<script>&\"", .categories = {"<b>"}, .series = {{"</svg>", {1}}}};
  const std::string svg = svg_of(plot);
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&amp;&quot;"));
  EXPECT_EQ(count(svg, "</svg>"), 1);
}

TEST(PlotTest, TicksAreRound) {
  EXPECT_THAT(axis_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(axis_ticks(-3, 7, 5), ElementsAre(-4, -2, 0, 2, 4, 6, 8));
  EXPECT_EQ(axis_ticks(0, 0.013, 6).size(), 4) << "0, 0.005, 0.01, 0.015";
}

TEST(PlotTest, RefusesSeriesOfAnotherLength) {
  EXPECT_THROW(svg_of({.title = "t", .x = {1, 2}, .series = {{"s", {1}}}}), Failure);
  EXPECT_THROW(svg_of({.title = "t", .x = {}, .series = {{"s", {}}}}), Failure);
  EXPECT_THROW(svg_of({.title = "t", .log_x = true, .x = {0}, .series = {{"s", {1}}}}), Failure);
}

}  // namespace
}  // namespace babelring::insight
