#include "worker/rank_facts.h"

#include <fmt/format.h>

#include <string>

#include "base/digest.h"
#include "base/files.h"
#include "nmt/checkpoint/store.h"
#include "nmt/comm/rank_results.h"
#include "nmt/data/manifest.h"
#include "nmt/ops/backend.h"
#include "nmt/train/setup/config.h"
#include "nmt/train/setup/own_libraries.h"

namespace babelring {
namespace {

/// The facts about the data that must agree on all ranks.
std::vector<RankFact> data_facts(const TrainConfig& config) {
  const bool translates = config.task == Task::translation;
  const std::string same_data =
      fmt::format("every rank needs the same data.folder, of one `{}`", translates ? "nmt prepare" : "nmt gssm data");
  if (config.on_the_fly()) return {};
  const Manifest manifest = load_manifest(config.data.folder);
  const auto digest_of = [&](const std::string& set) {
    return set.empty() ? std::string() : manifest.set(set).digest();
  };
  std::vector<RankFact> facts = {{translates ? "vocabulary" : "generator", manifest.vocabulary.sha256, same_data},
                                 {"training set", digest_of(config.data.train_set), same_data},
                                 {"validation set", digest_of(config.data.valid_set), same_data}};
  for (const OtherSet& other : config.validation.others()) {
    facts.push_back({"validation set " + other.name, load_manifest(other.folder).set(other.set).digest(),
                     fmt::format("every rank needs the same folder {}", other.folder)});
  }
  return facts;
}

}  // namespace

std::vector<RankFact> facts_of(const TrainConfig& config, const Backend& backend) {
  const std::string same_kernels = "every rank needs the same instruction sets (BABELRING_CPU_ISA limits them) or GPUs";
  std::string kernels = backend.description();
  // "cuda (device 0: NVIDIA H100 …": drop the device number, which differs between the ranks of a host.
  kernels = backend.host_memory() ? cpu_instruction_sets() : kernels.substr(kernels.find(": ") + 1);
  std::vector<RankFact> facts = data_facts(config);
  const bool mixed = config.communication.mixed_onednn;
  if (backend.host_memory()) {
    facts.push_back(onednn_fact(own_libraries(), mixed));
    if (mixed) kernels.resize(kernels.find(','));  // another oneDNN may name and choose its instruction sets otherwise
  }
  facts.push_back({"precision", std::string(name_of(config.training.precision)), "every rank needs the same"});
  facts.push_back({"kernels", kernels, same_kernels});
  facts.push_back({"configuration", sha256_hex(config_yaml(config)), "every rank needs the same program"});
  return facts;
}

std::int64_t stored_sequences(const std::filesystem::path& run_folder, const std::filesystem::path& resume_from,
                              Communicator& communicator) {
  const json::value stored = value_of_rank_0(communicator, [&]() -> json::value {
    const std::filesystem::path file =
        (resume_from.empty() ? run_folder : find_checkpoint(resume_from)) / "config.yaml";
    if (!std::filesystem::exists(file)) return DataConfig::automatic;
    return read_stored_config(read_file(file), file.string()).data.sequences_per_update;
  });
  return stored.as_int64();
}

}  // namespace babelring
