#include "nmt/data/pair_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/gzip.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

using namespace std::string_literals;
using testing::ElementsAre;
using testing::HasSubstr;

/// Each pair as "line:source|target", what is incomplete as "line:text ?"; or the error.
std::vector<std::string> read_pairs(const std::filesystem::path& source, const std::filesystem::path& target = {},
                                    const PairChoice& choice = {}) {
  std::vector<std::string> out;
  try {
    const auto pairs = open_pairs(source, target, choice);
    RawLine one, two;
    for (auto next = pairs->next(one, two); next != PairSource::Next::end; next = pairs->next(one, two)) {
      out.push_back(fmt::format("{}:{}", one.number, one.text) +
                    (next == PairSource::Next::pair ? "|" + two.text : " ?"));
    }
  } catch (const Failure& failure) {
    out.emplace_back(failure.what());
  }
  return out;
}

TEST(PairSource, TellsFormsByContent) {
  for (const auto& [start, form] : std::vector<std::pair<std::string, TextForm>>{
           {"A sentence.\nAnother.\n", TextForm::lines},
           {"", TextForm::lines},
           {"\n\n", TextForm::lines},
           {"one\teins\n\ntwo\tzwei", TextForm::tsv},
           {"one\teins\na header has none\n", TextForm::lines},
           {"\ufeff<?xml version='1.0'?>\n<!-- <html> -->\n<!DOCTYPE tmx SYSTEM 'tmx14.dtd'>\n<tmx version='1.4'>",
            TextForm::tmx},
           {"<!DOCTYPE tmx [ <!ENTITY a '>'> ]>\n<TMX>", TextForm::tmx},
           {"<xliff version='1.2'>", TextForm::xliff},
           {"<x:xliff xmlns:x='urn'>", TextForm::xliff},
           {"<?xml version='1.0'?><dataset id='x'>", TextForm::wmt},
           {"<srcset setid=\"x\">", TextForm::sgml},
           {"\n<?xml version='1.0'?>\n<mteval><refset>", TextForm::sgml},
           {"<?xml version='1.0'?><root/>", TextForm::markup},
           {"<html>", TextForm::markup},
           {"<b>bold</b> text\n", TextForm::lines},
           {"<", TextForm::lines},
           {"<!-- no end", TextForm::lines},
           {"\xff\xfe<\0t\0m\0x\0>\0"s, TextForm::tmx},
           {"\0<\0t\0m\0x\0>"s, TextForm::tmx},
           {"\xff\xfeh\0b\0"s, TextForm::lines}}) {
    EXPECT_EQ(name_of(form_of(std::string_view(start))), name_of(form)) << start;
  }
}

TEST(PairSource, ReadsColumnsOfTsv) {
  const TemporaryFolder folder;
  std::string many;
  for (int i = 0; i < 20; ++i) many += "five\tfünf\n";
  const auto file = folder.write("a", gzip("one\teins\tx\r\ntwo\tzwei\r\n\tdrei\nfour\n" + many));
  const auto first = [&](const std::filesystem::path& target, const PairChoice& choice) {
    auto pairs = read_pairs(file, target, choice);
    pairs.resize(4);
    return pairs;
  };
  EXPECT_THAT(first({}, {}), ElementsAre("1:one|eins", "2:two|zwei", "3:|drei", "4:four ?"));
  EXPECT_THAT(first({}, {.source_column = 3, .target_column = 1}),
              ElementsAre("1:x|one", "2:two\tzwei ?", "3:\tdrei ?", "4:four ?"));
  EXPECT_THAT(first(file, {}),
              ElementsAre("1:one\teins\tx|one\teins\tx", "2:two\tzwei|two\tzwei", "3:\tdrei|\tdrei", "4:four|four"))
      << "a pair of texts may have tabs";
}

TEST(PairSource, ReadsSgmlThatIsNoXml) {
  const TemporaryFolder folder;
  const auto source =
      folder.write("a.sgm",
                   "<srcset setid=\"x\"\n srclang=en>\n<DOC sysid='s' docid=\"d&1\">\n<!-- <seg id=0>no"
                   "\n</seg> --><p>\n<seg id=\"1\">R&D &amp; <q> &#x41;&#8364;&bogus; &#1234567890;</seg>"
                   "<SEG ID=2>\ntwo\n  lines </SEG>\n</DOC>\n</srcset>\n");
  const std::string reference =
      "<refset>\n<doc docid='d&1' sysid='A'>\n<seg id='1'>eins</seg>\n<seg id='2'>zwei</seg>\n</doc>\n";
  EXPECT_THAT(read_pairs(source, folder.write("b", reference + "<doc docid='d&1' sysid='B'><seg id='1'>x</seg></doc>")),
              ElementsAre("6:R&D & <q> A€&bogus; &#1234567890;|eins", "6:two lines|zwei"))
      << "of several references the first";
  EXPECT_THAT(read_pairs(source, folder.write("b", "eins\nzwei\n")),
              ElementsAre("6:R&D & <q> A€&bogus; &#1234567890;|eins", "6:two lines|zwei"));
  const std::string name = (folder / "b").string();
  EXPECT_EQ(read_pairs(source, folder.write("b", "<refset>\n<doc docid='e'>\n<seg id='1'>eins</seg>")).back(),
            source.string() + ":6 has document 'd&1', segment 1, " + name +
                ":3 has document 'e', segment 1; expected the same segments in the same order");
  EXPECT_EQ(read_pairs(source, folder.write("b", "<refset><doc docid='d&1'>\n<seg id='1'>eins")).back(),
            name + ":2: a segment without '</seg'");
  EXPECT_EQ(read_pairs(source, folder.write("b", "<refset><doc docid='d&1'><seg id='1'>a<seg id='2'>b</seg>")).back(),
            name + ":1: a segment without '</seg>'");
  EXPECT_EQ(read_pairs(source, folder.write("b", "<refset></refset>\n<srcset>")).back(),
            name + ":2: <srcset> after <refset>; expected one set in a file");
}

