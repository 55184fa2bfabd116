#include "nmt/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/failure.h"
#include "nmt/model/transformer.h"

namespace babelring {
namespace {

class OtherModel : public Model {
 public:
  OtherModel() : Model(10, DType::f32) {}
  const char* kind() const override { return "another model"; }
  const Parameter* shared_table() const override { return nullptr; }
  ConstTensor add_gradients(Context&, const DeviceBatch&, float) const override { return {}; }
  LossSums evaluate(Context&, const DeviceBatch&, Tensor) const override { return {}; }
};

TEST(Model, IsTheTransformerOfItsConfiguration) {
  const auto backend = make_cpu_backend(1);
  const ModelConfig config{.encoder_layers = 1, .decoder_layers = 2, .width = 16, .heads = 2, .inner = 24};
  const std::unique_ptr<Model> model = make_model(config, 11, 0.1f, parameter_memory_of(*backend), DType::f32);
  const Transformer& transformer = require_transformer(*model);
  EXPECT_EQ(&transformer, model.get());
  EXPECT_EQ(transformer.decoder().size(), 2U);
  EXPECT_EQ(model->vocabulary(), 11);
  EXPECT_EQ(model->parameters().count(), count_parameters(config, 11));
}

TEST(Model, OfAnotherKindDoesNotTranslate) {
  EXPECT_THAT([] { require_transformer(OtherModel()); },
              testing::ThrowsMessage<UsageFailure>("translating needs a Transformer, found another model"));
}

}  // namespace
}  // namespace babelring
