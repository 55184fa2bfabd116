#include "nmt/ops/backend.h"

#include <vector>

#include "base/failure.h"

namespace babelring {

void require_matmul(Backend& backend, DType precision, std::string_view way_out) {
  constexpr std::int64_t rows = 16, width = 32;
  const DType type = precision == DType::int8 ? DType::f32 : precision;
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::size_t>(elements) * size_of(type); };
  const Buffer x = backend.allocate(bytes(rows * width)), weight = backend.allocate(bytes(width * width)),
               y = backend.allocate(bytes(rows * width));
  try {
    if (precision == DType::int8) {
      const std::vector<float> zeros(width * width);
      const QuantizedCopy quantized = quantize({zeros.data(), {width, width}, type}, "weight");
      backend.run(QuantizedLinear{
          .x = x.view({rows, width}, type), .weight = quantized.weight, .bias = {}, .y = y.view({rows, width}, type)});
    } else {
      backend.run(LinearForward{.x = x.view({rows, width}, type),
                                .weight = weight.view({width, width}, type),
                                .bias = {},
                                .y = y.view({rows, width}, type)});
    }
    backend.synchronize();
  } catch (const Failure& failure) {
    fail("precision: {} has no matmul of {} ({}); use {}", backend.description(), name_of(precision), failure.what(),
         way_out);
  }
}

}  // namespace babelring
