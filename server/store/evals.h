#pragma once

#include <cstdint>
#include <string>

#include "base/records.h"
#include "server/store/sqlite.h"

namespace babelring::store {

/// Stores a validation, the EvalRecord of `record`, of the run with number `run`, and returns its id. One that may not
/// be the best never is, whatever the record says. Called within the writer's transaction. Throws SqlFailure.
std::string insert_eval(Database& database, std::int64_t run, const Record& record, bool may_be_best = true);

}  // namespace babelring::store
