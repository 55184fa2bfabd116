#include "cli/runs/run_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "base/clock.h"
#include "cli/runs/table.h"

namespace babelring {
namespace {

constexpr std::size_t max_evals = 100000;  // that `nmt run show` reads

std::string joined(const json::object& run, std::string_view name) {
  const json::value* member = run.if_contains(name);
  std::string text;
  if (member == nullptr || !member->is_array()) return text;
  for (const json::value& item : member->get_array()) {
    if (item.is_string()) text += fmt::format("{}{}", text.empty() ? "" : ", ", std::string_view(item.get_string()));
  }
  return text;
}

std::string eval_text(const json::object* eval) {
  if (eval == nullptr) return "";
  std::string text = fmt::format("update {}, {}", grouped_text(get_number(*eval, "update")), text_of(*eval, "set"));
  if (const auto bleu = get_number(*eval, "sacrebleu")) text += fmt::format(", sacreBLEU {:.2f}", *bleu);
  if (const auto chrf = get_number(*eval, "chrf")) text += fmt::format(", chrF2 {:.2f}", *chrf);
  if (const auto bleu = get_number(*eval, "teacher_forced_bleu"))
    text += fmt::format(", teacher-forced BLEU {:.2f}", *bleu);
  if (const auto loss = get_number(*eval, "loss")) text += fmt::format(", loss {:.4f}", *loss);
  if (const auto excess = get_number(*eval, "excess")) text += fmt::format(", excess {:.4f}", *excess);
  return text;
}

/// The evaluation after the most updates on each set but `main`, in the order in which the sets come first.
std::vector<json::object> newest_on_other_sets(const std::vector<json::object>& evals, std::string_view main) {
  std::vector<json::object> newest;
  for (const json::object& eval : evals) {
    const std::string set = get_text(eval, "set");
    if (set == main) continue;
    const auto same = [&](const json::object& other) { return get_text(other, "set") == set; };
    const auto found = std::find_if(newest.begin(), newest.end(), same);
    if (found == newest.end()) {
      newest.push_back(eval);
    } else if (get_number(eval, "update").value_or(0) >= get_number(*found, "update").value_or(0)) {
      *found = eval;
    }
  }
  return newest;
}

std::string with_unit(std::optional<double> number, int decimals, const char* unit) {
  return number ? fixed_text(number, decimals) + unit : std::string();
}

std::string attempt_text(const json::object& run) {
  const auto attempt = get_number(run, "attempt");
  if (!attempt) return "";
  const auto restarts = get_number(run, "restarts"), most = get_number(run, "max_restarts");
  if (restarts.value_or(0) > 0 && !most) {
    return fmt::format("{} ({} after a fault)", grouped(*attempt), grouped(*restarts));
  }
  if (!restarts || !most) return grouped(*attempt);
  return fmt::format("{} ({} of at most {} restarts)", grouped(*attempt), grouped(*restarts), grouped(*most));
}

/// "[######....] 62 % of 20 epochs".
std::string progress_text(const json::object& progress) {
  const auto fraction = get_number(progress, "fraction");
  const std::string end = text_of(progress, "end");
  const std::string of = end.empty() ? "" : (get_flag(progress, "at_latest") ? " of at most " : " of ") + end;
  return fraction ? fmt::format("{} {:.0f} %{}", bar_text(*fraction, 20), 100 * *fraction, of) : "";
}

/// "clean 2.1034, crawl 3.2501": the last losses of named corpora.
std::string corpora_text(const json::object& metrics) {
  constexpr std::string_view prefix = "corpus_loss.";
  std::string text;
  const json::value* items = metrics.if_contains("items");
  if (items == nullptr || !items->is_array()) return text;
  for (const json::value& item : items->get_array()) {
    if (!item.is_object()) continue;
    const json::object& metric = item.get_object();
    const std::string key = text_of(metric, "key");
    if (!key.starts_with(prefix)) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key.substr(prefix.size()),
                        fixed_text(get_number(metric, "last"), 4));
  }
  return text;
}

}  // namespace

