#include "server/telemetry/prometheus.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <map>
#include <span>

#include "base/version.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/store/home.h"
#include "server/store/runs.h"
#include "server/store/steps.h"
#include "server/translate/pool.h"

namespace babelring::telemetry {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr std::int64_t max_runs = 50;             // max runs with metrics, the newest active ones
constexpr std::size_t max_ranks = 1000;           // in all
constexpr std::size_t max_metric_lines = 20'000;  // of the whole answer

MetricFamily& family(std::vector<MetricFamily>& families, const char* name, const char* help, MetricType type) {
  return families.emplace_back(MetricFamily{name, help, type, {}});
}

void gauge(MetricFamily& into, Labels labels, double value) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = value;
  into.metric.push_back(std::move(metric));
}

void counter(std::vector<MetricFamily>& families, const char* name, const char* help, std::uint64_t value) {
  ClientMetric metric;
  metric.counter.value = static_cast<double>(value);
  family(families, name, help, MetricType::Counter).metric.push_back(std::move(metric));
}

void single_gauge(std::vector<MetricFamily>& families, const char* name, const char* help, double value) {
  gauge(family(families, name, help, MetricType::Gauge), {}, value);
}

ClientMetric histogram(Labels labels, std::span<const double> bounds, std::span<const std::uint64_t> counts,
                       double sum) {
  ClientMetric metric;
  metric.label = std::move(labels);
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    total += counts[i];
    metric.histogram.bucket.push_back({total, i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity()});
  }
  metric.histogram.sample_count = total;
  metric.histogram.sample_sum = sum;
  return metric;
}

void add_http(std::vector<MetricFamily>& families, const HttpMeter& meter) {
  MetricFamily& requests =
      family(families, "babelring_http_request_duration_seconds",
             "Time from the end of a request to its response, including queueing", MetricType::Histogram);
  std::size_t lines = 0;
  for (const auto& [key, cell] : meter.read()) {
    if ((lines += cell.buckets.size() + 2) > max_metric_lines / 2) break;
    const auto& [route, method, status] = key;
    requests.metric.push_back(histogram({{"route", route}, {"method", method}, {"code", std::to_string(status)}},
                                        HttpMeter::bounds_s, cell.buckets, cell.seconds));
  }
}

void add_lanes(std::vector<MetricFamily>& families, const Sources& sources) {
  MetricFamily waiting{"babelring_lane_waiting_requests", "Requests waiting for a thread", MetricType::Gauge, {}};
  MetricFamily oldest{"babelring_lane_oldest_wait_seconds", "Age of the oldest waiting request", MetricType::Gauge, {}};
  MetricFamily running{"babelring_lane_running_requests", "Requests being handled", MetricType::Gauge, {}};
  MetricFamily refused{
      "babelring_lane_refused_total", "Requests refused because the queue was full", MetricType::Counter, {}};
  MetricFamily left{
      "babelring_lane_abandoned_total", "Requests dropped because their clients left", MetricType::Counter, {}};
  const auto count = [](MetricFamily& into, Labels labels, std::uint64_t value) {
    ClientMetric& metric = into.metric.emplace_back();
    metric.label = std::move(labels);
    metric.counter.value = static_cast<double>(value);
  };
  for (const http::Lane lane : http::all_lanes) {
    const Labels labels = {{"lane", std::string(name_of(lane))}};
    const http::Lanes::Stats stats = sources.lanes->stats(lane);
    gauge(waiting, labels, static_cast<double>(stats.waiting));
    gauge(oldest, labels, stats.oldest_s);
    gauge(running, labels, static_cast<double>(stats.running));
    count(refused, labels, stats.refused);
    count(left, labels, stats.abandoned);
  }
  if (sources.translators != nullptr) {
    const Labels labels = {{"lane", "translate"}};
    const translate::Pool::Load load = sources.translators->load();
    gauge(waiting, labels, static_cast<double>(load.waiting));
    gauge(running, labels, static_cast<double>(load.running));
  }
  for (MetricFamily* one : {&waiting, &oldest, &running, &refused, &left}) families.push_back(std::move(*one));
}

