#pragma once

#include <cstdint>
#include <string>

#include "base/records.h"
#include "server/store/sqlite.h"

namespace babelring::store {

/// Stores a validation of run number `run` and returns its id. `record` must hold an EvalRecord. With `may_be_best`
/// false, the validation is never marked as the best, regardless of the record. Call this inside the writer's
/// transaction. Throws SqlFailure.
std::string insert_eval(Database& database, std::int64_t run, const Record& record, bool may_be_best = true);

}  // namespace babelring::store
