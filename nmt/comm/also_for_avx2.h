#pragma once

// Compiles a function a second time for AVX2; the linker chooses at the start. The sanitizers are not ready by then.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define BABELRING_ALSO_FOR_AVX2 [[gnu::target_clones("avx2", "default")]]
#else
#define BABELRING_ALSO_FOR_AVX2
#endif
