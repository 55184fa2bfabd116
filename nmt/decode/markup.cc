#include "nmt/decode/markup.h"

#include <unicode/brkiter.h>
#include <unicode/utext.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/failure.h"
#include "nmt/data/text.h"

namespace babelring {
namespace {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(markup_spaces) == text.npos;
}

/// The value of an attribute in double or single quotes; empty without one.
std::string_view attribute_of(std::string_view tag, std::string_view name) {
  for (std::size_t at = tag.find(name); at != tag.npos; at = tag.find(name, at + 1)) {
    const std::string_view rest = tag.substr(at + name.size());
    const bool begins = at > 0 && markup_spaces.find(tag[at - 1]) != markup_spaces.npos;
    if (!begins || rest.size() < 2 || rest[0] != '=' || (rest[1] != '"' && rest[1] != '\'')) continue;
    return rest.substr(2, std::min(rest.find(rest[1], 2), rest.size()) - 2);
  }
  return {};
}

/// The attribute that the two placeholders of XLIFF which begin and end a span have in common.
std::string_view pair_key(const MarkupPart& part, bool ends) {
  for (const char* name : {"rid", ends ? "startRef" : "id", "id"}) {
    if (const std::string_view value = attribute_of(part.open, name); !value.empty()) return value;
  }
  return {};
}

/// Makes elements of pairs of XLIFF's placeholders, <bx/> … <ex/>, so that they stay in order around words. Pairs that
/// cross stay placeholders.
void join_pairs(std::vector<MarkupPart>& parts) {
  const auto partner = [](std::string_view name) -> std::string_view {
    return name == "bx" ? "ex" : name == "bpt" ? "ept" : name == "sc" ? "ec" : "";
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    join_pairs(parts[i].parts);
    const std::string_view end_name = partner(parts[i].name), key = pair_key(parts[i], false);
    if (end_name.empty() || key.empty() || parts[i].is_element) continue;
    const auto end = std::find_if(
        parts.begin() + static_cast<std::ptrdiff_t>(i) + 1, parts.end(),
        [&](const auto& part) { return part.name == end_name && !part.is_element && pair_key(part, true) == key; });
    if (end == parts.end()) continue;
    const auto first = parts.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    parts[i].is_element = true;
    parts[i].close = end->open;
    std::vector<MarkupPart> inside(std::make_move_iterator(first), std::make_move_iterator(end));
    join_pairs(inside);
    parts[i].parts = std::move(inside);
    parts.erase(first, end + 1);
  }
}

/// Divides a tree at its blocks into texts.
class TextCollector {
 public:
  MarkedLine collect(std::vector<MarkupPart> parts) {
    line_.between.emplace_back();
    walk(std::move(parts));
    return std::move(line_);
  }

 private:
  static bool has_block(const MarkupPart& part) { return part.is_block || std::ranges::any_of(part.parts, has_block); }

  void walk(std::vector<MarkupPart> parts) {
    join_pairs(parts);
    std::vector<MarkupPart> run;
    for (MarkupPart& part : parts) {
      if (!has_block(part)) {
        run.push_back(std::move(part));
        continue;
      }
      flush(run);
      line_.between.back() += part.open;
      walk(std::move(part.parts));
      line_.between.back() += part.close;
    }
    flush(run);
  }

  /// Makes a text of parts without blocks; spaces at its ends are copied.
  void flush(std::vector<MarkupPart>& run) {
    const auto text_of = [](const std::vector<MarkupPart>& parts) {
      std::vector<MarkupNode> unused;
      std::string text;
      append(parts, text, unused);
      return text;
    };
    std::string before, after;
    if (!is_visible(text_of(run))) {
      for (const MarkupPart& part : run) before += part.bytes();
      line_.between.back() += before;
      return run.clear();
    }
    if (run.front().is_text) {
      std::string& text = run.front().text;
      before = text.substr(0, text.find_first_not_of(markup_spaces));
      text.erase(0, before.size());
    }
    if (run.back().is_text) {
      std::string& text = run.back().text;
      const std::size_t end = text.find_last_not_of(markup_spaces) + 1;
      after = text.substr(end);
      text.erase(end);
    }
    line_.between.back() += before;
    MarkedText marked;
    append(run, marked.text, marked.nodes);
    divide(marked);
    line_.texts.push_back(std::move(marked));
    line_.between.push_back(after);
    run.clear();
  }

