// A probe. What its reader accepts can be compared, and is the same as itself.

#include <string_view>

#include "base/failure.h"
#include "lab/probe/probe_compare.h"
#include "tests/fuzz/expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace babelring;
  try {
    const Probe probe = parse_probe({reinterpret_cast<const char*>(data), size}, "/nowhere/probe.jsonl");
    const ProbeComparison comparison = compare_probes(probe, probe, {});
    for (const RecordPair& pair : comparison.pairs) {
      expect(pair.a == nullptr || pair.b == nullptr || pair.sameness == Sameness::same, "a record equals itself");
    }
  } catch (const Failure& failure) {
    expect(*failure.what() != 0, "a refusal has a reason");
  }
  return 0;
}
