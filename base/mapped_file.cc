#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/failure.h"
#include "base/file_descriptor.h"
#include "base/mapping_guard.h"

namespace babelring {

MappedFile::MappedFile(const std::filesystem::path& file) {
  const FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) fail("cannot open {}: {}", file.string(), std::strerror(errno));
  struct stat status{};
  if (::fstat(descriptor.get(), &status) != 0) fail("cannot stat {}: {}", file.string(), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("cannot map {}: it is not a regular file", file.string());
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (address == MAP_FAILED) fail("cannot map {} ({} bytes): {}", file.string(), size_, std::strerror(errno));
  data_ = static_cast<const std::byte*>(address);
  guard_mapping(data_, size_, file);
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  unguard_mapping(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace babelring
