#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "nmt/comm/communicator.h"

namespace babelring {

/// The results of all ranks, in rank order; `own` is this rank's. Every rank must call this.
std::vector<Result<json::value>> gather_results(Communicator& communicator, const Result<json::value>& own);

/// The first error of the results of all ranks: "rank 1 on HOST: …".
Status first_error(const Communicator& communicator, const std::vector<Result<json::value>>& results);

/// Runs `work` on rank 0 only, for input that only rank 0 can see, and returns its value on every rank. If it throws
/// UsageFailure, every rank throws UsageFailure with the same message; any other exception ends all ranks. Every rank
/// must call this.
json::value value_of_rank_0(Communicator& communicator, const std::function<json::value()>& work);
/// The same for work without a value.
void run_on_rank_0(Communicator& communicator, const std::function<void()>& work);

}  // namespace babelring
