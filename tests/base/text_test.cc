#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <regex>

#include "base/clock.h"
#include "base/digest.h"
#include "base/failure.h"
#include "base/log.h"
#include "base/names.h"

namespace babelring {
namespace {

using testing::ThrowsMessage;

TEST(NameFault, NamesTheRefusedCharacter) {
  const auto found = [](std::string_view point, int at) {
    return fmt::format("expected no control or invisible characters, found U+{} at byte {}", point, at);
  };
  EXPECT_EQ(check_name(std::string("x\0y", 3)).error(), found("0000", 1));
  EXPECT_EQ(check_name("a\nb").error(), found("000A", 1));
  EXPECT_EQ(check_name("\x7f").error(), found("007F", 0));
  EXPECT_EQ(check_name("\u00e9\u0085").error(), found("0085", 2));
  EXPECT_EQ(check_name("\u202eevil").error(), found("202E", 0));
  EXPECT_EQ(check_name("run \u2066x").error(), found("2066", 4));
  EXPECT_EQ(check_name("a\u2028").error(), found("2028", 1));
  EXPECT_EQ(check_name("\ufeffa").error(), found("FEFF", 0));
  EXPECT_EQ(check_name("\U000e0041").error(), found("E0041", 0));
  EXPECT_EQ(check_name("\xff").error(), "expected UTF-8");
}

TEST(NameFault, AcceptsTextInAnyScript) {
  for (const char* name : {"", "en-de big/2, 50% \"x\"", "Größe №7", "日本語", "שלום", "العربية", "हिन्दी",
                           "می\u200cخواهم", "👩\u200d🚀 🇫🇮", "\u00a0\u3000"}) {
    EXPECT_TRUE(check_name(name).ok()) << name;
  }
}

TEST(Nearest, FindsOnlyCloseNames) {
  const std::vector<std::string> known = {"warm_up", "learning_rate", "beta1", "beta2"};
  EXPECT_EQ(nearest_name("warmup", known), "warm_up");
  EXPECT_EQ(nearest_name("learning-rate", known), "learning_rate");
  EXPECT_EQ(nearest_name("beta1", known), "beta1");
  EXPECT_EQ(nearest_name("beta3", known), "beta1") << "the first of equals";
  EXPECT_EQ(nearest_name("lerning_raate", known), "learning_rate");
  EXPECT_EQ(nearest_name("dropout", known), "");
  EXPECT_EQ(nearest_name("", known), "");
  EXPECT_EQ(nearest_name("x", {}), "");
  EXPECT_EQ(nearest_name("le", {"length", "leng"}), "leng") << "two apart";
  EXPECT_EQ(nearest_name("le", {"length", "lengt"}), "") << "three apart";
  EXPECT_EQ(did_you_mean("warmup", known), "; did you mean 'warm_up'?");
  EXPECT_EQ(did_you_mean("dropout", known), "");
}

TEST(Nearest, SuggestsKeysByTheirLastPart) {
  const std::vector<std::string> keys = {"name", "training.seed", "validation.every", "checkpoint.every"};
  EXPECT_EQ(did_you_mean_key("seed", keys), "; did you mean 'training.seed'?");
  EXPECT_EQ(did_you_mean_key("model.seed", keys), "; did you mean 'training.seed'?");
  EXPECT_EQ(did_you_mean_key("every", keys), "; did you mean 'validation.every' or 'checkpoint.every'?");
  EXPECT_EQ(did_you_mean_key("trainig.sed", keys), "; did you mean 'training.seed'?") << "else by distance";
  EXPECT_EQ(did_you_mean_key("speed.of.light", keys), "");
}

TEST(Utf8, IsValidated) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("Grüße\n\t世界 🙂"));
  EXPECT_FALSE(is_utf8("a\xff"));
  EXPECT_FALSE(is_utf8("\xc3"));
  EXPECT_FALSE(is_utf8("\xed\xa0\x80"));
}

TEST(Printable, EscapesControlsAndInvalidUtf8Only) {
  EXPECT_EQ(printable("Grüße, 世界 🙂"), "Grüße, 世界 🙂");
  EXPECT_EQ(printable(std::string_view("a\0b\n\x1b[31m\x7f", 10)), "a\\x00b\\x0a\\x1b[31m\\x7f");
  EXPECT_EQ(printable("\xc2\x85"), "\\xc2\\x85") << "C1 control";
  EXPECT_EQ(printable("\xc3"), "\\xc3") << "torn";
  EXPECT_EQ(printable("\xc0\xaf|\xe0\x80\xaf|\xf0\x80\x80\xaf"), "\\xc0\\xaf|\\xe0\\x80\\xaf|\\xf0\\x80\\x80\\xaf")
      << "overlong";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "above U+10FFFF";
  EXPECT_EQ(printable("\x80z"), "\\x80z");
}

