#pragma once

#include <cstdint>
#include <filesystem>

#include "base/failure.h"

namespace babelring {

/// Thrown by an attempt that is over: it was abandoned, and a newer attempt may be running. It must not write anything.
class Fenced : public Failure {
 public:
  using Failure::Failure;
};

/// Records in a run's folder that attempts up to `attempt` are over (a fence). The server writes the fence before it
/// starts the next attempt. A worker reads it just before a checkpoint becomes visible. Durable. Throws Failure.
void write_fence(const std::filesystem::path& folder, std::int64_t attempt);

/// The newest attempt that is over, or 0 if there is no fence. Throws Failure if the fence cannot be read.
std::int64_t fenced_attempt(const std::filesystem::path& folder);

}  // namespace babelring
