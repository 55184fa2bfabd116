#include "server/launch/launcher_log.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <iterator>

#include "base/log.h"

namespace babelring::launch {
namespace {

constexpr std::streamoff tail_bytes = 64 << 10;
constexpr std::size_t max_quoted = 300;

/// Parses the number after `words` and advances `text` past it.
std::optional<std::int64_t> number_after(std::string_view& text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + words.size());
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// The host name or address after `words`, also at the end of a sentence.
std::string host_after(std::string_view& text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + words.size());
  std::string_view host = text.substr(0, text.find_first_of(" \n,"));
  while (host.ends_with('.')) host.remove_suffix(1);
  return printable(host.substr(0, 253));
}

}  // namespace

std::optional<LostRank> find_lost_rank(std::string_view text) {
  // Example: mpirun noticed that process rank 1 with PID 0 on node hostA exited on signal 9 (Killed).
  constexpr std::string_view noticed = "mpirun noticed that process rank ";
  const std::size_t at = text.find(noticed);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = text.substr(at, 1000);
  const auto rank = number_after(rest, noticed);
  if (!rank) return std::nullopt;
  LostRank lost{.rank = *rank, .host = host_after(rest, "on node "), .how = "ended"};
  if (const auto signal = number_after(rest, "exited on signal"))
    lost.how = fmt::format("killed by signal {}", *signal);
  return lost;
}

std::string find_lost_host(std::string_view text) {
  // Example: Remote daemon: [[5423,0],1] on node hostB
  constexpr std::string_view lost = "ORTE has lost communication with a remote daemon";
  const std::size_t at = text.find(lost);
  if (at == std::string_view::npos) return "";
  std::string_view rest = text.substr(at, 1000);
  const std::size_t remote = rest.find("Remote daemon:");
  if (remote == std::string_view::npos) return "";
  rest.remove_prefix(remote);
  return host_after(rest, "on node ");
}

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