TEST(PairSource, ReadsTmxUnitsInTheLanguagesChosen) {
  const TemporaryFolder folder;
  const auto file = folder.write(
      "a",
      "<tmx version='1.1'><header srclang='EN-us'/><body>\n"
      "<tu><tuv xml:lang='fr'><seg>un</seg></tuv></tu>\n"
      "<tu><tuv lang='de'><seg>eins</seg></tuv><tuv lang='en'><seg>on<hi>e</hi> "
      "&lt;<it>code<sub>x</sub></it></seg></tuv></tu>\n"
      "<tu><tuv lang='en_GB'><seg>two<ph type='lb'/>lines\n  here</seg></tuv><tuv lang='EN'><seg>other</seg></tuv>"
      "<tuv lang='de-CH'><seg/></tuv></tu>\n"
      "<tu><tuv xml:lang='english'><seg>x</seg></tuv><tuv lang='de'><seg>y</seg></tuv></tu></body></tmx>");
  EXPECT_THAT(read_pairs(file), ElementsAre("2:un ?", "3:one <|eins", "5:other|", "6:y ?"));
  EXPECT_THAT(read_pairs(file, {}, {.source_language = "de", .target_language = "en-GB"}),
              ElementsAre("2: ?", "3:eins ?", "5:|two lines here", "6:y ?"));
}

TEST(PairSource, ReadsXliffWithoutProposalsAndNewTargets) {
  const TemporaryFolder folder;
  const auto file = folder.write(
      "a",
      "<xliff version='1.2'><file source-language='en' target-language='de'><body>\n"
      "<trans-unit><source>one <ph>%s</ph><mrk>two</mrk></source><seg-source><mrk>one</mrk></seg-source>"
      "<alt-trans><target>no</target></alt-trans><target>eins<x/> zwei</target></trans-unit>\n"
      "<trans-unit><source>three</source><target state='needs-translation'>three</target></trans-unit>\n"
      "<trans-unit><source>four</source></trans-unit></body></file>\n"
      "<file source-language='en' target-language='fr'><body><trans-unit><source>five</source><target>cinq</target>"
      "</trans-unit></body></file></xliff>");
  EXPECT_THAT(read_pairs(file), ElementsAre("2:one two|eins zwei", "3:three ?", "4:four ?", "5: ?"));
  EXPECT_THAT(read_pairs(file, {}, {.source_language = "fr", .target_language = "en"}).back(), "5:cinq|five");
  const auto second = folder.write("b",
                                   "<xliff version='2.0' srcLang='en' trgLang='de'><file><unit>\n<segment><source>a<cp "
                                   "hex='0007'/></source><target>b</target></segment></unit></file></xliff>");
  EXPECT_THAT(read_pairs(second), ElementsAre("2:a\a|b"));
}

TEST(PairSource, PairsSegmentsOfWmtByDocumentAndId) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("a",
                   "<dataset><collection><doc><src lang='en'><p>\n<seg id='1'>a</seg><seg id='2'>b</seg></p>"
                   "</src><ref lang='de' translator='A'><seg id='2'>B</seg></ref></doc>\n"
                   "<doc><src lang='en'><seg id='1'>c</seg></src></doc></collection></dataset>");
  EXPECT_THAT(read_pairs(file), ElementsAre("2:a ?", "2:b|B", "3:c ?"));
}

