#include "nmt/data/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/digest.h"
#include "base/failure.h"
#include "base/protobuf.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

const std::vector<std::string> text = {
    "the quick brown fox jumps over the lazy dog", "der schnelle braune Fuchs springt", "über den faulen Hund",
    "pack my box with five dozen liquor jugs", "the dog sleeps while the fox runs over the hill"};

std::string train(const VocabularyOptions& options) {
  std::size_t at = 0;
  return train_vocabulary(options, [&](std::string& line) {
    if (at == text.size()) return false;
    line = text[at++];
    return true;
  });
}

class VocabularyModelTest : public testing::TestWithParam<VocabularyOptions> {};

TEST_P(VocabularyModelTest, TextSurvivesARoundTrip) {
  const Vocabulary vocabulary = Vocabulary::from_bytes(train(GetParam()), "test");
  EXPECT_EQ(vocabulary.size(), GetParam().size);
  for (const std::string& line : text) {
    std::vector<std::int32_t> ids = vocabulary.encode(line);
    EXPECT_FALSE(ids.empty());
    for (const std::int32_t id : ids) EXPECT_GE(id, first_free_id);
    EXPECT_EQ(vocabulary.decode(ids), line);
    ids.insert(ids.begin(), bos_id);
    ids.push_back(eos_id);
    EXPECT_EQ(vocabulary.decode(ids), line);
  }
}

