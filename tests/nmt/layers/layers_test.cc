#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "nmt/layers/attention.h"
#include "nmt/layers/embedding.h"
#include "nmt/layers/linear.h"
#include "nmt/layers/output_projection_loss.h"
#include "nmt/layers/transformer_layers.h"
#include "tests/nmt/layers/gradient_check.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

using Lengths = std::vector<std::int32_t>;

std::int64_t total(const Lengths& lengths) {
  std::int64_t sum = 0;
  for (const std::int32_t length : lengths) sum += length;
  return sum;
}

/// Gradient checks of all layers on each backend.
class Layers : public testing::TestWithParam<std::string> {
 protected:
  Layers() : backend_(make_test_backend(GetParam())) {}
  void SetUp() override {
    if (backend_ == nullptr) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  }
  Backend& backend() { return *backend_; }

 private:
  std::unique_ptr<Backend> backend_;
};

INSTANTIATE_TEST_SUITE_P(Backends, Layers, testing::ValuesIn(test_backends),
                         [](const auto& parameter) { return parameter.param; });

TEST_P(Layers, Linear) {
  for (const bool bias : {false, true}) {
    for (const Shape& shape : {Shape{1, 1, 1}, Shape{7, 3, 5}, Shape{13, 16, 31}}) {
      GradientCheck check(backend());
      const Linear layer(check.store(), "linear", shape[1], shape[2], bias, Initializer::normal(1));
      check.allocate();
      const auto& x = check.input(Shape{shape[0], shape[1]});
      check.run([&](Context& c) { return layer.forward(c, c.saved, x.value); },
                [&](Context& c, Tensor dy) { layer.backward(c, dy, x.value, x.gradient); });
    }
  }
}

TEST_P(Layers, FusedLinear) {
  for (const bool bias : {false, true}) {
    GradientCheck check(backend());
    const Linear first(check.store(), "first", 6, 10, bias, Initializer::normal(1));
    const Linear second(check.store(), "second", 6, 10, bias, Initializer::normal(1));
    check.allocate();
    ASSERT_NE(first.weight().offset + 60, second.weight().offset) << "not below one another as they are";
    const FusedLinear joined({&first, &second});
    const auto& x = check.input(Shape{7, 6});
    FusedLinear::Saved saved;
    check.run([&](Context& c) { return joined.forward(c, x.value, saved); },
              [&](Context& c, Tensor dy) {
                first.backward_parameters(c, dy.column_slice(0, 10), x.value);
                second.backward_parameters(c, dy.column_slice(10, 10), x.value);
                joined.backward_data(c, dy, saved, x.gradient);
              });
  }
}

TEST_P(Layers, LinearRowsEqualTheWhole) {
  GradientCheck check(backend());
  const Linear layer(check.store(), "linear", 6, 11, true, Initializer::normal(1));
  check.allocate();
  const auto& x = check.input(Shape{5, 6});
  Context c = check.context();
  const std::vector<float> whole = host_copy(backend(), layer.forward(c, c.saved, x.value));
  const Tensor part = c.saved.make(Shape{5, 4}, DType::f32);
  layer.forward_rows(c, x.value, 3, part);
  const std::vector<float> rows = host_copy(backend(), part);
  for (std::size_t r = 0; r < 5; ++r) {
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(rows[r * 4 + i], whole[r * 11 + 3 + i], 1e-5);
  }
}

