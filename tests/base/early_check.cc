// A program whose kernels need instructions that no processor has: it must end before any of its constructors runs.
#include <cstdio>

#include "base/instruction_sets.h"

namespace {

using namespace babelring;

[[gnu::constructor(101)]] void check_processor() {
  require_instruction_sets(bit_of(InstructionSet::xop) | bit_of(InstructionSet::avx512_fp16), "early_check");
}

struct Global {
  Global() { std::puts("a constructor has run"); }
};
const Global global;

}  // namespace

int main() {
  std::puts("main has run");
  return 0;
}
