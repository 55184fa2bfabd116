#include "worker/record_sender.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <system_error>

#include "worker/spool.h"

namespace babelring {
namespace {

/// Equal on two ranks if they have this folder in common and one kernel, which locks its files. Empty if the folder
/// cannot be created.
std::string folder_identity(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  struct stat status{};
  if (::stat(folder.c_str(), &status) != 0) return "";
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string kernel;
  std::getline(file, kernel);
  return fmt::format("{} {} {}", kernel, status.st_dev, status.st_ino);
}

}  // namespace

RecordSender choose_record_sender(Communicator& communicator, const std::filesystem::path& spool_folder,
                                  std::int64_t attempt) {
  const std::filesystem::path folder = spool_path(spool_folder, attempt, 0).parent_path();
  const std::vector<std::string> folders = communicator.all_gather(folder_identity(folder));
  const std::vector<std::string>& hosts = communicator.hosts();
  const auto own = static_cast<std::size_t>(communicator.rank());
  RecordSender sender;
  if (folders[own].empty()) return sender;
  for (std::size_t rank = 0; rank < folders.size(); ++rank) {
    if (rank == own || folders[rank] != folders[own] || hosts[rank] != hosts[own]) continue;
    if (rank < own) {
      sender.by = static_cast<std::int64_t>(rank);
      return sender;
    }
    sender.served.push_back(static_cast<std::int64_t>(rank));
  }
  return sender;
}

}  // namespace babelring
