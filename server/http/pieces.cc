#include <algorithm>

#include "server/http/message.h"

namespace babelring::http {
namespace {

std::int64_t length_of(const std::variant<std::string, FileSlice>& part) {
  const auto* text = std::get_if<std::string>(&part);
  return text != nullptr ? static_cast<std::int64_t>(text->size()) : std::get<FileSlice>(part).length;
}

/// The part's `length` bytes starting at `first`.
void cut_part(std::variant<std::string, FileSlice>& part, std::int64_t first, std::int64_t length) {
  if (auto* text = std::get_if<std::string>(&part)) {
    *text = text->substr(static_cast<std::size_t>(first), static_cast<std::size_t>(length));
    return;
  }
  auto& slice = std::get<FileSlice>(part);
  slice.offset += first;
  slice.length = length;
}

}  // namespace

std::int64_t Pieces::length() const {
  std::int64_t sum = 0;
  for (const auto& part : parts) sum += length_of(part);
  return sum;
}

void Pieces::cut(std::int64_t first, std::int64_t length) {
  std::vector<std::variant<std::string, FileSlice>> kept;
  for (std::int64_t begin = 0; auto& part : parts) {
    const std::int64_t end = begin + length_of(part);
    const std::int64_t from = std::max(begin, first), to = std::min(end, first + length);
    if (from < to) {
      cut_part(part, from - begin, to - from);
      kept.push_back(std::move(part));
    }
    begin = end;
  }
  parts = std::move(kept);
}

}  // namespace babelring::http
