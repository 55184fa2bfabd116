# Kernels are compiled once for each of these instruction sets; nmt/ops/cpu/kernel_sets.h chooses one at run time. The rest
# of the programs is compiled for what the compiler takes by default, any x86-64 processor.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(BABELRING_KERNEL_SETS generic avx2 avx512 avx512_bf16)
  set(options_generic -march=x86-64-v2)
else()
  set(BABELRING_KERNEL_SETS generic)
endif()
set(options_avx2 -march=x86-64-v3)
set(options_avx512 -march=x86-64-v4 -mprfchw -mprefer-vector-width=512)
set(options_avx512_bf16 ${options_avx512} -mavx512vnni -mavx512bf16)

# babelring_kernels(NAME SET LINKS imported-target... SOURCES file...)
# Adds sources, compiled for one instruction set, to the library of a room. Their code must be in the namespace
# BABELRING_KERNEL_SET: a function outside it that the compiler did not inline would replace the baseline's
# (tests/nmt/ops/baseline_test.py).
function(babelring_kernels name set)
  cmake_parse_arguments(arg "" "" "LINKS;SOURCES" ${ARGN})
  set(library babelring_${name}_${set})
  add_library(${library} OBJECT ${arg_SOURCES})
  # A kernel a file: the code of one must not depend on its neighbours.
  set_target_properties(${library} PROPERTIES UNITY_BUILD OFF BABELRING_KERNEL_SET ${set})
  target_link_libraries(${library} PRIVATE babelring_flags ${arg_LINKS})
  target_compile_definitions(${library} PRIVATE BABELRING_KERNEL_SET=${set})
  # g++ 12 warns of its own intrinsics (GCC bug 105593).
  target_compile_options(${library} PRIVATE ${options_${set}} -fno-math-errno -fno-trapping-math -Wno-maybe-uninitialized
                         -Wno-uninitialized ${BABELRING_KERNEL_OPTIONS})
  target_sources(babelring_${name} PRIVATE $<TARGET_OBJECTS:${library}>)
endfunction()
