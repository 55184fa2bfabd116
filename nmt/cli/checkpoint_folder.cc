#include "nmt/cli/checkpoint_folder.h"

#include <algorithm>
#include <string>

#include "nmt/base/failure.h"

namespace babelring {

namespace fs = std::filesystem;

namespace {

bool is_checkpoint(const fs::path& folder) {
  return fs::exists(folder / "state.json");
}

/// Of a run's folder its checkpoints/, of checkpoints/ itself.
fs::path store_of(const fs::path& given) {
  return fs::is_directory(given / "checkpoints") ? given / "checkpoints" : given;
}

std::vector<fs::path> all_checkpoints(const fs::path& store) {
  std::vector<fs::path> found;
  if (!fs::is_directory(store))
    fail("{}: no such folder; expected a checkpoint or the folder of a run", store.string());
  for (const fs::directory_entry& entry : fs::directory_iterator(store)) {
    const bool named_so = entry.path().filename().string().starts_with("update-");
    if (named_so && is_checkpoint(entry.path())) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());  // names end in the zero-padded update
  return found;
}

}  // namespace

fs::path find_checkpoint(const fs::path& given) {
  if (is_checkpoint(given)) return given;
  const fs::path store = store_of(given);
  if (is_checkpoint(store / "best")) return store / "best";
  const std::vector<fs::path> found = all_checkpoints(store);
  if (found.empty()) fail("{}: no checkpoint here; expected state.json, `best` or update-NNN folders", given.string());
  return found.back();
}

std::vector<fs::path> last_checkpoints(const fs::path& given, int count) {
  std::vector<fs::path> found = all_checkpoints(store_of(given));
  const auto wanted = static_cast<std::ptrdiff_t>(count);
  if (std::ssize(found) < wanted) fail("{}: found {} checkpoints, expected {}", given.string(), found.size(), count);
  found.erase(found.begin(), found.end() - wanted);
  return found;
}

}  // namespace babelring
