#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "nmt/decode/translator.h"

namespace babelring {

/// html: fragments of HTML 5. xliff: the content of a <source> of XLIFF 1.2 or 2 (well-formed XML). none: text.
enum class MarkupForm { none, html, xliff };

/// An element around words, or a placeholder between them.
struct MarkupNode {
  std::string open, close;  // as in the source; a placeholder, or an element that is copied whole, has no `close`
  std::size_t begin = 0, end = 0;                  // bytes of the text inside; equal for a placeholder
  bool space_before = false, space_after = false;  // of a placeholder, in the source
  bool divides = false;              // a placeholder between words that are not one word, though no space divides them
  std::vector<MarkupNode> children;  // in order
};

/// Text that is translated as one, with its tags.
struct MarkedText {
  std::string text;  // without tags, entities decoded
  std::vector<MarkupNode> nodes;
};

/// A line with tags. Blocks, such as the cells of a table, are translated separately.
struct MarkedLine {
  std::vector<std::string> between;  // copied before, between and after the texts: one more than these
  std::vector<MarkedText> texts;     // each has a character that is not a space
};

/// Text, a placeholder or an element of a line with tags.
struct MarkupPart {
  std::string open, close;  // as in the line: of text all of it, of a placeholder the tag
  std::string name;         // of the tag, in HTML in lower case
  std::string text;         // of text: decoded
  bool is_text = false, is_element = false;
  bool is_copied = false;  // with all that is inside
  bool is_block = false;   // its text is no part of the sentence around it
  bool divides = false;    // MarkupNode::divides
  std::vector<MarkupPart> parts;

  std::string bytes() const {
    std::string all = open;
    for (const MarkupPart& part : parts) all += part.bytes();
    return all + close;
  }
};

/// Reads a line into a tree. Throws Error that names the tag or entity which is wrong.
std::vector<MarkupPart> read_markup_parts(std::string_view line, MarkupForm form);

/// Spaces of HTML and XML.
inline constexpr std::string_view markup_spaces = " \t\r\n\f";

/// Takes a line apart. The error names the tag or entity: one that is not closed, closes none, crosses another or is
/// not well-formed, or more than 200 tags within one another.
Result<MarkedLine> read_markup(std::string_view line, MarkupForm form);

/// The translation of a text with the tags of its source, each once: elements around the words that are aligned with
/// those inside of them (contiguous, within their parents, beside their siblings), placeholders before the word that is
/// aligned with the one that follows. No tag is inside a word. `source_ends`: Vocabulary::piece_ends() of marked.text.
std::string with_markup(const MarkedText& marked, const std::vector<std::size_t>& source_ends,
                        const Rendering& rendering, const Vocabulary& vocabulary);

/// A word or a punctuation mark of a text.
struct TextUnit {
  std::size_t begin = 0, end = 0;  // bytes
  bool is_word = false;
};

/// The units of a text by Unicode's word boundaries, with the dictionaries of scripts without spaces. Words that a
/// hyphen, or between words an apostrophe or the like, joins are one.
std::vector<TextUnit> text_units(std::string_view text);

/// The translations of a line's texts as one, with its tags. They must have attention. `n_best`: most translations.
Translation joined_translation(const MarkedLine& line, std::span<const Translation> texts, const Vocabulary& vocabulary,
                               int n_best);

/// The number by which the samples of text `text` of a line are drawn: of the first that of the line.
inline std::int64_t text_number(std::int64_t line, std::size_t text) {
  return line + (static_cast<std::int64_t>(text) << 40);  // lines in a text are fewer
}

/// Translates lines with tags; `options.align` must be given. `first_line`: as of Translator::translate().
std::vector<Translation> translate_marked(Translator& translator, const Vocabulary& vocabulary,
                                          std::span<const MarkedLine> lines, const TranslateOptions& options,
                                          std::int64_t first_line = 0);

}  // namespace babelring
