#include "worker/rank_agreement.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/version.h"
#include "nmt/checkpoint/store.h"
#include "nmt/comm/rank_results.h"
#include "nmt/data/manifest.h"
#include "nmt/ops/backend.h"
#include "nmt/train/setup/config.h"
#include "nmt/train/setup/own_libraries.h"

namespace babelring {
namespace {

using Ranks = std::vector<std::size_t>;

std::string shortened(const std::string& value) {
  const bool digest = value.size() == 64 && value.find_first_not_of("0123456789abcdef") == value.npos;
  if (value.empty()) return "none";
  return digest ? value.substr(0, 12) + "…" : value;
}

/// "hostA has", "hostA, hostB and 3 more hosts have"; or the ranks, if ranks on one host have different values.
std::string name_holders(const Ranks& ranks, const std::vector<std::string>& hosts, bool by_host) {
  std::vector<std::string> names;
  for (const std::size_t rank : ranks) {
    const std::string name = by_host ? hosts[rank] : fmt::format("rank {} (host {})", rank, hosts[rank]);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  constexpr std::size_t max_named = 4;
  if (names.size() <= max_named)
    return fmt::format("{} {}", fmt::join(names, ", "), names.size() == 1 ? "has" : "have");
  const std::size_t more = names.size() - max_named;
  names.resize(max_named);
  return fmt::format("{} and {} more {} have", fmt::join(names, ", "), more, by_host ? "hosts" : "ranks");
}

std::string value_of(const std::vector<RankFact>& facts, const std::string& name) {
  const auto found = std::find_if(facts.begin(), facts.end(), [&](const RankFact& fact) { return fact.name == name; });
  return found == facts.end() ? "" : found->value;
}

/// Describes the values of one fact; empty if all ranks have the same value.
std::string describe_difference(const RankFact& fact, const std::vector<std::vector<RankFact>>& ranks,
                                const std::vector<std::string>& hosts) {
  std::vector<std::pair<std::string, Ranks>> holders;  // ranks by value, the value of rank 0 first
  std::map<std::string, std::set<std::string>> values_of_host;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string value = value_of(ranks[rank], fact.name);
    values_of_host[hosts[rank]].insert(value);
    const auto known =
        std::find_if(holders.begin(), holders.end(), [&](const auto& one) { return one.first == value; });
    (known == holders.end() ? holders.emplace_back(value, Ranks{}) : *known).second.push_back(rank);
  }
  if (holders.size() < 2) return "";
  const bool by_host = !fact.names_ranks && std::all_of(values_of_host.begin(), values_of_host.end(),
                                                        [](const auto& host) { return host.second.size() == 1; });
  std::vector<std::string> parts;
  for (const auto& [value, holding] : holders) {
    const std::string name = parts.empty() ? fact.name + " " : "";
    parts.push_back(fmt::format("{} {}{}", name_holders(holding, hosts, by_host), name, shortened(value)));
  }
  return fmt::format("{}; {}", fmt::join(parts, ", "), fact.advice);
}

std::vector<std::string> differences(const std::vector<std::vector<RankFact>>& ranks,
                                     const std::vector<std::string>& hosts, bool tolerated) {
  std::vector<std::string> lines;
  for (const RankFact& fact : ranks.at(0)) {
    if (fact.only_warns != tolerated) continue;
    std::string line = describe_difference(fact, ranks, hosts);
    if (!line.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

/// The linker's digest of this program's content (the ELF note NT_GNU_BUILD_ID) in hexadecimal, which is mapped
/// already: to hash the file takes 20 ms of each start. Empty if the linker wrote none.
std::string linked_build_id() {
  static constexpr std::string_view gnu("GNU\0", 4);
  std::string id;
  const auto read_notes = [](dl_phdr_info* info, std::size_t, void* result) -> int {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = info->dlpi_phdr[i];
      if (part.p_type != PT_NOTE) continue;
      const std::size_t align = part.p_align == 8 ? 8 : 4;
      const auto padded = [align](std::size_t bytes) { return (bytes + align - 1) / align * align; };
      // The loader says addresses as numbers. NOLINTNEXTLINE(performance-no-int-to-ptr)
      const char* at = reinterpret_cast<const char*>(info->dlpi_addr + part.p_vaddr);
      const char* end = at + part.p_memsz;
      while (at + sizeof(ElfW(Nhdr)) <= end) {
        ElfW(Nhdr) note;
        std::memcpy(&note, at, sizeof note);
        const char* bytes = at + sizeof note + padded(note.n_namesz);
        if (note.n_type == NT_GNU_BUILD_ID && std::string_view(at + sizeof note, note.n_namesz) == gnu) {
          for (std::size_t k = 0; k < note.n_descsz; ++k) {
            *static_cast<std::string*>(result) += fmt::format("{:02x}", static_cast<unsigned char>(bytes[k]));
          }
          return 1;
        }
        at = bytes + padded(note.n_descsz);
      }
    }
    return 1;  // the first object is the program
  };
  ::dl_iterate_phdr(read_notes, &id);
  return id;
}

}  // namespace

Status compare_facts(const std::vector<std::vector<RankFact>>& ranks, const std::vector<std::string>& hosts) {
  const std::vector<std::string> lines = differences(ranks, hosts, false);
  if (lines.empty()) return {};
  return Error{fmt::format("the ranks differ: {}", fmt::join(lines, "; "))};
}

std::vector<std::string> tolerated_differences(const std::vector<std::vector<RankFact>>& ranks,
                                               const std::vector<std::string>& hosts) {
  return differences(ranks, hosts, true);
}

void require_agreement(const std::vector<RankFact>& own, Communicator& communicator) {
  json::object values;
  for (const RankFact& fact : own) values[fact.name] = fact.value;
  std::vector<std::vector<RankFact>> ranks;
  for (const std::string& text : communicator.all_gather(to_text(values))) {
    std::vector<RankFact>& facts = ranks.emplace_back();
    const Result<json::value> theirs = parse_json(text);
    if (!theirs.ok() || !theirs->is_object()) continue;
    for (const RankFact& fact : own) {
      const json::value* value = theirs->get_object().if_contains(fact.name);
      RankFact& same = facts.emplace_back(fact);
      same.value = value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
    }
  }
  ranks[static_cast<std::size_t>(communicator.rank())] = own;
  const Status agreed = compare_facts(ranks, communicator.hosts());
  if (!agreed) throw UsageFailure(agreed.error());
  if (communicator.rank() != 0) return;
  for (const std::string& line : tolerated_differences(ranks, communicator.hosts())) spdlog::warn("{}", line);
}

RankFact program_fact() {
  std::string build = linked_build_id();
  if (build.empty()) build = sha256_file("/proc/self/exe");
  return {.name = "program",
          .value = fmt::format("{} build {}", version, build.substr(0, 12)),
          .advice = "every rank needs the same program: install one build on all hosts"};
}

RankFact open_mpi_fact(const LibraryVersions& libraries) {
  return {.name = "Open MPI",
          .value = libraries.open_mpi,
          .advice = "every rank needs the same version of Open MPI: install one on all hosts",
          .names_ranks = true};
}

RankFact onednn_fact(const LibraryVersions& libraries, bool mixed) {
  return {.name = "oneDNN",
          .value = libraries.onednn,
          .advice = mixed
                        ? "communication.mixed_onednn allows it: the ranks' bf16 results may differ in their last bits"
                        : "every rank needs the same version of oneDNN: install one on all hosts, or allow others "
                          "with communication.mixed_onednn=true",
          .names_ranks = true,
          .only_warns = mixed};
}

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
