#include "nmt/decode/markup.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "nmt/core/random.h"
#include "tests/nmt/decode/tiny_model.h"

namespace babelring {
namespace {

const std::vector<std::string> sample_lines = {
    "the red house of the old man",
    "das rote Haus des alten Mannes",
    "Press the key now, please!",
    "Bitte dr\u00fccken Sie jetzt die Taste!",
    "AT&T < 5 > 4 \"well-known\" it's",
    "caf\u00e9 \u4eca\u65e5\u306f",
    "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789 .,;:!?&<>'\"-/"};

Vocabulary markup_vocabulary() {
  std::size_t next = 0;
  const auto give = [&](std::string& line) {
    if (next == 8 * sample_lines.size()) return false;
    line = sample_lines[next++ % sample_lines.size()];
    return true;
  };
  return Vocabulary::from_bytes(train_vocabulary({.size = 130, .byte_fallback = false}, give), "test vocabulary");
}

class MarkupTest : public testing::Test {
 protected:
  /// A translation whose word i attends to the word links[i] of the source.
  Rendering translation(const std::string& source, const std::string& target, const std::vector<int>& links) const {
    Rendering rendering{.ids = vocabulary_.encode(target, TextSide::target)};
    rendering.text = vocabulary_.decode(rendering.ids);
    const auto from = word_numbers(vocabulary_.encode(source), vocabulary_);
    const auto to = word_numbers(rendering.ids, vocabulary_);
    Attention::Part part{.source_pieces = std::ssize(from), .weights = {}};
    for (const std::int32_t word : to) {
      const int link = links.empty() ? word : links.at(static_cast<std::size_t>(word));
      for (const std::int32_t other : from) part.weights.push_back(other == link ? 1.0F : 0.0F);
      part.weights.push_back(0);
    }
    rendering.attention.parts.push_back(std::move(part));
    return rendering;
  }

  /// The line with its text translated; by default each word is that of the same number.
  std::string marked(const std::string& line, const std::string& target, const std::vector<int>& links = {},
                     MarkupForm form = MarkupForm::html) const {
    const auto read = read_markup(line, form);
    if (!read) return "error: " + read.error();
    std::string all = read->between.front();
    for (std::size_t i = 0; i < read->texts.size(); ++i) {
      const MarkedText& text = read->texts[i];
      const std::string& words = target.empty() ? text.text : target;
      all += with_markup(text, vocabulary_.piece_ends(text.text), translation(text.text, words, links), vocabulary_);
      all += read->between[i + 1];
    }
    return all;
  }

