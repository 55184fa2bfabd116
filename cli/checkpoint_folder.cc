#include "cli/checkpoint_folder.h"

#include "base/failure.h"

namespace babelring {

namespace fs = std::filesystem;

namespace {

bool is_checkpoint(const fs::path& folder) {
  return fs::exists(folder / "state.json");
}

/// The checkpoints/ folder of a run's folder; any other folder itself.
fs::path store_of(const fs::path& given) {
  return fs::is_directory(given / "checkpoints") ? given / "checkpoints" : given;
}

std::vector<fs::path> all_checkpoints(const fs::path& store) {
  if (!fs::is_directory(store)) fail("{}: no such folder; expected a checkpoint or a run's folder", store.string());
  std::vector<fs::path> found = checkpoint_folders(store);
  std::erase_if(found, [](const fs::path& folder) { return !is_checkpoint(folder); });
  return found;
}

}  // namespace

bool is_run_folder(const fs::path& given) {
  return !is_checkpoint(given) && fs::is_directory(given) && !all_checkpoints(store_of(given)).empty();
}

std::vector<fs::path> last_checkpoints(const fs::path& given, int count) {
  std::vector<fs::path> found = all_checkpoints(store_of(given));
  const auto wanted = static_cast<std::ptrdiff_t>(count);
  if (found.empty()) fail("{}: no checkpoint here; expected update-NNN folders", given.string());
  if (std::ssize(found) < wanted) {
    fail("{}: found {} of {} checkpoints; --last {} takes all", given.string(), found.size(), count, found.size());
  }
  found.erase(found.begin(), found.end() - wanted);
  return found;
}

}  // namespace babelring
