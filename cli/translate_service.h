#pragma once

#include <istream>
#include <ostream>
#include <string>

#include "base/json.h"
#include "cli/model_options.h"

namespace babelring {

/// Limits on a process that a server starts, to protect that server.
struct ServiceLimits {
  std::int64_t memory_mb = 0;    // max address space; 0: no limit
  bool end_with_parent = false;  // terminate when the parent process ends
};
/// Applies the limits to this process, which also writes no core file. Throws Failure if the system refuses one.
void apply_limits(const ServiceLimits& limits);

/// A process that translates with one ensemble. `usual`: options that a request does not name.
struct TranslationService {
  const TranslateChoices& usual;
  const LoadedEnsemble& ensemble;
  Translator translator;
};

/// Answers a request, an object with "text" and options, without a limit of a line's length. Throws UsageFailure that
/// names the member that is refused. Format: docs/formats.md.
json::object answer_translation(const json::object& request, TranslationService& service);

/// Implements `nmt translate --serve`: loads a checkpoint, writes a ready line, then writes one response line per
/// request line until the input ends. Format: docs/formats.md. An invalid request gets an error response; other errors
/// throw Failure.
void serve_translations(const ModelOptions& model, const ServiceLimits& limits, std::istream& in, std::ostream& out);

}  // namespace babelring