  static void append(const std::vector<MarkupPart>& parts, std::string& text, std::vector<MarkupNode>& nodes) {
    for (const MarkupPart& part : parts) {
      if (part.is_text) {
        text += part.text;
        continue;
      }
      MarkupNode node{
          .open = part.open, .close = part.close, .begin = text.size(), .divides = part.divides, .children = {}};
      append(part.parts, text, node.children);
      node.end = text.size();
      node.divides &= !part.is_element;
      nodes.push_back(std::move(node));
    }
  }

  /// Notes the spaces around placeholders, and puts one between words that only a placeholder divides.
  static void divide(MarkedText& marked) {
    std::vector<std::size_t> places;
    find_places(marked.nodes, marked.text, places);
    std::ranges::sort(places);
    places.erase(std::ranges::unique(places).begin(), places.end());
    move_nodes(marked.nodes, places);
    for (std::size_t i = places.size(); i-- > 0;) marked.text.insert(places[i], " ");
  }
  static void find_places(std::vector<MarkupNode>& nodes, std::string_view text, std::vector<std::size_t>& places) {
    for (MarkupNode& node : nodes) {
      find_places(node.children, text, places);
      if (node.begin != node.end) continue;
      node.space_before =
          is_blank(text.substr(0, node.begin).substr(node.begin > 0 ? node.begin - 1 : 0)) && node.begin > 0;
      node.space_after = node.end < text.size() && is_blank(text.substr(node.end, 1));
      const bool at_end = node.begin == 0 || node.end == text.size();
      if (node.divides && !node.space_before && !node.space_after && !at_end) places.push_back(node.begin);
    }
  }
  static void move_nodes(std::vector<MarkupNode>& nodes, const std::vector<std::size_t>& places) {
    const auto moved = [&](std::size_t at) {
      return at + static_cast<std::size_t>(std::ranges::lower_bound(places, at) - places.begin());
    };
    for (MarkupNode& node : nodes) {
      node.begin = moved(node.begin);
      node.end = moved(node.end);
      move_nodes(node.children, places);
    }
  }

  MarkedLine line_;
};

}  // namespace

Result<MarkedLine> read_markup(std::string_view line, MarkupForm form) {
  try {
    return TextCollector().collect(read_markup_parts(line, form));
  } catch (const Error& error) {
    return error;
  }
}

namespace {

/// The k-th translations of a line's texts as one, if each has k.
Rendering joined_rendering(const MarkedLine& line, std::span<const Translation> texts, std::size_t k,
                           const Vocabulary& vocabulary) {
  Rendering whole{.text = line.between.front()};
  const Rendering none;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const MarkedText& marked = line.texts[i];
    const Rendering& part = texts[i].n_best.empty() ? none : texts[i].n_best[k];
    whole.text += with_markup(marked, vocabulary.piece_ends(marked.text), part, vocabulary) + line.between[i + 1];
    whole.score += part.score / static_cast<double>(texts.size());
    whole.log_probability += part.log_probability;
    whole.complete &= part.complete;
    whole.ids.insert(whole.ids.end(), part.ids.begin(), part.ids.end());
    whole.token_scores.insert(whole.token_scores.end(), part.token_scores.begin(), part.token_scores.end());
    whole.attention.append(part.attention);
  }
  return whole;
}

}  // namespace

Translation joined_translation(const MarkedLine& line, std::span<const Translation> texts, const Vocabulary& vocabulary,
                               int n_best) {
  Translation whole{.parts = 0};
  std::size_t count = texts.empty() ? 1 : static_cast<std::size_t>(n_best);
  for (const Translation& text : texts) {
    whole.source_pieces += text.source_pieces;
    whole.source_ids.insert(whole.source_ids.end(), text.source_ids.begin(), text.source_ids.end());
    whole.parts += text.parts;
    whole.cut_inside_sentence |= text.cut_inside_sentence;
    whole.terms.insert(whole.terms.end(), text.terms.begin(), text.terms.end());
    if (!text.n_best.empty()) count = std::min(count, text.n_best.size());
  }
  const bool is_empty = texts.empty() && line.between.front().empty();
  for (std::size_t k = 0; k < count && !is_empty; ++k) {
    whole.n_best.push_back(joined_rendering(line, texts, k, vocabulary));
  }
  return whole;
}

