#include "server/launch/launcher_log.h"

#include <algorithm>
#include <fstream>

#include "base/log.h"

namespace babelring::launch {
namespace {

constexpr std::streamoff tail_bytes = 64 << 10;
constexpr std::size_t max_quoted = 300;

}  // namespace

std::string last_error_line(std::string_view text) {
  constexpr std::string_view mark = " error: ";
  const std::size_t at = text.rfind(mark);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = text.substr(at + mark.size());
  return printable(rest.substr(0, std::min(rest.find('\n'), max_quoted)));
}

std::string tail_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - tail_bytes));
  std::string text(static_cast<std::size_t>(std::min(size, tail_bytes)), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace babelring::launch
