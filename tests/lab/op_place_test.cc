#include "lab/op_place.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "base/failure.h"
#include "nmt/model/transformer.h"
#include "nmt/optim/adam.h"
#include "tests/nmt/model/model_run.h"

namespace babelring {
namespace {

using testing::Contains;
using testing::IsSupersetOf;

/// One line for each op: phase, layer, op.
class Places final : public OpObserver {
 public:
  explicit Places(const ParameterStore& store) : place_(store) {}
  Watch watch() const override { return Watch::order; }
  void enter(const char* range) override { place_.enter(range); }
  void leave() override { place_.leave(); }
  void ran(const OpRun& run) override {
    lines.push_back(fmt::format("{} {} {}", place_.phase(), place_.layer(run), run.op));
    if (place_.layer(run).empty()) unnamed.push_back(lines.back());
    micro_batches.push_back(place_.micro_batch());
  }
  std::vector<std::string> lines, unnamed;
  std::vector<std::optional<int>> micro_batches;

 private:
  OpPlace place_;
};

TEST(OpPlace, NamesTheLayersOfATinyModel) {
  ModelRun run("cpu", small_config(NormPosition::pre, TiedEmbeddings::none, 0.1), 11);
  Places places(run.model().parameters());
  run.backend().observe(&places);
  for (int i = 0; i < 2; ++i) {
    const WorkRange range(run.backend(), "micro_batch");
    run.accumulate(pack(test_pairs()), 1);
  }
  run.backend().observe(nullptr);
  EXPECT_THAT(
      places.lines,
      IsSupersetOf(
          {"forward encoder.embedding embedding_forward", "forward encoder.0.attention_norm layer_norm_forward",
           "forward encoder.0.attention.qkv linear_forward", "forward encoder.0 attention_forward",
           "forward encoder.1.feed_forward.second linear_forward", "forward decoder.1.cross.key_value linear_forward",
           "forward decoder.norm layer_norm_forward", "output_loss output linear_forward",
           "output_loss output_loss cross_entropy", "output_loss output linear_backward_weight",
           "backward decoder.0 attention_backward", "backward encoder.0.attention.qkv linear_backward_weight",
           "backward encoder.embedding embedding_backward"}));
  EXPECT_TRUE(places.unnamed.empty()) << testing::PrintToString(places.unnamed);
  EXPECT_EQ(places.micro_batches.front(), 0);
  EXPECT_EQ(places.micro_batches.back(), 1);
}

TEST(OpPlace, AFlatArrayBelongsToNoLayer) {
  ModelRun run("cpu", small_config(NormPosition::pre, TiedEmbeddings::all, 0), 11);
  const ParameterStore& store = run.model().parameters();
  EXPECT_EQ(parameter_of(store, store.masters()), nullptr);
  EXPECT_EQ(parameter_of(store, ConstTensor()), nullptr);
  const Parameter& last = store.all().back();
  EXPECT_EQ(parameter_of(store, last.gradient), &last);
  EXPECT_EQ(parameter_of(store, last.compute), &last);
  Places places(store);
  run.backend().observe(&places);
  run.backend().run(Fill{.y = store.gradients(), .value = 0});
  {
    const WorkRange range(run.backend(), "optimizer");
    run.backend().run(Fill{.y = store.gradients(), .value = 0});
  }
  run.backend().observe(nullptr);
  EXPECT_EQ(places.lines, (std::vector<std::string>{"  fill", "optimizer optimizer fill"}));
  EXPECT_EQ(places.micro_batches.back(), std::nullopt);
}

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
