#include "cli/translation_lines.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <utility>

#include "base/failure.h"
#include "nmt/data/text.h"

namespace babelring {

TranslationInput::TranslationInput(const std::string& name, Invalid invalid, MarkupForm markup)
    : name_(name == "-" ? "standard input" : name),
      invalid_(invalid),
      markup_(markup),
      reader_(name == "-" ? LineReader(STDIN_FILENO, name_) : LineReader(name)) {}

std::vector<std::string> TranslationInput::next(std::int64_t count) {
  std::vector<std::string> lines;
  std::string line;
  while (!fault_ && std::ssize(lines) < count && take(line)) lines.push_back(std::move(line));
  if (fault_ && lines.empty()) throw Failure(*fault_);
  return lines;
}

/// Returns false at the end of the input and at an error.
bool TranslationInput::take(std::string& line) {
  const auto read = reader_.read(raw_);
  if (!read) {
    fault_ = read.error();
  } else if (*read && invalid_ == Invalid::fail) {
    fault_ = fault_of_line();
  } else if (*read) {
    repair_line();
  }
  if (fault_ || !*read) return false;
  if (const std::string_view tag = markup_of(raw_); !tag.empty() && markup_ == MarkupForm::none) {
    spdlog::warn("{}:{}: begins with '{}': its tags are translated as text (--markup)", name_, raw_.number, tag);
  }
  line = std::move(raw_.text);
  return true;
}

std::optional<std::string> TranslationInput::fault_of_line() const {
  if (raw_.over_long) {
    return fmt::format("{}:{}: over {} bytes (--invalid replace cuts the line and continues)", name_, raw_.number,
                       LineReader::longest_bytes);
  }
  const std::size_t at = find_invalid_utf8(raw_.text);
  if (at == std::string::npos) return std::nullopt;
  return fmt::format("{}:{}: byte {} is not UTF-8 (--invalid replace continues)", name_, raw_.number, at + 1);
}

void TranslationInput::repair_line() {
  if (raw_.over_long) {
    cut_text(raw_.text, kept_bytes);
    if (++cut_lines_ == 1) first_cut_ = raw_.number;
  }
  if (const std::int64_t bytes = replace_invalid_utf8(raw_.text); bytes > 0) {
    replaced_bytes_ += bytes;
    if (++replaced_lines_ == 1) first_replaced_ = raw_.number;
  }
}

void TranslationInput::warn_of_replaced() const {
  if (cut_lines_ > 0) {
    spdlog::warn("{}: lines over {} bytes, of which only the first {} are translated: {}, first line {}", name_,
                 LineReader::longest_bytes, kept_bytes, cut_lines_, first_cut_);
  }
  if (replaced_bytes_ == 0) return;
  spdlog::warn("{}: replaced invalid UTF-8 by U+FFFD: bytes {}, lines {}, first at line {}", name_, replaced_bytes_,
               replaced_lines_, first_replaced_);
}

void TranslationInput::skip(std::int64_t count) {
  for (std::int64_t line = 0; line < count && reader_.next(raw_);) ++line;
}

void LineCounts::add(std::int64_t number, const Translation& translation) {
  if (!translation.complete() && cut_++ == 0) first_cut_ = number;
  if (translation.parts > 1) ++(translation.source_pieces > max_pieces_ ? long_ : split_);
  for (const FoundTerm& found : translation.terms) {
    ++terms_;
    if (!found.missed) continue;
    ++missed_;
    spdlog::warn("line {}: the translation lacks '{}', for '{}' (--glossary)", number, found.term.second,
                 found.term.first);
  }
  if (!translation.cut_inside_sentence) return;
  spdlog::warn("line {}: {} pieces, split inside a sentence into {} parts (--max-source)", number,
               translation.source_pieces, translation.parts);
}

void LineCounts::report() const {
  const auto lines = [](std::int64_t count) { return count == 1 ? "line has" : "lines have"; };
  if (long_ > 0) {
    spdlog::info("{} {} more than {} pieces: split and translated in parts (--max-source)", long_, lines(long_),
                 max_pieces_);
  }
  if (split_ > 0) {
    spdlog::info("{} {} several sentences, which were translated one by one (--split)", split_, lines(split_));
  }
  if (terms_ > 0) spdlog::info("{} of {} terms of the glossary are in the translations", terms_ - missed_, terms_);
  if (cut_ > 0) {
    spdlog::info("{} cut at the maximum length, the first in line {} (--max-length-factor, --max-length-extra)",
                 cut_ == 1 ? "1 translation was" : fmt::format("{} translations were", cut_), first_cut_);
  }
}

}  // namespace babelring