/// cuBLASLt reads the bias in the result's type. Masters and compute copies have different values here, so the result
/// shows which was read.
TEST(LinearBias, IsReadInTheTypeOfTheWeights) {
  const auto backend = make_emulated_cuda_backend();
  const auto allocate = [&](std::size_t bytes) { return backend->allocate(bytes); };
  ParameterStore store;
  const Linear layer(store, "linear", 8, 16, true, Initializer::zeros());
  store.allocate({.weights = allocate, .gradients = {}}, DType::bf16);
  backend->run(Fill{.y = store.compute_copies(), .value = 2});
  Arena saved(allocate), scratch(allocate);
  Context c{.backend = *backend, .saved = saved, .scratch = scratch, .dtype = DType::bf16};
  const Tensor x = saved.make({3, 8}, DType::bf16), y = saved.make({3, 8}, DType::bf16);
  backend->run(Fill{.y = x, .value = 0});
  layer.forward_rows(c, x, 8, y);
  for (const Tensor& result : {layer.forward(c, saved, x), y}) {
    const Tensor wide = saved.make(result.shape, DType::f32);
    backend->run(Cast{.x = result, .y = wide});
    for (const float value : host_copy(*backend, wide)) EXPECT_EQ(value, 2);
  }
}

LayerOptions feed_forward_options(Activation activation, float dropout) {
  return {.attention = {.width = 6}, .inner = 13, .activation = activation, .activation_dropout = dropout};
}

TEST_P(Layers, Norm) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    for (const Shape& shape : {Shape{1, 2}, Shape{7, 5}, Shape{3, 64}}) {
      GradientCheck check(backend());
      const Norm layer(check.store(), "norm", shape[1], {.kind = kind});
      check.allocate();
      EXPECT_EQ(check.store().all().size(), kind == NormKind::layer ? 2U : 1U);
      const auto& x = check.input(shape);
      Norm::Saved saved;
      check.run([&](Context& c) { return layer.forward(c, x.value, saved); },
                [&](Context& c, Tensor dy) { layer.backward(c, dy, saved, x.gradient, false); });
    }
  }
}

/// A row whose elements are equal has a variance of 0.
TEST_P(Layers, NormAddsItsEpsilonToTheVariance) {
  GradientCheck check(backend());
  const Norm layer(check.store(), "norm", 8, {.epsilon = 0.04f});
  check.allocate();
  Context c = check.context();
  const Tensor x = c.saved.make(Shape{1, 8}, DType::f32);
  backend().run(Fill{.y = x, .value = 3});
  Norm::Saved saved;
  layer.forward(c, x, saved);
  EXPECT_NEAR(host_copy(backend(), saved.rstd)[0], 5, 1e-5);
  layer.forward_sum(c, x, x, {}, saved);
  EXPECT_NEAR(host_copy(backend(), saved.rstd)[0], 5, 1e-5);
}

TEST_P(Layers, FeedForward) {
  for (const Activation activation : {Activation::relu, Activation::swish, Activation::gelu, Activation::swiglu}) {
    for (const auto& [rows, dropout] : {std::pair{1, 0.0f}, {11, 0.0f}, {1, 0.3f}, {11, 0.3f}}) {
      GradientCheck check(backend(), true);
      const FeedForward layer(check.store(), "ffn", feed_forward_options(activation, dropout), 5);
      check.allocate();
      const auto& x = check.input(Shape{rows, 6});
      FeedForward::Saved saved;
      check.run([&](Context& c) { return layer.forward(c, x.value, 17, saved); },
                [&](Context& c, Tensor dy) { layer.backward(c, dy, saved, x.gradient); });
      EXPECT_EQ(static_cast<bool>(saved.z), activation != Activation::relu);
    }
  }
}

/// Notes how ops write a tensor.
struct WriterLog : OpObserver {
  explicit WriterLog(const Tensor& tensor) : place(tensor.data) {}
  Watch watch() const override { return Watch::order; }
  void ran(const OpRun& run) override {
    for (const OpField& field : run.fields) {
      if (field.tensor.data == place && field.access != Access::reads) writers.emplace_back(run.op, field.access);
    }
  }
  const void* place;
  std::vector<std::pair<std::string, Access>> writers;
};

