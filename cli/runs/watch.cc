#include "cli/runs/watch.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/clock.h"
#include "base/failure.h"
#include "base/records/records.h"
#include "cli/runs/run_commands.h"
#include "cli/runs/screen.h"
#include "cli/runs/table.h"
#include "client/api_client.h"
#include "client/event_stream.h"

namespace babelring {
namespace {

constexpr double smoothing = 0.9;  // of the step time
constexpr int bar_width = 30;

/// The newest finite value of a series of a `metrics` event.
std::optional<double> newest(const json::object& series, std::string_view key) {
  const json::value* column = series.if_contains(key);
  if (column == nullptr || !column->is_array() || column->get_array().empty()) return std::nullopt;
  const json::value& last = column->get_array().back();
  return last.is_number() ? std::optional(last.to_number<double>()) : std::nullopt;
}

}  // namespace

bool is_end_state(std::string_view state) {
  return state == "succeeded" || state == "failed" || state == "stopped" || state == "lost";
}

bool RunView::ended() const {
  return is_end_state(state_);
}

std::string RunView::outcome() const {
  return fmt::format("run {} ({}) {}{}{}{}", name_, id_, state_, restarts_, detail_.empty() ? "" : ": ", detail_);
}

void RunView::run(const json::object& item) {
  const std::string state = text_of(item, "state");
  const double attempt = get_number(item, "attempt").value_or(attempt_);
  id_ = text_of(item, "id");
  name_ = text_of(item, "name");
  detail_ = text_of(item, "detail");
  const double restarts = get_number(item, "restarts").value_or(0);
  const auto most = get_number(item, "max_restarts");
  restarts_ = restarts <= 0 ? ""
              : most        ? fmt::format(" after {} of {} restarts", grouped(restarts), grouped(*most))
                            : fmt::format(" after {} {}", grouped(restarts), restarts == 1 ? "fault" : "faults");
  const double update = get_number(item, "update").value_or(0);
  const bool older = attempt <= attempt_ && update < update_;  // than the last `metrics` event
  if (!older) update_ = update;
  max_updates_ = get_number(item, "max_updates").value_or(0);
  for (const auto& [member, key] : {std::pair(&epoch_, "epoch"), std::pair(&loss_, "loss")}) {
    if (const auto value = get_number(item, key); value && !older) *member = value;
  }
  if (!step_ms_) step_ms_ = get_number(item, "step_ms");
  if (!older) {
    tokens_per_second_ = get_number(item, "target_tokens_per_second");
    eta_seconds_ = get_number(item, "eta_seconds");
    const json::object* progress = get_object(item, "progress");
    fraction_ = progress == nullptr ? std::nullopt : get_number(*progress, "fraction");
    at_latest_ = progress != nullptr && get_flag(*progress, "at_latest");
  }
  const bool changed = state != state_ || attempt != attempt_;
  state_ = state;
  attempt_ = attempt;
  if (changed && !ended()) {
    const std::string which = attempt > 1 ? fmt::format(", attempt {}", grouped(attempt)) : "";
    const std::string why = detail_.empty() ? "" : ": " + detail_;
    notice(fmt::format("{} ({}) is {}{}{}", name_, id_, state_, which, why), colour_of_state(state_));
  } else {
    show();
  }
  report_health(item);
}

/// Prints a line when a health problem appears, changes or is resolved.
void RunView::report_health(const json::object& item) {
  const json::object* health = get_object(item, "health");
  if (health == nullptr || ended()) return;
  const std::string level = text_of(*health, "level"), action = text_of(*health, "action");
  const bool wrong = level == "warning" || level == "bad";
  const std::string headline = wrong ? local_times(text_of(*health, "headline"), wall_time_ms()) : "";
  if (headline == headline_) return;
  headline_ = headline;
  if (!wrong) return notice("healthy again", colour_of_health("good"));
  notice(headline + (action.empty() ? "" : "; " + action), colour_of_health(level));
}

void RunView::metrics(const json::object& data) {
  const json::value* steps = data.if_contains("step");
  const json::object* series = get_object(data, "series");
  const bool own = get_number(data, "rank").value_or(1) == 0 && get_number(data, "attempt").value_or(0) >= attempt_;
  if (!own || series == nullptr || steps == nullptr || !steps->is_array() || steps->get_array().empty()) return;
  update_ = steps->get_array().back().to_number<double>();
  if (const auto loss = newest(*series, "loss")) loss_ = loss;
  if (const auto epoch = newest(*series, "epoch")) epoch_ = epoch;
  if (const auto ms = newest(*series, "step_ms")) {
    step_ms_ = step_ms_ ? smoothing * *step_ms_ + (1 - smoothing) * *ms : *ms;
    const auto tokens = newest(*series, "update_target_tokens");
    if (tokens && *tokens > 0 && *ms > 0) tokens_per_second_ = *tokens * 1000 / *ms;
  }
  fraction_.reset();  // outdated; computed from updates if absent below
  eta_seconds_.reset();
  if (const auto done = newest(*series, "fraction_done"); done && *done > 0) {
    fraction_ = done;
    const auto left = newest(*series, "seconds_left");
    if (left && (*left > 0 || *done >= 1)) eta_seconds_ = left;
  }
  show();
}

void RunView::eval(const json::object& item) {
  std::string text = fmt::format("{} after update {}", evaluation_name(text_of(item, "set")),
                                 grouped_text(get_number(item, "update")));
  if (const auto loss = get_number(item, "loss")) text += fmt::format(": loss {:.4f}", *loss);
  if (const auto excess = get_number(item, "excess")) text += fmt::format(", excess {:.4f}", *excess);
  if (const auto bleu = get_number(item, "sacrebleu")) text += fmt::format(", sacreBLEU {:.2f}", *bleu);
  if (const auto chrf = get_number(item, "chrf")) text += fmt::format(", chrF2 {:.2f}", *chrf);
  if (const auto bleu = get_number(item, "teacher_forced_bleu"))
    text += fmt::format(", teacher-forced BLEU {:.2f}", *bleu);
  if (get_flag(item, "best")) text += ", the best so far";
  notice(text, Colour::none);
}

void RunView::checkpoint(const json::object& item) {
  if (get_flag(item, "removed")) return;
  const std::string best = get_flag(item, "best") ? " (best)" : "";
  notice(fmt::format("checkpoint {} after update {}{}", text_of(item, "id"), grouped_text(get_number(item, "update")),
                     best),
         Colour::none);
}

void RunView::notice(const std::string& text, Colour colour) {
  clear();
  screen_.out << screen_.coloured(text, colour) << std::endl;
  if (screen_.live) show();
}

std::optional<double> RunView::fraction() const {
  if (fraction_) return fraction_;
  if (max_updates_ <= 0) return std::nullopt;
  return std::clamp(update_ / max_updates_, 0.0, 1.0);
}

std::optional<double> RunView::seconds_left() const {
  if (eta_seconds_) return eta_seconds_;
  if (fraction_ || max_updates_ <= 0 || !step_ms_) return std::nullopt;
  return std::max(0.0, max_updates_ - update_) * *step_ms_ / 1000;
}

std::string RunView::progress_text() const {
  std::string text = "update " + grouped(update_);
  if (max_updates_ > 0) text += "/" + grouped(max_updates_);
  if (const auto done = fraction(); done && !screen_.live) text += fmt::format(" ({:.1f} %)", 100 * *done);
  if (epoch_) text += fmt::format("  epoch {:.2f}", *epoch_);
  if (loss_) text += fmt::format("  loss {:.4f}", *loss_);
  if (tokens_per_second_) text += fmt::format("  {} tokens/s", grouped(*tokens_per_second_));
  if (const auto left = seconds_left()) {
    text += fmt::format("  {} left{}", seconds_text(*left), at_latest_ ? " at most" : "");
  }
  return text;
}

void RunView::show() {
  if (update_ <= 0 || ended()) return;
  if (!screen_.live) {
    const auto now = SteadyClock::now();
    if (last_line_ && now - *last_line_ < between_) return;
    last_line_ = now;
    screen_.out << progress_text() << std::endl;
    return;
  }
  std::string line;
  if (const auto done = fraction()) {
    line = fmt::format("{} {:3.0f} %  ", bar_text(*done, bar_width), 100 * *done);
  }
  line += progress_text();
  if (screen_.width > 0) line.resize(std::min(line.size(), static_cast<std::size_t>(screen_.width - 1)));
  screen_.out << "\r\x1b[K" << line << std::flush;
  drawn_ = true;
}

void RunView::clear() {
  if (drawn_) screen_.out << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

namespace {

constexpr std::chrono::seconds between_lines{10}, between_looks{10};

/// Passes the stream's events to the view, or prints them as JSON lines.
class Watcher {
 public:
  Watcher(const ServerAccess& access, const std::string& run, bool as_json, const Screen& screen)
      : api_(access),
        run_(run),
        as_json_(as_json),
        out_(screen.out),
        view_(as_json ? Screen{.out = nowhere_} : screen, between_lines) {}

  /// Fetches the run's current state, at the start and after events may have been missed.
  void refresh() {
    refreshed_ = SteadyClock::now();
    json::object run = api_.get("/runs/" + run_);
    run.erase("config");
    take("state", run);
  }

  /// False once the run has ended.
  bool take(const std::string& name, const json::object& data) {
    if (name == "reset" || name == "gap") {
      refresh();
      return !view_.ended();
    }
    if (as_json_) out_ << to_text(json::object{{"event", name}, {"data", data}}) << std::endl;
    if (name == "state" && text_of(data, "id") == run_) view_.run(data);
    if (name == "metrics") {
      view_.metrics(data);
      look_at_health();
    }
    if (name == "eval") view_.eval(data);
    if (name == "checkpoint") view_.checkpoint(data);
    return !view_.ended();
  }

  RunView& view() { return view_; }

 private:
  /// Polls the run, since no event reports a change of health while the state is the same.
  void look_at_health() {
    if (as_json_ || SteadyClock::now() - refreshed_ < between_looks) return;
    try {
      refresh();
    } catch (const Failure&) {
      refreshed_ = SteadyClock::now();  // the event stream reports a lost server; the next look comes as usual
    }
  }

  ApiClient api_;
  const std::string run_;
  const bool as_json_;
  std::ostream& out_;
  std::ostream nowhere_{nullptr};  // discards text output with --json
  RunView view_;
  SteadyClock::time_point refreshed_{};
};

}  // namespace

void watch_run(const ServerAccess& access, const std::string& run_id, bool as_json, const Screen& screen) {
  Watcher watcher(access, run_id, as_json, screen);
  RunView& view = watcher.view();
  EventStream stream(access, "/api/v1/events?run=" + run_id + "&topic=metrics,state,checkpoint,eval");
  std::atomic<bool> interrupted = false;
  {
    const Interrupt interrupt([&](int) {
      interrupted = true;
      stream.end();
    });
    watcher.refresh();
    bool lost = false;
    const auto on_event = [&](const ServerEvent& event) {
      const auto data = parse_json(event.data);
      return data.ok() && data->is_object() ? watcher.take(event.name, data->get_object()) : true;
    };
    const auto on_connected = [&] {
      if (std::exchange(lost, false)) view.notice("connected again");
      watcher.refresh();
      if (view.ended()) stream.end();
    };
    const auto on_lost = [&](const std::string& why) {
      lost = true;
      view.notice(fmt::format("{}; trying again", why), Colour::yellow);
    };
    if (!view.ended()) stream.follow({.on_event = on_event, .on_connected = on_connected, .on_lost = on_lost});
  }
  if (interrupted && !view.ended()) {
    view.notice(fmt::format("no longer watching; the run continues (`nmt run stop {}` ends it)", run_id));
    return;
  }
  if (!view.succeeded()) throw Failure(view.outcome());
  view.notice(view.outcome(), colour_of_state(view.state()));
}

void add_run_watch(CLI::App& run) {
  CLI::App* command = run.add_subcommand("watch", "Follows a run until it ends; Ctrl-C only stops watching");
  const auto chosen = std::make_shared<RunChoice>();
  chosen->declare(*command);
  command->callback([chosen] {
    const ServerAccess access = chosen->access();
    ApiClient api(access);
    watch_run(access, text_of(find_run(api, chosen->run), "id"), chosen->as_json, Screen::of_stdout());
  });
}

}  // namespace babelring
