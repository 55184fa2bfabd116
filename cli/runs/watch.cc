#include "cli/runs/watch.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <boost/json/object.hpp>

#include "base/clock.h"
#include "base/failure.h"
#include "cli/runs/find_run.h"
#include "cli/runs/interrupt.h"
#include "cli/runs/run_commands.h"
#include "cli/runs/run_view.h"
#include "cli/runs/text_format.h"
#include "client/api_client.h"
#include "client/event_stream.h"

namespace babelring {
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
    } catch (const Failure&) {  // the event stream reports a lost server
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
