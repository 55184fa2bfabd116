#pragma once

#include <filesystem>
#include <string>

#include "base/file_descriptor.h"
#include "cli/runs/interrupt.h"

namespace babelring {

/// A new folder for downloads, PREFIX-XXXXXX below `parent`, which is removed with the object, or when SIGINT or
/// SIGTERM ends the process. A process that was killed leaves its folder behind: the constructor removes those with the
/// same prefix and the marker file of a WorkFolder that no process holds locked (flock). Throws Failure if the folder
/// cannot be made.
class DownloadFolder {
 public:
  DownloadFolder(const std::filesystem::path& parent, const std::string& prefix);
  ~DownloadFolder();
  DownloadFolder(const DownloadFolder&) = delete;
  DownloadFolder& operator=(const DownloadFolder&) = delete;

  const std::filesystem::path& path() const { return folder_.path; }

 private:
  struct Locked {
    std::filesystem::path path;
    FileDescriptor lock;
  };
  static Locked make(const std::filesystem::path& parent, const std::string& prefix);

  Locked folder_;
  Interrupt interrupt_;
};

}  // namespace babelring
