#pragma once

#include <cuda_bf16.h>

/// The matrix units and what feeds them: instructions that CUDA C++ has no words for, and nothing else. Fragments
/// are laid out as PTX says of mma.m16n8k16 with bf16: with r = lane / 4 and c = lane % 4 * 2, a lane holds
/// a: (r, c) (r + 8, c) (r, c + 8) (r + 8, c + 8), two neighbouring columns each; b: rows (c, c + 1) and (c + 8, c + 9)
/// of column r; d: (r, c) (r, c + 1) (r + 8, c) (r + 8, c + 1). All lanes of a warp call together, but for copies.
namespace babelring::cuda {

/// d [16, 8] += a [16, 16] b [16, 8].
__device__ inline void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline unsigned shared_address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

/// Four matrices of 8 x 8 from shared memory: lane l names row l % 8 of matrix l / 8, 16 bytes at a multiple of 16. Of
/// each a lane gets columns c and c + 1 of row r.
__device__ inline void load_matrix_x4(unsigned (&r)[4], const void* shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(shared_row))
               : "memory");
}
/// The same of each matrix's transpose.
__device__ inline void load_matrix_x4_transposed(unsigned (&r)[4], const void* shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(shared_row))
               : "memory");
}

/// 16 bytes, both places multiples of 16; zeros unless `inside`, and `global` is not read then. There after
/// wait_copies(), for other threads after a barrier besides.
__device__ inline void copy_async_16(void* shared, const void* global, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(shared)), "l"(__cvta_generic_to_global(global)), "r"(inside ? 16 : 0)
               : "memory");
}
/// Ends a group of this thread's copies.
__device__ inline void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Until at most n of this thread's groups are under way.
template <int n>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

}  // namespace babelring::cuda
