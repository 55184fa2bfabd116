#include "server/store/data_folder.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/network_disk.h"

namespace babelring::store {
namespace {

constexpr std::string_view running = "running\n", ended = "clean\n";

/// Never leaves the file empty: an empty lock file means an unused folder.
void write_lock_file(int descriptor, std::string_view text) {
  if (pwrite(descriptor, text.data(), text.size(), 0) < 0 ||
      ftruncate(descriptor, static_cast<off_t>(text.size())) != 0 || fsync(descriptor) != 0) {
    fail("data folder: cannot write its lock file: {}", std::strerror(errno));
  }
}

/// True for an unfinished file of a killed process: NAME.tmp.PID of AtomicFile, or .tmp-NAME of a backup or restore.
bool is_unfinished(const std::filesystem::directory_entry& entry) {
  std::error_code error;
  if (entry.symlink_status(error).type() != std::filesystem::file_type::regular) return false;
  const std::string name = entry.path().filename().string();
  if (name.starts_with(".tmp-")) return true;
  constexpr std::string_view mark = ".tmp.";
  const auto at = name.rfind(mark);
  return at != std::string::npos && at + mark.size() < name.size() &&
         name.find_first_not_of("0123456789", at + mark.size()) == std::string::npos;
}

void remove_unfinished(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (is_unfinished(entry)) found.push_back(entry.path());
  }
  for (const auto& file : found) std::filesystem::remove(file, error);
}

}  // namespace

void refuse_network_disk(const std::filesystem::path& folder) {
  const DiskType disk = disk_type(folder);
  if (disk.place == DiskPlace::network) {
    fail("data folder {} is on a network file system ({}); the database needs a local disk (--data)", folder.string(),
         disk.name);
  }
  if (disk.place == DiskPlace::unknown) {
    spdlog::warn(
        "data folder {}: its file system ({}) may be on the network, where locks and the write-ahead "
        "log of the database can fail; a local disk is safe (--data)",
        folder.string(), disk.name);
  }
}

DataFolder::DataFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
  // Only the owner may access a new folder, because reading the database needs no token.
  std::error_code error;
  const bool made = std::filesystem::create_directories(folder_, error);
  if (error) fail("data folder {}: cannot be created: {}", folder_.string(), error.message());
  if (made) std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
  folder_ = std::filesystem::canonical(folder_);
  refuse_network_disk(folder_);
  const std::string file = folder_ / "server.lock";
  descriptor_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor_ < 0) fail("open {}: {}", file, std::strerror(errno));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    close(descriptor_);
    throw FolderInUse(fmt::format("data folder {} is in use by another server", folder_.string()));
  }
  std::array<char, 16> text{};
  const ssize_t size = pread(descriptor_, text.data(), text.size(), 0);
  used_ = size > 0;
  was_clean_ = used_ && std::string_view(text.data(), static_cast<std::size_t>(size)) == ended;
  for (const auto& each : {folder_, folder_ / "backups"}) remove_unfinished(each);
}

DataFolder::~DataFolder() {
  try {
    if (clean_) write_lock_file(descriptor_, ended);
  } catch (const Failure&) {
    // Harmless: the next start checks the database.
  }
  close(descriptor_);
}

bool DataFolder::has_database() const {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(database(), error);
  return !error && bytes > 0;
}

void DataFolder::require_database(bool anew) const {
  if (has_database()) {
    if (anew) fail("--new-database: {} exists; move it away, or start without --new-database", database().string());
    return;
  }
  std::error_code ignored;
  const char* mark = used_                                                       ? "server.lock"
                     : std::filesystem::exists(folder_ / "admin.token", ignored) ? "admin.token"
                                                                                 : nullptr;
  if (anew || mark == nullptr) return;
  fail(
      "data folder {}: babelring.db is {}, but {} shows that a server has used this folder: restore a backup (server "
      "--data {} --restore FILE), put the file back, or create an empty database with --new-database",
      folder_.string(), std::filesystem::exists(database(), ignored) ? "empty" : "missing", mark, folder_.string());
}

void DataFolder::mark_used() {
  write_lock_file(descriptor_, running);
}

std::uintmax_t DataFolder::free_bytes() const {
  return std::filesystem::space(folder_).available;
}

}  // namespace babelring::store
