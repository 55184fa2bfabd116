#include "nmt/comm/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <sstream>

namespace babelring {

std::shared_ptr<SharedFile> SharedFile::map(int descriptor, std::size_t bytes) {
  void* mapping = mmap(nullptr, header_bytes + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapping == MAP_FAILED) {
    close(descriptor);
    return nullptr;
  }
  return std::shared_ptr<SharedFile>(new SharedFile(descriptor, static_cast<char*>(mapping), bytes));
}

std::shared_ptr<SharedFile> SharedFile::create(std::size_t bytes) {
  const int descriptor = memfd_create("babelring", MFD_CLOEXEC);
  if (descriptor < 0) return nullptr;
  if (ftruncate(descriptor, static_cast<off_t>(header_bytes + bytes)) != 0) {
    close(descriptor);
    return nullptr;
  }
  auto file = map(descriptor, bytes);
  std::random_device random;
  if (file) file->token() = (std::uint64_t{random()} << 32) | random();
  return file;
}

std::shared_ptr<SharedFile> SharedFile::open(const std::string& invitation) {
  std::istringstream words(invitation);
  long process = 0;
  int descriptor = 0;
  std::size_t bytes = 0;
  std::uint64_t token = 0;
  if (!(words >> process >> descriptor >> bytes >> token)) return nullptr;
  const int own = ::open(fmt::format("/proc/{}/fd/{}", process, descriptor).c_str(), O_RDWR | O_CLOEXEC);
  if (own < 0) return nullptr;
  // On another machine the same numbers may be anything at all.
  struct stat status {};
  if (fstat(own, &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size != static_cast<off_t>(header_bytes + bytes)) {
    close(own);
    return nullptr;
  }
  auto file = map(own, bytes);
  return file && file->token() == token ? file : nullptr;
}

SharedFile::~SharedFile() {
  munmap(mapping_, header_bytes + bytes_);
  close(descriptor_);
}

std::string SharedFile::invitation() const {
  return fmt::format("{} {} {} {}", getpid(), descriptor_, bytes_, token());
}

bool SharedFile::reserve(std::size_t offset, std::size_t bytes) {
  return bytes == 0 ||
         fallocate(descriptor_, 0, static_cast<off_t>(header_bytes + offset), static_cast<off_t>(bytes)) == 0;
}

}  // namespace babelring
