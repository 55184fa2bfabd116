#include "lab/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "base/failure.h"
#include "base/file_descriptor.h"
#include "base/mapped_file.h"

namespace babelring {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t block_bytes = std::int64_t{64} << 10;

FileDescriptor open_to_read(const fs::path& file) {
  FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) fail("{}: cannot be opened: {}", file.string(), std::strerror(errno));
  return descriptor;
}

/// Gives back the pages of every mapping of the file in this process: mapped pages would stay in memory.
void release_mappings(const fs::path& file) {
  const std::string name = fs::canonical(file).string();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with(" " + name)) continue;
    void *begin = nullptr, *end = nullptr;
    char dash = 0;
    std::istringstream(line) >> begin >> dash >> end;
    const auto bytes = static_cast<const char*>(end) - static_cast<const char*>(begin);
    if (bytes > 0) ::madvise(begin, static_cast<std::size_t>(bytes), MADV_DONTNEED);
  }
}

void drop(const FileDescriptor& file) {
  ::fdatasync(file.get());  // pages that are not on the disk yet cannot be dropped
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

/// Reads `share` of the blocks, without read-ahead, so that the other blocks stay out of memory.
void read_evenly(const FileDescriptor& file, const fs::path& name, double share) {
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail("{}: {}", name.string(), std::strerror(errno));
  std::vector<char> block(static_cast<std::size_t>(block_bytes));
  const std::int64_t blocks = (status.st_size + block_bytes - 1) / block_bytes;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const auto blocks_until = [share](std::int64_t count) {
      return std::floor(static_cast<double>(count) * share + 1e-9);
    };
    if (blocks_until(i + 1) == blocks_until(i)) continue;
    if (::pread(file.get(), block.data(), block.size(), i * block_bytes) < 0) {
      fail("{}: cannot be read: {}", name.string(), std::strerror(errno));
    }
  }
}

}  // namespace

double cached_share(const std::vector<fs::path>& files) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::size_t pages = 0, resident = 0;
  for (const fs::path& file : files) {
    const MappedFile mapped(file);
    if (mapped.bytes().empty()) continue;
    std::vector<unsigned char> states((mapped.bytes().size() + page - 1) / page);
    void* const begin = const_cast<std::byte*>(mapped.bytes().data());
    if (::mincore(begin, mapped.bytes().size(), states.data()) != 0) {
      fail("{}: mincore: {}", file.string(), std::strerror(errno));
    }
    pages += states.size();
    for (const unsigned char state : states) resident += state & 1;
  }
  return pages == 0 ? 1 : static_cast<double>(resident) / static_cast<double>(pages);
}

void set_cached_share(const std::vector<fs::path>& files, double share) {
  for (const fs::path& file : files) {
    release_mappings(file);
    const FileDescriptor descriptor = open_to_read(file);
    drop(descriptor);
    read_evenly(descriptor, file, share);
  }
}

std::int64_t thread_read_bytes() {
  std::ifstream counters("/proc/thread-self/io");
  std::string name;
  for (std::int64_t value = 0; counters >> name >> value;) {
    if (name == "read_bytes:") return value;
  }
  return 0;
}

}  // namespace babelring
