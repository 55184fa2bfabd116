#include "nmt/ops/adam.h"

#include "tests/ops/op_fixture.h"

namespace babelring {
namespace {

class AdamTest : public OpTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, AdamTest, precisions, precision_name);

TEST_P(AdamTest, EqualsReferenceOverSteps) {
  for (const std::int64_t count : {1, 17, 10007}) {
    AdamUpdate op{.master = tensors.normal({count}, DType::f32),
                  .gradient = tensors.normal({count}, DType::f32),
                  .m = tensors.zeros({count}, DType::f32),
                  .v = tensors.zeros({count}, DType::f32),
                  .compute = type() == DType::bf16 ? tensors.zeros({count}, DType::bf16) : Tensor{},
                  .gradient_scale = 0.5f,
                  .learning_rate = 0.01f,
                  .weight_decay = 0.1f};
    for (op.step = 1; op.step <= 3; ++op.step) {
      expect_as_reference(op, {&AdamUpdate::master, &AdamUpdate::m, &AdamUpdate::v, &AdamUpdate::compute});
    }
  }
}

TEST(SquaredNorm, EqualsReferenceAndShowsNonFiniteElements) {
  Tensors tensors;
  const auto cpu = make_cpu_backend(2), truth = make_reference_backend();
  for (const std::int64_t count : {0, 1, 17, 100003}) {
    const Tensor x = tensors.normal({count}, DType::f32);
    const Tensor found = tensors.zeros({1}, DType::f32), expected = tensors.zeros({1}, DType::f32);
    cpu->run(SquaredNorm{.x = x, .sum = found});
    truth->run(SquaredNorm{.x = x, .sum = expected});
    EXPECT_LE(relative_error(found, expected), 1e-6);
    if (count == 0) continue;
    x.as<float>()[count / 2] = NAN;
    cpu->run(SquaredNorm{.x = x, .sum = found});
    EXPECT_FALSE(std::isfinite(*found.as<float>()));
  }
}

}  // namespace
}  // namespace babelring