TEST_P(Layers, FeedForwardSumsTheFirstBiasGradientOnceWhereTheBackendPrefers) {
  for (const bool accumulate : {false, true}) {
    GradientCheck check(backend(), true);
    const FeedForward layer(check.store(), "ffn", feed_forward_options(Activation::relu, 0), 5);
    check.allocate();
    const auto& x = check.input(Shape{11, 6});
    Context c = check.context();
    c.accumulate = accumulate;
    std::vector<std::string> ready;
    c.gradient_ready = [&](const Parameter& parameter) { ready.push_back(parameter.name); };
    FeedForward::Saved saved;
    const Tensor y = layer.forward(c, x.value, 0, saved);
    const Parameter& bias = check.store().all()[1];
    ASSERT_EQ(bias.name, "ffn.first.bias");
    WriterLog log(bias.gradient);
    backend().observe(&log);
    layer.backward(c, y, saved, x.gradient);
    backend().observe(nullptr);
    const bool with_gate = backend().prefers_fused_bias_gradients();
    const std::string op(with_gate ? LinearBackwardData::name : LinearBackwardWeight::name);
    EXPECT_EQ(log.writers, (std::vector{std::pair{op, accumulate ? Access::updates : Access::writes}}));
    EXPECT_EQ(ready, (std::vector<std::string>{"ffn.second.bias", "ffn.second.weight", bias.name, "ffn.first.weight"}));
    EXPECT_EQ(with_gate, GetParam() == "reference" || GetParam() == "emulated" || GetParam() == "cuda");
  }
}

TEST_P(Layers, SelfAttention) {
  for (const float dropout : {0.0f, 0.3f}) {
    for (const bool causal : {false, true}) {
      for (const Lengths& lengths : {Lengths{3}, Lengths{1, 7, 2}, Lengths{5, 13}}) {
        GradientCheck check(backend(), true);
        const SelfAttention layer(check.store(), "self", {.width = 12, .heads = 3, .dropout = dropout, .bias = causal},
                                  causal, 5);
        check.allocate();
        const Sequences sequences = check.sequences(lengths, 23);
        const auto& x = check.input(Shape{total(lengths), 12});
        SelfAttention::Saved saved;
        check.run([&](Context& c) { return layer.forward(c, x.value, sequences, saved); },
                  [&](Context& c, Tensor dy) { layer.backward(c, dy, saved, x.gradient); });
      }
    }
  }
}

TEST_P(Layers, SelfAttentionWithRotaryPositions) {
  for (const auto& [lengths, causal] : {std::pair{Lengths{1, 7, 2}, false}, {Lengths{5, 13}, true}}) {
    GradientCheck check(backend(), true);
    const SelfAttention layer(check.store(), "self", {.width = 12, .heads = 3, .rotary = true}, causal, 5);
    check.allocate();
    const Sequences sequences = check.sequences(lengths, 23);
    const auto& x = check.input(Shape{total(lengths), 12});
    SelfAttention::Saved saved;
    check.run([&](Context& c) { return layer.forward(c, x.value, sequences, saved); },
              [&](Context& c, Tensor dy) { layer.backward(c, dy, saved, x.gradient); });
  }
}

TEST_P(Layers, CrossAttention) {
  for (const float dropout : {0.0f, 0.3f}) {
    const Lengths targets = {3, 1, 7};
    const Lengths sources = {5, 2, 1};
    GradientCheck check(backend(), true);
    const CrossAttention layer(check.store(), "cross", {.width = 10, .heads = 2, .dropout = dropout, .bias = true}, 5);
    check.allocate();
    const Sequences target = check.sequences(targets, 3), source = check.sequences(sources, 4);
    const auto& x = check.input(Shape{total(targets), 10});
    const auto& memory = check.input(Shape{total(sources), 10});
    CrossAttention::Saved saved;
    check.run([&](Context& c) { return layer.forward(c, x.value, target, memory.value, source, saved); },
              [&](Context& c, Tensor dy) {
                c.backend.run(Fill{.y = memory.gradient, .value = 0});
                layer.backward(c, dy, saved, x.gradient, memory.gradient);
              });
  }
}

