#include "cli/translation_input.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "nmt/data/text.h"

namespace babelring {
namespace {

/// Removes the bytes that a cut has left of a character.
void drop_partial_character(std::string& text) {
  std::size_t lead = text.size();
  while (lead > 0 && text.size() - lead < 4 && (static_cast<unsigned char>(text[lead - 1]) & 0xc0) == 0x80) --lead;
  if (lead > 0 && find_invalid_utf8(std::string_view(text).substr(lead - 1)) != std::string::npos)
    text.resize(lead - 1);
}

}  // namespace

TranslationInput::TranslationInput(const std::string& name, Invalid invalid)
    : name_(name == "-" ? "standard input" : name),
      invalid_(invalid),
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
  if (const std::string_view tag = markup_of(raw_); !tag.empty()) {
    spdlog::warn("{}:{}: begins with '{}': its tags are translated as text", name_, raw_.number, tag);
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
    raw_.text.resize(std::min(raw_.text.size(), kept_bytes));
    drop_partial_character(raw_.text);
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

}  // namespace babelring
