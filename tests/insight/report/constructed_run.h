#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/records/records.h"

namespace babelring::constructed {

/// Makes the records of a run, rank after rank, as its spools hold them.
class ConstructedRun {
 public:
  std::string run = "r_01KAJ5Z8T4QJ9V3N7M2X6C1B0A", name = "constructed", config = "data:\n  valid_set: valid\n";
  std::int64_t ranks = 1, hosts = 1, updates = 100, max_updates = 100, parameters = 1'000'000;
  std::int64_t begin_ms = 1'795'000'000'000;
  StepRecord step;  // of every update and rank
  json::value data;
  std::string end_event = "finished", end_detail = "finished: 100u of training";
  std::int64_t end_ms = 0;  // wall time from begin_ms to the end; 0: right after the last update
  std::vector<EvalRecord> evals;
  std::vector<CheckpointRecord> checkpoints;
  double peak_flops = 0;               // of each rank
  std::vector<json::value> libraries;  // of the ranks; absent: unknown

  /// Passes each record to `take`.
  template <class Take>
  void each(Take take) const {
    for (std::int64_t rank = 0; rank < ranks; ++rank) rank_records(rank, take);
  }

  std::vector<Record> records() const {
    std::vector<Record> all;
    each([&all](const Record& record) { all.push_back(record); });
    return all;
  }

  /// Evaluations of `set` after every `every` updates with the loss that `nll` gives.
  template <class Nll>
  void evaluate(const std::string& set, std::int64_t every, Nll nll) {
    for (std::int64_t update = every; update <= updates; update += every) {
      EvalRecord eval{.update = update, .set = set, .seconds = 0.25};
      eval.loss = eval.nll = nll(static_cast<double>(update));
      eval.sacrebleu = eval.chrf = NAN;
      evals.push_back(eval);
    }
  }

 private:
  template <class Take>
  void rank_records(std::int64_t rank, Take take) const {
    RecordHeader header{.run = run,
                        .rank = rank,
                        .host = std::string("host") + static_cast<char>('A' + rank * hosts / ranks),
                        .time_ms = begin_ms};
    const auto emit = [&](RecordBody body) {
      ++header.sequence;
      take(Record{header, std::move(body)});
    };
    if (rank == 0) {
      emit(LifecycleRecord{.event = "started",
                           .name = name,
                           .config = config,
                           .version = "0.1.0",
                           .world_size = ranks,
                           .parameters = parameters,
                           .max_updates = max_updates,
                           .data = data});
    }
    const auto place = static_cast<std::size_t>(rank);
    emit(LifecycleRecord{.event = "rank_up",
                         .pid = 1,
                         .device = "cpu (constructed)",
                         .peak_flops = peak_flops,
                         .libraries = place < libraries.size() ? libraries[place] : json::value()});
    double clock = static_cast<double>(begin_ms);
    std::size_t eval = 0, checkpoint = 0;
    for (std::int64_t update = 1; update <= updates; ++update) {
      StepRecord one = step;
      one.update = update;
      vary(one, rank);
      clock += one.times.step;
      header.time_ms = std::llround(clock);
      emit(one);
      const std::size_t first_eval = eval;
      for (; eval < evals.size() && evals[eval].update <= update; ++eval) clock += evals[eval].seconds * 1000;
      for (std::size_t i = first_eval; rank == 0 && i < eval; ++i) {
        header.time_ms = std::llround(clock);
        emit(evals[i]);
      }
      for (; checkpoint < checkpoints.size() && checkpoints[checkpoint].update <= update; ++checkpoint) {
        if (rank == 0) emit(checkpoints[checkpoint]);
      }
    }
    header.time_ms = end_ms > 0 ? begin_ms + end_ms : std::llround(clock);
    if (rank == 0) emit(LifecycleRecord{.event = end_event, .detail = end_detail});
  }

