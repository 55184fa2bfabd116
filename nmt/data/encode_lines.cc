#include "nmt/data/encode_lines.h"

#include <algorithm>
#include <functional>
#include <future>

#include "nmt/core/processors.h"

namespace babelring {
namespace {

/// Calls `action` with each index below `lines`, on several threads.
void for_each_line(std::size_t lines, int threads, const std::function<void(std::size_t)>& action) {
  const std::size_t workers =
      threads > 0 ? static_cast<std::size_t>(threads) : static_cast<std::size_t>(own_processors().count());
  const std::size_t lines_per_thread = lines / workers + 1;
  std::vector<std::future<void>> parts;
  for (std::size_t first = 0; first < lines; first += lines_per_thread) {
    const std::size_t last = std::min(lines, first + lines_per_thread);
    parts.push_back(std::async(std::launch::async, [&, first, last] {
      for (std::size_t i = first; i < last; ++i) action(i);
    }));
  }
  for (std::future<void>& part : parts) part.get();
}

}  // namespace

std::vector<std::vector<std::int32_t>> encode_lines(const std::vector<std::string>& lines, const Vocabulary& vocabulary,
                                                    int threads) {
  std::vector<std::vector<std::int32_t>> ids(lines.size());
  for_each_line(lines.size(), threads, [&](std::size_t i) { ids[i] = vocabulary.encode(lines[i]); });
  return ids;
}

std::vector<std::string> decode_lines(const std::vector<std::vector<std::int32_t>>& ids, const Vocabulary& vocabulary,
                                      int threads) {
  std::vector<std::string> lines(ids.size());
  for_each_line(ids.size(), threads, [&](std::size_t i) { lines[i] = vocabulary.decode(ids[i]); });
  return lines;
}

}  // namespace babelring
