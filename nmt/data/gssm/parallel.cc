#include "nmt/data/gssm/parallel.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "base/failure.h"

namespace babelring {

void for_each_part(std::int64_t count, int threads,
                   const std::function<void(std::int64_t first, std::int64_t last)>& work) {
  if (threads < 1) fail("parts: {} threads, expected at least 1", threads);
  const std::int64_t parts = std::clamp<std::int64_t>(count, 1, threads);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(parts));
  const auto run = [&](std::int64_t part) {
    try {
      work(count * part / parts, count * (part + 1) / parts);
    } catch (...) {
      failures[static_cast<std::size_t>(part)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::int64_t part = 1; part < parts; ++part) others.emplace_back(run, part);
    run(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace babelring
