#pragma once

#include <string>
#include <vector>

#include "server/verdict/health.h"

namespace babelring::verdict {

/// An alert about the run that is open; of kind ranks_differ, also one that was cleared when the run ended.
struct RunAlert {
  std::string kind, message;
  bool acknowledged = false;
};

HealthPart judge_alerts(const std::vector<RunAlert>& alerts);

}  // namespace babelring::verdict