void print_health(const json::object& health, const Screen& screen) {
  const auto line = [&](std::string_view name, const std::string& text, Colour colour) {
    if (text.empty()) return;
    const std::string shown = local_times(text, wall_time_ms());
    screen.out << screen.coloured(fmt::format("{:<16}", name), Colour::grey) << screen.coloured(shown, colour) << '\n';
  };
  const std::string headline = text_of(health, "headline");
  line("health", headline, colour_of_health(text_of(health, "level")));
  line("what to do", text_of(health, "action"), Colour::none);
  const json::value* parts = health.if_contains("parts");
  if (parts == nullptr || !parts->is_array()) return;
  for (const json::value& value : parts->get_array()) {
    const json::object* part = value.if_object();
    if (part == nullptr || text_of(*part, "text") == headline) continue;
    line("  " + text_of(*part, "topic"), text_of(*part, "text"), colour_of_health(text_of(*part, "level")));
  }
}

void print_run(const json::object& run, const std::vector<json::object>& evals, const json::object& metrics,
               const Screen& screen) {
  const auto line = [&](const char* name, const std::string& value, Colour colour = Colour::none) {
    if (value.empty()) return;
    screen.out << screen.coloured(fmt::format("{:<16}", name), Colour::grey) << screen.coloured(value, colour) << '\n';
  };
  const std::string state = text_of(run, "state");
  line("id", text_of(run, "id"));
  line("name", text_of(run, "name"));
  line("state", state, colour_of_state(state));
  line("detail", text_of(run, "detail"));
  line("silent since", local_times(text_of(run, "stale_since"), wall_time_ms()), Colour::red);
  if (const json::object* health = get_object(run, "health")) print_health(*health, screen);
  line("attempt", attempt_text(run));
  line("profile", text_of(run, "profile"));
  const auto elapsed = get_number(run, "elapsed_seconds");
  line("created", text_of(run, "created_at"));  // by the server's clock, all others by that of the records
  line("started", elapsed ? text_of(run, "started_at") : "");
  line("finished", text_of(run, "finished_at"));
  line("took", elapsed ? seconds_text(*elapsed) : "");
  line("ranks", grouped_text(get_number(run, "world_size")));
  line("hosts", joined(run, "hosts"));
  line("parameters", grouped_text(get_number(run, "parameters")));
  const auto end = get_number(run, "max_updates");
  const std::string of = end.value_or(0) > 0 ? " of " + grouped(*end) : "";
  line("update", get_number(run, "update") ? grouped_text(get_number(run, "update")) + of : "");
  line("epoch", fixed_text(get_number(run, "epoch"), 2));
  line("loss", fixed_text(get_number(run, "loss"), 4));
  line("nll", fixed_text(get_number(run, "nll"), 4));
  line("loss by corpus", corpora_text(metrics));
  line("learning rate",
       get_number(run, "learning_rate") ? fmt::format("{:.3g}", *get_number(run, "learning_rate")) : "");
  line("step", with_unit(get_number(run, "step_ms"), 1, " ms"));
  const auto rate = get_number(run, "target_tokens_per_second");
  line("speed", rate ? grouped(*rate) + " target tokens/s" : "");
  if (const json::object* progress = get_object(run, "progress")) line("progress", progress_text(*progress));
  line("left", get_number(run, "eta_seconds") ? seconds_text(*get_number(run, "eta_seconds")) : "");
  line("best", eval_text(get_object(run, "best")));
  const json::object* last = get_object(run, "last_eval");
  line("last validation", eval_text(last));
  const char* name = "other sets";
  for (const json::object& eval : newest_on_other_sets(evals, last == nullptr ? "" : get_text(*last, "set"))) {
    line(std::exchange(name, ""), eval_text(&eval));
  }
  line("version", text_of(run, "version"));
}