void add_ingest(std::vector<MetricFamily>& families, const store::WriterCounts& counts) {
  counter(families, "babelring_ingest_points_total", "Stored values of step records", counts.points);
  counter(families, "babelring_ingest_records_total", "Stored records", counts.records);
  counter(families, "babelring_ingest_duplicates_total", "Records that were already stored", counts.duplicates);
  counter(families, "babelring_ingest_batches_total", "Stored batches", counts.batches);
  counter(families, "babelring_ingest_unknown_members_total", "Unknown members of records, which were ignored",
          counts.unknown_members);
  counter(families, "babelring_ingest_refused_total", "Batches refused for invalid content", counts.refused);
  counter(families, "babelring_ingest_failures_total", "Failed database transactions", counts.failed);
  family(families, "babelring_ingest_commit_seconds", "Time of a commit, including fsync", MetricType::Histogram)
      .metric.push_back(histogram({}, store::WriterCounts::commit_bounds_s, counts.commits, counts.commit_seconds));
}

void add_process(std::vector<MetricFamily>& families, const Sources& sources) {
  std::ifstream statm("/proc/self/statm");
  double pages = 0, resident = 0;
  statm >> pages >> resident;
  const auto page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
  single_gauge(families, "process_resident_memory_bytes", "Resident memory", resident * page_bytes);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  ClientMetric cpu;
  cpu.counter.value = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  family(families, "process_cpu_seconds_total", "Processor time", MetricType::Counter).metric.push_back(cpu);
  std::error_code error;
  double descriptors = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    ++descriptors;
  }
  single_gauge(families, "process_open_fds", "Open file descriptors", descriptors);
  gauge(family(families, "babelring_build_info", "Always 1, labelled with the program's version", MetricType::Gauge),
        {{"version", version}, {"schema", std::to_string(store::schema_version)}}, 1);
  const auto size = std::filesystem::file_size(sources.store.database_file(), error);
  single_gauge(families, "babelring_database_bytes", "Size of the database file",
               error ? 0 : static_cast<double>(size));
  single_gauge(families, "babelring_disk_free_bytes", "Free bytes on the disk of the database",
               static_cast<double>(sources.store.free_bytes()));
}

/// Entries that the audit and the access log left out.
void add_log_losses(std::vector<MetricFamily>& families, const Sources& sources) {
  const access::AuditLog::Counts audit = sources.audit.counts();
  MetricFamily& dropped = family(
      families, "babelring_audit_dropped_total",
      "Audit: requests counted by an earlier entry (joined), entries deleted for their age (expired) or for newer "
      "ones (displaced), refusals dropped because too many were pending (lost)",
      MetricType::Counter);
  for (const auto& [cause, count] : {std::pair{"joined", audit.joined},
                                     {"expired", audit.expired},
                                     {"displaced", audit.displaced},
                                     {"lost", audit.lost}}) {
    ClientMetric metric;
    metric.label = {{"cause", cause}};
    metric.counter.value = static_cast<double>(count);
    dropped.metric.push_back(std::move(metric));
  }
  counter(families, "babelring_access_log_suppressed_total", "Lines left out of the access log because of their rate",
          sources.access_log == nullptr ? 0 : sources.access_log->suppressed());
}

struct RunFamilies {
  MetricFamily step{"babelring_run_step", "Newest update of an active run", MetricType::Gauge, {}};
  MetricFamily loss{"babelring_run_loss", "Training loss of the newest update", MetricType::Gauge, {}};
  MetricFamily rate{
      "babelring_run_target_tokens_per_second", "Target tokens per second of all ranks", MetricType::Gauge, {}};
  MetricFamily step_seconds{"babelring_run_step_seconds", "Wall time of the newest update", MetricType::Gauge, {}};
  MetricFamily waiting{"babelring_rank_exposed_communication_seconds",
                       "Time of the newest update spent waiting for the network",
                       MetricType::Gauge,
                       {}};
  MetricFamily age{
      "babelring_rank_heartbeat_age_seconds", "Time since the rank's last heartbeat", MetricType::Gauge, {}};
  MetricFamily busy{
      "babelring_rank_busy_ratio", "Processor time divided by wall time and threads", MetricType::Gauge, {}};
  MetricFamily gpu{"babelring_gpu_utilization_ratio",
                   "Fraction of time in which the rank's GPU was computing",
                   MetricType::Gauge,
                   {}};
  MetricFamily write{
      "babelring_checkpoint_write_seconds", "Time until the newest checkpoint was durable", MetricType::Gauge, {}};
  MetricFamily bytes{"babelring_checkpoint_bytes", "Size of the newest checkpoint", MetricType::Gauge, {}};
  std::size_t ranks = 0;
};

