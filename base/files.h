#pragma once

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace babelring {

/// Owns a file descriptor and closes it on destruction. Move-only. A negative number means no file.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileDescriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

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

  /// Makes two new files visible and durable, both or neither: both are complete on disk before the first is renamed,
  /// which is removed if the second cannot be. Only a crash between the renames leaves the first alone. Throws Failure.
  static void commit_both(AtomicFile& first, AtomicFile& second);

 private:
  void sync();       // the data, under its temporary name
  void take_back();  // removes it if it is visible

  std::filesystem::path target_, temporary_;
  int descriptor_ = -1;
};

/// Writes a whole file atomically and durably. Throws Failure.
void write_file_atomically(const std::filesystem::path& target, std::string_view content);

/// The same, for a file that only its owner may read and write (mode 0600).
void write_private_file(const std::filesystem::path& target, std::string_view content);

/// Reads a whole file. Throws Failure (file, system error).
std::string read_file(const std::filesystem::path& file);

/// fsyncs a file that another wrote. Throws Failure.
void sync_file(const std::filesystem::path& file);
/// fsyncs a folder, so that renames in it survive a power loss. Throws Failure.
void sync_folder(const std::filesystem::path& folder);

/// Where a file system keeps its files, as far as its type tells. A FUSE or 9P file system may be either.
enum class FileSystemKind { local, network, unknown };

/// The file system of a folder.
struct DiskType {
  FileSystemKind kind = FileSystemKind::local;
  std::string_view name;  // in messages: "NFS"; empty if local
};

/// The file system with this `f_type` of statfs(2); local if the type is not listed.
DiskType disk_type_of(unsigned magic);

/// The file system of the folder, or of its nearest existing parent. Local if statfs(2) fails.
DiskType disk_type(const std::filesystem::path& folder);

/// The folder, or its nearest existing parent.
std::filesystem::path existing_folder(const std::filesystem::path& wanted);

}  // namespace babelring