TEST_P(Layers, Embedding) {
  for (const auto& options : {EmbeddingOptions{}, {0.3f}, {0.3f, 4, true}, {.dropout = 0.3f, .sinusoids = false}}) {
    GradientCheck check(backend(), true);
    const Embedding layer(Embedding::declare_table(check.store(), "table", 7, 6), options, 5);
    check.allocate();
    Sequences sequences = check.sequences({4, 1, 3}, 9);
    sequences.ids = check.ids({6, 0, 3, 3, 1, 3, 6, 2});
    Embedding::Saved saved;
    check.run([&](Context& c) { return layer.forward(c, sequences, saved); },
              [&](Context& c, Tensor dy) { layer.backward(c, dy, saved); });
  }
}

struct LayerCase {
  NormPosition norm;
  float dropout;
};

const std::vector<LayerCase> layer_cases = {
    {NormPosition::pre, 0}, {NormPosition::post, 0}, {NormPosition::pre, 0.25f}, {NormPosition::post, 0.25f}};

LayerOptions options_of(const LayerCase& c) {
  return {.attention = {.width = 8, .heads = 2, .dropout = c.dropout, .bias = c.norm == NormPosition::post},
          .inner = 11,
          .norm = c.norm,
          .dropout = c.dropout,
          .activation_dropout = c.dropout};
}

/// With dropout and the norm after the sum, the norm's backward writes the gradients of the sub-layers' outputs.
TEST_P(Layers, EncoderLayerSumsEachOutputBiasGradientOnceWhereTheBackendPrefers) {
  GradientCheck check(backend(), true);
  const EncoderLayer layer(check.store(), "encoder.0", options_of({NormPosition::post, 0.25f}), 100);
  check.allocate();
  const Sequences sequences = check.sequences({4, 7}, 3);
  const auto& x = check.input(Shape{11, 8});
  for (const Parameter& parameter : check.store().all()) {
    if (!parameter.name.ends_with("output.bias") && !parameter.name.ends_with("second.bias")) continue;
    Context c = check.context();
    EncoderLayer::Saved saved;
    layer.forward(c, x.value, sequences, saved);
    backend().run(Fill{.y = x.gradient, .value = 1});
    WriterLog log(parameter.gradient);
    backend().observe(&log);
    layer.backward(c, x.gradient, saved);
    backend().observe(nullptr);
    const bool fused = backend().prefers_fused_bias_gradients();
    const std::string op(fused ? LayerNormBackward::name : LinearBackwardWeight::name);
    EXPECT_EQ(log.writers, (std::vector{std::pair{op, Access::updates}})) << parameter.name;
  }
}

TEST_P(Layers, EncoderLayer) {
  for (const LayerCase& layer_case : layer_cases) {
    const Lengths lengths = {2, 1, 5};
    GradientCheck check(backend(), true);
    const EncoderLayer layer(check.store(), "encoder.0", options_of(layer_case), 100);
    check.allocate();
    const Sequences sequences = check.sequences(lengths, 31);
    const auto& x = check.input(Shape{total(lengths), 8});
    EncoderLayer::Saved saved;
    check.run([&](Context& c) { return layer.forward(c, x.value, sequences, saved); },
              [&](Context& c, Tensor dy) {
                c.backend.run(Fill{.y = x.gradient, .value = 0});
                c.backend.run(Add{.x = dy, .y = x.gradient});
                layer.backward(c, x.gradient, saved);
              });
  }
}

TEST_P(Layers, DecoderLayerWithPrecomputedKeysAndValues) {
  for (const LayerCase& layer_case : layer_cases) {
    const Lengths targets = {3, 1, 4};
    const Lengths sources = {1, 5, 2};
    GradientCheck check(backend(), true);
    const DecoderLayer layer(check.store(), "decoder.0", options_of(layer_case), 100);
    check.allocate();
    const FusedLinear joined({&layer.key_value()});
    const Sequences target = check.sequences(targets, 31), source = check.sequences(sources, 17);
    const auto& x = check.input(Shape{total(targets), 8});
    const auto& memory = check.input(Shape{total(sources), 8});
    DecoderLayer::Saved saved;
    FusedLinear::Saved key_value;
    check.run(
        [&](Context& c) {
          const Tensor kv = joined.forward(c, memory.value, key_value);
          return layer.forward(c, x.value, target, memory.value, source, saved, kv);
        },
        [&](Context& c, Tensor dy) {
          c.backend.run(Fill{.y = x.gradient, .value = 0});
          c.backend.run(Add{.x = dy, .y = x.gradient});
          const Tensor dkv = c.saved.make(key_value.y.shape, DType::f32);
          layer.backward(c, x.gradient, saved, Tensor(), dkv);
          joined.backward_data(c, dkv, key_value, memory.gradient);
        });
  }
}