void finite_gauge(MetricFamily& into, const Labels& labels, double value) {
  if (std::isfinite(value)) gauge(into, labels, value);
}

/// Seconds since the last heartbeat, per rank.
std::map<std::int64_t, double> heartbeat_ages(const Sources& sources, const store::RunRow& run) {
  std::map<std::int64_t, double> ages_s;
  if (sources.heartbeats == nullptr) return ages_s;
  const launch::Heartbeats& heartbeats = *sources.heartbeats;
  for (const auto& heard : heartbeats.of(run.id, run.attempt)) ages_s[heard.beat.rank] = heartbeats.age_s(heard);
  return ages_s;
}

void add_ranks(RunFamilies& into, const Sources& sources, store::Reader& reader, const store::RunRow& run) {
  const auto ages_s = heartbeat_ages(sources, run);
  for (const store::RankRow& rank : store::list_ranks(reader, run.number, run.attempt)) {
    if (++into.ranks > max_ranks) return;
    const Labels labels = {{"run", run.id}, {"rank", std::to_string(rank.rank)}, {"host", rank.host}};
    if (const auto age_s = ages_s.find(rank.rank); age_s != ages_s.end()) gauge(into.age, labels, age_s->second);
    finite_gauge(into.waiting, labels, rank.last.value("exposed_communication_ms") / 1000);
    const double busy = rank.last.value("busy_fraction");
    finite_gauge(into.busy, labels, busy);
    const double told = rank.last.value("gpu.utilization_percent") / 100;
    finite_gauge(into.gpu, labels, rank.on_gpu() && !std::isfinite(told) ? busy : told);
  }
}

void add_run(RunFamilies& into, const Sources& sources, store::Reader& reader, const store::RunRow& run) {
  const Labels labels = {{"run", run.id}, {"name", run.name}};
  gauge(into.step, labels, static_cast<double>(run.last.step));
  finite_gauge(into.loss, labels, run.last.value("loss"));
  const double step_seconds = run.last.value("step_ms") / 1000;
  finite_gauge(into.step_seconds, labels, step_seconds);
  finite_gauge(into.rate, labels, run.last.value("update_target_tokens") / step_seconds);
  store::CheckpointFilter newest;
  newest.limit = 1;
  for (const store::CheckpointRow& checkpoint : store::list_checkpoints(reader, run.number, newest)) {
    finite_gauge(into.write, labels, checkpoint.write_seconds);
    gauge(into.bytes, labels, static_cast<double>(artifacts::bytes_of(artifacts::manifest_of(checkpoint))));
  }
  add_ranks(into, sources, reader, run);
}

void add_runs(std::vector<MetricFamily>& families, const Sources& sources) {
  RunFamilies runs;
  auto reader = sources.store.reader();
  MetricFamily& states = family(families, "babelring_runs", "Runs by state", MetricType::Gauge);
  for (const auto& [state, count] : store::count_runs(*reader)) {
    gauge(states, {{"state", std::string(name_of(state))}}, static_cast<double>(count));
  }
  store::RunFilter filter;
  filter.states = {store::RunState::running};
  filter.limit = max_runs;
  for (const store::RunRow& run : store::list_runs(*reader, filter)) add_run(runs, sources, *reader, run);
  for (MetricFamily* one : {&runs.step, &runs.loss, &runs.rate, &runs.step_seconds, &runs.waiting, &runs.age,
                            &runs.busy, &runs.gpu, &runs.write, &runs.bytes}) {
    families.push_back(std::move(*one));
  }
}

}  // namespace

std::string metrics_text(const Sources& sources, const HttpMeter& meter) {
  std::vector<MetricFamily> families;
  add_process(families, sources);
  add_http(families, meter);
  if (sources.lanes != nullptr) add_lanes(families, sources);
  add_ingest(families, sources.store.counts());
  single_gauge(families, "babelring_sse_subscribers", "Open event streams",
               static_cast<double>(sources.events.subscribers()));
  counter(families, "babelring_sse_dropped_total", "Metric frames dropped for slow event-stream readers",
          sources.events.dropped());
  add_log_losses(families, sources);
  single_gauge(families, "babelring_sse_bytes", "Memory of the events kept for streams",
               static_cast<double>(sources.events.bytes()));
  add_runs(families, sources);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace babelring::telemetry
