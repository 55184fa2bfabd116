#include "base/run_fence.h"

#include <algorithm>
#include <charconv>

#include "base/atomic_file.h"

namespace babelring {
namespace {

constexpr const char* file_name = "fenced";

}  // namespace

void write_fence(const std::filesystem::path& folder, std::int64_t attempt) {
  const std::int64_t before = fenced_attempt(folder);
  if (before >= attempt) return;
  write_file_atomically(folder / file_name, std::to_string(attempt) + "\n");
}

std::int64_t fenced_attempt(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / file_name;
  if (!std::filesystem::exists(file)) return 0;
  const std::string text = read_file(file);
  std::int64_t attempt = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), attempt);
  if (error != std::errc() || attempt < 0) fail("{}: expected an attempt number", file.string());
  return attempt;
}

}  // namespace babelring
