#include "nmt/decode/pair_scorer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "nmt/data/batch_plan.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/decode/tiny_model.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Unequal lengths, empty lines on either side and on both, primes.
const std::vector<std::size_t> source_lengths = {5, 1, 13, 0, 7, 2, 0, 3, 11};
const std::vector<std::size_t> target_lengths = {3, 0, 17, 5, 7, 1, 0, 2, 13};
constexpr std::int64_t all_at_once = 1000;

LinePairs made_up_pairs(std::int64_t vocabulary) {
  return {.sources = std::vector<std::string>(source_lengths.size()),
          .targets = std::vector<std::string>(source_lengths.size()),
          .source_ids = made_up_sources(source_lengths, vocabulary, 3),
          .target_ids = made_up_sources(target_lengths, vocabulary, 4)};
}

std::vector<std::vector<float>> scores_of(const Transformer& model, Backend& backend, const LinePairs& pairs,
                                          std::int64_t batch_tokens) {
  ActivationArenas arenas(backend);
  return PairScorer(model, backend, arenas, batch_tokens).score(pairs);
}

/// The log-probabilities of the targets of a batch, from logits.
std::vector<double> by_logits(const Transformer& model, Backend& backend, const PackedBatch& batch) {
  ActivationArenas arenas(backend);
  Context context = arenas.begin(model.compute_dtype());
  const DeviceBatch on_device(backend, context.saved, batch);
  const Tensor logits = model.teacher_forced_logits(context, on_device.source, on_device.target);
  const auto width = static_cast<std::size_t>(model.vocabulary());
  std::vector<float> values(batch.target_out.size() * width);
  backend.download(logits, values.data());
  std::vector<double> found;
  for (std::size_t row = 0; row < batch.target_out.size(); ++row) {
    const float* first = values.data() + row * width;
    double sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += std::exp(static_cast<double>(first[i]));
    found.push_back(static_cast<double>(first[batch.target_out[row]]) - std::log(sum));
  }
  return found;
}

class PairScorerOn : public testing::TestWithParam<std::string> {};

