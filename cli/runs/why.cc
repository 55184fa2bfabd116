// `nmt run why`: what the server knows of the reason why a run is as it is.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/runs/run_commands.h"
#include "cli/runs/table.h"

namespace babelring {
namespace {

constexpr std::size_t max_history = 10'000;  // changes that are read
constexpr std::size_t max_shown = 5;         // the newest of them
constexpr std::size_t max_alerts = 50;
constexpr std::size_t max_ends = 2;  // whose last minute is shown
constexpr const char* log_query = "/logs?tail=10";

json::array newest_of(const std::vector<json::object>& items) {
  const std::size_t first = items.size() > max_shown ? items.size() - max_shown : 0;
  json::array last;
  for (std::size_t i = first; i < items.size(); ++i) last.push_back(items[i]);
  return last;
}

const json::array& array_of(const json::object& object, std::string_view name) {
  return object.at(name).as_array();
}

/// Prints a title and a line for each item, nothing without items.
template <class Line>
void print_part(const Screen& screen, std::string_view title, const json::array& items, Line line) {
  if (items.empty()) return;
  screen.out << '\n' << screen.coloured(title, Colour::grey) << '\n';
  for (const json::value& item : items) screen.out << "  " << line(item.as_object()) << '\n';
}

std::string attempt_line(const json::object& attempt) {
  const auto code = get_number(attempt, "exit_code");
  std::string line = fmt::format("attempt {}", grouped_text(get_number(attempt, "attempt")));
  if (const auto first = get_number(attempt, "first_update")) line += fmt::format(", from update {}", grouped(*first));
  if (code) line += fmt::format(", exit code {:.0f}", *code);
  const std::string cause = text_of(attempt, "cause"), ended = text_of(attempt, "ended_at");
  line += ended.empty() ? ", has not ended" : ", ended " + local_times(ended, wall_time_ms());
  return cause.empty() ? line : line + ": " + cause;
}

/// A series as a row of blocks whose height is the fraction of `full`, every second sample at most 30 of them.
std::string blocks_of(const json::array& series, double full) {
  constexpr std::array<std::string_view, 8> blocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  for (std::size_t i = (series.size() + 1) % 2; i < series.size(); i += 2) {
    const double fraction = series[i].is_number() && full > 0 ? series[i].to_number<double>() / full : 0;
    text += blocks[static_cast<std::size_t>(std::clamp(fraction * 8, 0.0, 7.0))];
  }
  return text;
}

/// The last minute before an end: a summary, the free memory of each host, and the log.
void print_end(const Screen& screen, const json::object& end) {
  const auto title = fmt::format("the last minute of attempt {}, until {}", grouped_text(get_number(end, "attempt")),
                                 local_times(text_of(end, "sampled_until"), wall_time_ms()));
  screen.out << '\n' << screen.coloured(title, Colour::grey) << "\n  " << text_of(end, "summary") << '\n';
  for (const json::value& each : array_of(end, "hosts")) {
    const json::object& host = each.as_object();
    const auto limit = get_number(host, "memory_limit_bytes").value_or(0);
    screen.out << fmt::format("  free memory of {} {}\n", text_of(host, "host"),
                              blocks_of(array_of(host, "memory_left_bytes"), limit));
  }
  for (const json::value& each : array_of(end, "log")) {
    const json::object& line = each.as_object();
    screen.out << fmt::format("  {} rank {} {}: {}\n", local_times(text_of(line, "time"), wall_time_ms()),
                              grouped_text(get_number(line, "rank")), text_of(line, "level"), text_of(line, "text"));
  }
}

void print_explanation(const json::object& why, const Screen& screen) {
  const json::object& run = why.at("run").as_object();
  const auto time = [](const json::object& item, std::string_view name) {
    return local_times(text_of(item, name), wall_time_ms());
  };
  const std::string state = text_of(run, "state");
  screen.out << fmt::format("{} ({}): {}\n", text_of(run, "name"), text_of(run, "id"),
                            screen.coloured(state, colour_of_state(state)));
  if (const std::string detail = text_of(run, "detail"); !detail.empty()) screen.out << detail << '\n';
  if (const json::object* health = get_object(run, "health")) print_health(*health, screen);
  const json::object* verdict = why.at("verdict").if_object();
  if (verdict != nullptr && text_of(*verdict, "verdict") != "unknown") {
    screen.out << '\n' << screen.coloured("speed", Colour::grey) << '\n';
    screen.out << "  " << text_of(*verdict, "sentence") << '\n';
    if (const std::string advice = text_of(*verdict, "advice"); !advice.empty()) screen.out << "  " << advice << '\n';
  }
  print_part(screen, "open alerts", array_of(why, "alerts"), [&](const json::object& alert) {
    const std::string rule = text_of(alert, "rule"), message = text_of(alert, "message");
    return fmt::format("{} {}{}", time(alert, "raised_at"), message.starts_with(rule) ? "" : rule + ": ", message);
  });
  print_part(screen, "changes of state", array_of(why, "transitions"), [&](const json::object& change) {
    const std::string cause = text_of(change, "cause"), from = text_of(change, "from");
    return fmt::format("{} {}{}{} by {}{}", time(change, "time"), from, from.empty() ? "" : " → ",
                       text_of(change, "to"), text_of(change, "actor"), cause.empty() ? "" : ": " + cause);
  });
  print_part(screen, "attempts", array_of(why, "attempts"), attempt_line);
  for (const json::value& end : array_of(why, "ends")) print_end(screen, end.as_object());
  print_part(screen, "last lines of the log", array_of(why, "log"), [&](const json::object& line) {
    return fmt::format("{} rank {} {}: {}", time(line, "time"), grouped_text(get_number(line, "rank")),
                       text_of(line, "level"), text_of(line, "text"));
  });
}

}  // namespace

json::object explain_run(ApiClient& api, const json::object& run) {
  const std::string path = "/runs/" + text_of(run, "id");
  json::object shown = run;
  shown.erase("config");
  json::object why = {{"run", std::move(shown)}, {"verdict", api.get(path + "/verdict")}};
  json::array alerts;
  for (json::object& alert : api.get_items("/alerts?state=open&run=" + text_of(run, "id"), max_alerts)) {
    alerts.insert(alerts.begin(), std::move(alert));  // the answer has the newest first
  }
  why["alerts"] = std::move(alerts);
  why["transitions"] = newest_of(api.get_items(path + "/transitions", max_history));
  json::array attempts = api.get(path + "/attempts").at("items").as_array();
  if (attempts.size() > max_shown) attempts.erase(attempts.begin(), attempts.end() - max_shown);
  why["attempts"] = std::move(attempts);
  json::array ends = api.get(path + "/ends").at("items").as_array();
  if (ends.size() > max_ends) ends.resize(max_ends);  // the newest
  why["ends"] = std::move(ends);
  why["log"] = api.get(path + log_query).at("items");
  return why;
}

void add_run_why(CLI::App& run) {
  CLI::App* command = run.add_subcommand("why",
                                         "Explains a run: its health, what holds it back, open alerts, why it ended or "
                                         "was restarted, the last minute before");
  const auto chosen = std::make_shared<RunChoice>();
  chosen->declare(*command);
  command->callback([chosen] {
    ApiClient api(chosen->access());
    const json::object why = explain_run(api, find_run(api, chosen->run));
    const Screen screen = Screen::of_stdout();
    if (chosen->as_json) {
      screen.out << to_text(why) << '\n';
    } else {
      print_explanation(why, screen);
    }
  });
}

}  // namespace babelring
