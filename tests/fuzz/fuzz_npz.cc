// A zip archive, and as an .npz file. All bytes of what the readers accept lie within the archive or are of the size
// that it says.

#include <span>
#include <string>

#include "base/failure.h"
#include "nmt/interop/npz.h"
#include "tests/fuzz/expect.h"

namespace {

using namespace babelring;

unsigned sum_of(std::span<const std::byte> bytes) {
  unsigned sum = 0;
  for (const std::byte byte : bytes) sum += static_cast<unsigned>(byte);  // all of it can be read
  return sum;
}

void read_entry(const ZipReader& zip, const ZipReader::Entry& entry) {
  static volatile unsigned sink;
  sink = sum_of(entry.stored);
  expect(zip.find(entry.name) != nullptr, "an entry is found by its name");
  try {
    constexpr std::uint64_t limit = 1 << 20;
    const std::string text = zip.text(entry, limit);
    expect(text.size() == entry.size && text.size() <= limit, "a file has the size that the directory says");
  } catch (const Failure& failure) {
    expect(*failure.what() != 0, "a refusal has a reason");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> archive = std::as_bytes(std::span(data, size));
  try {
    const ZipReader zip(archive, "fuzz");
    for (const ZipReader::Entry& entry : zip.entries()) read_entry(zip, entry);
    const NpzReader npz(archive, "fuzz");
    for (const NpzArray& array : npz.arrays()) {
      static volatile unsigned sink;
      sink = sum_of(array.bytes);
      std::uint64_t elements = 1;
      for (const std::int64_t extent : array.shape) elements *= static_cast<std::uint64_t>(extent);
      expect(elements * static_cast<std::uint64_t>(array.type.back() - '0') == array.bytes.size(),
             "an array has the bytes of its shape");
    }
  } catch (const Failure& failure) {
    expect(*failure.what() != 0, "a refusal has a reason");
  }
  return 0;
}
