#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/records/records.h"

namespace babelring {

/// A file that a tool writes into the folder `lab` of a run.
struct Artifact {
  std::string kind;               // one of artifact_kinds
  std::string name;               // file name: begins with "KIND-"; on ranks other than 0 it contains "-rank-N"
  std::int64_t update = 0;        // that the file describes, or the last one
  json::value content = nullptr;  // JSON for the service, reported if its text has at most max_artifact_content_bytes
};

/// One rank's files in RUN/lab. Files of ranks other than 0 have "-rank-N" in their names, so that ranks can share the
/// folder. Not thread-safe: used by the thread that trains.
class LabFolder {
 public:
  /// `folder`: RUN/lab, created by the first write. `keep`: how many artifacts of each kind this rank keeps, at least
  /// 1. `records` must outlive this object.
  LabFolder(const std::filesystem::path& folder, int keep, std::int64_t rank, RecordSink& records);

  /// Writes a file atomically and reports it with its digest, then removes the rank's oldest files of the kind beyond
  /// `keep` and reports that. Files with the same name up to the first '.' count as one. A file that cannot be written
  /// is logged as a warning and not reported: training continues. Throws Failure if the name does not fit.
  void write(const Artifact& artifact, std::string_view bytes);
  /// The same, for a tool that writes the file itself: `write_file` gets the path of a file that does not exist yet.
  void write(const Artifact& artifact, const std::function<void(const std::filesystem::path&)>& write_file);

  /// Reports a file that the tool has completed in the folder under the artifact's name, as write() does.
  void add(const Artifact& artifact);

  const std::filesystem::path& path() const { return folder_; }

 private:
  void finish(const Artifact& artifact);
  void check(const Artifact& artifact) const;
  void report(const Artifact& artifact);
  void remove_old(const std::string& kind);
  void remove(const std::string& kind, const std::filesystem::path& file);

  const std::filesystem::path folder_;
  const int keep_;
  const std::int64_t rank_;
  RecordSink& records_;
};

}  // namespace babelring
