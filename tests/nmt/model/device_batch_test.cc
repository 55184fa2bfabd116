#include "nmt/model/device_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "nmt/data/text_source.h"
#include "nmt/layers/context.h"
#include "nmt/model/transformer.h"
#include "nmt/ops/cross_entropy.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

Corpus mixed_corpus(std::int64_t sentences) {
  return make_synthetic({.sentences = sentences, .vocabulary_size = 32, .min_length = 1, .max_length = 40, .seed = 5});
}

std::vector<PackedBatch> batches_of(const Corpus& corpus, std::int64_t tokens_per_update, int updates) {
  const TextSource source(corpus, {.tokens_per_update = tokens_per_update});
  std::vector<PackedBatch> batches;
  DataPosition position;
  for (int update = 1; update <= updates; ++update) {
    const UpdateBatches of_update = source.make(update, position, {});
    position = of_update.next;
    batches.push_back(of_update.micro_batches.at(0));
  }
  return batches;
}

TEST(PaddedBatch, AppendsShortSentences) {
  const Corpus corpus = mixed_corpus(500);
  for (const PackedBatch& batch : batches_of(corpus, 700, 10)) {
    const PackedBatch padded = padded_batch(batch);
    EXPECT_EQ(padded.source.tokens(), padded_rows(batch.source.tokens()));
    EXPECT_EQ(padded.target_in.tokens(), padded_rows(batch.target_in.tokens()));
    EXPECT_EQ(padded.source.sentences(), padded.target_in.sentences());
    EXPECT_EQ(padded.source.sentences(), padded_sentences(padded.source.sentences()));
    EXPECT_EQ(padded.first_source_row, batch.first_source_row);
    EXPECT_TRUE(std::equal(batch.source.ids.begin(), batch.source.ids.end(), padded.source.ids.begin()));
    EXPECT_TRUE(std::equal(batch.target_out.begin(), batch.target_out.end(), padded.target_out.begin()));
    for (std::size_t i = batch.target_out.size(); i < padded.target_out.size(); ++i) {
      EXPECT_EQ(padded.target_out[i], CrossEntropy::no_target);
    }
    for (const PackedSequences* side : {&padded.source, &padded.target_in}) {
      EXPECT_EQ(side->offsets.back(), side->tokens());
      for (auto s = static_cast<std::size_t>(batch.source.sentences()); s + 1 < side->offsets.size(); ++s) {
        EXPECT_GE(side->offsets[s + 1], side->offsets[s]);
        EXPECT_LE(side->offsets[s + 1] - side->offsets[s], 32);
      }
    }
  }
  EXPECT_EQ(padded_batch(PackedBatch()).source.sentences(), 0) << "nothing to train on";
}

TEST(PaddedBatch, RoundsToFewSizes) {
  for (const std::int64_t count : {1, 63, 64}) EXPECT_EQ(padded_rows(count), count);
  EXPECT_EQ(padded_rows(65), 66);
  EXPECT_EQ(padded_rows(24'600), 25'088);
  EXPECT_EQ(padded_rows(25'000), 25'088);
  EXPECT_EQ(padded_sentences(15), 15);
  EXPECT_EQ(padded_sentences(850), 896);
}

/// Updates of shuffled text have so few distinct sizes that almost every pass can be replayed.
TEST(PaddedBatch, RealTextGivesFewSizes) {
  const Corpus corpus = mixed_corpus(100'000);
  std::map<std::array<std::int64_t, 3>, int> sizes;
  constexpr int updates = 400;
  for (const PackedBatch& batch : batches_of(corpus, 4096, updates)) {
    const PackedBatch padded = padded_batch(batch);
    ++sizes[{padded.source.tokens(), padded.target_in.tokens(), padded.source.sentences()}];
  }
  EXPECT_LE(sizes.size(), 16U);
}

/// Padding tokens have no links, and the number of links follows from that of the tokens.
TEST(PaddedBatch, KeepsLinksAndPadsTheirNumber) {
  const Corpus corpus = make_synthetic(
      {.task = SyntheticTask::reverse, .sentences = 300, .min_length = 1, .max_length = 40, .links = true});
  for (const PackedBatch& batch : batches_of(corpus, 700, 10)) {
    ASSERT_EQ(batch.links.offsets.size(), batch.target_out.size() + 1);
    EXPECT_EQ(std::ssize(batch.links.sources), batch.target_in.tokens() - batch.target_in.sentences());
    const PackedLinks padded = padded_batch(batch).links;
    EXPECT_EQ(std::ssize(padded.sources), 2 * padded_rows(batch.target_in.tokens()));
    EXPECT_EQ(std::ssize(padded.offsets), padded_rows(batch.target_in.tokens()) + 1);
    EXPECT_EQ(padded.offsets.back(), batch.links.offsets.back());
    EXPECT_TRUE(std::equal(batch.links.sources.begin(), batch.links.sources.end(), padded.sources.begin()));
  }
}

/// Runs forward and backward passes of a small model on a backend.
class Passes {
 public:
  explicit Passes(std::unique_ptr<Backend> backend, DType type = DType::f32)
      : backend_(std::move(backend)), type_(type), model_(config(), 32, 0.1f, *backend_, type), arenas_(*backend_) {
    model_.initialize(*backend_, 3);
    model_.set_guided_alignment(0.5f);  // for batches with links
    arenas_.reserve({.saved = 64 << 20, .scratch = 64 << 20});
  }

  struct Result {
    LossSums loss;
    std::vector<float> gradients;
    bool operator==(const Result& other) const {
      return loss.loss == other.loss.loss && loss.nll == other.loss.nll && loss.alignment == other.loss.alignment &&
             gradients == other.gradients;
    }
  };

  /// Forward and backward of one batch. With `calls`, runs the pass through Backend::repeat() and adds the number of
  /// times that its work function was called.
  Result run(const PackedBatch& batch, std::uint64_t seed, std::int64_t padding, int* calls = nullptr) {
    Context context = arenas_.begin(type_);
    context.training = true;
    context.accumulate = false;
    context.dropout_seed = seed;
    const DeviceBatch on_device(*backend_, context.saved, batch);
    const float scale = 1.0f / static_cast<float>(on_device.target.tokens() - padding);
    std::optional<Arena::Scope> kept;
    const auto work = [&] {
      if (calls != nullptr) ++*calls;
      kept.reset();
      kept.emplace(context.saved);
      return model_.add_gradients(context, on_device, scale);
    };
    const FetchedLosses losses(*backend_, calls != nullptr ? backend_->repeat(work) : work(), padding);
    Result result{.loss = {},
                  .gradients = std::vector<float>(static_cast<std::size_t>(model_.parameters().flat_size()))};
    backend_->download(model_.parameters().gradients(), result.gradients.data());
    result.loss = losses.sums();
    return result;
  }

 private:
  static ModelConfig config() {
    return {.encoder_layers = 1,
            .decoder_layers = 1,
            .width = 16,
            .heads = 2,
            .inner = 32,
            .dropout = 0.1,
            .attention_dropout = 0.1,
            .activation_dropout = 0.1};
  }
  std::unique_ptr<Backend> backend_;
  DType type_;
  Transformer model_;
  ActivationArenas arenas_;
};

TEST(PaddedBatch, KeepsLossAndGradients) {
  const Corpus corpus = mixed_corpus(200);
  Passes passes(make_cpu_backend(1));
  for (const PackedBatch& batch : batches_of(corpus, 300, 3)) {
    const PackedBatch padded = padded_batch(batch);
    const Passes::Result plain = passes.run(batch, 7, 0);
    const Passes::Result with = passes.run(padded, 7, padded.target_in.tokens() - batch.target_in.tokens());
    EXPECT_EQ(with.loss.tokens, plain.loss.tokens);
    EXPECT_NEAR(with.loss.loss, plain.loss.loss, 1e-5 * plain.loss.loss);
    EXPECT_EQ(with.loss.correct, plain.loss.correct);
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < plain.gradients.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(plain.gradients[i])));
      difference = std::max(difference, std::abs(static_cast<double>(plain.gradients[i] - with.gradients[i])));
    }
    EXPECT_LE(difference, 1e-5 * largest);
  }
}

