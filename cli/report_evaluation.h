#pragma once

#include <string>
#include <vector>

#include "cli/evaluation_set.h"
#include "client/api_client.h"
#include "nmt/data/vocabulary.h"

namespace babelring {

/// Posts an evaluation to a server as one of a run.
class EvaluationReport {
 public:
  /// Finds the run by its id, its name or the beginning of one. Throws Failure if there is no server or no such run.
  EvaluationReport(const ServerAccess& access, const std::string& run);

  /// Warns if the checkpoint says that it is of another run.
  void compare(const json::object& checkpoint_state) const;

  /// Sends `figures`, the object that `nmt evaluate --json` prints, with some sentences and their translations as
  /// samples, and logs that it was recorded. Throws Failure if the server does not take it.
  void send(const json::object& figures, const EvaluationSet& set, const std::vector<std::string>& hypotheses,
            const Vocabulary& vocabulary);

 private:
  ApiClient api_;
  std::string id_, name_;
};

}  // namespace babelring
