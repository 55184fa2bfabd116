#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/failure.h"
#include "base/json.h"
#include "base/result.h"
#include "nmt/comm/communicator.h"

namespace babelring {

/// A failure of one rank that all ranks throw with the same message, so that none waits for another: one of them
/// reports it, and the run ends without abort_mpi().
class AgreedFailure : public Failure {
 public:
  using Failure::Failure;
};

/// The results of all ranks, in rank order; `own` is this rank's. Every rank must call this.
std::vector<Result<json::value>> gather_results(Communicator& communicator, const Result<json::value>& own);

/// The first error of the results of all ranks: "rank 1 on HOST: …".
Status first_error(const Communicator& communicator, const std::vector<Result<json::value>>& results);

/// Runs `work` on rank 0 only, for input that only rank 0 can see, and returns its value on every rank. If it throws
/// UsageFailure, every rank throws UsageFailure with the same message; after any other exception but Fenced and
/// CommError, every rank throws AgreedFailure. Every rank must call this.
json::value value_of_rank_0(Communicator& communicator, const std::function<json::value()>& work);
/// The same for work without a value.
void run_on_rank_0(Communicator& communicator, const std::function<void()>& work);

/// Runs `work`, which opens what the user has named, on every rank; its collectives, if it makes any, come before all
/// that may fail on one rank only. If it throws Failure or filesystem_error on a rank, every rank throws UsageFailure
/// with the first such message, "rank 1 on HOST: …" unless all have the same; after Fenced and other exceptions, every
/// rank throws AgreedFailure. Every rank must call this.
void run_on_every_rank(Communicator& communicator, const std::function<void()>& work);
/// The same for work with a value, which is this rank's.
template <class Work>
auto on_every_rank(Communicator& communicator, const Work& work) {
  std::optional<std::invoke_result_t<Work>> value;
  run_on_every_rank(communicator, [&] { value.emplace(work()); });
  return std::move(value).value();
}

}  // namespace babelring
