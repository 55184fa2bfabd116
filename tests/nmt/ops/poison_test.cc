#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tests/reference/emulated_cuda.h"

namespace babelring {
namespace {

std::vector<float> new_memory() {
  const auto backend = make_emulated_cuda_backend();
  const Buffer memory = backend->allocate(4 * sizeof(float));
  std::vector<float> values(4, 7.0f);
  backend->download(memory.view({4}, DType::f32), values.data());
  backend->synchronize();
  return values;
}

TEST(DeviceMemory, IsZeroUnlessTestsAskForNan) {
  EXPECT_EQ(new_memory(), std::vector<float>(4, 0.0f));
  ASSERT_EQ(setenv("BABELRING_CUDA_POISON", "1", 1), 0);
  for (const float value : new_memory()) EXPECT_TRUE(value != value) << value;
  unsetenv("BABELRING_CUDA_POISON");
}

}  // namespace
}  // namespace babelring
