#include "server/artifacts/lab_files.h"

#include <fmt/format.h>

#include "base/check_name.h"
#include "base/records/records.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/http/problem.h"

namespace babelring::artifacts {

store::ArtifactRow require_artifact(store::Store& store, const std::string& id) {
  auto reader = store.reader();
  auto artifact = valid_id(id, 'f') ? store::find_artifact(*reader, id) : std::nullopt;
  if (!artifact) throw http::Problem(404, "artifact_unknown", fmt::format("no artifact '{}'", id));
  return std::move(*artifact);
}

FileDescriptor open_artifact(const Roots& roots, const store::ArtifactRow& artifact) {
  if (artifact.removed) throw http::Problem(410, "removed", fmt::format("artifact {} was removed", artifact.id));
  const auto folder = folder_below(roots, artifact.folder, "lab");
  if (!folder) {
    throw http::Problem(
        409, "outside_roots",
        fmt::format("artifact {} was written to {}, which is not a folder `lab` below a --checkpoint-root of this "
                    "server",
                    artifact.id, artifact.folder));
  }
  return open_file(*folder, {artifact.name, artifact.size, artifact.sha256});
}

}  // namespace babelring::artifacts
