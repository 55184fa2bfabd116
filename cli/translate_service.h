#pragma once

#include <functional>
#include <istream>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

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

/// Translates requests with one ensemble. Format: docs/formats.md. Not thread-safe.
class TranslationService {
 public:
  /// `usual`: options that a request does not name. All must outlive the service.
  TranslationService(const TranslateChoices& usual, const LoadedEnsemble& ensemble, Backend& backend);
  ~TranslationService();

  using Write = std::function<void(json::object)>;

  /// Answers a line of `nmt translate --serve`: a request, or an array of them, which are translated together. Calls
  /// `write` for each partial line and each answer; errors of a request become its answer.
  void answer_line(const std::string& line, const Write& write);

  /// Answers a request without limits of lines and their lengths. `part`, unless it is empty, is called with each
  /// partial line; it may throw to end the search. Throws UsageFailure that names the member that is refused.
  json::object answer(const json::object& request, const Write& part = {});

 private:
  struct OpenRequest;
  OpenRequest open(const json::object& object, bool limited);
  static void name_prefixes(OpenRequest& open);
  void encode(OpenRequest& open) const;
  void refuse_wrong_prefix(const OpenRequest& open);
  void add_marked(OpenRequest& open, const std::string& line) const;
  std::optional<Translation> joined(OpenRequest& open, std::size_t text, const Translation& translation) const;
  void take(const json::value& value, std::vector<OpenRequest>& opened, const Write& write);
  void translate(std::span<OpenRequest> requests, const Write& write);
  const Vocabulary& vocabulary() const { return *ensemble_.models.front().vocabulary; }

  const TranslateChoices& usual_;
  const LoadedEnsemble& ensemble_;
  Translator translator_;
};

/// Implements `nmt translate --serve`: loads a checkpoint, writes a ready line, then writes one response line per
/// request until the input ends. Requests of one line are translated together. Format: docs/formats.md. An invalid
/// request gets an error response; other errors throw Failure.
void serve_translations(const ModelOptions& model, const ServiceLimits& limits, std::istream& in, std::ostream& out);

}  // namespace babelring
