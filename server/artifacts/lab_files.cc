#include "server/artifacts/lab_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/names.h"
#include "base/records/records.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/http/reply.h"

namespace babelring::artifacts {
namespace {

namespace fs = std::filesystem;

bool lies_below(const fs::path& root, const fs::path& path) {
  const auto [in_root, in_path] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return in_root == root.end() && in_path != path.end();
}

}  // namespace

std::optional<fs::path> folder_below(const Roots& roots, const fs::path& reported, const std::string& name) {
  std::error_code error;
  fs::path folder = fs::weakly_canonical(reported, error);
  if (error || !reported.is_absolute() || folder.filename() != name) return std::nullopt;
  if (std::none_of(roots.begin(), roots.end(), [&](const auto& root) { return lies_below(root, folder); })) {
    return std::nullopt;
  }
  return folder;
}

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
