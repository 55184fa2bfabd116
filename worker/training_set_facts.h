#pragma once

#include "base/json.h"
#include "nmt/data/manifest.h"

namespace babelring {

/// LifecycleRecord::data: the size of a set of a prepared folder, and what `nmt prepare` dropped from it as report.json
/// in the folder tells. Throws Failure if the manifest has no such set.
json::object training_set_facts(const Manifest& manifest, const std::string& set);

}  // namespace babelring
