#include "worker/heartbeat.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/json.h"
#include "client/delivery.h"
#include "nmt/core/machine.h"
#include "nmt/metering/network_counters.h"

namespace babelring {
namespace {

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

void read_memory(HostState& state) {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (std::int64_t kibibytes = 0; file >> name >> kibibytes && std::getline(file, unit);) {
    if (name == "MemTotal:") state.memory_bytes = kibibytes * 1024;
    if (name == "MemAvailable:") state.memory_available_bytes = kibibytes * 1024;
    if (state.memory_bytes > 0 && state.memory_available_bytes > 0) return;
  }
}

constexpr std::array<std::string_view, 5> processor_drivers = {"coretemp", "k10temp", "zenpower", "cpu_thermal",
                                                               "cpu_hwmon"};
constexpr double min_celsius = -50, max_celsius = 150;  // a sensor that says more is broken

/// Takes in a reading in thousandths of a degree, if it is hotter.
void read_sensor(const std::filesystem::path& file, std::optional<double>& hottest) {
  double reading = 0;
  if (!(std::ifstream(file) >> reading)) return;
  const double celsius = reading / 1000;
  if (celsius < min_celsius || celsius > max_celsius) return;
  hottest = std::max(celsius, hottest.value_or(celsius));
}

void read_network(HostState& state) {
  for (const auto& [name, bytes] : read_network_counters()) {
    if (name == "lo") continue;
    state.network_rx_bytes += bytes.rx;
    state.network_tx_bytes += bytes.tx;
  }
}

}  // namespace

std::optional<double> read_temperature(const std::filesystem::path& sensors) try {
  std::optional<double> hottest;
  std::error_code absent;
  for (const auto& chip : std::filesystem::directory_iterator(sensors / "hwmon", absent)) {
    std::string driver;
    std::ifstream(chip.path() / "name") >> driver;
    if (std::find(processor_drivers.begin(), processor_drivers.end(), driver) == processor_drivers.end()) continue;
    for (const auto& entry : std::filesystem::directory_iterator(chip.path(), absent)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("temp") && name.ends_with("_input")) read_sensor(entry.path(), hottest);
    }
  }
  if (hottest) return hottest;
  for (const auto& zone : std::filesystem::directory_iterator(sensors / "thermal", absent)) {
    if (zone.path().filename().string().starts_with("thermal_zone")) read_sensor(zone.path() / "temp", hottest);
  }
  return hottest;
} catch (const std::filesystem::filesystem_error&) {  // a driver was unloaded while its folder was listed
  return std::nullopt;
}

HostState read_host_state(const std::filesystem::path& folder) {
  HostState state;
  state.resident_bytes = resident_bytes();
  read_memory(state);
  read_network(state);
  const MemoryInfo limited = host_memory_info();
  state.memory_limit_bytes = static_cast<std::int64_t>(limited.total);
  state.memory_left_bytes = static_cast<std::int64_t>(limited.free);
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  if (!error) state.disk_free_bytes = static_cast<std::int64_t>(space.available);
  state.processors = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  std::ifstream("/proc/loadavg") >> state.load;
  state.temperature_celsius = read_temperature();
  return state;
}

namespace {

constexpr std::chrono::milliseconds max_requested_pause{60000};  // limit on Retry-After

/// Empty if the GPU reports nothing. Omits counters, which step records report per step.
json::object gpu_of(const GpuReading& reading) {
  json::object gpu;
  for (const auto& [name, value] : reading.values) gpu[name] = value;
  if (reading.power_w > 0) gpu["power_w"] = reading.power_w;
  if (reading.power_limit_w > 0) gpu["power_limit_w"] = reading.power_limit_w;
  return gpu;
}

}  // namespace

Heartbeat::Heartbeat(HeartbeatOptions options, HeartbeatCommands orders, HeartbeatRelay relay)
    : options_(std::move(options)),
      orders_(std::move(orders)),
      client_(options_.server.address, client_options(options_.server, options_.request_timeout)),
      relay_(std::move(relay)),
      updated_at_(SteadyClock::now().time_since_epoch().count()),
      thread_([this] { loop(); }) {}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  client_.cancel();
  thread_.join();
}

