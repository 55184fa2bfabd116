#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace babelring {

/// A temporary folder. The destructor removes it with its content, and also the parent folders it created, if they are
/// empty.
class WorkFolder {
 public:
  /// Creates an empty folder, replacing an existing one. Throws Failure.
  explicit WorkFolder(std::filesystem::path path);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_, made_;  // made_: the topmost folder that did not exist before
};

/// Writes lines to a file, which it creates or truncates. All functions throw Failure.
class LineWriter {
 public:
  explicit LineWriter(const std::filesystem::path& file);
  void add(std::string_view line);
  /// Closes the file. Must be called after the last line.
  void finish();

 private:
  void check() const;
  std::filesystem::path file_;
  std::ofstream stream_;
};

}  // namespace babelring
