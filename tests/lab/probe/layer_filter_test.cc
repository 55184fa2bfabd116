#include "lab/probe/layer_filter.h"

#include <gmock/gmock.h>

#include "base/failure.h"
#include "nmt/model/transformer.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class LayerFilterTest : public testing::Test {
 protected:
  int taken(const std::string& list) const {
    const LayerFilter filter("--layers", list, store);
    const std::vector<std::string> layers = layers_of(store);
    return static_cast<int>(
        std::count_if(layers.begin(), layers.end(), [&](const std::string& layer) { return filter.takes(layer); }));
  }
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Transformer model{model_preset("transformer-tiny"), 50, 0, *backend, DType::f32};
  const ParameterStore& store = model.parameters();
};

TEST_F(LayerFilterTest, CountsFromBothEnds) {
  const int all = static_cast<int>(layers_of(store).size());
  EXPECT_EQ(taken("all"), all);
  EXPECT_EQ(taken("first10"), 10);
  EXPECT_EQ(taken("first10,last10"), 20);
  EXPECT_EQ(taken("last100000"), all);
  EXPECT_EQ(layers_of(store).front(), "embedding");
  EXPECT_EQ(layers_of(store).back(), "output") << "of the tied table";
}

TEST_F(LayerFilterTest, MatchesLayersAndRanges) {
  EXPECT_EQ(taken("encoder.0.*"), 6);
  const LayerFilter filter("--layers", "encoder.0,output_loss", store);
  EXPECT_TRUE(filter.takes("encoder.0"));
  EXPECT_TRUE(filter.takes("output_loss"));
  EXPECT_FALSE(filter.takes("encoder.0.attention.qkv"));
}

TEST_F(LayerFilterTest, NamesTheNearestLayer) {
  EXPECT_THAT([&] { taken("encoder.0.atention.qkv"); },
              ThrowsMessage<UsageFailure>(HasSubstr(
                  "--layers: 'encoder.0.atention.qkv' matches no layer; did you mean 'encoder.0.attention.qkv'?")));
  EXPECT_THAT([&] { taken("nothing.at.all*"); },
              ThrowsMessage<UsageFailure>(HasSubstr("layers are embedding, …, output")));
  EXPECT_THAT([&] { taken(""); }, ThrowsMessage<UsageFailure>(HasSubstr("expected all, firstN, lastN or globs")));
}

}  // namespace
}  // namespace babelring