TEST(Log, WritesTimeNameLevelAndText) {
  testing::internal::CaptureStderr();
  init_log("rank 1", "info");
  spdlog::info("loss {}", 4.5);
  spdlog::debug("not shown");
  init_log("", "debug");
  spdlog::debug("shown");
  const std::string lines = testing::internal::GetCapturedStderr();
  const std::string time = R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3})";
  EXPECT_TRUE(std::regex_match(lines, std::regex(time + R"( \[rank 1\] info: loss 4\.5\n)" + time + " debug: shown\n")))
      << lines;
}

TEST(Log, ErasesAProgressBarBeforeEachLine) {
  testing::internal::CaptureStderr();
  init_log("rank 1", "info", true);
  spdlog::info("loss {}", 4.5);
  init_log("");
  EXPECT_TRUE(
      std::regex_match(testing::internal::GetCapturedStderr(), std::regex("\x1b\\[K[0-9].* info: loss 4\\.5\n")));
}

TEST(Log, RefusesAnUnknownLevel) {
  EXPECT_THAT([] { init_log("", "loud"); },
              ThrowsMessage<UsageFailure>("log level: expected trace, debug, info, warn, error or off, found 'loud'"));
}

TEST(Clock, FormatsRfc3339InUtc) {
  EXPECT_EQ(format_rfc3339(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(format_rfc3339(1795247730123), "2026-11-21T07:55:30.123Z");
  EXPECT_EQ(format_rfc3339(-1), "1969-12-31T23:59:59.999Z");
  EXPECT_GT(wall_time_ms(), 1700000000000);
}

TEST(Clock, LapsAddUp) {
  Stopwatch total, laps;
  double sum = 0;
  for (int i = 0; i < 100; ++i) sum += laps.lap_ms();
  EXPECT_GE(total.elapsed_ms(), sum);
  EXPECT_GE(sum, 0);
}

TEST(Base64, EncodesTheExamplesOfTheRfc) {
  EXPECT_EQ(base64_of_hex(""), "");
  EXPECT_EQ(base64_of_hex("66"), "Zg==");
  EXPECT_EQ(base64_of_hex("666f"), "Zm8=");
  EXPECT_EQ(base64_of_hex("666f6f"), "Zm9v");
  EXPECT_EQ(base64_of_hex("666f6f626172"), "Zm9vYmFy");
  EXPECT_EQ(base64_of_hex("fbff"), "+/8=");
}

TEST(Base64, EncodesADigest) {
  EXPECT_EQ(base64_of_hex(sha256_hex("")), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
}

TEST(XmlText, EscapesWhatMarkupReads) {
  EXPECT_EQ(xml_text("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
  EXPECT_EQ(xml_text("Größe 'x'"), "Größe 'x'");
}

TEST(ParseNumber, AcceptsNothingButANumber) {
  EXPECT_EQ(parse_number<int>("-17"), -17);
  EXPECT_EQ(parse_number<unsigned int>("17"), 17U);
  EXPECT_EQ(parse_number<double>("1e3"), 1000.0);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x1", "99999999999"}) {
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_number<unsigned int>("-1"), std::nullopt);
}

TEST(ParseDecimal, ReadsNumbersAsAPersonDoes) {
  EXPECT_EQ(parse_decimal<int>("010"), 10);
  EXPECT_EQ(parse_decimal<int>("+7"), 7);
  EXPECT_EQ(parse_decimal<std::int64_t>("1e6"), 1'000'000);
  EXPECT_EQ(parse_decimal<std::int64_t>("-2.5e3"), -2500);
  EXPECT_EQ(parse_decimal<std::int64_t>("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse_decimal<std::uint64_t>("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parse_decimal<double>("+0.50"), 0.5);
  EXPECT_EQ(parse_decimal<double>("010"), 10);
}

TEST(ParseDecimal, RefusesOtherTexts) {
  for (const char* text :
       {"", "+", "-", "+-1", " 1", "0x10", "1.5", "4.0", "1e-1", "nan", "inf", "3e9", "ten", "1,000"}) {
    EXPECT_EQ(parse_decimal<int>(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_decimal<std::uint64_t>("-1"), std::nullopt);
  EXPECT_EQ(parse_decimal<std::int64_t>("9223372036854775808"), std::nullopt);
  for (const char* text : {"nan", "-nan", "inf", "-inf", "infinity", "0x1p3", "1e999", ""}) {
    EXPECT_EQ(parse_decimal<double>(text), std::nullopt) << text;
  }
}

}  // namespace

}  // namespace babelring
