#include "base/grouped.h"

#include <fmt/format.h>

#include <algorithm>

namespace babelring {

std::string grouped(double number) {
  std::string text = fmt::format("{:.0f}", number);
  const std::size_t first = text.starts_with('-') ? 2 : 1;  // no comma before the first digit
  for (std::size_t at = text.size(); at > first + 2;) text.insert(at -= 3, ",");
  return text;
}

std::string counted(double number, std::string_view unit) {
  std::string text = fmt::format("{:.2f}", number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  for (std::size_t at = std::min(text.find('.'), text.size()); at > 3; at -= 3) text.insert(at - 3, ",");
  return fmt::format("{} {}{}", text, unit, number == 1 ? "" : "s");
}

}  // namespace babelring
