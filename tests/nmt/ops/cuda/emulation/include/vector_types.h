#pragma once

/// CUDA's small structs, as the toolkit's header of this name has them.
struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  constexpr dim3(unsigned of_x = 1, unsigned of_y = 1, unsigned of_z = 1) : x(of_x), y(of_y), z(of_z) {}
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
