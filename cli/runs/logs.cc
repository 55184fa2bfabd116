#include "cli/runs/run_commands.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "cli/runs/screen.h"
#include "cli/runs/table.h"
#include "cli/runs/watch.h"
#include "client/api_client.h"
#include "client/event_stream.h"

namespace babelring {
namespace {

Colour colour_of_level(const std::string& level) {
  if (level == "error") return Colour::red;
  if (level == "warn") return Colour::yellow;
  return level == "debug" ? Colour::grey : Colour::none;
}

void print_line(const json::object& item, bool as_json, const Screen& screen) {
  if (as_json) {
    screen.out << to_text(item) << '\n';
    return;
  }
  const std::string level = text_of(item, "level");
  const std::string head = fmt::format("{} [rank {}]", text_of(item, "time"), grouped_text(get_number(item, "rank")));
  screen.out << screen.coloured(head, Colour::grey) << ' '
             << screen.coloured(fmt::format("{}: {}", level, text_of(item, "text")), colour_of_level(level)) << '\n';
}

/// Listens to the run's events on its own thread and signals that new lines may be available. The lines are read from
/// the pages of the log, so that none is missed or read twice.
class LogEvents {
 public:
  LogEvents(const ServerAccess& access, const std::string& run, std::chrono::milliseconds without_events)
      : stream_(access, "/api/v1/events?topic=log,state&run=" + run), without_events_(without_events) {
    listener_ = std::thread([this] { listen(); });
  }
  ~LogEvents() {
    stream_.end();
    listener_.join();
  }
  LogEvents(const LogEvents&) = delete;
  LogEvents& operator=(const LogEvents&) = delete;

  void end() {
    set([&] { ended_ = true; });
  }

  /// Waits for an event or a timeout, which is longer while the stream is connected. False once end() was called.
  bool wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, at_once, [&] { return ended_; });  // one request for a burst of events
    changed_.wait_for(lock, connected_ ? std::max(without_events_, longest) : without_events_,
                      [&] { return ended_ || rung_; });
    rung_ = false;
    return !ended_;
  }

 private:
  static constexpr std::chrono::milliseconds at_once{100}, longest{10000};

  template <class Change>
  void set(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  void listen() {
    try {
      stream_.follow({.on_event =
                          [&](const ServerEvent&) {
                            set([&] { rung_ = true; });
                            return true;
                          },
                      .on_connected = [&] { set([&] { rung_ = connected_ = true; }); },
                      .on_lost = [&](const std::string&) { set([&] { connected_ = false; }); }});
    } catch (const std::exception&) {  // no event stream: poll the pages instead
      set([&] { connected_ = false; });
    }
  }

  EventStream stream_;
  const std::chrono::milliseconds without_events_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false, rung_ = false, connected_ = false;
  std::thread listener_;
};

/// Requests and prints one page. Returns its number of lines and moves `cursor` behind them.
std::size_t print_page(ApiClient& api, const std::string& target, std::string& cursor, bool as_json,
                       const Screen& screen) {
  const json::object page = api.get(target);
  const json::array& items = page.at("items").as_array();
  for (const json::value& item : items) print_line(item.as_object(), as_json, screen);
  screen.out.flush();
  const std::string next = text_of(page, "next_cursor");
  if (!next.empty()) cursor = next;
  return items.size();
}

/// Prints all lines after `cursor`. Returns true if the run has ended, so no more lines follow.
bool print_rest(ApiClient& api, const std::string& run, const std::string& filter, std::string& cursor, bool as_json,
                const Screen& screen) {
  constexpr std::size_t limit = 500;
  // Read the state first: all lines that the run logged before its end are then available.
  const bool ended = is_end_state(text_of(api.get("/runs/" + run), "state"));
  std::size_t lines = limit;
  while (lines == limit) {
    const std::string target =
        fmt::format("/runs/{}/logs?limit={}&cursor={}{}", run, limit, percent_encoded(cursor), filter);
    lines = print_page(api, target, cursor, as_json, screen);
  }
  return ended;
}

}  // namespace

void print_logs(const ServerAccess& access, const LogRequest& request, bool as_json, const Screen& screen) {
  ApiClient api(access);
  std::string filter;
  if (request.rank) filter += fmt::format("&rank={}", *request.rank);
  if (!request.level.empty()) filter += "&level=" + percent_encoded(request.level);
  if (!request.text.empty()) filter += "&q=" + percent_encoded(request.text);
  std::string cursor;
  print_page(api, fmt::format("/runs/{}/logs?tail={}{}", request.run, request.tail, filter), cursor, as_json, screen);
  if (!request.follow || cursor.empty()) return;
  LogEvents events(access, request.run, request.poll_interval);
  const Interrupt interrupt([&](int) { events.end(); });
  bool away = false;
  for (bool ended = false; !ended && events.wait();) {
    try {
      ended = print_rest(api, request.run, filter, cursor, as_json, screen);
      away = false;
    } catch (const Failure& failure) {  // keep following across a restart of the server
      const auto* refusal = dynamic_cast<const ServerRefusal*>(&failure);
      if (refusal != nullptr && is_final(refusal->problem().status)) throw;
      if (!std::exchange(away, true)) spdlog::warn("{}; trying again", failure.what());
    }
  }
}

void add_run_logs(CLI::App& run) {
  CLI::App* command = run.add_subcommand("logs", "Prints the log of a run's ranks");
  struct Arguments {
    RunChoice chosen;
    LogRequest request;
  };
  const auto arguments = std::make_shared<Arguments>();
  LogRequest& request = arguments->request;
  command->add_flag("--follow,-f", request.follow, "print new lines until the run has ended");
  command->add_option("--rank", request.rank, "only lines of this rank")->check(CLI::NonNegativeNumber);
  command->add_option("--level", request.level, "only lines of this level")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
  command->add_option("--search", request.text, "only lines that contain this text");
  command->add_option("--tail", request.tail, "number of newest lines")
      ->check(CLI::Range(1, 500))
      ->capture_default_str();
  arguments->chosen.declare(*command);
  command->callback([arguments] {
    const ServerAccess access = arguments->chosen.access();
    ApiClient api(access);
    arguments->request.run = text_of(find_run(api, arguments->chosen.run), "id");
    print_logs(access, arguments->request, arguments->chosen.as_json, Screen::of_stdout());
  });
}

}  // namespace babelring
