#pragma once

#include "base/instruction_sets.h"

namespace babelring {

/// The instruction sets that nmt/ops, and thus the program, was compiled for. Constant-initialised, so it can be read
/// before any constructor has run.
extern const InstructionSets kernel_instruction_sets;

}  // namespace babelring
