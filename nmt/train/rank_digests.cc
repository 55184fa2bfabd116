#include "nmt/train/rank_digests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "nmt/metering/host_meter.h"

namespace babelring {

namespace {

constexpr std::size_t digest_digits = 64;
constexpr std::size_t max_named_parameters = 5;

/// The digest of each parameter's master, one behind the other.
std::string parameter_digests(const ModelReplica& replica) {
  std::string digests;
  for (const Parameter& parameter : replica.model.parameters().all()) {
    digests += digest_of(replica.backend, parameter.master);
  }
  return digests;
}

/// "encoder.0.attention.qkv.weight on rank 1" for each parameter with ranks that differ from rank 0.
std::vector<std::string> differing_parameters(const ModelReplica& replica, const std::vector<std::string>& ranks) {
  std::vector<std::string> found;
  for (const Parameter& parameter : replica.model.parameters().all()) {
    const auto digest = [&](const std::string& of_rank) {
      return std::string_view(of_rank).substr(parameter.index * digest_digits, digest_digits);
    };
    std::vector<std::size_t> different;
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
      if (digest(ranks[rank]) != digest(ranks[0])) different.push_back(rank);
    }
    if (different.empty()) continue;
    found.push_back(
        fmt::format("{} on rank{} {}", parameter.name, different.size() == 1 ? "" : "s", fmt::join(different, ", ")));
  }
  return found;
}

}  // namespace

RankDigest digest_over_ranks(const ModelReplica& replica, std::int64_t update) {
  Communicator& communicator = replica.communicator;
  const ParameterStore& store = replica.model.parameters();
  const bool one_copy = replica.sharding.local_shard(store.flat_size()).divided();
  const bool hashes = !one_copy || communicator.rank() == 0;
  const std::string own = hashes ? digest_of(replica.backend, store.masters()) : "";
  if (communicator.size() == 1) return {.weights = own, .difference = ""};
  const std::vector<std::string> ranks = communicator.all_gather(own);
  if (one_copy) return {.weights = ranks[0], .difference = ""};
  bool equal = true;
  for (const std::string& digest : ranks) equal = equal && digest == ranks[0];
  if (equal) return {.weights = own, .difference = ""};
  std::vector<std::string> parameters =
      differing_parameters(replica, communicator.all_gather(parameter_digests(replica)));
  const std::size_t all = parameters.size();
  if (all > max_named_parameters) parameters.resize(max_named_parameters);
  return {.weights = own,
          .difference = fmt::format(
              "update {}: the weights of the ranks differ from rank 0's in {} of {} parameters: {}{}", update, all,
              store.all().size(), fmt::join(parameters, "; "), all > parameters.size() ? "; …" : "")};
}

}  // namespace babelring
