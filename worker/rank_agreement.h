#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "nmt/comm/communicator.h"

namespace babelring {

/// A value that must be equal on all ranks of a run.
struct RankFact {
  std::string name;    // "training set"
  std::string value;   // shown in messages; digests are cut to 12 digits there
  std::string advice;  // "every rank needs the same data.folder"
};

/// Compares the facts of ranks. The error names those that differ, with hosts and values. `ranks`: the facts of each
/// rank, in rank order; a missing fact counts as an empty value. `hosts`: the host of each rank.
Status compare_facts(const std::vector<std::vector<RankFact>>& ranks, const std::vector<std::string>& hosts);

/// Compares the facts of all ranks. Collective: one all_gather. If they differ, all ranks throw the same UsageFailure.
void require_agreement(const std::vector<RankFact>& own, Communicator& communicator);

/// Version and build of this program, as a fact.
RankFact program_fact();

}  // namespace babelring
