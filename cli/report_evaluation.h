#pragma once

#include <string>
#include <vector>

#include "cli/evaluation_set.h"
#include "client/api_client.h"
#include "nmt/data/vocabulary.h"

namespace babelring {

/// Adds an evaluation to a run on a server.
class EvaluationReport {
 public:
  /// Finds the run by id, name or a unique prefix of either. Throws Failure if the server or the run is not found.
  EvaluationReport(const ServerAccess& access, const std::string& run);

  /// Logs a warning if the checkpoint is from another run.
  void compare(const json::object& checkpoint_state) const;

  /// Posts `figures`, the object that `nmt evaluate --json` prints, with some translations as samples, and logs the
  /// success. Throws Failure if the server refuses it.
  void send(const json::object& figures, const EvaluationSet& set, const std::vector<std::string>& hypotheses,
            const Vocabulary& vocabulary);

 private:
  ApiClient api_;
  std::string id_, name_;
};

}  // namespace babelring
