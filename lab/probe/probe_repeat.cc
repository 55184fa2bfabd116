#include "lab/probe/probe_repeat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <thread>
#include <vector>

#include "lab/probe/probe_compare.h"

namespace babelring {

namespace {

/// Keeps every processor busy until it is destroyed.
class BusyProcessors {
 public:
  BusyProcessors() {
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
      threads_.emplace_back([this] {
        while (!ended_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~BusyProcessors() {
    ended_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  BusyProcessors(const BusyProcessors&) = delete;
  BusyProcessors& operator=(const BusyProcessors&) = delete;

 private:
  std::atomic<bool> ended_{false};
  std::vector<std::thread> threads_;
};

/// A file in the folder for temporary files, removed at the end.
class TemporaryProbe {
 public:
  explicit TemporaryProbe(int run)
      : file_(std::filesystem::temp_directory_path() / fmt::format("babelring-probe-{}-{}.jsonl", getpid(), run)) {}
  ~TemporaryProbe() {
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
  }
  TemporaryProbe(const TemporaryProbe&) = delete;
  TemporaryProbe& operator=(const TemporaryProbe&) = delete;
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
};

}  // namespace

RepeatResult repeat_probe(const ProbePlan& plan, Backend& backend, int runs, bool busy) {
  std::optional<BusyProcessors> others;
  if (busy) others.emplace();
  RepeatResult result{.runs = runs};
  std::optional<Probe> first;
  std::map<std::int64_t, int> differences;  // runs in which the record of that number differed
  for (int run = 0; run < runs; ++run) {
    const TemporaryProbe temporary(run);
    save_probe(plan, backend, 0, temporary.file());
    Probe probe = read_probe(temporary.file());
    if (!first) {
      first = std::move(probe);
      continue;
    }
    const ProbeComparison comparison = compare_probes(*first, probe, {});
    if (comparison.sameness == Sameness::same) continue;
    ++result.different;
    for (const RecordPair& pair : comparison.pairs) {
      if (pair.sameness != Sameness::same && pair.a != nullptr) ++differences[pair.a->number];
    }
  }
  if (!differences.empty()) {
    result.first = first->records[static_cast<std::size_t>(differences.begin()->first)];
    result.first_different = differences.begin()->second;
  }
  return result;
}

}  // namespace babelring