TEST(PairSource, TakesElementsInsideOfATextAsInlineWhateverTheirNames) {
  const TemporaryFolder folder;
  EXPECT_THAT(read_pairs(folder.write("a",
                                      "<tmx><tu><tuv lang='en'><seg>a<seg>b</seg><tu/>c</seg></tuv>"
                                      "<tuv lang='de'><seg>d<ph>e<seg/></ph>f</seg></tuv></tu></tmx>")),
              ElementsAre("1:abc|df"));
  EXPECT_THAT(read_pairs(folder.write("a",
                                      "<xliff srcLang='en' trgLang='de'><segment><source>a<target>b</target><segment/>c"
                                      "</source><target>d<source/>e</target></segment></xliff>")),
              ElementsAre("1:abc|de"));
  EXPECT_THAT(read_pairs(folder.write("a",
                                      "<dataset><doc><src lang='en'><seg id='1'>a<doc>b</doc><src/>c</seg><seg id='2'>d"
                                      "</seg></src><ref lang='de'><seg id='2'>e</seg></ref></doc></dataset>")),
              ElementsAre("1:abc ?", "1:d|e"));
}

TEST(PairSource, NamesFileAndLineOfDamage) {
  const TemporaryFolder folder;
  const std::string name = (folder / "a").string();
  const auto last = [&](const std::string& content) { return read_pairs(folder.write("a", content)).back(); };
  EXPECT_EQ(last("<tmx>\n<tu></tuv>"), name + ":2: mismatched tag; expected well-formed TMX");
  EXPECT_EQ(last("<tmx>\n<tu>\n"), name + ":3: unexpected end of file; expected well-formed TMX");
  EXPECT_EQ(last("<tmx>\n<tu>\xff</tu>"), name + ":2: not well-formed (invalid token); expected well-formed TMX");
  EXPECT_EQ(last("<tmx>&x;</tmx>"), name + ":1: undefined entity; expected well-formed TMX");
  EXPECT_THAT(last("<?xml version='1.0' encoding='windows-1251'?><tmx></tmx>"),
              HasSubstr(":1: an encoding other than"));
  EXPECT_THAT(last("plain\n"),
              HasSubstr("a is plain text; expected TSV, TMX, XLIFF or XML of WMT, which hold both sides"));
  EXPECT_EQ(last("<tmx><tu>\n<tu></tu></tu></tmx>"), name + ":2: <tu> inside of another; expected TMX");
  EXPECT_EQ(last("<xliff><trans-unit>\n<segment/></trans-unit></xliff>"),
            name + ":2: <segment> inside of another; expected XLIFF");
  EXPECT_EQ(last("<dataset><doc><src>\n<doc><seg>a</seg></doc></src></doc></dataset>"),
            name + ":2: <doc> inside of another; expected XML of WMT");
  EXPECT_EQ(last("<dataset><doc><src>\n<ref/></src></doc></dataset>"),
            name + ":2: <ref> inside of another; expected XML of WMT");
  EXPECT_EQ(last("<dataset>\n<src><doc><seg>a</seg></doc></src></dataset>"),
            name + ":2: <src> outside of a <doc>; expected XML of WMT");
  EXPECT_EQ(last("<tmx><tu/>\n<tuv><seg>a</seg></tuv></tmx>"), name + ":2: <seg> outside of a <tu>; expected TMX");
  const std::string packed = gzip("<tmx>" + std::string(100'000, ' '));
  EXPECT_THAT(last(packed.substr(0, packed.size() - 9)), HasSubstr("cannot read " + name + " after line 1: damaged"));
  folder.write("tmx", "<tmx/>");
  EXPECT_THAT(read_pairs(folder.write("a", "x\n"), folder / "tmx").back(),
              HasSubstr("tmx is TMX, which holds both sides"));
}

TEST(PairSource, CutsTextsThatAreTooLong) {
  const TemporaryFolder folder;
  const std::string longer(LineReader::longest_bytes + 10, 'x');
  const auto check = [&](const std::filesystem::path& source, const std::filesystem::path& target = {}) {
    const auto pairs = open_pairs(source, target, {});
    RawLine one, two;
    ASSERT_EQ(pairs->next(one, two), PairSource::Next::pair);
    EXPECT_TRUE(one.over_long);
    EXPECT_EQ(one.text.size(), LineReader::longest_bytes);
    ASSERT_EQ(pairs->next(one, two), PairSource::Next::pair);
    EXPECT_FALSE(one.over_long);
    EXPECT_EQ(one.text + two.text, "ab");
  };
  check(
      folder.write("sgm", "<srcset><seg>\n" + longer.substr(20) + "\n" + longer.substr(20) + "\n</seg>\n<seg>a</seg>"),
      folder.write("b", "x\nb\n"));
  EXPECT_EQ(read_pairs(folder.write("sgm", "<srcset>\n<seg>" + longer + "</seg>"), folder / "b").back(),
            (folder / "sgm").string() + ":2: SGML in a line of over 1048576 bytes");
  const std::string unit = "<tu><tuv xml:lang='en'><seg>{}</seg></tuv><tuv xml:lang='de'><seg>b</seg></tuv></tu>";
  check(folder.write(
      "tmx", "<tmx>" + fmt::format(fmt::runtime(unit), longer) + fmt::format(fmt::runtime(unit), "a") + "</tmx>"));
}

}  // namespace
}  // namespace babelring
