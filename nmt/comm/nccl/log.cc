#include "nmt/comm/nccl/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>

namespace babelring {
namespace {

/// The text between `begin` and `end`, or up to the line's end if `end` is missing. Empty if `begin` is missing.
std::string_view between(std::string_view line, std::string_view begin, std::string_view end) {
  const std::size_t at = line.find(begin);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = line.substr(at + begin.size());
  return rest.substr(0, rest.find(end));
}

/// Adds the interface names in "[0]eth0:10.0.0.1<0> [1]…" or "eth0:10.0.0.1<0>" to `names`.
void take_interfaces(std::string_view list, std::set<std::string>& names) {
  while (!list.empty()) {
    std::string_view word = list.substr(0, list.find(' '));
    list.remove_prefix(std::min(list.size(), word.size() + 1));
    if (word.starts_with('[')) word.remove_prefix(std::min(word.size(), word.find(']') + 1));
    const bool address = word.ends_with('>');  // otherwise an adapter's port, like mlx5_0:1/IB
    if (address) word = word.substr(0, word.find(':'));
    if (!word.empty() && word != "[RO];" && (address || word.find(':') != std::string_view::npos)) {
      names.insert(std::string(word));
    }
  }
}

/// Parses one line into `choice`. Returns false if the line states no choice.
bool take_nccl_line(std::string_view line, NcclChoice& choice) {
  if (line.find("AllReduce:") != std::string_view::npos) {
    const auto algorithm = between(line, "Algo ", " "), protocol = between(line, "proto ", " ");
    if (algorithm.empty() || protocol.empty()) return false;
    choice.algorithms.insert(std::string(algorithm));
    choice.protocols.insert(std::string(protocol));
    return true;
  }
  if (const auto transport = between(line, " via ", " "); !transport.empty()) {
    if (line.find("Channel ") == std::string_view::npos) return false;
    choice.transports.insert(std::string(transport));
    return true;
  }
  if (const std::size_t at = line.find(" coll channels"); at != std::string_view::npos) {
    const std::string_view before = line.substr(0, at);
    choice.channels = before.substr(before.rfind(' ') + 1);
    return true;
  }
  const std::size_t net = line.find("NET/");
  if (net == std::string_view::npos) return false;
  const auto list = between(line.substr(net), "Using ", "; OOB");
  if (list.empty()) return false;
  take_interfaces(list, choice.interfaces);
  return true;
}

/// Calls `use` with each line, without its host, process and device prefix.
void for_each_line(std::string_view log, const std::function<void(std::string_view)>& use) {
  constexpr std::string_view mark = "NCCL INFO ";
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    if (const std::size_t at = line.find(mark); at != std::string_view::npos) use(line.substr(at + mark.size()));
  }
}

}  // namespace

NcclChoice parse_nccl_log(std::string_view log) {
  NcclChoice choice;
  for_each_line(log, [&](std::string_view line) { take_nccl_line(line, choice); });
  return choice;
}

std::string nccl_log_extract(std::string_view log) {
  std::set<std::string> seen;
  std::string extract;
  for_each_line(log, [&](std::string_view line) {
    NcclChoice choice;
    // Each of hundreds of channels logs a line that differs only in its number, so the parsed choice is the key.
    if (take_nccl_line(line, choice) && seen.insert(choice.text()).second)
      extract += fmt::format("NCCL INFO {}\n", line);
  });
  return extract;
}

std::string NcclChoice::text() const {
  std::string text = algorithms.empty() ? "unknown algorithm" : fmt::format("{}", fmt::join(algorithms, " and "));
  if (!protocols.empty()) text += fmt::format(" in protocol {}", fmt::join(protocols, " and "));
  if (!channels.empty()) text += fmt::format(", {} channels", channels);
  if (!transports.empty()) text += fmt::format(", by {}", fmt::join(transports, " and "));
  if (!interfaces.empty()) text += fmt::format(" over {}", fmt::join(interfaces, " and "));
  return text;
}

NcclLog::NcclLog() {
  if (std::getenv("NCCL_DEBUG") != nullptr) return;
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "babelring_nccl_XXXXXX").string();
  if (error || path.find('%') != std::string::npos) return;  // NCCL would expand '%' in the path
  file_ = ::mkostemp(path.data(), O_CLOEXEC);
  if (file_ < 0) return;
  path_ = path;
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_SUBSYS", "INIT,BOOTSTRAP,TUNING", 1);
  ::setenv("NCCL_DEBUG_FILE", path.c_str(), 1);
}

NcclLog::~NcclLog() {
  if (file_ < 0) return;
  ::close(file_);
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::string NcclLog::read() const {
  std::string text;
  std::array<char, 65536> block;
  for (ssize_t count = 0;
       file_ >= 0 && (count = ::pread(file_, block.data(), block.size(), static_cast<off_t>(text.size()))) > 0;) {
    text.append(block.data(), static_cast<std::size_t>(count));
  }
  return text;
}

void NcclLog::clear() {
  // NCCL keeps writing at its old offset, so the file gets a hole before it.
  if (file_ >= 0 && ::ftruncate(file_, 0) != 0) return;
}

}  // namespace babelring
