#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace babelring {

/// A file that appears under its name only when complete: written to NAME.tmp.PID beside it, fsynced, renamed, and
/// the folder fsynced. Destroyed without commit(), nothing of it remains.
class AtomicFile {
 public:
  /// Throws Failure (file, system error) if the temporary file cannot be made.
  explicit AtomicFile(std::filesystem::path target, bool only_owner = false);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws Failure on a short write or a full disk.
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }

  /// Makes the file visible under its name, durably. Throws Failure; the previous file of that name is then intact.
  void commit();

 private:
  std::filesystem::path target_, temporary_;
  int descriptor_ = -1;
};

/// Writes a whole file atomically and durably. Throws Failure.
void write_file_atomically(const std::filesystem::path& target, std::string_view content);

/// The same, for a file that its owner alone may read and write.
void write_private_file(const std::filesystem::path& target, std::string_view content);

/// The whole content of a file. Throws Failure (file, system error).
std::string read_file(const std::filesystem::path& file);

/// fsyncs a folder, so that renames in it survive a power loss. Throws Failure.
void sync_folder(const std::filesystem::path& folder);

}  // namespace babelring
