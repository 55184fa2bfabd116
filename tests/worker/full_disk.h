#pragma once

#include <sys/resource.h>

#include <csignal>
#include <filesystem>

namespace babelring {

/// A limit on file sizes stands in for a full disk: while it lives, a file may grow by ten bytes, then come errors.
class FullDisk {
 public:
  explicit FullDisk(const std::filesystem::path& file) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &usual_);
    const rlimit tight{.rlim_cur = std::filesystem::file_size(file) + 10, .rlim_max = usual_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &usual_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit usual_{};
};

}  // namespace babelring
