#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace babelring {

/// Writes a file that becomes visible only when complete. Data goes to NAME.tmp.PID in the same folder; commit() fsyncs
/// it, renames it and fsyncs the folder. Without commit() the temporary file is deleted. A device or pipe is written
/// directly.
class AtomicFile {
 public:
  /// `only_owner`: mode 0600. Throws Failure (file, system error) if the temporary file cannot be created.
  explicit AtomicFile(std::filesystem::path target, bool only_owner = false);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws Failure on a short write or a full disk.
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }

  /// Makes the file visible and durable. Throws Failure on error; a previous file of that name is then intact.
  void commit();

 private:
  std::filesystem::path target_, temporary_;
  int descriptor_ = -1;
};

/// Writes a whole file atomically and durably. Throws Failure.
void write_file_atomically(const std::filesystem::path& target, std::string_view content);

/// The same, for a file that only its owner may read and write (mode 0600).
void write_private_file(const std::filesystem::path& target, std::string_view content);

/// Reads a whole file. Throws Failure (file, system error).
std::string read_file(const std::filesystem::path& file);

/// fsyncs a folder, so that renames in it survive a power loss. Throws Failure.
void sync_folder(const std::filesystem::path& folder);

}  // namespace babelring