TEST_P(Layers, DecoderLayer) {
  for (const LayerCase& layer_case : layer_cases) {
    const Lengths targets = {3, 1, 4};
    const Lengths sources = {1, 5, 2};
    GradientCheck check(backend(), true);
    const DecoderLayer layer(check.store(), "decoder.0", options_of(layer_case), 100);
    check.allocate();
    const Sequences target = check.sequences(targets, 31), source = check.sequences(sources, 17);
    const auto& x = check.input(Shape{total(targets), 8});
    const auto& memory = check.input(Shape{total(sources), 8});
    DecoderLayer::Saved saved;
    check.run([&](Context& c) { return layer.forward(c, x.value, target, memory.value, source, saved); },
              [&](Context& c, Tensor dy) {
                c.backend.run(Fill{.y = memory.gradient, .value = 0});
                c.backend.run(Fill{.y = x.gradient, .value = 0});
                c.backend.run(Add{.x = dy, .y = x.gradient});
                layer.backward(c, x.gradient, saved, memory.gradient);
              });
  }
}

// The loss is a scalar, so w is a single number. It is passed as gradient_scale.
TEST_P(Layers, OutputProjectionLoss) {
  for (const std::int64_t rows :
       {1, 13, 257, 600}) {  // the last two need two and three chunks on the reference backend
    GradientCheck check(backend());
    const std::string name = "output";
    const Parameter& table = Embedding::declare_table(check.store(), name, 9, 4);
    const Parameter* bias = rows == 13 || rows == 600 ? &OutputProjectionLoss::declare_bias(check.store(), 9) : nullptr;
    const OutputProjectionLoss layer(table, bias, 0.1f);
    check.allocate();
    const auto& hidden = check.input(Shape{rows, 4});
    std::vector<std::int32_t> wanted;
    for (std::int64_t row = 0; row < rows; ++row) wanted.push_back(static_cast<std::int32_t>(row * 5 % 9));
    const Tensor targets = check.ids(wanted);
    check.run(
        [&](Context& c) {
          const FetchedLosses losses(c.backend, layer.run(c, hidden.value, targets, 0, Tensor()));
          c.backend.synchronize();
          const LossSums sums = losses.sums();
          EXPECT_EQ(sums.tokens, static_cast<double>(rows));
          const auto mean = static_cast<float>(sums.loss / sums.tokens);
          const Tensor y = c.saved.make(Shape{1}, DType::f32);
          c.backend.upload(&mean, y);
          return y;
        },
        [&](Context& c, Tensor dy) {
          const float w = host_copy(c.backend, dy).front();
          layer.run(c, hidden.value, targets, w / static_cast<float>(rows), hidden.gradient);
        });
  }
}

TEST_P(Layers, DropoutIsOffOutsideTraining) {
  GradientCheck check(backend(), false);
  const FeedForward with(check.store(), "a", feed_forward_options(Activation::relu, 0.5f), 5);
  check.allocate();
  const auto& x = check.input(Shape{5, 6});
  FeedForward::Saved saved;
  check.run([&](Context& c) { return with.forward(c, x.value, 0, saved); },
            [&](Context& c, Tensor dy) { with.backward(c, dy, saved, x.gradient); });
  EXPECT_EQ(saved.dropout.probability, 0);
}

}  // namespace
}  // namespace babelring
