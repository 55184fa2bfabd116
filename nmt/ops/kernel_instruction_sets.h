#pragma once

#include "base/instruction_sets.h"

namespace babelring {

/// What the kernels of nmt/ops, and with them the program, were compiled for. Initialised statically: it can be read
/// before any constructor has run.
extern const InstructionSets kernel_instruction_sets;

}  // namespace babelring