void add_run_show(CLI::App& run) {
  CLI::App* command = run.add_subcommand("show", "Shows one run");
  struct Arguments {
    RunChoice chosen;
    bool config = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  command->add_flag("--config", arguments->config, "print only its configuration, as YAML");
  arguments->chosen.declare(*command);
  command->callback([arguments] {
    ApiClient api(arguments->chosen.access());
    const json::object found = find_run(api, arguments->chosen.run);
    const Screen screen = Screen::of_stdout();
    if (arguments->config) {
      const json::value* config = found.if_contains("config");
      if (config != nullptr && config->is_string()) screen.out << std::string_view(config->get_string());
    } else if (arguments->chosen.as_json) {
      screen.out << to_text(found) << '\n';
    } else {
      const std::string path = "/runs/" + text_of(found, "id");
      const std::vector<json::object> evals = api.get_items(path + "/evals", max_evals);
      print_run(found, evals, api.get(path + "/metrics"), screen);
    }
  });
}

void add_run_checkpoints(CLI::App& run) {
  CLI::App* command = run.add_subcommand("checkpoints", "Lists the checkpoints of a run, the newest first");
  const auto chosen = std::make_shared<RunChoice>();
  chosen->declare(*command);
  command->callback([chosen] {
    ApiClient api(chosen->access());
    const std::string id = text_of(find_run(api, chosen->run), "id");
    list_checkpoints(api, id, chosen->as_json, Screen::of_stdout());
  });
}

namespace {

constexpr std::size_t max_health_width = 60;  // on a terminal

void print_json(const std::vector<json::object>& items, const Screen& screen) {
  json::array array;
  for (const json::object& item : items) array.push_back(item);
  screen.out << to_text(array) << '\n';
}

/// "1,234/5,000", or "1,234" without a limit on updates.
std::string updates_text(const json::object& run) {
  const auto update = get_number(run, "update"), end = get_number(run, "max_updates");
  if (!update) return "";
  return end.value_or(0) > 0 ? fmt::format("{}/{}", grouped(*update), grouped(*end)) : grouped(*update);
}

/// "[######....]  62 %", or "" if the fraction is unknown.
std::string done_text(const json::object& run) {
  const json::object* progress = get_object(run, "progress");
  const auto fraction = progress == nullptr ? std::nullopt : get_number(*progress, "fraction");
  return fraction ? fmt::format("{} {:3.0f} %", bar_text(*fraction, 10), 100 * *fraction) : "";
}

/// The headline if the level is warning or bad, otherwise the level.
Table::Cell health_cell(const json::object& run, const Screen& screen) {
  const json::object* health = get_object(run, "health");
  if (health == nullptr) return {""};
  const std::string level = text_of(*health, "level");
  const bool wrong = level == "warning" || level == "bad";
  std::string text = wrong ? local_times(text_of(*health, "headline"), wall_time_ms()) : level;
  if (screen.width > 0) text = cut(text, max_health_width);
  return {text, colour_of_health(level)};
}

/// The state with a mark of the run's health, which is there also where the health has no room: ● good, ○ unknown,
/// ▲ warning, ✖ bad.
Table::Cell state_cell(const json::object& run) {
  const std::string state = text_of(run, "state");
  const json::object* health = get_object(run, "health");
  if (health == nullptr) return {state, colour_of_state(state)};
  const std::string level = text_of(*health, "level");
  const bool wrong = level == "warning" || level == "bad";
  const char* mark = level == "bad" ? "✖" : level == "warning" ? "▲" : level == "good" ? "●" : "○";
  return {fmt::format("{} {}", mark, state), wrong ? colour_of_health(level) : colour_of_state(state)};
}

/// The number of letters that tell the ids of these runs apart, at least 8.
std::size_t letters_of_ids(const std::vector<json::object>& runs) {
  std::vector<std::string> ids;
  for (const json::object& run : runs) ids.push_back(text_of(run, "id"));
  std::sort(ids.begin(), ids.end());
  std::size_t letters = 8;
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const auto differ = std::mismatch(ids[i].begin(), ids[i].end(), ids[i - 1].begin(), ids[i - 1].end()).first;
    letters = std::max(letters, static_cast<std::size_t>(differ - ids[i].begin()) + 1);
  }
  return letters;
}

std::string best_bleu(const json::object& run) {
  const json::object* best = get_object(run, "best");
  return best == nullptr ? std::string() : fixed_text(get_number(*best, "sacrebleu"), 2);
}

std::string eta_text(const json::object& run) {
  const auto eta = get_number(run, "eta_seconds");
  return eta ? seconds_text(*eta) : std::string();
}

std::string age_text(const json::object& run) {
  const auto age = get_number(run, "record_age_ms");
  return age ? seconds_text(*age / 1000) : std::string();
}

}  // namespace

