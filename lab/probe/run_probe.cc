#include "lab/probe/run_probe.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "base/digest.h"
#include "base/version.h"
#include "nmt/checkpoint/tensor_files.h"
#include "nmt/metering/host_meter.h"
#include "nmt/train/setup/own_libraries.h"

namespace babelring {
namespace {

/// The value of the first line "NAME : VALUE" of /proc/cpuinfo; empty if there is none.
std::string processor_property(const std::string& name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && line.starts_with(name)) return line.substr(std::min(colon + 2, line.size()));
  }
  return "";
}

/// The processor's features that change which kernels run.
std::string features() {
  const std::string flags = " " + processor_property("flags") + " ";
  std::string found;
  for (const char* flag : {"avx2", "fma", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_bf16"}) {
    if (flags.find(fmt::format(" {} ", flag)) != std::string::npos)
      found += (found.empty() ? "" : " ") + std::string(flag);
  }
  return found;
}

bool changes_arithmetic(std::string_view variable) {
  for (const std::string_view prefix : {"OMP_", "DNNL_", "OPENBLAS_", "CUBLAS_",
                                        "NVIDIA_TF32_OVERRIDE=", "NCCL_ALGO=", "NCCL_PROTO=", "BABELRING_CPU_ISA="}) {
    if (variable.starts_with(prefix)) return true;
  }
  return false;
}

json::object environment_of(const ModelReplica& replica) {
  utsname kernel{};
  uname(&kernel);
  json::object environment = {{"processor", processor_model()},
                              {"processor features", features()},
                              {"kernel", fmt::format("{} {}", kernel.sysname, kernel.release)},
                              {"communication", replica.communicator.description()}};
  const LibraryVersions libraries = own_libraries();
  visit_libraries(libraries, [&](std::string_view, std::string_view name, const std::string& version) {
    if (!version.empty()) environment[name] = version;
  });
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (changes_arithmetic(text)) environment[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  return environment;
}

std::string model_digest(ModelConfig model, std::int64_t vocabulary) {
  OptionBinder keys;
  model.bind(keys);
  return sha256_hex(fmt::format("{}vocabulary: {}\n", dump_yaml(keys), vocabulary));
}

std::string weights_root(const ModelReplica& replica) {
  std::map<std::string, std::string> digests;
  for (const Parameter& parameter : replica.model.parameters().all()) {
    digests[parameter.name] = digest_of(replica.backend, parameter.master);
  }
  return merkle_root(digests);
}

}  // namespace

std::string processor_model() {
  return processor_property("model name");
}

ProbeHeader probe_header(const TrainConfig& config, const ModelReplica& replica) {
  return {.program = version,
          .mode = "training",
          .rank = replica.communicator.rank(),
          .ranks = replica.communicator.size(),
          .model = model_digest(config.model, replica.model.vocabulary()),
          .configuration = sha256_hex(config_yaml(config)),
          .corpus = "",
          .weights = weights_root(replica),
          .precision = std::string(name_of(config.training.precision)),
          .device = replica.backend.description(),
          .layers = "",
          .tensors = "",
          .environment = environment_of(replica)};
}

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
