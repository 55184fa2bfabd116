#include "lab/probe/probe_environment.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>

#include "base/digest.h"
#include "base/version.h"
#include "nmt/checkpoint/weights_digest.h"
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

}  // namespace babelring
