#include "lab/probe/run_probe.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "lab/probe/probe_environment.h"

namespace babelring {

RunProbe::RunProbe(const TrainConfig& config, LabFolder files, std::string corpus)
    : config_(config),
      files_(std::move(files)),
      corpus_(std::move(corpus)),
      first_(static_cast<std::int64_t>(config.lab.probe.at.value())),
      last_(first_ + config.lab.probe.updates - 1) {}

OpObserver* RunProbe::begin(const UpdateStart& start) {
  if (start.update < first_ || start.update > last_) return nullptr;
  try {
    if (recorder_ == nullptr) {
      std::filesystem::create_directories(files_.path());
      ProbeHeader header = probe_header(config_, start.replica);
      header.first_update = start.update;
      header.updates = last_ - start.update + 1;
      header.corpus = corpus_;
      header.threads = config_.training.threads;
      file_ = files_.path() / fmt::format("probe-update-{:08}-rank-{}.jsonl", start.update, header.rank);
      recorder_ = std::make_unique<ProbeRecorder>(file_, std::move(header),
                                                  ProbeOptions{.tensors = config_.lab.probe.tensors}, start.replica);
    }
    recorder_->begin_update(start.update);
  } catch (const std::exception& failure) {
    give_up(failure);
  }
  return recorder_.get();
}

void RunProbe::end(const StepRecord& record) {
  if (recorder_ == nullptr) return;
  try {
    recorder_->end_update(true);
    if (record.update < last_) return;
    recorder_->finish();
    recorder_.reset();
    report();
  } catch (const std::exception& failure) {
    give_up(failure);
  }
}

void RunProbe::report() {
  for (const std::filesystem::path& file : {tensors_file(file_), file_}) {
    if (!std::filesystem::exists(file)) continue;
    files_.add({.kind = "probe", .name = file.filename(), .update = first_});
  }
}

void RunProbe::give_up(const std::exception& failure) {
  spdlog::warn("probe of update {}: {}; training goes on", first_, failure.what());
  recorder_.reset();
  last_ = first_ - 1;
}

}  // namespace babelring
