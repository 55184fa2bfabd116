#include "nmt/data/encode_lines.h"

#include <algorithm>
#include <future>

#include "nmt/core/processors.h"

namespace babelring {

std::vector<std::vector<std::int32_t>> encode_lines(const std::vector<std::string>& lines, const Vocabulary& vocabulary,
                                                    int threads) {
  std::vector<std::vector<std::int32_t>> ids(lines.size());
  const std::size_t workers =
      threads > 0 ? static_cast<std::size_t>(threads) : static_cast<std::size_t>(own_processors().count());
  const std::size_t lines_per_thread = lines.size() / workers + 1;
  std::vector<std::future<void>> parts;
  for (std::size_t first = 0; first < lines.size(); first += lines_per_thread) {
    const std::size_t last = std::min(lines.size(), first + lines_per_thread);
    parts.push_back(std::async(std::launch::async, [&, first, last] {
      for (std::size_t i = first; i < last; ++i) ids[i] = vocabulary.encode(lines[i]);
    }));
  }
  for (std::future<void>& part : parts) part.get();
  return ids;
}

}  // namespace babelring
