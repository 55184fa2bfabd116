#pragma once

#include <string>
#include <vector>

#include "insight/verdict/health.h"

namespace babelring::verdict {

/// An open alert about the run. Alerts of kind ranks_differ are included even after the end of the run cleared them.
struct RunAlert {
  std::string kind, message;
  bool acknowledged = false;
};

/// The part of the health about alerts: a count, and the message of the most severe one.
HealthPart judge_alerts(const std::vector<RunAlert>& alerts);

}  // namespace babelring::verdict
