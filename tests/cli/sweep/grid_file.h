#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/sweep/grid.h"

namespace babelring {

/// A folder with the base configuration of sweeps, base.yaml; removed at the end.
class GridFolder {
 public:
  GridFolder() : path_(std::filesystem::temp_directory_path() / ("babelring-sweep-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
    std::ofstream(path_ / "base.yaml") << "name: base\n"
                                          "preset: transformer-tiny\n"
                                          "model: {width: 64, heads: 4}\n"
                                          "data: {folder: none}\n";
  }
  ~GridFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  GridFolder(const GridFolder&) = delete;
  GridFolder& operator=(const GridFolder&) = delete;

  /// The name of the grid's file, which need not exist.
  std::string file() const { return (path_ / "grid.yaml").string(); }
  /// A grid with name and base, and more lines.
  SweepGrid grid(const std::string& lines) const {
    return read_sweep_grid("name: toy\nbase: base.yaml\n" + lines, file());
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace babelring
