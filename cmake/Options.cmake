set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()

option(BABELRING_TESTS "Build the tests" ON)
option(BABELRING_BENCHMARKS "Build the benchmarks" ON)
option(BABELRING_WERROR "Treat warnings as errors" OFF)
set(BABELRING_KERNEL_OPTIONS "" CACHE STRING "Further compiler options of nmt/ops, where the rest is optimised less")
set(BABELRING_TEST_OPTIONS "-O1" CACHE STRING "Further compiler options of the tests' own sources")
option(BABELRING_NATIVE "Compile everything but the kernels for this machine's processor" OFF)
set(BABELRING_SANITIZE "" CACHE STRING "Sanitizers for everything, as in -fsanitize=: address,undefined or thread")
set(BABELRING_SANITIZE_WITHOUT "" CACHE STRING "Checks to leave out of these, as in -fno-sanitize=")

find_program(CCACHE ccache)
if(CCACHE)
  # The build folder's name is no part of the key, so several presets share what they can.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_NOHASHDIR=1 "${CCACHE}")
endif()

add_library(babelring_flags INTERFACE)
# -Wrestrict: g++ 12 warns of its own std::string (GCC bug 105651).
target_compile_options(babelring_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow
                       -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual -Wcast-align
                       -Wno-missing-field-initializers -Wno-restrict $<$<BOOL:${BABELRING_WERROR}>:-Werror>>)
if(CMAKE_UNITY_BUILD)
  # In a unity build g++ takes sources for headers, in which it warns of coroutine frames with types of anonymous namespaces.
  target_compile_options(babelring_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  # Its collections of garbage take a tenth of the time of sources this long; without them it needs 1.6 GB instead of 1.2.
  target_compile_options(babelring_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=2000000>)
endif()
if(BABELRING_NATIVE)
  target_compile_options(babelring_flags INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<BOOL:$<TARGET_PROPERTY:BABELRING_KERNEL_SET>>>>:-march=native>)
endif()
target_compile_definitions(babelring_flags INTERFACE OMPI_SKIP_MPICXX)
target_include_directories(babelring_flags INTERFACE "${CMAKE_SOURCE_DIR}")
if(BABELRING_SANITIZE)
  target_compile_options(babelring_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${BABELRING_SANITIZE} -fno-omit-frame-pointer -g1>)
  target_link_options(babelring_flags INTERFACE -fsanitize=${BABELRING_SANITIZE})
  if(BABELRING_SANITIZE_WITHOUT)
    target_compile_options(babelring_flags INTERFACE
      $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=${BABELRING_SANITIZE_WITHOUT}>)
  endif()
endif()
