#pragma once

#include <cstdint>
#include <filesystem>

#include "base/failure.h"

namespace babelring {

/// This attempt was given up and another one may have taken its place: it must write nothing any more.
class Fenced : public Failure {
 public:
  using Failure::Failure;
};

/// The note, in a run's folder, that attempts up to a number are over. Whoever gives an attempt up writes it before the
/// next one starts; whoever writes a checkpoint looks at it just before that becomes visible. Durable. Throws Failure.
void write_fence(const std::filesystem::path& folder, std::int64_t attempt);

/// The newest attempt that is over; 0 without a note. Throws Failure if the note is unreadable.
std::int64_t fenced_attempt(const std::filesystem::path& folder);

}  // namespace babelring
