#include "nmt/metrics/ter.h"

#include <gtest/gtest.h>

#include "base/failure.h"

namespace babelring {
namespace {

double ter(std::string_view hypothesis, const std::vector<std::string>& references, const TerOptions& options = {}) {
  const TerCounts counts = Ter(options).count(hypothesis, references);
  return Ter::score(static_cast<double>(counts.edits), counts.reference_words);
}

std::string repeated(int words, int factor, int kinds) {
  std::string text;
  for (int i = 0; i < words; ++i) text += static_cast<char>('a' + i * factor % kinds), text += ' ';
  return text;
}

TEST(TerTest, CountsEditsAndShifts) {
  EXPECT_EQ(ter("a b c", {"a b c"}), 0);
  EXPECT_EQ(ter("a x c d", {"a b c d"}), 25);
  EXPECT_EQ(ter("A B", {"a b"}), 0);
  EXPECT_EQ(ter("A B", {"a b"}, {.case_sensitive = true}), 100);
  EXPECT_EQ(ter("c d a b", {"a b c d"}), 25) << "a shift of two words is one edit";
}

/// Expected values are those of sacreBLEU 2.6.0.
TEST(TerTest, KeepsTheLimitsOfTheReferenceProgram) {
  EXPECT_DOUBLE_EQ(ter(repeated(160, 1, 7), {repeated(150, 3, 8)}), 100 * 124 / 150.0) << "1,000 shifts were tried";
  std::string far, moved;
  for (int i = 0; i < 120; ++i) {
    far += "w" + std::to_string(i) + ' ';
    moved += "w" + std::to_string((i + 60) % 120) + ' ';
  }
  EXPECT_EQ(ter(far, {moved}), 100) << "a shift over 60 words";
  EXPECT_EQ(ter("a", {repeated(200, 1, 1) + "x"}), 100 * 200 / 201.0) << "a beam wider than 25";
}

TEST(TerTest, TakesTheBestReferenceAndTheirMeanLength) {
  EXPECT_EQ(ter("a b c d e", {"", "d e a b c"}), 40) << "an empty reference has length 0";
  EXPECT_EQ(ter("a b c", {""}), 100);
  EXPECT_EQ(ter("", {""}), 0);
  EXPECT_EQ(ter("", {"a b c"}), 100);
  EXPECT_THROW(ter("a", {}), Failure);
}

TEST(TerTest, NormalizesTheReferenceTwice) {
  EXPECT_EQ(ter("the dog's.", {"the dog's."}), 0);
  EXPECT_EQ(ter("the dog's.", {"the dog's."}, {.normalized = true}), 50) << "as sacreBLEU 2.6.0";
}

}  // namespace
}  // namespace babelring
