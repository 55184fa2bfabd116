#pragma once

#include "base/instruction_sets.h"

namespace babelring {

/// The extensions that the including source is compiled for. It differs between sources; each has its own constant.
constexpr InstructionSets compiled_instruction_sets = 0
#ifdef __SSE3__
                                                      | bit_of(InstructionSet::sse3)
#endif
#ifdef __SSSE3__
                                                      | bit_of(InstructionSet::ssse3)
#endif
#ifdef __SSE4_1__
                                                      | bit_of(InstructionSet::sse4_1)
#endif
#ifdef __SSE4_2__
                                                      | bit_of(InstructionSet::sse4_2)
#endif
#ifdef __POPCNT__
                                                      | bit_of(InstructionSet::popcnt)
#endif
#ifdef __MOVBE__
                                                      | bit_of(InstructionSet::movbe)
#endif
#ifdef __LZCNT__
                                                      | bit_of(InstructionSet::lzcnt)
#endif
#ifdef __AVX__
                                                      | bit_of(InstructionSet::avx)
#endif
#ifdef __F16C__
                                                      | bit_of(InstructionSet::f16c)
#endif
#ifdef __FMA__
                                                      | bit_of(InstructionSet::fma)
#endif
#ifdef __FMA4__
                                                      | bit_of(InstructionSet::fma4)
#endif
#ifdef __XOP__
                                                      | bit_of(InstructionSet::xop)
#endif
#ifdef __TBM__
                                                      | bit_of(InstructionSet::tbm)
#endif
#ifdef __BMI__
                                                      | bit_of(InstructionSet::bmi)
#endif
#ifdef __BMI2__
                                                      | bit_of(InstructionSet::bmi2)
#endif
#ifdef __AVX2__
                                                      | bit_of(InstructionSet::avx2)
#endif
#ifdef __AVXVNNI__
                                                      | bit_of(InstructionSet::avx_vnni)
#endif
#ifdef __AVX512F__
                                                      | bit_of(InstructionSet::avx512f)
#endif
#ifdef __AVX512CD__
                                                      | bit_of(InstructionSet::avx512cd)
#endif
#ifdef __AVX512DQ__
                                                      | bit_of(InstructionSet::avx512dq)
#endif
#ifdef __AVX512BW__
                                                      | bit_of(InstructionSet::avx512bw)
#endif
#ifdef __AVX512VL__
                                                      | bit_of(InstructionSet::avx512vl)
#endif
#ifdef __AVX512IFMA__
                                                      | bit_of(InstructionSet::avx512_ifma)
#endif
#ifdef __AVX512VBMI__
                                                      | bit_of(InstructionSet::avx512_vbmi)
#endif
#ifdef __AVX512VBMI2__
                                                      | bit_of(InstructionSet::avx512_vbmi2)
#endif
#ifdef __AVX512VNNI__
                                                      | bit_of(InstructionSet::avx512_vnni)
#endif
#ifdef __AVX512BITALG__
                                                      | bit_of(InstructionSet::avx512_bitalg)
#endif
#ifdef __AVX512VPOPCNTDQ__
                                                      | bit_of(InstructionSet::avx512_vpopcntdq)
#endif
#ifdef __AVX512BF16__
                                                      | bit_of(InstructionSet::avx512_bf16)
#endif
#ifdef __AVX512FP16__
                                                      | bit_of(InstructionSet::avx512_fp16)
#endif
    ;

}  // namespace babelring