std::vector<Translation> translate_marked(Translator& translator, const Vocabulary& vocabulary,
                                          std::span<const MarkedLine> lines, const TranslateOptions& options,
                                          std::int64_t first_line) {
  std::vector<std::string> texts;
  std::vector<std::vector<std::int32_t>> ids;
  std::vector<std::int64_t> numbers;
  for (std::size_t line = 0; line < lines.size(); ++line) {
    for (std::size_t i = 0; i < lines[line].texts.size(); ++i) {
      texts.push_back(lines[line].texts[i].text);
      ids.push_back(vocabulary.encode(texts.back()));
      numbers.push_back(text_number(first_line + static_cast<std::int64_t>(line), i));
    }
  }
  const std::vector<std::span<const std::int32_t>> sources(ids.begin(), ids.end());
  const std::vector<Translation> translated =
      translator.translate_lines({.ids = sources, .texts = texts, .numbers = numbers}, options);
  std::vector<Translation> translations;
  std::size_t first = 0;
  for (const MarkedLine& line : lines) {
    const auto parts = std::span(translated).subspan(first, line.texts.size());
    first += parts.size();
    translations.push_back(joined_translation(line, parts, vocabulary, options.beam.n_best));
  }
  return translations;
}

namespace {

/// True if a unit that follows the last of `units` without a space is part of a word with it: a hyphen after a word,
/// a word after a hyphen, or after an apostrophe or the like that follows a word.
bool joins(std::string_view text, const std::vector<TextUnit>& units, const TextUnit& next) {
  constexpr std::string_view hyphens[] = {"-", "\u2010", "\u2011"}, joiners[] = {"'", "\u2019", "/", "&", "+"};
  const auto slice = [&](const TextUnit& unit) { return text.substr(unit.begin, unit.end - unit.begin); };
  const TextUnit& last = units.back();
  const auto is_in = [](std::string_view unit, const auto& set) {
    return std::ranges::find(set, unit) != std::end(set);
  };
  const auto ends_in_hyphen = [&] {
    return std::ranges::any_of(hyphens, [&](std::string_view hyphen) { return slice(last).ends_with(hyphen); });
  };
  if (last.is_word) return next.is_word ? ends_in_hyphen() : is_in(slice(next), hyphens);
  const bool follows_word =
      units.size() > 1 && units[units.size() - 2].is_word && units[units.size() - 2].end == last.begin;
  return next.is_word && follows_word && is_in(slice(last), joiners);
}

}  // namespace

std::vector<TextUnit> text_units(std::string_view text) {
  UErrorCode error = U_ZERO_ERROR;
  thread_local const std::unique_ptr<icu::BreakIterator> prototype(
      icu::BreakIterator::createWordInstance(icu::Locale::getRoot(), error));
  if (U_FAILURE(error) || prototype == nullptr) fail("word boundaries: ICU: {}", u_errorName(error));
  const std::unique_ptr<UText, decltype(&utext_close)> view(
      utext_openUTF8(nullptr, text.data(), static_cast<std::int64_t>(text.size()), &error), utext_close);
  prototype->setText(view.get(), error);
  if (U_FAILURE(error)) fail("word boundaries: ICU: {}", u_errorName(error));
  std::vector<TextUnit> units;
  std::size_t begin = 0;
  for (int end = prototype->next(); end != icu::BreakIterator::DONE; end = prototype->next()) {
    const TextUnit unit{begin, static_cast<std::size_t>(end), prototype->getRuleStatus() >= UBRK_WORD_NONE_LIMIT};
    begin = unit.end;
    if (normalize_spaces(text.substr(unit.begin, unit.end - unit.begin)).empty()) continue;
    if (!units.empty() && units.back().end == unit.begin && joins(text, units, unit)) {
      const std::size_t first = units.back().is_word ? units.size() - 1 : units.size() - 2;
      units.resize(first + 1);
      units.back().end = unit.end;
    } else {
      units.push_back(unit);
    }
  }
  return units;
}

}  // namespace babelring