  /// Changes the times of an update a little, always in the same way; the means stay.
  static void vary(StepRecord& step, std::int64_t rank) {
    const double wave = static_cast<double>((step.update * 7 + rank * 3) % 11 - 5) / 5;
    const double backward = 0.002 * step.times.step * wave, exposed = 0.004 * step.times.exposed_communication * wave;
    step.times.backward += backward;
    step.times.exposed_communication += exposed;
    step.times.step += backward + exposed;
    step.power_w *= 1 + 0.08 * wave;
    const auto utilization = step.gpu.find("utilization_percent");
    if (utilization != step.gpu.end()) utilization->second += static_cast<std::int64_t>(std::floor(10.5 * wave));
  }
};

/// A small run on one host with all parts of its step set.
inline ConstructedRun small_run() {
  ConstructedRun made;
  made.step = {.sentences = 8, .source_tokens = 300, .target_tokens = 280, .update_target_tokens = 280};
  made.step.loss = made.step.nll = 3;
  made.step.learning_rate = 0.001;
  made.step.times.step = 100;
  made.step.times.data = 1, made.step.times.forward = 35, made.step.times.backward = 55, made.step.times.optimizer = 8;
  made.step.times.other = 1;
  made.step.busy_fraction = 0.9;
  made.step.flops = 4e9;
  made.config =
      "name: constructed\ndata:\n  folder: ids\n  valid_set: valid\noptimizer:\n  schedule: inverse-sqrt\n"
      "  learning_rate: 0.001\n  warm_up: 40u\n  decay: 100000u\n  final_fraction: 0\n";
  return made;
}

/// The published run of a Transformer on WMT16: 2 hosts with 2 V100 each, 50,000 updates in 24 hours.
inline ConstructedRun published_run() {
  ConstructedRun made;
  made.name = "wmt16-2x2v100";
  made.ranks = 4, made.hosts = 2, made.updates = made.max_updates = 50'000, made.parameters = 60'880'896;
  made.end_ms = 86'400'000, made.end_detail = "finished: 50000u of training";
  made.config =
      "name: wmt16-2x2v100\ndata:\n  valid_set: valid\noptimizer:\n  schedule: inverse-sqrt\n"
      "  learning_rate: 0.000988211768802618\n  warm_up: 8000u\n  decay: 100000u\n  final_fraction: 0\n"
      "communication:\n  all_reduce: ring\n  gradient_wire: f32\n  bucket_mb: 25\n";
  StepRecord& step = made.step;
  step.times.step = 1713;
  step.times.data = 1, step.times.forward = 35, step.times.backward = 70, step.times.optimizer = 6,
  step.times.other = 1;
  step.times.exposed_communication = 1600, step.times.communication = 1640;
  step.communication_bytes = 365'285'376;
  step.network_tx_bytes = 367'000'000, step.network_rx_bytes = 368'000'000;
  step.network_link_bytes_per_second = 225'000'000;
  step.sentences = 256;
  // 36,437.74 source and target tokens a second over 4 ranks in 1.713 s.
  step.source_tokens = 7'700, step.target_tokens = 7'904, step.update_target_tokens = 4 * 7'904;
  step.busy_fraction = 0.1, step.power_w = 138.5, step.power_limit_w = 250;
  step.gpu = {{"utilization_percent", 84}};
  const double forced[][2] = {{8000, 28.9},   {12'000, 32.0}, {16'000, 33.7},
                              {24'000, 35.0}, {32'000, 36.0}, {50'000, 36.73}};
  made.evals.push_back(
      {.update = 4000, .set = "valid", .loss = 2.38, .nll = 2.38, .sacrebleu = NAN, .chrf = NAN, .seconds = 60});
  for (const auto& [update, bleu] : forced) {
    EvalRecord eval{.update = static_cast<std::int64_t>(update),
                    .set = "valid",
                    .loss = NAN,
                    .nll = NAN,
                    .sacrebleu = NAN,
                    .chrf = NAN,
                    .teacher_forced_bleu = bleu,
                    .seconds = 60};
    if (update == 8000) eval.loss = eval.nll = 2.0;
    if (update == 50'000) eval.loss = eval.nll = 1.5937;
    made.evals.push_back(eval);
  }
  made.checkpoints.push_back({.update = 50'000,
                              .name = "update-00050000",
                              .folder = "/runs/wmt16/checkpoints",
                              .files = {{"weights.safetensors", 243'523'584, "aa"},
                                        {"optimizer.safetensors", 487'047'168, "bb"},
                                        {"weights.bf16", 121'761'792, "cc"}},
                              .sacrebleu = NAN,
                              .loss = 1.5937,
                              .write_seconds = 1});
  return made;
}

/// 300 updates of the published run, and what it lacks: a training set, evaluations, a removed checkpoint.
inline ConstructedRun run_on_two_hosts() {
  ConstructedRun run = published_run();
  run.updates = 300, run.end_ms = 0;
  run.data = {{"bytes", 2048}, {"pairs", 100}, {"dropped", json::object{{"empty", 3}}}};
  run.evals.clear();
  run.evaluate("valid", 50, [](double update) { return 4 - update / 200; });
  run.checkpoints = {{.update = 100,
                      .name = "update-00000100",
                      .folder = "/c",
                      .files = {{"state.json", 9, std::string(64, 'a')}},
                      .sacrebleu = NAN,
                      .loss = 3.5,
                      .best = true,
                      .write_seconds = 0.25},
                     {.update = 100, .name = "update-00000100", .removed = true},
                     {.update = 200,
                      .name = "update-00000200",
                      .folder = "/c",
                      .files = {{"state.json", 9, std::string(64, 'b')}},
                      .sacrebleu = NAN,
                      .loss = 3,
                      .best = true,
                      .write_seconds = 0.25}};
  return run;
}

/// A run whose validation loss rises from update 40 while that of the training sample falls.
inline ConstructedRun overfit_run() {
  ConstructedRun made = small_run();
  made.evaluate("train", 10, [](double update) { return 0.2 + 3 * std::exp(-update / 25); });
  const auto train = std::move(made.evals);
  made.evals.clear();
  made.evaluate("valid", 10, [](double update) { return 2 + std::abs(update - 40) / 50; });
  made.evals.insert(made.evals.end(), train.begin(), train.end());
  std::stable_sort(made.evals.begin(), made.evals.end(),
                   [](const EvalRecord& a, const EvalRecord& b) { return a.update < b.update; });
  return made;
}

/// A run that was stopped on request while its loss still fell.
inline ConstructedRun stopped_run() {
  ConstructedRun made = small_run();
  made.max_updates = 1000;
  made.end_event = "stopped", made.end_detail = "stopped on request";
  made.evaluate("valid", 10, [](double update) { return 1.5 + 6 * std::pow(update, -0.5); });
  return made;
}

/// A run with two evaluations.
inline ConstructedRun two_evaluations_run() {
  ConstructedRun made = small_run();
  made.evaluate("valid", 50, [](double update) { return 4 - update / 100; });
  return made;
}

}  // namespace babelring::constructed
