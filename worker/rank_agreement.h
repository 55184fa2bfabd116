#pragma once

#include <string>
#include <vector>

#include "nmt/comm/communicator.h"

namespace babelring {

/// Something that must be the same on every rank of a run.
struct RankFact {
  std::string name;    // "training set"
  std::string value;   // for people too: digests are cut to 12 digits in messages
  std::string advice;  // "every rank needs the same data.folder"
};

/// One line on every fact that differs between ranks, with hosts and values; empty if all agree. `ranks`: each rank's
/// facts, in rank order; a rank that lacks a fact counts as having an empty value. `hosts`: where each rank is.
std::string describe_differences(const std::vector<std::vector<RankFact>>& ranks,
                                 const std::vector<std::string>& hosts);

/// Compares the facts of all ranks: one all_gather. Throws UsageFailure on every rank alike.
void require_agreement(const std::vector<RankFact>& own, Communicator& communicator);

/// Version and build of this program.
RankFact program_fact();

}  // namespace babelring