  Vocabulary vocabulary_ = markup_vocabulary();
};

TEST_F(MarkupTest, ElementsGoAroundTheAlignedWords) {
  EXPECT_EQ(marked("the <b>red</b> house", "das rote Haus"), "das <b>rote</b> Haus");
  EXPECT_EQ(marked("the <b class='x > y'>red</b> house", "Haus das rote", {2, 0, 1}),
            "Haus das <b class='x > y'>rote</b>");
  EXPECT_EQ(marked("<i>the <b>red</b> house</i> of", "das Haus rote des", {0, 2, 1, 3}),
            "<i>das Haus <b>rote</b></i> des");
  EXPECT_EQ(marked("the <a href=\"?a=1&b=2\">red house</a>.", "das rote Haus."),
            "das <a href=\"?a=1&b=2\">rote Haus</a>.");
  EXPECT_EQ(marked("<b>the</b> <i>red</i> house", "rote das Haus", {1, 0, 2}), "<i>rote</i> <b>das</b> Haus");
  EXPECT_EQ(marked("<p>the red <em>house</em>!</p>", "das rote Haus!"), "<p>das rote <em>Haus</em>!</p>");
}

TEST_F(MarkupTest, AnElementStaysOneWhereItsWordsAreDispersed) {
  EXPECT_EQ(marked("<b>press the</b> key now", "press key now the", {0, 2, 3, 1}), "<b>press</b> key now the");
  EXPECT_EQ(marked("the red <b>house</b>", "das das das", {0, 0, 0}), "<b>das</b> das das")
      << "none is aligned with it";
}

TEST_F(MarkupTest, PlaceholdersGoBeforeTheWordThatFollows) {
  EXPECT_EQ(marked("press <img src=a> the key", "jetzt die Taste press", {3, 1, 2, 0}),
            "jetzt <img src=a> die Taste press");
  EXPECT_EQ(marked("press<br>the key", "press die Taste"), "press<br>die Taste");
  EXPECT_EQ(marked("press <br/>the key", "press die Taste"), "press <br/>die Taste");
  EXPECT_EQ(marked("press<br> the key", "press die Taste"), "press<br> die Taste");
  EXPECT_EQ(marked("<hr>press the key<!-- end -->", "press die Taste"), "<hr>press die Taste<!-- end -->");
  EXPECT_EQ(marked("press <b></b> the <i>key <img></i>", "press die Taste"), "press <b></b> die <i>Taste <img></i>");
  EXPECT_EQ(marked("ab<wbr>cd the", "xy die"), "<wbr>xy die") << "inside a word";
  EXPECT_EQ(marked("press <x id=\"1\"/> to <bx id=\"2\"/>the key<ex id=\"2\"/>", "the press to key", {2, 0, 1, 3},
                   MarkupForm::xliff),
            "<bx id=\"2\"/>the<ex id=\"2\"/> press <x id=\"1\"/> to key");
}

TEST_F(MarkupTest, EntitiesAreTextAndAreWrittenOnce) {
  EXPECT_EQ(read_markup("AT&amp;T &lt; 5 &#8217; &#x4eca; caf&eacute; &ampx", MarkupForm::html)->texts.at(0).text,
            "AT&T < 5 \u2019 \u4eca caf\u00e9 &ampx");
  EXPECT_EQ(marked("AT&amp;T &lt; 5", ""), "AT&amp;T &lt; 5");
  EXPECT_EQ(marked("AT&T < 5", ""), "AT&amp;T &lt; 5") << "bare ones";
  EXPECT_EQ(marked("the &copysr; house", "das Haus"), "das &copysr; Haus") << "unknown ones are copied";
  EXPECT_EQ(marked("the &amp;amp; house", ""), "the &amp;amp; house");
  EXPECT_EQ(marked("the <![CDATA[<b>]]> house", "das <b> Haus", {}, MarkupForm::xliff), "das &lt;b&gt; Haus");
}

TEST_F(MarkupTest, BlocksAreTranslatedApartAndOthersAreCopied) {
  const auto read = read_markup("<ul>\t<li>press the key</li><li><b>now</b></li></ul> ", MarkupForm::html);
  ASSERT_EQ(read->texts.size(), 2U);
  EXPECT_EQ(read->texts[0].text, "press the key");
  EXPECT_EQ(read->texts[1].text, "now");
  EXPECT_THAT(read->between, testing::ElementsAre("<ul>\t<li>", "</li><li>", "</li></ul> "));
  EXPECT_EQ(marked("the <code translate=\"no\">a <b>b</b> &amp;</code> house", "das Haus"),
            "das <code translate=\"no\">a <b>b</b> &amp;</code> Haus");
  EXPECT_EQ(marked("<script>if (a < b) \"</b>\"</script> the", "das"), "<script>if (a < b) \"</b>\"</script> das");
  EXPECT_EQ(marked("the <ph id=\"1\">&lt;br&gt;</ph> house", "das Haus", {}, MarkupForm::xliff),
            "das <ph id=\"1\">&lt;br&gt;</ph> Haus");
  EXPECT_EQ(read_markup("<br>&nbsp;<b> </b>", MarkupForm::html)->between.at(0), "<br>&nbsp;<b> </b>");
}

TEST_F(MarkupTest, NamesTheTagThatIsWrong) {
  const auto error = [](std::string_view line, MarkupForm form = MarkupForm::html) {
    const auto read = read_markup(line, form);
    return read.ok() ? "none" : read.error();
  };
  EXPECT_EQ(error("the <b>red house"), "'<b>' is not closed");
  EXPECT_EQ(error("the red</b> house"), "'</b>' closes no tag");
  EXPECT_EQ(error("<b>the <i id=1>red</b> house</i>"), "'</b>' found, expected '</i>' for '<i id=1>'");
  EXPECT_EQ(error("the <a href=\"x"), "'<a href=\"x' has no '>'");
  EXPECT_EQ(error("the <!-- red"), "'<!--' has no '-->'");
  EXPECT_EQ(error("<style>b {}"), "'<style>' is not closed");
  EXPECT_EQ(error("<B>the</b> <br/>"), "none");
  EXPECT_EQ(error("<B>the</b>", MarkupForm::xliff), "'</b>' found, expected '</B>' for '<B>'");
  EXPECT_EQ(error("a < b", MarkupForm::xliff), "'< b' begins no tag; write &lt; for <");
  EXPECT_EQ(error("a &eacute; b", MarkupForm::xliff), "'&eacute;' is no entity of XML");
  EXPECT_EQ(error("a & b", MarkupForm::xliff), "'&' is no entity of XML");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<b>";
  EXPECT_EQ(error(deep), "'<b>' is within 200 others, expected at most 199");
}

/// A made-up line: words in elements, with placeholders between and inside of them.
std::string random_line(Random& random, int depth, int& words) {
  std::string line;
  const std::uint64_t parts = 1 + random.below(4);
  for (std::uint64_t i = 0; i < parts; ++i) {
    const std::uint64_t kind = random.below(depth > 0 ? 8 : 5);
    if (random.below(3) > 0 && !line.empty()) line += ' ';
    if (kind < 3) {
      static const std::vector<std::string> known = {"red",        "house",    "old",  "man,", "key",
                                                     "well-known", "AT&amp;T", "it's", "5"};
      line += known[random.below(known.size())] + (random.below(6) == 0 ? "." : "");
      ++words;
    } else if (kind == 3) {
      line += "<x id=\"" + std::to_string(random.below(50)) + "\"/>";
    } else if (kind == 4) {
      line += "<g></g>";
    } else {
      const std::string id = std::to_string(random.below(50));
      line += "<g id=\"" + id + "\">" + random_line(random, depth - 1, words) + "</g>";
    }
  }
  return line;
}

/// The number of each tag.
std::map<std::string, int> tags_of(const std::string& line) {
  std::map<std::string, int> tags;
  for (std::size_t at = line.find('<'); at != line.npos; at = line.find('<', at + 1)) {
    ++tags[line.substr(at, line.find('>', at) + 1 - at)];
  }
  return tags;
}

std::string without_tags_and_spaces(const std::string& line) {
  std::string text;
  bool inside = false;
  for (const char c : line) {
    if (c == '<') inside = true;
    if (!inside && c != ' ') text += c;
    if (c == '>') inside = false;
  }
  return text;
}

/// True if tags of elements have a letter or digit on both sides.
bool splits_a_word(const std::string& line) {
  for (std::size_t at = line.find('<'); at != line.npos; at = line.find('<', at)) {
    const std::size_t begin = at;
    bool is_place = false;
    for (; at < line.size() && line[at] == '<'; at = line.find('>', at) + 1) is_place |= line.substr(at, 2) == "<x";
    const auto is_letter = [&](std::size_t i) {
      return i < line.size() && std::isalnum(static_cast<unsigned char>(line[i])) != 0;
    };
    if (!is_place && begin > 0 && is_letter(begin - 1) && is_letter(at)) return true;
  }
  return false;
}

TEST_F(MarkupTest, KeepsEveryTagInOrderOfTheXmlForAnyLineAndAlignment) {
  Random random(11);
  for (int round = 0; round < 2000; ++round) {
    int words = 0;
    const std::string line = random_line(random, 4, words);
    std::string target;
    std::vector<int> links;
    const std::uint64_t count = 1 + random.below(12);
    for (std::uint64_t i = 0; i < count; ++i) {
      static const std::vector<std::string> known = {"rote", "Haus", "alten", "Mannes,", "Taste", "AT&T", "<", "E-"};
      target += (target.empty() ? "" : " ") + known[random.below(known.size())];
      links.push_back(static_cast<int>(random.below(static_cast<std::uint64_t>(words) + 2)));
    }
    if (words == 0) continue;
    const std::string found = marked(line, target, links, MarkupForm::xliff);
    EXPECT_EQ(tags_of(found), tags_of(line)) << line << "\n" << found;
    EXPECT_TRUE(read_markup(found, MarkupForm::xliff).ok()) << line << "\n" << found;
    std::string expected;
    for (const char c : target) {
      if (c != ' ') expected += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
    }
    EXPECT_EQ(without_tags_and_spaces(found), expected) << line << "\n" << found;
    EXPECT_FALSE(splits_a_word(found)) << line << "\n" << found;
  }
}

TEST_F(MarkupTest, TranslatesLinesWithTagsByAModel) {
  const auto backend = make_cpu_backend(1);
  const TinyModel tiny(*backend, vocabulary_.size());
  Translator translator(tiny.transformer, vocabulary_, *backend);
  const std::vector<std::string> lines = {"<p>the <b>red</b> house</p><p>of the man</p>", "", "<br>", "the <i>key</i>"};
  std::vector<MarkedLine> marked_lines;
  for (const std::string& line : lines) marked_lines.push_back(*read_markup(line, MarkupForm::html));
  const TranslateOptions options{.beam = {.beam = 3, .n_best = 2}, .align = AttentionChoice{}};
  const auto translations = translate_marked(translator, vocabulary_, marked_lines, options);
  ASSERT_EQ(translations.size(), lines.size());
  for (std::size_t i : {0U, 3U}) {
    ASSERT_EQ(translations[i].n_best.size(), 2U);
    for (const Rendering& rendering : translations[i].n_best) EXPECT_EQ(tags_of(rendering.text), tags_of(lines[i]));
  }
  EXPECT_EQ(translations[0].parts, 2);
  EXPECT_TRUE(translations[1].n_best.empty());
  EXPECT_EQ(translations[2].text(), "<br>");
  const auto plain = translator.translate({"the key"}, options).at(0);
  EXPECT_EQ(without_tags_and_spaces(translations[3].text()).size() > 0, !plain.text().empty());
  EXPECT_DOUBLE_EQ(translations[3].n_best[0].score, plain.n_best[0].score);
}

}  // namespace
}  // namespace babelring
