#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nmt/ops/backend.h"
#include "nmt/ops/cuda_module.h"
#include "tests/reference/closed_backend.h"
#include "tests/reference/emulated_cuda.h"
#include "tests/reference/reference_backend.h"

namespace babelring {

/// The backends that layers and models are tested on. The host cannot access the memory of all but the first two.
inline const std::string test_backends[] = {"cpu", "reference", "closed", "emulated", "cuda"};

/// The backend of this name; null for cuda where there is no GPU.
inline std::unique_ptr<Backend> make_test_backend(const std::string& name) {
  if (name == "cpu") return make_cpu_backend(1);
  if (name == "reference") return make_reference_backend();
  if (name == "closed") return make_closed_backend();
  if (name == "emulated") return make_emulated_cuda_backend();
  return !find_cuda() ? nullptr : make_cuda_backend(0);
}

/// The names of the backends that this machine can run.
inline std::vector<std::string> available_backends() {
  std::vector<std::string> names(std::begin(test_backends), std::end(test_backends));
  if (!find_cuda()) names.pop_back();
  return names;
}

}  // namespace babelring
