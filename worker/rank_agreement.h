#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/records/library_versions.h"
#include "base/result.h"
#include "nmt/comm/communicator.h"
#include "nmt/ops/backend.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// A value that must be equal on all ranks of a run.
struct RankFact {
  std::string name;          // "training set"
  std::string value;         // shown in messages; digests are cut to 12 digits there
  std::string advice;        // "every rank needs the same data.folder"; of a warning: what follows
  bool names_ranks = false;  // messages name the ranks also where all ranks of a host have the same value
  bool only_warns = false;   // ranks with other values may train together
};

/// Compares the facts of ranks. The error names those that differ, with hosts and values. `ranks`: the facts of each
/// rank, in rank order; a missing fact counts as an empty value. `hosts`: the host of each rank. Facts that only warn
/// are no error.
Status compare_facts(const std::vector<std::vector<RankFact>>& ranks, const std::vector<std::string>& hosts);

/// A line for each fact that only warns and differs, in the same form.
std::vector<std::string> tolerated_differences(const std::vector<std::vector<RankFact>>& ranks,
                                               const std::vector<std::string>& hosts);

/// Compares the facts of all ranks. Collective: one all_gather. If they differ, all ranks throw the same UsageFailure.
/// Rank 0 logs the tolerated differences as warnings.
void require_agreement(const std::vector<RankFact>& own, Communicator& communicator);

/// Version and build of this program, as a fact.
RankFact program_fact();

/// The version of Open MPI, which ranks need to understand each other's messages, as a fact.
RankFact open_mpi_fact(const LibraryVersions& libraries);

/// The version of oneDNN, which decides in which order matmuls add. `mixed`: communication.mixed_onednn.
RankFact onednn_fact(const LibraryVersions& libraries, bool mixed);

/// The values that must agree on all ranks for their gradients to be summed. Throws Failure if data.folder has no
/// manifest.
std::vector<RankFact> facts_of(const TrainConfig& config, const Backend& backend);

/// data.sequences_per_update of the configuration stored in a run's folder or, unless `resume_from` is empty, in that
/// checkpoint (any path for find_checkpoint()), which rank 0 reads. DataConfig::automatic if the folder has none.
/// Collective. Throws on every rank if there is no such checkpoint or the file cannot be read.
std::int64_t stored_sequences(const std::filesystem::path& run_folder, const std::filesystem::path& resume_from,
                              Communicator& communicator);

}  // namespace babelring
