#include "server/launch/purge.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "server/store/control.h"

namespace babelring::launch {
namespace {

namespace fs = std::filesystem;

/// A folder named like a checkpoint, and really below one of the roots: a worker's word is no leave to remove anything.
bool may_remove(const fs::path& folder, const std::vector<fs::path>& roots) {
  if (!folder.is_absolute() || !folder.filename().string().starts_with("update-")) return false;
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (error || real.filename() != folder.filename()) return false;
  return std::any_of(roots.begin(), roots.end(), [&](const fs::path& root) {
    return std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first == root.end();
  });
}

void remove_checkpoints(store::Store& store, const store::DoomedRun& run, const std::vector<fs::path>& roots) {
  std::vector<fs::path> folders;
  {
    auto reader = store.reader();
    for (const std::string& folder : store::checkpoint_folders(*reader, run.number)) {
      if (may_remove(folder, roots)) folders.emplace_back(folder);
    }
  }
  if (!run.folder.empty()) folders.emplace_back(run.folder);
  for (const fs::path& folder : folders) {
    std::error_code error;
    fs::remove_all(folder, error);
    if (error) spdlog::warn("run {}: {} cannot be removed: {}", run.id, folder.string(), error.message());
  }
}

}  // namespace

void purge_deleted_runs(store::Store& store, const std::vector<fs::path>& roots, std::int64_t now_ms) {
  std::vector<store::DoomedRun> doomed;
  {
    auto reader = store.reader();
    doomed = store::doomed_runs(*reader, now_ms - deleted_kept_ms);
  }
  for (const store::DoomedRun& run : doomed) {
    if (run.checkpoints_too) remove_checkpoints(store, run, roots);
    store.write([&](store::Database& database) { store::purge_run(database, run.number); });
    spdlog::info("run {}: removed for good", run.id);
  }
}

}  // namespace babelring::launch
