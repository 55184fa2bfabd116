#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace babelring {

/// What every record carries: who says it, and the key (run, attempt, rank, sequence) by which repeats are dropped.
struct RecordHeader {
  std::string run;            // r_ and 26 Crockford base-32 digits
  std::int64_t attempt = 1;   // grows by one at each restart of the run
  std::int64_t sequence = 0;  // per (run, attempt, rank), from 1 without gaps
  std::int64_t rank = 0;
  std::string host;
  std::int64_t time_ms = 0;  // wall clock, ms since 1970 UTC
};

/// One optimizer step as one rank saw it. The parts data_ms … other_ms add up to step_ms.
struct StepRecord {
  std::int64_t update = 0;  // 1 is the first
  double epoch = 0;         // passes over the training text, fractional
  double loss = 0;          // label-smoothed, nats per target token, of the whole update over all ranks
  double nll = 0;           // the same without smoothing
  double gradient_norm = 0;
  double learning_rate = 0;
  std::int64_t sentences = 0, source_tokens = 0, target_tokens = 0;  // this rank's share
  std::int64_t update_target_tokens = 0;                             // of the whole update, over all ranks
  double step_ms = 0;
  double data_ms = 0, forward_ms = 0, backward_ms = 0, exposed_communication_ms = 0, optimizer_ms = 0, other_ms = 0;
  double communication_ms = 0;                              // overlapped or not
  std::int64_t communication_bytes = 0;                     // sent by this rank, by the algorithm's model
  std::int64_t network_rx_bytes = 0, network_tx_bytes = 0;  // counted on the host's interfaces during the step
  std::int64_t network_link_bytes_per_second = 0;           // one way, of the busiest of them; 0: not known
  double flops = 0;                                         // matrix-product operations, forward and backward
  double busy_fraction = 0;                                 // processor time over wall time and threads; of a GPU: the
                                                            // part of the step in which it had ops to compute
  double power_w = 0, power_limit_w = 0;                    // 0: not measured
  std::map<std::string, std::int64_t> memory_bytes;         // by purpose: weights, gradients, moments, …, peak
  // Of this rank's GPU, as NVML counts it; what it does not tell is absent: utilization_percent (of its last sampling
  // period, in which any kernel ran), clock_mhz, memory_clock_mhz, memory_used_bytes (by all who use the card), and
  // counted during the step: nvlink_rx_bytes, nvlink_tx_bytes, pcie_rx_bytes, pcie_tx_bytes.
  std::map<std::string, std::int64_t> gpu;
  double fraction_done = 0;    // of the training, by whichever end is nearer: 0 to 1; 0: not known
  double seconds_left = 0;     // of the training, at the pace so far; 0 with fraction_done below 1: not known
  bool skipped = false;        // non-finite gradient: nothing was updated
  std::string weights_digest;  // every N updates, else empty
};

struct EvalSample {
  std::string source, reference, hypothesis;
};

/// A validation at an update.
struct EvalRecord {
  std::int64_t update = 0;
  std::string set;           // name of the held-out set
  double loss = 0, nll = 0;  // nats per target token, teacher forced
  double accuracy = 0;       // teacher-forced token accuracy
  double sacrebleu = 0;      // of beam-search output; NaN when this evaluation did not translate
  double chrf = 0;           // likewise
  // Of the likeliest piece at each place of the reference, given the reference's pieces before it: no translation, and
  // not to be compared with sacrebleu. NaN: of a worker that did not count it.
  double teacher_forced_bleu = std::numeric_limits<double>::quiet_NaN();
  std::string signature;  // sacreBLEU signature
  double seconds = 0;
  bool best = false;
  std::vector<EvalSample> samples;
};

struct CheckpointFile {
  std::string name;
  std::int64_t size = 0;
  std::string sha256;
};

/// A checkpoint became complete, or was removed by retention.
struct CheckpointRecord {
  std::int64_t update = 0;
  std::string name;    // folder name: update-00001000
  std::string folder;  // absolute path on the host
  std::vector<CheckpointFile> files;
  double sacrebleu = 0;  // NaN when not evaluated
  double loss = 0;       // validation loss, NaN when not evaluated
  bool best = false;
  bool removed = false;
  double write_seconds = 0;
  std::string version;          // of the program that wrote it
  std::int64_t world_size = 0;  // ranks that trained it
};

struct LogRecord {
  std::string level;  // debug, info, warn, error
  std::string text;
};

/// The run's or rank's life. `event` is started (rank 0: with name, config, world_size, version), rank_up (each rank:
/// pid, device), finished (detail: why, e.g. "max_updates"), stopped (on a signal), failed (detail: the message).
struct LifecycleRecord {
  std::string event;
  std::string detail;
  std::string name;
  std::string config;  // resolved YAML
  std::string version;
  std::int64_t world_size = 0;
  std::int64_t pid = 0;
  std::int64_t parameters = 0;
  std::int64_t max_updates = 0;  // 0: not bounded by updates
  std::string device;
  std::int64_t update = 0;      // after which training goes on, of `rewound`
  std::string end;              // what ends the training, in words: 20 epochs, 100,000 updates or 55 minutes
  bool may_end_sooner = false;  // by early stopping
};

/// How the detail of `failed` begins where training diverged: it would again from the same checkpoint.
inline constexpr std::string_view diverged_words = "training diverged at update ";

using RecordBody = std::variant<StepRecord, EvalRecord, CheckpointRecord, LogRecord, LifecycleRecord>;

struct Record {
  RecordHeader header;
  RecordBody body;
};

/// "step", "eval", "checkpoint", "log" or "lifecycle".
std::string_view kind_of(const RecordBody& body);

/// One flat JSON object: header members, `kind`, body members. A non-finite double is null and named in
/// `non_finite: {"loss": "nan"}` ("nan", "inf", "-inf"). Schema: docs/formats.md.
json::object to_json(const Record& record);

/// Members that this program does not know: a newer one wrote them.
struct UnknownMembers {
  std::int64_t count = 0;
  std::string first;  // its place: records[3].humidity
};

/// The inverse. The Error names the member, what was found and what was expected. Unknown members are refused, or with
/// `unknown` passed over and counted there. Absent members keep their defaults, except those that say which thing the
/// record is about (docs/formats.md).
Result<Record> record_from_json(const json::object& object, UnknownMembers* unknown = nullptr);

/// The body of POST /api/v1/runs/{run}/records: records of one rank of one attempt.
/// {"attempt":1,"rank":0,"host":"h","records":[{"sequence":1,"kind":"step","time_ms":…,…},…]}
json::object batch_to_json(std::int64_t attempt, std::int64_t rank, std::string_view host,
                           std::span<const Record> records);

/// The inverse, for the run named in the path. The Error names the record by its place: records[3].loss: …
Result<std::vector<Record>> batch_from_json(std::string_view run, const json::value& batch,
                                            UnknownMembers* unknown = nullptr);

/// Where records go. The trainer writes; the worker's reporter spools and sends; tests collect.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  /// Never blocks on the network. Throws Failure only if the local spool cannot be written.
  virtual void write(RecordBody body) = 0;
};

/// Numeric fields of a step record but `update` as (key, value), in declared order: the metric keys of the service.
/// `skipped` counts as 0 or 1; of memory and GPU each entry is a key: memory_bytes.weights.
std::vector<std::pair<std::string, double>> metrics_of(const StepRecord& step);

/// `r_`, `c_`, … and 26 Crockford base-32 digits: 48 bits of wall-clock ms, 80 random bits (a ULID).
std::string make_id(char prefix);
bool valid_id(std::string_view id, char prefix);

}  // namespace babelring
