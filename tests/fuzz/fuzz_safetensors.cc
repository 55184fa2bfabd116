// A safetensors file. Every byte of what its reader accepts lies within the file.

#include <sys/mman.h>
#include <unistd.h>

#include <numeric>
#include <string>

#include "base/failure.h"
#include "nmt/checkpoint/safetensors.h"
#include "tests/fuzz/expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace babelring;
  static const int file = memfd_create("fuzz", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  expect(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == static_cast<ssize_t>(size), "the input is written");
  try {
    const SafetensorsReader reader(path);
    std::uint64_t covered = 0;
    for (const SafetensorsEntry& entry : reader.entries()) {
      const auto bytes = reader.bytes(entry);
      expect(entry.end <= size && entry.begin <= entry.end, "a tensor lies within the file");
      covered += bytes.size();
      unsigned sum = 0;
      for (const std::byte byte : bytes) sum += static_cast<unsigned>(byte);  // all of it can be read
      static volatile unsigned sink;
      sink = sum;
      expect(reader.find(entry.name) != nullptr, "a tensor is found by its name");
      try {
        reader.tensor(entry.name);
      } catch (const Failure&) {
      }
    }
    expect(covered < size, "there is room for the header");
  } catch (const Failure& failure) {
    expect(*failure.what() != 0, "a refusal has a reason");
  }
  return 0;
}
