// Parallel text: compressed, lines, SGML, TSV, TMX, XLIFF, WMT's XML. The first byte chooses between one file that
// holds both sides and two files, the bytes in two parts at a 0xff.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <string>

#include "base/failure.h"
#include "base/files.h"
#include "nmt/data/pair_source.h"
#include "tests/fuzz/expect.h"

namespace {

using namespace babelring;

/// A file in memory with a name.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::uint8_t> bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    expect(write(descriptor_.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "memory");
  }
  std::string name() const { return fmt::format("/proc/self/fd/{}", descriptor_.get()); }

 private:
  FileDescriptor descriptor_;
};

void read_all(const std::string& source, const std::string& target) {
  const auto pairs = open_pairs(source, target, {});
  RawLine one, two;
  std::int64_t last = 0;
  for (auto next = pairs->next(one, two); next != PairSource::Next::end; next = pairs->next(one, two)) {
    expect(one.text.size() <= LineReader::longest_bytes, "a source is not over-long");
    expect(two.text.size() <= LineReader::longest_bytes, "a target is not over-long");
    if (next != PairSource::Next::pair) continue;
    expect(one.number > 0 && two.number > 0, "a text has a line");
    expect(target.empty() || one.number >= last, "lines of a file do not go back");
    last = one.number;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::span<const std::uint8_t> first(data + 1, size - 1), second;
  const bool two = data[0] % 2 != 0;
  if (two) {
    const auto cut = static_cast<std::size_t>(std::find(first.begin(), first.end(), 0xff) - first.begin());
    second = first.subspan(std::min(first.size(), cut + 1));
    first = first.first(cut);
  }
  try {
    const MemoryFile source(first), target(second);
    read_all(source.name(), two ? target.name() : "");
  } catch (const Failure& failure) {
    expect(*failure.what() != 0, "a refusal has a reason");
  }
  return 0;
}
