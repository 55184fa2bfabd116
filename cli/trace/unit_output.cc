#include "cli/trace/unit_output.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <iterator>

#include "base/grouped.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/runs/table.h"
#include "lab/parameters/window_summary.h"

namespace babelring {

namespace {

json::object to_json(const UnitCount& unit) {
  return {{"name", unit.name},
          {"label", unit.label},
          {"rows", unit.rows},
          {"changed", unit.changed},
          {"changed_elements", unit.changed_elements},
          {"visible", unit.visible},
          {"untouched", unit.untouched},
          {"ratio", unit.ratio},
          {"max_ratio", unit.max_ratio}};
}

}  // namespace

void print_json(const ParameterWindow& window, const std::vector<UnitCount>& counts) {
  json::array items;
  for (const UnitCount& unit : counts) items.push_back(to_json(unit));
  fmt::print("{}\n", to_text(json::object{{"run", window.run},
                                          {"first_update", window.first_update},
                                          {"last_update", window.last_update},
                                          {"updates", window.updates},
                                          {"units", std::move(items)}}));
}

namespace {

/// RFC 4180: quotes are doubled within quotes.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + '"';
}

}  // namespace

void print_csv(const std::vector<UnitCount>& counts) {
  fmt::print("name,label,rows,changed,changed_elements,visible,untouched,ratio,max_ratio\n");
  for (const UnitCount& unit : counts) {
    fmt::print("{},{},{},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g}\n", quoted(unit.name), quoted(unit.label), unit.rows,
               unit.changed, unit.changed_elements, unit.visible, unit.untouched, unit.ratio, unit.max_ratio);
  }
}

namespace {

std::string percent_text(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

}  // namespace

void print_table(const ParameterWindow& window, const std::vector<UnitCount>& counts) {
  const Screen screen = Screen::of_stdout();
  const RowShares shares = shares_of(window, 0, std::ssize(window.rows));
  screen.out << fmt::format("updates {} to {}, {} counted: {} rows of {} parameters\n", window.first_update,
                            window.last_update, window.updates, grouped(window.rows.size()), window.parameters.size());
  screen.out << fmt::format(
      "cold (changed in under 1 % of updates): {}; without a gradient: {}; lost in rounding: {}\n",
      percent_text(shares.cold), percent_text(shares.untouched),
      window.precision == "f32" ? "nothing, products read f32" : percent_text(shares.lost_in_rounding));
  Table table({{.title = "NAME", .importance = 100, .shrinks = true},
               {.title = "LABEL", .importance = 90},
               {.title = "ROWS", .right = true, .importance = 20},
               {.title = "CHANGED", .right = true, .importance = 80},
               {.title = "ELEMENTS", .right = true, .importance = 30},
               {.title = "VISIBLE", .right = true, .importance = 70},
               {.title = "UNTOUCHED", .right = true, .importance = 40},
               {.title = "RATIO", .right = true, .importance = 85},
               {.title = "MAX RATIO", .right = true, .importance = 50}});
  for (const UnitCount& unit : counts) {
    table.add({{unit.name},
               {printable(unit.label)},
               {grouped(unit.rows)},
               {percent_text(unit.changed)},
               {fmt::format("{:.1f}", unit.changed_elements)},
               {percent_text(unit.visible)},
               {percent_text(unit.untouched)},
               {fmt::format("{:.2e}", unit.ratio)},
               {fmt::format("{:.2e}", unit.max_ratio)}});
  }
  table.print(screen);
}

}  // namespace babelring
