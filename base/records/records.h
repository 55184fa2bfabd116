#pragma once

#include <array>
#include <cstddef>
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
#include "base/records/resamples.h"
#include "base/records/step_times.h"
#include "base/result.h"

namespace babelring {

/// EvalRecord::set of an evaluation on a sample of the training set (validation.train_sample).
inline constexpr const char* train_sample_set = "train";

/// Name of an evaluation on `set`: "training sample", otherwise "validation on valid".
inline std::string evaluation_name(std::string_view set) {
  return set == train_sample_set ? "training sample" : "validation on " + std::string(set);
}

/// Common members of all records. The key (run, attempt, rank, sequence) identifies a record, so that the server can
/// drop duplicates.
struct RecordHeader {
  std::string run;            // r_ and 26 Crockford base-32 digits
  std::int64_t attempt = 1;   // incremented at each restart of the run
  std::int64_t sequence = 0;  // per (run, attempt, rank), from 1 without gaps
  std::int64_t rank = 0;
  std::string host;
  std::int64_t time_ms = 0;  // wall clock, ms since 1970 UTC
};

/// One optimizer step, as measured by one rank.
struct StepRecord {
  std::int64_t update = 0;  // 1 is the first
  double epoch = 0;         // passes over the training set, fractional
  double loss = 0;          // label-smoothed, nats per target token, over all ranks
  double nll = 0;           // the same without label smoothing
  // Exact entropy of the source over the update's tokens, nats per target token, over all ranks; NaN where unknown.
  double entropy = std::numeric_limits<double>::quiet_NaN();
  // Loss of guided alignment, nats per target token, over all ranks, not contained in `loss`; NaN without it.
  double alignment_loss = std::numeric_limits<double>::quiet_NaN();
  // R-Drop's loss, a quarter of both divergences, nats per target token, over all ranks, not contained in `loss`; NaN
  // without it.
  double r_drop_loss = std::numeric_limits<double>::quiet_NaN();
  // By the names of a training set's corpora, over all ranks, of rank 0 alone: the loss in nats per target token of the
  // corpus, and these tokens, since the record before that has them. Finite; at each training.log_every, otherwise
  // empty.
  std::map<std::string, double> corpus_loss;
  std::map<std::string, std::int64_t> corpus_tokens;
  double gradient_norm = 0;
  double learning_rate = 0;
  std::int64_t sentences = 0, source_tokens = 0, target_tokens = 0;  // of this rank
  std::int64_t update_target_tokens = 0;                             // of the update, over all ranks
  StepTimes times = {};
  std::int64_t communication_bytes = 0;                     // sent by this rank, computed from the algorithm
  std::int64_t network_rx_bytes = 0, network_tx_bytes = 0;  // counted on the host's interfaces during the step
  std::int64_t network_link_bytes_per_second = 0;           // of the busiest interface, one direction; 0: unknown
  double flops = 0;                                         // of matmuls, forward and backward
  double busy_fraction = 0;                          // CPU: processor time / (wall time × threads); GPU: fraction
                                                     // of the step with an op in progress
  double power_w = 0, power_limit_w = 0;             // 0: not measured
  std::map<std::string, std::int64_t> memory_bytes;  // by purpose: weights, gradients, …, peak
  // NVML readings of this rank's GPU; unavailable values are absent. Instantaneous: utilization_percent (part of the
  // last sampling period with a kernel running), clock_mhz, memory_clock_mhz, memory_used_bytes (by all processes).
  // Counted during the step: nvlink_rx_bytes, nvlink_tx_bytes, pcie_rx_bytes, pcie_tx_bytes.
  std::map<std::string, std::int64_t> gpu;
  double fraction_done = 0;    // of the training, 0 to 1, by the limit that is reached first; 0: unknown
  double seconds_left = 0;     // of the training, at the average pace; 0 with fraction_done < 1: unknown
  bool skipped = false;        // the gradient was non-finite, so the update was skipped
  std::string weights_digest;  // every training.digest_every updates, otherwise empty
};

struct EvalSample {
  std::string source, reference, hypothesis;
};

/// The result of a validation.
struct EvalRecord {
  std::int64_t update = 0;
  std::string set;           // name of the validation set
  double loss = 0, nll = 0;  // nats per target token, teacher forced
  // `loss` is NaN because another program, from which the run was imported, did not log it.
  bool loss_unknown = false;
  // Exact entropy of the source over the same tokens, nats per target token; NaN where unknown.
  double entropy = std::numeric_limits<double>::quiet_NaN();
  double accuracy = 0;   // teacher-forced token accuracy
  double sacrebleu = 0;  // of beam-search output; NaN if this validation did not translate
  double chrf = 0;       // of beam-search output; NaN if this validation did not translate
  // BLEU of the most likely subword at each position, given the reference prefix. Not a translation, so not comparable
  // with sacrebleu. NaN if the worker did not compute it.
  double teacher_forced_bleu = std::numeric_limits<double>::quiet_NaN();
  std::string signature;  // sacreBLEU signature
  // Digests of the set's content and of all that changes the scores (Validator::scoring()). Losses of sets, and scores,
  // with other digests are not comparable. Empty: unknown.
  std::string set_digest, scoring;
  double seconds = 0;
  bool best = false;
  // By BLEU against the best validation before: its update (0: none, or unknown), and the difference, both members NaN
  // if there is none.
  std::int64_t best_before = 0;
  ScoreDifference above_best = {.difference = std::numeric_limits<double>::quiet_NaN()};
  std::vector<EvalSample> samples;
  std::vector<Resamples> resamples;  // one for each metric, of the best validation alone
};

/// "0.30 BLEU better than update 400 (p = 0.41)", of a record that has EvalRecord::above_best.
std::string difference_to_best(const EvalRecord& eval);

struct CheckpointFile {
  std::string name;
  std::int64_t size = 0;
  std::string sha256;
};

/// A checkpoint that was completed, or removed by retention.
struct CheckpointRecord {
  std::int64_t update = 0;
  std::string name;    // folder name: update-00001000
  std::string folder;  // absolute path on the host
  std::vector<CheckpointFile> files;
  double sacrebleu = 0;  // NaN if not evaluated
  double loss = 0;       // validation loss; NaN if not evaluated
  bool best = false;
  bool removed = false;
  double write_seconds = 0;
  std::string version;          // of the program
  std::int64_t world_size = 0;  // number of ranks
};

/// Kinds of artifacts.
inline constexpr std::array<std::string_view, 6> artifact_kinds = {"probe",  "trace", "parameters",
                                                                   "memory", "graph", "profile"};
/// Max size in bytes of an artifact's `content` as JSON text.
inline constexpr std::size_t max_artifact_content_bytes = std::size_t{256} << 10;

/// A file that a tool wrote into the run's folder `lab`, or the removal of one. (run, name) identifies it.
struct ArtifactRecord {
  std::int64_t update = 0;  // that the file describes, or the last one; 0 in a removal
  std::string name;         // file name: parameters-00001000.json
  std::string artifact;     // one of artifact_kinds
  std::string folder;       // absolute path on the host
  std::int64_t size = 0;    // bytes
  std::string sha256;       // 64 hexadecimal digits; empty in a removal
  bool removed = false;
  json::value content;  // JSON that the service shows without the file; null: none
};

struct LogRecord {
  std::string level;  // debug, info, warn, error
  std::string text;
};

/// A lifecycle event of a run or rank. Values of `event`:
/// - started: from rank 0, with name, config, world_size, version and data
/// - rank_up: from each rank, with pid, device and its peaks
/// - rewound: training continues after `update`, an earlier one
/// - finished: detail is the reason, such as "max_updates"
/// - stopped: on request
/// - failed: detail is the error message
struct LifecycleRecord {
  std::string event;
  std::string detail;
  std::string name;
  std::string config;  // resolved YAML
  std::string version;
  std::int64_t world_size = 0;
  std::int64_t pid = 0;
  std::int64_t parameters = 0;
  std::int64_t max_updates = 0;  // 0: no limit on updates
  std::string device;
  std::int64_t update = 0;      // of `rewound`: training continues after this update
  std::string end;              // limits of the training: "20 epochs", "100,000 updates or 55 minutes"
  bool may_end_sooner = false;  // early stopping is enabled
  // Of `started`: the training set. An object of bytes, pairs, source_tokens, target_tokens, vocabulary, digest, and
  // `dropped`: pairs dropped when it was prepared, by reason. Null: unknown.
  json::value data;
  // Of `rank_up`: measured on the rank's device by multiply-adds and by streaming through memory. 0: not measured.
  double peak_flops = 0, peak_bytes_per_second = 0;
  // Of `rank_up`: LibraryVersions of the rank. Null: unknown.
  json::value libraries;
  // Of `started`: 10^6 bytes of gradients in each all-reduce, as communication.bucket_mb says or as `auto` chose them.
  // 0: unknown, or nothing is summed in buckets (a single rank, or ranks with one copy of the model).
  double bucket_mb = 0;
  // Of `started`: who keeps the optimizer's state, as communication.optimizer says or as `auto` chose: "replicated",
  // every host, or "sharded", each host a shard. Empty: unknown.
  std::string optimizer;
  // Of `started`: the run's labels on the server, an object of texts that check_labels() accepts. Null: none.
  json::value labels;
};

/// Prefix of the detail of `failed` if training diverged. A restart from the same checkpoint would diverge again.
inline constexpr std::string_view diverged_prefix = "training diverged at update ";

using RecordBody = std::variant<StepRecord, EvalRecord, CheckpointRecord, LogRecord, LifecycleRecord, ArtifactRecord>;

struct Record {
  RecordHeader header;
  RecordBody body;
};

/// "step", "eval", "checkpoint", "log", "lifecycle" or "artifact".
std::string_view kind_of(const RecordBody& body);

/// Converts a record to a flat JSON object: header members, `kind`, body members. A non-finite double is null and
/// listed in `non_finite`: {"loss": "nan"}, with values "nan", "inf" and "-inf". Schema: docs/formats.md.
json::object to_json(const Record& record);

/// Members unknown to this program, presumably written by a newer one.
struct UnknownMembers {
  std::int64_t count = 0;
  std::string first;  // path of the first one: records[3].humidity
};

/// The inverse of to_json(). The Error names the member, the value found and the value expected. Unknown members are an
/// error, unless `unknown` is given to count them. Absent optional members keep their defaults (docs/formats.md).
Result<Record> record_from_json(const json::object& object, UnknownMembers* unknown = nullptr);

/// The body of POST /api/v1/runs/{run}/records. All records are from one rank and attempt.
/// {"attempt":1,"rank":0,"host":"h","records":[{"sequence":1,"kind":"step","time_ms":…,…},…]}
json::object batch_to_json(std::int64_t attempt, std::int64_t rank, std::string_view host,
                           std::span<const Record> records);

/// The inverse of batch_to_json(). `run` comes from the request path. The Error begins with the member's path:
/// records[3].loss: …
Result<std::vector<Record>> batch_from_json(std::string_view run, const json::value& batch,
                                            UnknownMembers* unknown = nullptr);

/// A destination of records. The trainer writes to it; implementations send, print or collect the records.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  /// Never blocks on the network. Throws Failure only if the local spool cannot be written.
  virtual void write(RecordBody body) = 0;
};

/// The metrics of a step as (key, value), in order of declaration: all numeric members except `update`, and last
/// `excess`, nll - entropy. `skipped` is 0 or 1. Entries of memory_bytes, gpu, corpus_loss and corpus_tokens have
/// dotted keys: memory_bytes.weights. An unknown entropy, alignment_loss or r_drop_loss has no key.
std::vector<std::pair<std::string, double>> metrics_of(const StepRecord& step);

}  // namespace babelring
