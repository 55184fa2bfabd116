#pragma once

#include <filesystem>
#include <system_error>
#include <utility>

namespace babelring {

/// A new, empty folder for writing files before it is renamed into place. The destructor removes whatever is at its
/// path.
class ScratchFolder {
 public:
  /// Removes leftovers of an interrupted write first. Throws filesystem_error.
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directory(path_);
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
