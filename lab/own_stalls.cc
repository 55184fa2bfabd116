#include "lab/own_stalls.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <type_traits>

#include "base/clock.h"
#include "base/failure.h"
#include "nmt/data/batch_pipeline.h"
#include "nmt/data/manifest.h"
#include "lab/page_cache.h"
#include "nmt/ops/emulated/waiting.h"
#include "nmt/train/setup/task_data.h"

namespace babelring {

namespace {

namespace fs = std::filesystem;

/// A storage that serves one reader after another at a limited rate.
class SlowStorage {
 public:
  explicit SlowStorage(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  /// Returns when `bytes` could have been read.
  void read(std::int64_t bytes) {
    if (bytes <= 0 || bytes_per_second_ <= 0) return;
    const auto taken = std::chrono::duration_cast<SteadyClock::duration>(
        std::chrono::duration<double>(static_cast<double>(bytes) / bytes_per_second_));
    SteadyClock::time_point done;
    {
      const std::lock_guard lock(mutex_);
      free_ = done = std::max(free_, SteadyClock::now()) + taken;
    }
    std::this_thread::sleep_until(done);
  }

 private:
  const double bytes_per_second_;
  std::mutex mutex_;
  SteadyClock::time_point free_;
};

/// The updates of a source on a slower storage.
class SourceOnStorage final : public UpdateSource {
 public:
  SourceOnStorage(const UpdateSource& source, double bytes_per_second) : source_(source), storage_(bytes_per_second) {}

  UpdateBatches make(std::int64_t update, const DataPosition& start, const RankPart& part) const override {
    return charged([&] { return source_.make(update, start, part); });
  }
  /// Reads the lengths of all sentences when it makes the order of an epoch.
  DataPosition after(const DataPosition& start) const override {
    return charged([&] { return source_.after(start); });
  }
  DataPosition resume(DataOrder, const std::optional<DataPosition>&, double) override { return {}; }
  std::int64_t updates_per_epoch() const override { return source_.updates_per_epoch(); }
  UpdateShape shape() const override { return source_.shape(); }
  const std::string& digest() const override { return source_.digest(); }

 private:
  /// The result of `work`, after the time that the storage takes for what this thread has read in it.
  template <class Work>
  std::invoke_result_t<Work> charged(Work work) const {
    const std::int64_t before = thread_read_bytes();
    std::invoke_result_t<Work> result = work();
    storage_.read(thread_read_bytes() - before);
    return result;
  }

  const UpdateSource& source_;
  mutable SlowStorage storage_;
};

/// The configuration of a training on the folder.
TrainConfig config_of(const OwnStallsPlan& plan, const ManifestSet& set) {
  TrainConfig config = set.source_ids ? TrainConfig() : read_stored_config("task: gssm", "");
  config.data.folder = plan.folder.string();
  config.data.valid_set.clear();
  config.data.tokens_per_update = plan.tokens_per_update;
  if (set.source_ids) return config;
  const std::int64_t length = std::max<std::int64_t>(1, set.target_tokens / std::max<std::int64_t>(1, set.sentences));
  config.data.sequences_per_update = std::max<std::int64_t>(1, plan.tokens_per_update / length);
  return with_generator_of_folder(config);
}

std::vector<fs::path> files_of(const fs::path& folder, const ManifestSet& set) {
  std::vector<fs::path> files = {folder / set.target_ids.name};
  if (set.source_ids) files.push_back(folder / set.source_ids->name);
  return files;
}

void check(const OwnStallsPlan& plan) {
  for (const double share : plan.cached) {
    if (!(share >= 0 && share <= 1)) throw UsageFailure(fmt::format("--cached: found {}, expected 0 to 1", share));
  }
  if (plan.cached.empty() || plan.workers.empty()) {
    throw UsageFailure("--cached, --workers: found none, expected at least one of each");
  }
}

/// One epoch. The files are as much in memory as they are.
void run_epoch(const UpdateSource& source, const OwnStallsPlan& plan, const TrainConfig& config,
               insight::MeasuredStall& measured) {
  const SourceOnStorage stored(source, plan.read_bytes_per_second);
  std::int64_t updates = source.updates_per_epoch();
  if (plan.max_updates > 0) updates = std::min(updates, plan.max_updates);
  BatchPipeline pipeline(stored, {.prefetch = config.data.prefetch, .threads = measured.workers});
  Waiting waiting;
  const Stopwatch epoch;
  double wait_ms = 0;
  for (std::int64_t update = 0; update < updates; ++update) {
    const Stopwatch wait;
    pipeline.next();
    wait_ms += wait.elapsed_ms();
    waiting.add(plan.compute_ms);
  }
  waiting.finish();
  measured.updates = updates;
  measured.wait_s = wait_ms / 1000;
  measured.compute_s = epoch.elapsed_ms() / 1000 - measured.wait_s;
}

}  // namespace

std::vector<insight::MeasuredStall> measure_own_stalls(const OwnStallsPlan& plan) {
  check(plan);
  const Manifest manifest = load_manifest(plan.folder);
  const ManifestSet& set = manifest.set("train");
  const TrainConfig config = config_of(plan, set);
  const TaskData data = open_task_data(config);
  const std::vector<fs::path> files = files_of(plan.folder, set);
  std::vector<double> shares = plan.cached;
  if (std::ranges::find(shares, 1.0) == shares.end())
    shares.push_back(1);  // stalls beyond this share's are fetch stalls
  std::vector<insight::MeasuredStall> points;
  for (const int workers : plan.workers) {
    for (const double share : shares) {
      insight::MeasuredStall& point = points.emplace_back();
      point.workers = workers;
      set_cached_share(files, share);
      point.cached = cached_share(files);
      point.cached_asked = share;
      run_epoch(*data.source, plan, config, point);
    }
  }
  return points;
}

}  // namespace babelring