void list_runs(ApiClient& api, const ListRequest& request, bool as_json, const Screen& screen) {
  std::string target = fmt::format("/runs?archived={}", request.archived);
  for (const auto& [name, value] : {std::pair("state", request.state), std::pair("q", request.text)}) {
    if (!value.empty()) target += fmt::format("&{}={}", name, percent_encoded(value));
  }
  const std::vector<json::object> runs = api.get_items(target, request.most);
  if (as_json) {
    print_json(runs, screen);
    return;
  }
  Table table({{.title = "ID", .importance = 100},
               {.title = "NAME", .importance = 100, .shrinks = true},
               {.title = "STATE", .importance = 100},
               {.title = "UPDATE", .right = true, .importance = 90},
               {.title = "DONE", .importance = 85},
               {.title = "EPOCH", .right = true, .importance = 20},
               {.title = "LOSS", .right = true, .importance = 310},
               {.title = "BLEU", .right = true, .importance = 300},
               {.title = "TOKENS/S", .right = true, .importance = 40},
               {.title = "RANKS", .right = true, .importance = 30},
               {.title = "LEFT", .right = true, .importance = 60},
               {.title = "LAST RECORD", .right = true, .importance = 50},
               {.title = "HEALTH", .importance = 100, .shrinks = true, .shrinks_at = 65, .comfortable = 24}});
  // A prefix of an id names a run as well as the whole id; scripts get all of it.
  const std::size_t letters = screen.width > 0 ? letters_of_ids(runs) : std::string::npos;
  for (const json::object& run : runs) {
    table.add({{text_of(run, "id").substr(0, letters)},
               {text_of(run, "name")},
               state_cell(run),
               {updates_text(run)},
               {done_text(run)},
               {fixed_text(get_number(run, "epoch"), 2)},
               {fixed_text(get_number(run, "loss"), 4)},
               {best_bleu(run)},
               {grouped_text(get_number(run, "target_tokens_per_second"))},
               {grouped_text(get_number(run, "world_size"))},
               {eta_text(run)},
               {age_text(run), text_of(run, "stale_since").empty() ? Colour::none : Colour::red},
               health_cell(run, screen)});
  }
  if (table.empty()) {
    screen.out << "no runs\n";
  } else {
    table.print(screen);
  }
}

void list_checkpoints(ApiClient& api, const std::string& run, bool as_json, const Screen& screen) {
  const std::vector<json::object> checkpoints = api.get_items("/runs/" + run + "/checkpoints", 10000);
  if (as_json) {
    print_json(checkpoints, screen);
    return;
  }
  Table table({{.title = "ID", .importance = 100},
               {.title = "UPDATE", .right = true, .importance = 100},
               {.title = "SACREBLEU", .right = true, .importance = 90},
               {.title = "LOSS", .right = true, .importance = 70},
               {.title = "SIZE", .right = true, .importance = 80},
               {.title = "MARKS", .importance = 60},
               {.title = "CREATED", .importance = 50}});
  for (const json::object& checkpoint : checkpoints) {
    std::string marks = get_flag(checkpoint, "best") ? "best" : "";
    if (get_flag(checkpoint, "pinned")) marks += marks.empty() ? "pinned" : ", pinned";
    const auto bytes = get_number(checkpoint, "bytes");
    table.add({{text_of(checkpoint, "id")},
               {grouped_text(get_number(checkpoint, "update"))},
               {fixed_text(get_number(checkpoint, "sacrebleu"), 2)},
               {fixed_text(get_number(checkpoint, "loss"), 4)},
               {bytes ? bytes_text(*bytes) : ""},
               {marks, Colour::green},
               {text_of(checkpoint, "created_at")}});
  }
  if (table.empty()) {
    screen.out << "no checkpoints\n";
  } else {
    table.print(screen);
  }
}

void add_run_list(CLI::App& run) {
  CLI::App* command = run.add_subcommand("list", "Lists runs, the newest first");
  struct Arguments {
    ServerChoice server;
    ListRequest request;
  };
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("--state", arguments->request.state, "only runs in this state: running, failed, …");
  command->add_option("--search", arguments->request.text, "only runs whose name or id contains this text");
  command->add_flag("--archived", arguments->request.archived, "archived runs instead of the others");
  command->add_option("--limit", arguments->request.most, "maximum number of runs")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  arguments->server.declare(*command);
  command->callback([arguments] {
    ApiClient api(arguments->server.access());
    list_runs(api, arguments->request, arguments->server.as_json, Screen::of_stdout());
  });
}

}  // namespace babelring