void Heartbeat::record_update(std::int64_t update) {
  update_.store(update, std::memory_order_relaxed);
  updated_at_.store(SteadyClock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

void Heartbeat::loop() {
  std::chrono::milliseconds pause = options_.between;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    bool taken = false;
    try {
      taken = beat();
    } catch (const std::exception& failure) {  // must not affect training
      spdlog::warn("heartbeat: {}", failure.what());
    }
    pause = taken ? options_.between : std::max(std::min(2 * pause, options_.max_backoff), requested_pause_);
    const double spread = taken ? 1.0 : std::uniform_real_distribution<double>(1.0, 1.5)(jitter_);
    lock.lock();
    wait(lock, std::chrono::duration_cast<std::chrono::milliseconds>(spread * pause));
  }
}

void Heartbeat::wait(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds duration) {
  const auto end = SteadyClock::now() + duration;
  const auto stopping = [&] { return stopping_; };
  while (relay_.receives() && SteadyClock::now() + HeartbeatRelay::receive_interval < end && !stopping_) {
    wake_.wait_for(lock, HeartbeatRelay::receive_interval, stopping);
    relay_.receive();
  }
  wake_.wait_until(lock, end, stopping);
}

json::object Heartbeat::body() const {
  const HostState host = read_host_state(options_.folder);
  const SteadyClock::time_point updated{SteadyClock::duration(updated_at_.load(std::memory_order_relaxed))};
  json::object heartbeat = {{"attempt", options_.identity.attempt},
                            {"rank", options_.identity.rank},
                            {"host", options_.identity.host},
                            {"pid", getpid()},
                            {"update", update_.load(std::memory_order_relaxed)},
                            {"since_update_s", std::chrono::duration<double>(SteadyClock::now() - updated).count()},
                            {"checkpoint_done", orders_.checkpoint.done()},
                            {"trace_done", orders_.trace.done()},
                            {"resident_bytes", host.resident_bytes},
                            {"memory_bytes", host.memory_bytes},
                            {"memory_available_bytes", host.memory_available_bytes},
                            {"memory_limit_bytes", host.memory_limit_bytes},
                            {"memory_left_bytes", host.memory_left_bytes},
                            {"disk_free_bytes", host.disk_free_bytes},
                            {"network_rx_bytes", host.network_rx_bytes},
                            {"network_tx_bytes", host.network_tx_bytes},
                            {"processors", host.processors},
                            {"load", host.load}};
  if (host.temperature_celsius) heartbeat["temperature_celsius"] = *host.temperature_celsius;
  json::object gpu = options_.gpu ? gpu_of(options_.gpu()) : json::object();
  if (!gpu.empty()) heartbeat["gpu"] = std::move(gpu);
  return heartbeat;
}

Result<HttpResponse> Heartbeat::post(const std::string& heartbeat) {
  return client_.post(fmt::format("/api/v1/runs/{}/heartbeat", options_.identity.run), heartbeat);
}

bool Heartbeat::is_fenced(const HttpResponse& response) const {
  if (response.status != 409) return false;
  const auto parsed = parse_json(response.body);
  const std::string code = parsed.ok() && parsed->is_object() ? get_text(parsed->get_object(), "code") : "";
  if (code != "stale_attempt" && code != "attempt_refused") return false;
  orders_.fenced(explain(response));
  return true;
}

bool Heartbeat::beat() {
  const std::string own = to_text(body());
  requested_pause_ = std::chrono::milliseconds(0);
  if (relay_.pass_on(own)) return true;
  const Result<HttpResponse> answer = post(own);
  if (!answer.ok()) return false;
  if (answer->retry_after)
    requested_pause_ = std::min<std::chrono::milliseconds>(*answer->retry_after, max_requested_pause);
  if (is_fenced(*answer)) return true;
  if (!answer->success()) return answer->status == 404;  // unknown until the first records arrive
  const auto parsed = parse_json(answer->body);
  if (parsed.ok() && parsed->is_object()) execute(parsed->get_object());
  for (const std::string& theirs : relay_.take()) {
    const Result<HttpResponse> relayed = post(theirs);
    if (!relayed.ok() || is_fenced(*relayed)) break;
  }
  return true;
}

void Heartbeat::execute(const json::object& answer) {
  const json::value* commands = answer.if_contains("commands");
  if (commands == nullptr || !commands->is_array()) return;
  for (const json::value& entry : commands->get_array()) {
    if (!entry.is_object()) continue;
    const json::object& command = entry.get_object();
    const std::string kind = get_text(command, "kind");
    if (kind == "stop") {
      const bool at_once = get_text(command, "mode") == "now";
      if (!std::exchange(stop_logged_, true)) spdlog::info("the server requests a stop{}", at_once ? " at once" : "");
      if (at_once) orders_.stop.request_without_checkpoint();
      orders_.stop.request();
    } else if (kind == "checkpoint") {
      const json::value* number = command.if_contains("number");
      if (number != nullptr && number->is_int64()) orders_.checkpoint.request(number->get_int64());
    } else if (kind == "trace") {
      const TraceOrder order{.number = get_integer(command, "number"),
                             .updates = get_integer(command, "updates"),
                             .ops = get_flag(command, "ops")};
      if (order.updates >= 1 && order.updates <= max_traced_updates) orders_.trace.request(order);
    }
  }
}

}  // namespace babelring