TEST_P(PairScorerOn, GivesTheLogProbabilityOfEachToken) {
  const auto backend = make_test_backend(GetParam());
  for (const ModelConfig& model :
       {TinyModel::config(NormPosition::pre), TinyModel::config(NormPosition::post), TinyModel::modern()}) {
    const TinyModel tiny(*backend, model);
    const LinePairs pairs = made_up_pairs(23);
    const Corpus corpus = Corpus::from_memory(pairs.source_ids, pairs.target_ids);
    const auto scores = scores_of(tiny.transformer, *backend, pairs, 20);
    ASSERT_EQ(scores.size(), pairs.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const auto place = static_cast<std::int64_t>(i);
      const auto expected =
          by_logits(tiny.transformer, *backend, sequential_batches(corpus, place, place + 1, 1).at(0));
      ASSERT_EQ(scores[i].size(), target_lengths[i] + 1);
      for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(scores[i][k], expected[k], 2e-4) << i << " " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, PairScorerOn, testing::ValuesIn(available_backends()),
                         [](const auto& test) { return test.param; });

TEST(PairScorer, GivesTheSameBitsForEachBatchSizeAndNumberOfThreads) {
  // Long enough sums that oneDNN's products of one row and of many differ without packed weights.
  const ModelConfig config{.encoder_layers = 1, .decoder_layers = 1, .width = 128, .heads = 4, .inner = 256};
  std::vector<std::vector<float>> expected;
  for (const int threads : {1, 2}) {
    const auto backend = make_cpu_backend(threads);
    Transformer model(config, 331, 0, *backend, DType::f32);
    model.initialize(*backend, 5);
    for (const std::int64_t tokens : {all_at_once, std::int64_t{1}, std::int64_t{19}}) {
      const auto scores = scores_of(model, *backend, made_up_pairs(331), tokens);
      if (expected.empty()) expected = scores;
      EXPECT_EQ(scores, expected) << threads << " threads, batches of " << tokens;
    }
  }
}

TEST(PairScorer, SumsToTheLossOfAnEvaluation) {
  const auto backend = make_cpu_backend(1);
  const TinyModel tiny(*backend);
  const LinePairs pairs = made_up_pairs(23);
  const Corpus corpus = Corpus::from_memory(pairs.source_ids, pairs.target_ids);
  const PackedBatch batch = sequential_batches(corpus, 0, corpus.sentences(), all_at_once).at(0);
  ActivationArenas arenas(*backend);
  Context context = arenas.begin(DType::f32);
  const LossSums evaluated = tiny.transformer.evaluate(context, DeviceBatch(*backend, context.saved, batch));
  double sum = 0;
  for (const auto& pair : scores_of(tiny.transformer, *backend, pairs, 20)) {
    sum = std::accumulate(pair.begin(), pair.end(), sum);
  }
  EXPECT_NEAR(-sum, evaluated.nll, 1e-5 * evaluated.nll);
}

class PairInputTest : public testing::Test {
 protected:
  PairInput input(const std::string& source, const std::string& target, bool truncate = false) {
    return {{.source = folder_.write("source", source).string(),
             .target = folder_.write("target", target).string(),
             .max_pieces = 4,
             .truncate = truncate,
             .threads = 1},
            vocabulary_};
  }

  /// The message of the failure to read these texts, without the folder.
  std::string failure(const std::string& source, const std::string& target) {
    try {
      PairInput pairs = input(source, target);
      while (pairs.next().size() > 0) {
      }
    } catch (const Failure& failure) {
      std::string message = failure.what();
      for (const std::string folder = folder_.path().string() + '/'; message.find(folder) != std::string::npos;) {
        message.erase(message.find(folder), folder.size());
      }
      return message;
    }
    return "none";
  }

  static Vocabulary letters() {
    int left = 20;
    const auto give = [&](std::string& line) {
      line = "a b c d e f";
      return left-- > 0;
    };
    return Vocabulary::from_bytes(train_vocabulary({.size = 16}, give), "test vocabulary");
  }

  TemporaryFolder folder_;
  Vocabulary vocabulary_ = letters();
};

TEST_F(PairInputTest, ReadsLinesSideBySide) {
  PairInput pairs = input(
      "\xef\xbb\xbf"
      "a b\r\n\nc",
      "d\n \ne f\n");
  const LinePairs read = pairs.next();
  EXPECT_THAT(read.sources, ElementsAre("a b", "", "c"));
  EXPECT_THAT(read.targets, ElementsAre("d", " ", "e f"));
  EXPECT_EQ(read.source_ids[0], vocabulary_.encode("a b"));
  EXPECT_THAT(read.source_ids[1], IsEmpty());
  EXPECT_THAT(read.target_ids[1], IsEmpty());
  EXPECT_EQ(pairs.pairs(), 3);
  EXPECT_EQ(pairs.next().size(), 0U);
}

TEST_F(PairInputTest, ReadsMillionsOfLinesInParts) {
  constexpr std::int64_t lines = 25'000;
  std::string source, target;
  for (std::int64_t i = 0; i < lines; ++i) {
    source += "a\n";
    target += i == lines - 1 ? "b c\n" : "b\n";
  }
  PairInput pairs = input(source, target);
  LinePairs last;
  std::size_t parts = 0;
  for (LinePairs next = pairs.next(); next.size() > 0; next = pairs.next(), ++parts) last = std::move(next);
  EXPECT_EQ(parts, 3U);
  EXPECT_EQ(pairs.pairs(), lines);
  EXPECT_EQ(last.targets.back(), "b c");
}

TEST_F(PairInputTest, CutsLongLinesIfThatIsAllowed) {
  PairInput pairs = input("a\na b c d e f\na b c d e\n", "a\nb\nc\n", true);
  const LinePairs read = pairs.next();
  EXPECT_EQ(read.sources[1], "a b c d e f") << "the text stays as it is";
  EXPECT_THAT(read.source_ids[1], SizeIs(4));
  EXPECT_EQ(pairs.cut(), 2);
  EXPECT_EQ(pairs.first_cut(), (folder_ / "source").string() + ":2");
}

TEST_F(PairInputTest, CutsLinesOverAMebibyteBetweenCharacters) {
  std::string line = "a";  // so that half a character of two bytes is at each limit
  while (line.size() <= LineReader::longest_bytes) line += "ä";
  PairInput pairs = input(line + "\nb\n", "a\nb\n", true);
  const LinePairs read = pairs.next();
  EXPECT_EQ(read.sources[0], line.substr(0, LineReader::longest_bytes - 1));
  EXPECT_EQ(read.source_ids[0], vocabulary_.encode(line.substr(0, (1 << 16) - 1)));
  EXPECT_EQ(pairs.cut(), 1);
  EXPECT_EQ(read.sources[1], "b");
}

TEST_F(PairInputTest, NamesFileAndLineOfBadInput) {
  EXPECT_EQ(failure("a\nb\n", "a\nb\nc\nd\n"), "source has 2 lines, target has 4; expected equal numbers");
  EXPECT_EQ(failure("a\nb\n", ""), "source has 2 lines, target has 0; expected equal numbers");
  EXPECT_EQ(failure("a\nb\n", "a\nb\xff\n"), "target:2: byte 2 is not UTF-8");
  EXPECT_EQ(failure("a\n" + std::string(LineReader::longest_bytes + 1, 'a'), "a\nb\n"),
            "source:2: over 1048576 bytes (--truncate cuts the line)");
  EXPECT_THAT(failure("<?xml version='1.0'?>\n", "a\n"), HasSubstr("source:1: begins with '<?xml'"));
  EXPECT_EQ(failure("a\n", "a b c d e\n"),
            "target:1: 5 pieces, expected at most 4, data.max_length of the training without </s> (--truncate cuts the "
            "line)");
  EXPECT_EQ(failure("a b c d\n", "a b c d\n"), "none");
}

}  // namespace
}  // namespace babelring
