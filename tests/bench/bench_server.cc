// The load that scripts/bench.sh server and translate put on a server: ranks that report, pages that listen, and
// clients that translate. The last line is JSON.

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/records/records.h"
#include "tests/bench/server_client.h"

namespace babelring::bench {
namespace {

struct Options {
  std::uint16_t port = 0;
  std::string token, run, tokens;
  int ranks = 4, batch = 1000, updates = 250'000, subscribers = 10'000, seconds = 20;
  std::string checkpoint, text;  // to translate with, and a file of lines
  int clients = 64, beam = 5;
};

std::string path_of(const Options& options) {
  return "/api/v1/runs/" + options.run + "/records";
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

std::vector<std::string> lines_of(const std::string& name) {
  std::vector<std::string> lines;
  std::ifstream file(name);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// A batch of steps as a worker would send it.
std::string batch_of(const Options& options, int rank, int first, int count) {
  std::vector<Record> records;
  for (int i = 0; i < count; ++i) {
    StepRecord step;
    step.update = first + i;
    step.loss = 10.0 / (first + i);
    step.nll = step.loss * 0.8;
    step.gradient_norm = 1.25;
    step.learning_rate = 0.0007;
    step.sentences = 64, step.source_tokens = 2000, step.target_tokens = 2100, step.update_target_tokens = 8400;
    step.times.step = 120.5 + i % 7, step.times.data = 0.5, step.times.forward = 35.25, step.times.backward = 70.5;
    step.times.exposed_communication = 9.25, step.times.optimizer = 5, step.times.communication = 30;
    step.communication_bytes = 120'000'000;
    step.memory_bytes = {{"weights", 240'000'000}, {"peak", 2'000'000'000}};
    Record& record = records.emplace_back();
    record.header = {
        options.run, 1, first + i, rank, "host" + std::to_string(rank / 2), 1'795'233'600'000 + 100 * (first + i)};
    record.body = std::move(step);
  }
  return to_text(batch_to_json(1, rank, records.front().header.host, records));
}

/// Numbers of a step record as it is sent, without those that say which step it is.
std::size_t numbers_sent(const Options& options) {
  const json::value batch = parse_json(batch_of(options, 0, 1, 1)).value();
  const json::object& record = batch.as_object().at("records").as_array().at(0).as_object();
  std::size_t count = 0;
  for (const auto& [name, value] : record) {
    if (name == "sequence" || name == "time_ms" || name == "update") continue;
    if (value.is_object()) count += value.get_object().size();
    if (value.is_number()) ++count;
  }
  return count;
}

/// Every rank has one batch on its way at a time; batches are made beforehand, a hundred at once, outside of the time.
void ingest(const Options& options) {
  std::mutex mutex;
  std::vector<double> acknowledged_ms;
  std::atomic<int> failed{0};
  double busy_ms = 0;
  std::vector<std::unique_ptr<Connection>> connections;
  for (int rank = 0; rank < options.ranks; ++rank) {
    connections.push_back(std::make_unique<Connection>(options.port, options.token));
  }
  constexpr int at_once = 50;
  for (int first = 1; first <= options.updates; first += at_once * options.batch) {
    std::vector<std::vector<std::string>> batches(static_cast<std::size_t>(options.ranks));
    for (int rank = 0; rank < options.ranks; ++rank) {
      for (int i = 0; i < at_once && first + i * options.batch <= options.updates; ++i) {
        batches[static_cast<std::size_t>(rank)].push_back(
            batch_of(options, rank, first + i * options.batch, options.batch));
      }
    }
    const Stopwatch watch;
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < batches.size(); ++rank) {
      ranks.emplace_back([&, rank] {
        for (const std::string& body : batches[rank]) {
          const Stopwatch one;
          if (connections[rank]->post(path_of(options), body) != 200) ++failed;
          const std::lock_guard lock(mutex);
          acknowledged_ms.push_back(one.elapsed_ms());
        }
      });
    }
    for (std::thread& rank : ranks) rank.join();
    busy_ms += watch.elapsed_ms();
  }
  const double records = static_cast<double>(acknowledged_ms.size()) * options.batch;
  const std::size_t keys = metrics_of(StepRecord()).size() + 2 + 4;  // memory of two purposes, four rates
  const std::size_t sent = numbers_sent(options);
  const double records_per_second = records / busy_ms * 1000;
  std::cout << to_text(json::object{{"records_per_second", records_per_second},
                                    {"sent_per_second", records_per_second * static_cast<double>(sent)},
                                    {"sent", sent},
                                    {"points_per_second", records_per_second * static_cast<double>(keys)},
                                    {"keys", keys},
                                    {"records", records},
                                    {"ack_p50_ms", percentile(acknowledged_ms, 0.5)},
                                    {"ack_p99_ms", percentile(acknowledged_ms, 0.99)},
                                    {"failed", failed.load()}})
            << std::endl;
}

/// The kinds of events that pages receive, each from a separate record.
struct Topic {
  std::string mark;                    // how such an event begins
  std::atomic<double> sent_ms{0};      // when the newest record was sent
  std::vector<double> latencies_ms{};  // of each event that came
};

/// Listeners that count events and note how long after its sending each came.
class Listeners {
 public:
  explicit Listeners(const Options& options) : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    constexpr std::size_t streams_of_a_token = 8;
    const std::vector<std::string> tokens = lines_of(options.tokens);
    for (int i = 0; i < options.subscribers; ++i) {
      const auto place = static_cast<std::size_t>(i) / streams_of_a_token;
      connections_.push_back(
          std::make_unique<Connection>(options.port, tokens.empty() ? options.token : tokens.at(place)));
      connections_.back()->get("/api/v1/events?topic=log,metrics&run=" + options.run);
      epoll_event event{.events = EPOLLIN, .data = {.u64 = static_cast<std::uint64_t>(i)}};
      epoll_ctl(epoll_, EPOLL_CTL_ADD, connections_.back()->descriptor(), &event);
    }
  }
  ~Listeners() { close(epoll_); }
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

  /// Reads until `end`.
  void listen(SteadyClock::time_point end, const Stopwatch& clock) {
    std::vector<epoll_event> ready(1024);
    std::array<char, 65536> bytes;
    for (auto now = SteadyClock::now(); now < end; now = SteadyClock::now()) {
      const int count = epoll_wait(epoll_, ready.data(), static_cast<int>(ready.size()), 50);
      for (int i = 0; i < count; ++i) {
        const int socket = connections_[ready[static_cast<std::size_t>(i)].data.u64]->descriptor();
        const ssize_t size = recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (size <= 0) {
          if (size == 0) {
            ++closed;
            epoll_ctl(epoll_, EPOLL_CTL_DEL, socket, nullptr);
          }
          continue;
        }
        const std::string_view text(bytes.data(), static_cast<std::size_t>(size));
        if (text.find("200 OK") != std::string_view::npos) ++accepted;
        note(log, text, clock);
        note(metrics, text, clock);
      }
    }
  }

  Topic log{.mark = "event: log"}, metrics{.mark = "event: metrics"};
  std::int64_t accepted = 0, closed = 0;

 private:
  static void note(Topic& topic, std::string_view text, const Stopwatch& clock) {
    for (auto at = text.find(topic.mark); at != std::string_view::npos; at = text.find(topic.mark, at + 1)) {
      topic.latencies_ms.push_back(clock.elapsed_ms() - topic.sent_ms.load());
    }
  }

  int epoll_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

/// Each second a log line and, half a second later, a step.
void send_events(const Options& options, Listeners& listeners, const Stopwatch& clock) {
  Connection connection(options.port, options.token);
  const auto send = [&](Topic& topic, int sequence, auto body) {
    Record record;
    record.header = {options.run, 1, sequence, 99, "listener", 1'795'233'600'000};
    record.body = std::move(body);
    topic.sent_ms = clock.elapsed_ms();
    connection.post(path_of(options), to_text(batch_to_json(1, 99, "listener", {&record, 1})));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  };
  for (int second = 0; second < options.seconds; ++second) {
    send(listeners.log, 2 * second + 1, LogRecord{"info", "tick"});
    StepRecord step;
    step.update = second + 1;
    step.loss = 2.5;
    send(listeners.metrics, 2 * second + 2, std::move(step));
  }
}

void listen(const Options& options) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  Listeners listeners(options);
  const Stopwatch clock;
  listeners.listen(SteadyClock::now() + std::chrono::seconds(5), clock);  // greetings
  std::thread sender([&] { send_events(options, listeners, clock); });
  listeners.listen(SteadyClock::now() + std::chrono::seconds(options.seconds + 2), clock);
  sender.join();
  const auto wanted = std::int64_t{options.subscribers} * options.seconds;
  const auto figures = [&](const Topic& topic) {
    return json::object{{"events", topic.latencies_ms.size()},
                        {"missed", wanted - static_cast<std::int64_t>(topic.latencies_ms.size())},
                        {"p50_ms", percentile(topic.latencies_ms, 0.5)},
                        {"p99_ms", percentile(topic.latencies_ms, 0.99)},
                        {"max_ms", percentile(topic.latencies_ms, 1)}};
  };
  std::cout << to_text(json::object{{"subscribers", options.subscribers},
                                    {"accepted", listeners.accepted},
                                    {"closed", listeners.closed},
                                    {"log", figures(listeners.log)},
                                    {"metrics", figures(listeners.metrics)}})
            << std::endl;
}

/// Each client has one sentence on its way at a time. One that is refused comes again after a second, as Retry-After
/// says, and its time runs on.
void translate(const Options& options) {
  const std::vector<std::string> lines = lines_of(options.text), tokens = lines_of(options.tokens);
  const std::string path = "/api/v1/checkpoints/" + options.checkpoint + "/translate";
  std::mutex mutex;
  std::vector<double> taken_ms;
  std::atomic<int> refused{0}, failed{0};
  const Stopwatch watch;
  const auto end = SteadyClock::now() + std::chrono::seconds(options.seconds);
  const auto ask = [&](std::size_t client) {
    Connection connection(options.port, tokens.empty() ? options.token : tokens.at(client));
    for (std::size_t at = client; SteadyClock::now() < end; at += static_cast<std::size_t>(options.clients)) {
      const std::string body =
          to_text(json::object{{"text", json::array{json::value(lines[at % lines.size()])}}, {"beam", options.beam}});
      const Stopwatch one;
      int status = 0;
      while ((status = connection.post(path, body)) == 503 && SteadyClock::now() < end) {
        ++refused;
        std::this_thread::sleep_for(std::chrono::seconds(1));
      }
      if (status != 200 && status != 503) {
        ++failed;
        return;
      }
      const std::lock_guard lock(mutex);
      if (status == 200) taken_ms.push_back(one.elapsed_ms());
    }
  };
  std::vector<std::thread> clients;
  for (int client = 0; client < options.clients; ++client) clients.emplace_back(ask, static_cast<std::size_t>(client));
  for (std::thread& client : clients) client.join();
  const double seconds = watch.elapsed_ms() / 1000;
  std::cout << to_text(json::object{{"clients", options.clients},
                                    {"sentences", taken_ms.size()},
                                    {"sentences_per_second", static_cast<double>(taken_ms.size()) / seconds},
                                    {"p50_ms", percentile(taken_ms, 0.5)},
                                    {"p99_ms", percentile(taken_ms, 0.99)},
                                    {"refused", refused.load()},
                                    {"failed", failed.load()}})
            << std::endl;
}

}  // namespace
}  // namespace babelring::bench

int main(int argc, char** argv) {
  babelring::bench::Options options;
  CLI::App app("Load for a server on this machine.", "bench_server");
  app.require_subcommand(1);
  app.add_option("--port", options.port, "the server's port")->required();
  app.add_option("--token", options.token, "bearer token, if it wants one");
  app.add_option("--run", options.run, "id of the run that reports")->required();
  auto* reports = app.add_subcommand("ingest", "ranks that report as fast as they are answered");
  reports->add_option("--ranks", options.ranks, "ranks")->capture_default_str();
  reports->add_option("--batch", options.batch, "records of a batch")->capture_default_str();
  reports->add_option("--updates", options.updates, "updates of each rank")->capture_default_str();
  auto* pages = app.add_subcommand("listen", "pages that listen to a log line and a step a second");
  pages->add_option("--subscribers", options.subscribers, "pages")->capture_default_str();
  pages->add_option("--tokens", options.tokens, "file with a token a line, each for eight pages; instead of --token")
      ->check(CLI::ExistingFile);
  pages->add_option("--seconds", options.seconds, "for so long")->capture_default_str();
  auto* texts = app.add_subcommand("translate", "clients that translate, a sentence at a time");
  texts->add_option("--checkpoint", options.checkpoint, "its id")->required();
  texts->add_option("--text", options.text, "file of lines")->required()->check(CLI::ExistingFile);
  texts->add_option("--clients", options.clients, "clients")->check(CLI::PositiveNumber)->capture_default_str();
  texts->add_option("--beam", options.beam, "hypotheses")->capture_default_str();
  texts->add_option("--tokens", options.tokens, "file with a token a line, one a client; instead of --token")
      ->check(CLI::ExistingFile);
  texts->add_option("--seconds", options.seconds, "for so long")->capture_default_str();
  try {
    app.parse(argc, argv);
    if (reports->parsed()) babelring::bench::ingest(options);
    if (pages->parsed()) babelring::bench::listen(options);
    if (texts->parsed()) babelring::bench::translate(options);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& failure) {
    std::cerr << "bench_server: " << failure.what() << '\n';
    return 1;
  }
}
