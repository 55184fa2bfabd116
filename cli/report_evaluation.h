#pragma once

#include <boost/json/array.hpp>
#include <string>
#include <vector>

#include "cli/evaluation_set.h"
#include "client/api_client.h"
#include "nmt/data/vocabulary.h"

namespace babelring {

/// Sample translations for send(), evenly spaced over the set. Skips those that exceed the server's length limit.
json::array samples_of(const EvaluationSet& set, const std::vector<std::string>& hypotheses,
                       const Vocabulary& vocabulary);

/// Adds an evaluation to a run on a server.
class EvaluationReport {
 public:
  /// Finds the run by id, name or a unique prefix of either. Throws Failure if the server or the run is not found.
  EvaluationReport(const ServerAccess& access, const std::string& run);

  /// Logs a warning if the checkpoint is from another run.
  void compare(const json::object& checkpoint_state) const;

  /// Posts `figures`, the object that `nmt evaluate --json` prints, with samples, and logs the success. Throws Failure
  /// if the server refuses it.
  void send(const json::object& figures, json::array samples);

 private:
  ApiClient api_;
  std::string id_, name_;
};

}  // namespace babelring
