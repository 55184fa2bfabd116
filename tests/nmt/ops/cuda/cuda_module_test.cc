#include "nmt/ops/cuda_module.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "base/failure.h"
#include "base/result.h"
#include "nmt/ops/backend.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(CudaModule, SaysThatTheBuildHasNone) {
  const Result<CudaDevices> devices = find_cuda_module({"/dev/null/libbabelring_cuda.so", "/dev/null/nor-this"});
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error(), "this build has no libbabelring_cuda.so");
}

TEST(CudaModule, SaysWhatTheLoaderSays) {
  std::string pattern = (fs::temp_directory_path() / "babelring-module-XXXXXX").string();
  const fs::path folder = mkdtemp(pattern.data());
  std::ofstream(folder / "broken.so") << "no library";
  const Result<CudaDevices> devices = open_cuda_module(folder / "broken.so");
  ASSERT_FALSE(devices);
  EXPECT_THAT(devices.error(), HasSubstr("broken.so"));
  EXPECT_EQ(devices.error().find('\n'), std::string::npos);
  fs::remove_all(folder);
}

/// Beside this program, wherever both were carried.
fs::path module_of_this_build() {
  return fs::read_symlink("/proc/self/exe").parent_path() / cuda_module_file;
}

TEST(CudaModule, RefusesAnotherLibrary) {
  const Result<CudaDevices> devices = open_cuda_module("libm.so.6");
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error(), "libm.so.6 is not a module of Babelring");
}

/// It is linked whole: all that it needs but NVIDIA's libraries is in it, and without a driver it answers.
TEST(CudaModule, OpensWhereNvidiasLibrariesAre) {
  const fs::path file = module_of_this_build();
  if (!fs::exists(file)) GTEST_SKIP() << "this build has no " << cuda_module_file;
  const Result<CudaDevices> devices = open_cuda_module(file);
  if (devices) {
    EXPECT_GT(devices->count, 0);
    return;
  }
  EXPECT_THAT(devices.error(), testing::AnyOf(HasSubstr("libcublasLt.so"), testing::StartsWith("there is no ")));
}

/// Whatever this machine has: devices, or one line that says why there are none.
TEST(CudaModule, FindsDevicesOrSaysWhyThereAreNone) {
  const Result<CudaDevices>& devices = find_cuda();
  if (devices) {
    EXPECT_GT(devices->count, 0);
    return;
  }
  EXPECT_NE(devices.error(), "");
  EXPECT_EQ(devices.error().find('\n'), std::string::npos);
  const bool built = fs::exists(module_of_this_build());
  EXPECT_EQ(devices.error() == "this build has no libbabelring_cuda.so", !built);
  try {
    make_cuda_backend(0);
    FAIL() << "a backend without a device";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.what(), devices.error());
  }
}

TEST(CudaModule, HasABackendOfEachDevice) {
  if (!find_cuda()) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  for (int device = 0; device < find_cuda()->count; ++device) {
    const auto backend = make_cuda_backend(device);
    EXPECT_THAT(backend->description(), HasSubstr("cuda (device " + std::to_string(device)));
    EXPECT_FALSE(backend->host_memory());
    const std::size_t more_than_any = std::size_t{1} << 50;
    try {
      backend->allocate(more_than_any);
      ADD_FAILURE() << "allocated a petabyte";
    } catch (const Failure& failure) {
      EXPECT_THAT(failure.what(), HasSubstr("out of memory on the GPU: 1125899906842624 bytes were needed"));
    }
    std::vector<float> values = {1, 2, 3}, back(3);
    const Buffer buffer = backend->allocate(12);
    const Tensor tensor = buffer.view({3}, DType::f32);
    backend->download(tensor, back.data());
    EXPECT_EQ(back, std::vector<float>(3, 0.0f));
    backend->upload(values.data(), tensor);
    backend->download(tensor, back.data());
    EXPECT_EQ(back, values);
  }
}

}  // namespace
}  // namespace babelring
