#include "cli/download_folder.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/work_folder.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

FileDescriptor open_folder(const fs::path& folder) {
  return FileDescriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// Removes a folder, also while another thread still writes files into it.
void remove_folder(const fs::path& folder) {
  std::error_code failure;
  for (int i = 0; i < 10 && fs::exists(folder, failure); ++i) fs::remove_all(folder, failure);
}

void remove_abandoned(const fs::path& parent, const std::string& prefix) {
  std::error_code unreadable;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(parent, unreadable)) {
    const bool named_alike = entry.path().filename().string().starts_with(prefix + "-");
    std::error_code ignored;
    if (named_alike && fs::exists(entry.path() / WorkFolder::marker_name, ignored)) found.push_back(entry.path());
  }
  for (const fs::path& folder : found) {
    const FileDescriptor opened = open_folder(folder);
    if (flock(opened.get(), LOCK_EX | LOCK_NB) != 0) continue;  // in use, or somebody else's
    remove_folder(folder);
    if (!fs::exists(folder)) spdlog::info("removed {}, which a killed process left", folder.string());
  }
}

fs::path new_folder(const fs::path& parent, const std::string& prefix) {
  std::string name = parent / (prefix + "-XXXXXX");
  if (mkdtemp(name.data()) == nullptr) {
    fail("{}: cannot be created: {}", name, std::generic_category().message(errno));
  }
  return name;
}

}  // namespace

/// Makes and locks a folder, and then marks it as this program's: an unmarked one is never taken for abandoned. Where
/// the file system has no locks, the folder stays unlocked.
DownloadFolder::Locked DownloadFolder::make(const fs::path& parent, const std::string& prefix) {
  remove_abandoned(parent, prefix);
  for (;;) {
    fs::path folder = new_folder(parent, prefix);
    FileDescriptor opened = open_folder(folder);
    const bool taken = flock(opened.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (taken || !fs::exists(folder)) continue;
    write_file_atomically(folder / WorkFolder::marker_name, "");  // from now on it may be taken for abandoned
    return {std::move(folder), std::move(opened)};
  }
}

DownloadFolder::DownloadFolder(const fs::path& parent, const std::string& prefix)
    : folder_(make(parent, prefix)), interrupt_([this](int signal) {
        remove_folder(path());
        kill(getpid(), signal);  // its handler is the default one again
      }) {}

DownloadFolder::~DownloadFolder() {
  remove_folder(path());
}

}  // namespace babelring
