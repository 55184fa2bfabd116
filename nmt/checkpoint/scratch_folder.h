#pragma once

#include <filesystem>
#include <system_error>
#include <utility>

namespace babelring {

/// A new, empty folder of a checkpoint store, for writing files before it is renamed into place. The destructor removes
/// whatever is at its path.
class ScratchFolder {
 public:
  /// Throws filesystem_error, also if there is something at the path: its name must be new.
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {
    if (std::filesystem::create_directory(path_)) return;
    throw std::filesystem::filesystem_error("", path_, std::make_error_code(std::errc::file_exists));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace babelring
