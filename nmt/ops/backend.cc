#include "nmt/ops/backend.h"

#include "base/failure.h"

namespace babelring {

void require_matmul(Backend& backend, DType precision, std::string_view way_out) {
  constexpr std::int64_t rows = 16, width = 32;
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::size_t>(elements) * size_of(precision); };
  const Buffer x = backend.allocate(bytes(rows * width)), weight = backend.allocate(bytes(width * width)),
               y = backend.allocate(bytes(rows * width));
  try {
    backend.run(LinearForward{.x = x.view({rows, width}, precision),
                              .weight = weight.view({width, width}, precision),
                              .bias = {},
                              .y = y.view({rows, width}, precision)});
    backend.synchronize();
  } catch (const Failure& failure) {
    fail("precision: {} has no matmul of {} ({}); use {}", backend.description(), name_of(precision), failure.what(),
         way_out);
  }
}

}  // namespace babelring
