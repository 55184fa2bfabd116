#include "cli/runs/show.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/clock.h"
#include "cli/runs/find_run.h"
#include "cli/runs/list.h"
#include "cli/runs/run_commands.h"
#include "cli/runs/text_format.h"

namespace babelring {
namespace {

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

std::string with_unit(std::optional<double> number, int decimals, const char* unit) {
  return number ? fixed_text(number, decimals) + unit : std::string();
}

std::string attempt_text(const json::object& run) {
  const auto attempt = get_number(run, "attempt");
  if (!attempt) return "";
  const auto restarts = get_number(run, "restarts"), most = get_number(run, "max_restarts");
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

/// Prints the headline, the advice, and each part other than the headline.
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

}  // namespace

void print_run(const json::object& run, const Screen& screen) {
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
  line("created", text_of(run, "created_at"));
  line("finished", text_of(run, "finished_at"));
  line("ranks", grouped_text(get_number(run, "world_size")));
  line("hosts", joined(run, "hosts"));
  line("parameters", grouped_text(get_number(run, "parameters")));
  const auto end = get_number(run, "max_updates");
  const std::string of = end.value_or(0) > 0 ? " of " + grouped(*end) : "";
  line("update", get_number(run, "update") ? grouped_text(get_number(run, "update")) + of : "");
  line("epoch", fixed_text(get_number(run, "epoch"), 2));
  line("loss", fixed_text(get_number(run, "loss"), 4));
  line("nll", fixed_text(get_number(run, "nll"), 4));
  line("learning rate",
       get_number(run, "learning_rate") ? fmt::format("{:.3g}", *get_number(run, "learning_rate")) : "");
  line("step", with_unit(get_number(run, "step_ms"), 1, " ms"));
  const auto rate = get_number(run, "target_tokens_per_second");
  line("speed", rate ? grouped(*rate) + " target tokens/s" : "");
  if (const json::object* progress = get_object(run, "progress")) line("progress", progress_text(*progress));
  line("left", get_number(run, "eta_seconds") ? seconds_text(*get_number(run, "eta_seconds")) : "");
  line("best", eval_text(get_object(run, "best")));
  line("last validation", eval_text(get_object(run, "last_eval")));
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
      print_run(found, screen);
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

}  // namespace babelring
