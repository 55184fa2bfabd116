#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace babelring {

/// A folder for temporary files, removed with everything in it. The folders that had to be made for it go too if
/// nothing else was put there.
class WorkFolder {
 public:
  /// Makes it anew, empty. Throws Failure.
  explicit WorkFolder(std::filesystem::path path);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_, made_;  // made_: the topmost folder that was not there before
};

/// Writes lines to a file, which it makes or empties. All throw Failure.
class LineWriter {
 public:
  explicit LineWriter(const std::filesystem::path& file);
  void add(std::string_view line);
  /// After the last line.
  void finish();

 private:
  void check() const;
  std::filesystem::path file_;
  std::ofstream stream_;
};

}  // namespace babelring
