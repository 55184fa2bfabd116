#include "nmt/base/grouped.h"

#include <fmt/format.h>

namespace babelring {

std::string grouped(double number) {
  std::string text = fmt::format("{:.0f}", number);
  const std::size_t first = text.starts_with('-') ? 2 : 1;  // no comma before the first digit
  for (std::size_t at = text.size(); at > first + 2;) text.insert(at -= 3, ",");
  return text;
}

}  // namespace babelring