/// One side of a batch: twelve random sentences of 9 to 12 tokens, `tokens` in total.
PackedSequences sentences_of(std::int64_t tokens, Random& random) {
  std::vector<std::int64_t> lengths(12, tokens / 12);
  for (std::int64_t i = 0; i < tokens % 12; ++i) ++lengths[static_cast<std::size_t>(i)];
  for (std::size_t i = 0; i < 12; i += 2) {
    const auto moved = static_cast<std::int64_t>(random.below(2));
    lengths[i] += moved, lengths[i + 1] -= moved;
  }
  PackedSequences side;
  for (const std::int64_t length : lengths) {
    for (std::int64_t i = 0; i < length; ++i) side.ids.push_back(3 + static_cast<std::int32_t>(random.below(29)));
    side.offsets.push_back(static_cast<std::int32_t>(side.ids.size()));
  }
  return side;
}

class RepeatedPasses : public testing::TestWithParam<std::tuple<const char*, DType>> {};
INSTANTIATE_TEST_SUITE_P(Devices, RepeatedPasses,
                         testing::Combine(testing::Values("emulated", "cuda"),
                                          testing::Values(DType::f32, DType::bf16)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" +
                                  std::string(name_of(std::get<1>(test.param)));
                         });

/// Passes of equal sizes with all kinds of dropout and different sentences, first rows, seeds and scales. A replayed
/// recording must give the same bits as a direct call.
TEST_P(RepeatedPasses, GiveTheSameBitsForOtherSentences) {
  const auto& [device, type] = GetParam();
  if (make_test_backend(device) == nullptr) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  Passes repeated(make_test_backend(device), type), given(make_test_backend(device), type);
  Random random(11);
  for (int update = 0; update < 5; ++update) {
    PackedBatch batch{.source = sentences_of(127, random),
                      .target_in = sentences_of(update % 2 == 0 ? 125 : 126, random),
                      .first_source_row = 10 * update,
                      .first_target_row = 20 * update};
    batch.target_out = batch.target_in.ids;
    batch.links.offsets = {0};
    for (std::size_t row = 0; row < batch.target_out.size(); ++row) {
      if (random.below(4) > 0) batch.links.sources.push_back(static_cast<std::int32_t>(random.below(9)));
      batch.links.offsets.push_back(static_cast<std::int32_t>(batch.links.sources.size()));
    }
    const PackedBatch padded = padded_batch(batch);
    const std::int64_t padding = padded.target_in.tokens() - batch.target_in.tokens();
    const auto seed = static_cast<std::uint64_t>(update);
    int calls = 0;
    const Passes::Result as_one = repeated.run(padded, seed, padding, &calls);
    EXPECT_EQ(calls, update < 2 ? 2 : 1) << "update " << update;
    EXPECT_EQ(as_one, given.run(padded, seed, padding)) << "update " << update;
  }
}

}  // namespace

}  // namespace babelring