TEST_P(VocabularyModelTest, TrainingIsDeterministic) {
  EXPECT_EQ(train(GetParam()), train(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Models, VocabularyModelTest,
                         testing::Values(VocabularyOptions{.model = "bpe", .size = 80},
                                         VocabularyOptions{.model = "unigram", .size = 50},
                                         VocabularyOptions{.model = "bpe", .size = 320, .byte_fallback = true}));

TEST(VocabularyTest, TwoModelsOverOneTableCutTheirSides) {
  const std::string whole = train({.model = "unigram", .size = 50});
  const Vocabulary joint = Vocabulary::from_bytes(whole, "joint");
  const auto is_short = [&](std::int32_t id) { return id < 3 || joint.piece(id).size() < 4; };
  const std::string letters = with_some_pieces(whole, is_short);
  const Vocabulary both = Vocabulary::from_bytes(join_models({.source = letters, .target = whole}), "both");
  EXPECT_EQ(split_models(both.bytes()).source, letters);
  EXPECT_EQ(split_models(both.bytes()).target, whole);
  EXPECT_EQ(both.size(), joint.size());
  for (const std::string& line : text) {
    EXPECT_EQ(both.encode(line, TextSide::target), joint.encode(line));
    const std::vector<std::int32_t> cut = both.encode(line);
    EXPECT_EQ(cut, Vocabulary::from_bytes(letters, "letters").encode(line));
    EXPECT_TRUE(std::ranges::all_of(cut, is_short)) << line;
    EXPECT_EQ(both.decode(cut), line);
    EXPECT_EQ(both.decode(joint.encode(line)), line);
  }
  for (std::int32_t id = 0; id < both.size(); ++id) EXPECT_EQ(both.piece(id), joint.piece(id));
  // The target's pieces that only the source has are joined, too.
  const Vocabulary turned = Vocabulary::from_bytes(join_models({.source = whole, .target = letters}), "turned");
  for (const std::string& line : text) EXPECT_EQ(turned.decode(turned.encode(line)), line);
  const Vocabulary more = Vocabulary::from_bytes(with_symbols(both.bytes(), {"<new>"}), "more");
  EXPECT_EQ(more.piece(both.size()), "<new>");
  for (const TextSide side : {TextSide::source, TextSide::target}) {
    EXPECT_THAT(more.encode("the <new> dog", side), testing::Contains(both.size()));
  }
}

TEST(VocabularyTest, ATextThatOneModelDoesNotKnowHasTheIdOfTheOther) {
  const std::string whole = train({.model = "unigram", .size = 50});
  const Vocabulary joint = Vocabulary::from_bytes(whole, "joint");
  const auto id_of = [&](const std::string& piece) {
    std::int32_t id = 0;
    while (joint.piece(id) != piece) ++id;
    return id;
  };
  const std::int32_t x = id_of("x"), z = id_of("z");
  const std::string without = with_some_pieces(
      whole, [&](std::int32_t id) { return id < 3 || joint.piece(id).find_first_of("xz") == std::string::npos; });
  const Vocabulary both = Vocabulary::from_bytes(join_models({.source = without, .target = whole}), "both");
  EXPECT_THAT(both.encode("the x dog"), testing::Contains(x));
  EXPECT_THAT(both.encode("the xz dog"), testing::AllOf(testing::Contains(unk_id), testing::Not(testing::Contains(z))))
      << "unknown characters are one text";
  EXPECT_THAT(Vocabulary::from_bytes(without, "without").encode("the x dog"), testing::Contains(unk_id));
  const Vocabulary turned = Vocabulary::from_bytes(join_models({.source = whole, .target = without}), "turned");
  EXPECT_THAT(turned.encode("the x dog", TextSide::target), testing::Contains(x));
  // Not if the side's table has no row for it.
  const std::string name = fmt::format("<none {}>", x), other = fmt::format("{}{}>", absent_piece, x);
  ProtobufMessage with_absent;
  for (ProtobufReader fields(without); fields.next();) {
    const bool is_x = fields.field() == 1 && fields.bytes().find(name) != std::string_view::npos;
    const ProtobufMessage piece = ProtobufMessage().bytes(1, other).number(2, 0).integer(3, 3);
    is_x ? with_absent.message(1, piece) : with_absent.whole(fields.whole());
  }
  const Vocabulary two =
      Vocabulary::from_bytes(join_models({.source = with_absent.text(), .target = whole}), "two tables");
  EXPECT_THAT(two.encode("the x dog"), testing::AllOf(testing::Contains(unk_id), testing::Not(testing::Contains(x))));
  EXPECT_EQ(two.piece(x), "x");
}

TEST(VocabularyTest, TwoModelsWithOtherPiecesAreRefused) {
  const std::string one = train({.size = 50}), other = train({.model = "unigram", .size = 50});
  EXPECT_THAT([&] { Vocabulary::from_bytes(join_models({.source = one, .target = train({.size = 51})}), "two"); },
              testing::ThrowsMessage<Failure>("two: the model of the source has 50 pieces, that of the target 51"));
  EXPECT_THAT([&] { Vocabulary::from_bytes(join_models({.source = one, .target = other}), "two"); },
              testing::ThrowsMessage<Failure>(testing::HasSubstr("in the model of the source, '")));
  EXPECT_THAT([&] { Vocabulary::from_bytes(join_models({.source = one, .target = "text"}), "two"); },
              testing::ThrowsMessage<Failure>("two (target): not a SentencePiece model"));
}

TEST(VocabularyTest, ReplacementsComeBeforeThoseOfTheModelsNormalizer) {
  const std::string model = train({.size = 80});
  const Replacements before = replacements_of(model);
  EXPECT_EQ(before.at("\uff0c"), ",") << "by NFKC";
  EXPECT_EQ(before.at("\u0065\u0301"), "\u00e9");
  EXPECT_GT(before.size(), 10000U);
  EXPECT_EQ(replacements_of(with_replacements(model, {})), before);
  const Replacements more = {{"\u3002", ". "}, {"\u2019", "'"}, {"\uff11", "\""}, {"\U000f0000", " "}, {"\x01", " "}};
  const std::string changed = with_replacements(model, more);
  Replacements expected = more;
  expected.merge(Replacements(before));
  EXPECT_EQ(replacements_of(changed), expected);
  const Vocabulary plain = Vocabulary::from_bytes(model, "plain"), mapped = Vocabulary::from_bytes(changed, "changed");
  EXPECT_EQ(mapped.encode("\u3002 the\u3002\u3002  fox\u2019s\x01 \uff11 \uff0c\U000f0000"),
            plain.encode(". the. . fox's \" ,"));
  for (const std::string& line : text) EXPECT_EQ(mapped.encode(line), plain.encode(line));
  const std::string identity = train({.size = 50, .normalization = "identity"});
  EXPECT_TRUE(replacements_of(identity).empty());
  EXPECT_EQ(replacements_of(with_replacements(identity, more)), more);
}

TEST(VocabularyTest, DamagedReplacementsAreRefused) {
  const auto model = [](const std::string& map) {
    return ProtobufMessage().message(3, ProtobufMessage().bytes(2, map)).text();
  };
  std::uint32_t loop = 1U << 8;  // a value beyond the end
  std::string bytes(8, '\0');
  bytes[0] = 4;
  std::memcpy(bytes.data() + 4, &loop, 4);
  for (const std::string& map : {std::string("abc"), std::string(8, '\x7f'), std::string(4, '\0'), bytes}) {
    EXPECT_THAT([&] { replacements_of(model(map)); },
                testing::ThrowsMessage<Failure>("vocabulary: the replacements of its normalizer are damaged"));
  }
}

TEST(VocabularyTest, OriginTravelsWithTheModels) {
  const std::string whole = train({.size = 50});
  const std::string file = join_models({.source = whole, .target = whole, .origin = "from elsewhere"});
  for (const std::string& changed : {file, with_symbols(file, {"<new>"})}) {
    EXPECT_EQ(split_models(changed).origin, "from elsewhere");
  }
  EXPECT_EQ(split_models(file).source, whole);
  EXPECT_EQ(Vocabulary::from_bytes(file, "file").encode(text[0]),
            Vocabulary::from_bytes(whole, "whole").encode(text[0]));
}

TEST(VocabularyTest, UnknownCharactersAreUnkOrBytes) {
  const Vocabulary plain = Vocabulary::from_bytes(train({.size = 80}), "plain");
  EXPECT_THAT(plain.encode("dog ж"), testing::Contains(unk_id));
  const Vocabulary bytes = Vocabulary::from_bytes(train({.size = 320, .byte_fallback = true}), "bytes");
  EXPECT_THAT(bytes.encode("dog ж"), testing::Not(testing::Contains(unk_id)));
  EXPECT_EQ(bytes.decode(bytes.encode("dog ж")), "dog ж");
}

TEST(VocabularyTest, SymbolsAreOnePieceEach) {
  for (const std::string model : {"bpe", "unigram"}) {
    VocabularyOptions options{.model = model, .size = 50};
    const std::string plain = train(options);
    options.symbols = {">>fra<<", "<2de>"};
    const std::string trained = train(options), extended = with_symbols(plain, options.symbols);
    for (const std::string& bytes : {trained, extended}) {
      const Vocabulary vocabulary = Vocabulary::from_bytes(bytes, "test");
      EXPECT_EQ(vocabulary.size(), bytes == trained ? 50 : 52);
      const std::vector<std::int32_t> ids = vocabulary.encode(">>fra<< the dog <2de>");
      const auto pieces = [&](std::string_view symbol) {
        return std::count_if(ids.begin(), ids.end(), [&](std::int32_t id) { return vocabulary.piece(id) == symbol; });
      };
      EXPECT_EQ(pieces(">>fra<<"), 1);
      EXPECT_EQ(pieces("<2de>"), 1);
      EXPECT_THAT(ids, testing::Not(testing::Contains(unk_id)));
      EXPECT_EQ(vocabulary.decode(ids), ">>fra<< the dog <2de>");
    }
    const Vocabulary before = Vocabulary::from_bytes(plain, "before"),
                     after = Vocabulary::from_bytes(extended, "after");
    EXPECT_EQ(after.encode(text[0]), before.encode(text[0]));
    for (std::int32_t id = 0; id < before.size(); ++id) EXPECT_EQ(after.piece(id), before.piece(id));
    EXPECT_EQ(with_symbols(extended, options.symbols), extended) << "they are there already";
  }
}

TEST(VocabularyTest, RefusesSymbolsThatCannotBePieces) {
  for (const std::string symbol : {"", "two words", "a\tb", "a,b", "\"", "\u2581x", "\xff", "a\nb"}) {
    EXPECT_THROW(check_symbols({symbol}), UsageFailure) << symbol;
  }
  EXPECT_THAT([] { check_symbols({"<a>", "<a>"}); },
              testing::ThrowsMessage<UsageFailure>(testing::HasSubstr("found <a> twice")));
  const std::string model = train({.size = 80});
  for (const std::string symbol : {"</s>", "o"}) {
    EXPECT_THROW(with_symbols(model, {symbol}), UsageFailure) << symbol;
  }
}

TEST(VocabularyTest, EncodesTheSameOnAllThreads) {
  const Vocabulary vocabulary = Vocabulary::from_bytes(train({.size = 80}), "test");
  const auto expected = vocabulary.encode(text[0]);
  std::vector<std::thread> threads;
  std::vector<int> equal(4);
  for (int& count : equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) count += vocabulary.encode(text[0]) == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, (std::vector<int>(4, 500)));
}

TEST(VocabularyTest, LoadsAFileAndItsDigest) {
  const TemporaryFolder folder;
  const std::string bytes = train({.size = 80});
  const Vocabulary vocabulary = Vocabulary::load(folder.write("spm.model", bytes));
  EXPECT_EQ(vocabulary.digest(), sha256_hex(bytes));
  EXPECT_THROW(vocabulary.decode(std::vector<std::int32_t>{80}), Failure);
  EXPECT_THROW(vocabulary.decode(std::vector<std::int32_t>{-1}), Failure);
}

TEST(VocabularyTest, RefusesInvalidModelsAndOtherControlIds) {
  const TemporaryFolder folder;
  EXPECT_THROW(Vocabulary::load(folder / "absent"), Failure);
  EXPECT_THROW(Vocabulary::load(folder.write("junk", "not a model")), Failure);
  EXPECT_THROW(Vocabulary::load(folder.write("empty", "")), Failure);
  // Without </s> as third subword the model has no end of sentence.
  std::string bytes = train({.size = 80});
  const std::size_t eos = bytes.find("</s>");
  ASSERT_NE(eos, std::string::npos);
  bytes.replace(eos, 4, "<<<<");
  EXPECT_THROW(Vocabulary::from_bytes(bytes, "no end of sentence"), Failure);
}

TEST(VocabularyTest, ReportsTooLittleText) {
  try {
    train({.size = 5000});
    FAIL() << "trained 5000 subwords on five lines";
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.what(), testing::HasSubstr("training bpe of 5000 pieces: Vocabulary size too high (5000)"));
  }
  EXPECT_THROW(train_vocabulary({}, [](std::string&) { return false; }), Failure);
}

}  // namespace
}  // namespace babelring
