#include "cli/translation_input.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <utility>

#include "base/failure.h"
#include "nmt/data/text.h"

namespace babelring {

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
  } else if (*read && raw_.over_long) {
    fault_ = fmt::format("{}:{}: over {} bytes", name_, raw_.number, LineReader::longest_bytes);
  } else if (const std::size_t at = *read ? find_invalid_utf8(raw_.text) : std::string::npos; at != std::string::npos) {
    if (invalid_ == Invalid::fail) {
      fault_ = fmt::format("{}:{}: byte {} is not UTF-8 (--invalid replace continues)", name_, raw_.number, at + 1);
    } else {
      replaced_bytes_ += replace_invalid_utf8(raw_.text);
      if (++replaced_lines_ == 1) first_replaced_ = raw_.number;
    }
  }
  if (fault_ || !*read) return false;
  if (const std::string_view tag = markup_of(raw_); !tag.empty()) {
    spdlog::warn("{}:{}: begins with '{}': its tags are translated as text", name_, raw_.number, tag);
  }
  line = std::move(raw_.text);
  return true;
}

void TranslationInput::warn_of_replaced() const {
  if (replaced_bytes_ == 0) return;
  spdlog::warn("{}: replaced invalid UTF-8 by U+FFFD: bytes {}, lines {}, first at line {}", name_, replaced_bytes_,
               replaced_lines_, first_replaced_);
}

}  // namespace babelring
