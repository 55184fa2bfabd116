#include "lab/own_stalls.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>

#include "base/clock.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/mapped_file.h"
#include "nmt/data/batch_pipeline.h"
#include "nmt/data/manifest.h"
#include "nmt/ops/emulated/emulated_backend.h"
#include "nmt/train/setup/task_data.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t block_bytes = std::int64_t{64} << 10;

FileDescriptor open_to_read(const fs::path& file) {
  FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) fail("{}: cannot be opened: {}", file.string(), std::strerror(errno));
  return descriptor;
}

/// Gives back the pages of every mapping of the file in this process: mapped pages would stay in memory.
void release_mappings(const fs::path& file) {
  const std::string name = fs::canonical(file).string();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with(" " + name)) continue;
    void *begin = nullptr, *end = nullptr;
    char dash = 0;
    std::istringstream(line) >> begin >> dash >> end;
    const auto bytes = static_cast<const char*>(end) - static_cast<const char*>(begin);
    if (bytes > 0) ::madvise(begin, static_cast<std::size_t>(bytes), MADV_DONTNEED);
  }
}

void drop(const FileDescriptor& file) {
  ::fdatasync(file.get());  // pages that are not on the disk yet cannot be dropped
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

/// Reads `fraction` of the blocks, without read-ahead, so that the other blocks stay out of memory.
void read_evenly(const FileDescriptor& file, const fs::path& name, double fraction) {
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail("{}: {}", name.string(), std::strerror(errno));
  std::vector<char> block(static_cast<std::size_t>(block_bytes));
  const std::int64_t blocks = (status.st_size + block_bytes - 1) / block_bytes;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const auto blocks_until = [fraction](std::int64_t count) {
      return std::floor(static_cast<double>(count) * fraction + 1e-9);
    };
    if (blocks_until(i + 1) == blocks_until(i)) continue;
    if (::pread(file.get(), block.data(), block.size(), i * block_bytes) < 0) {
      fail("{}: cannot be read: {}", name.string(), std::strerror(errno));
    }
  }
}

}  // namespace

double cached_fraction(const std::vector<fs::path>& files) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::size_t pages = 0, resident = 0;
  for (const fs::path& file : files) {
    const MappedFile mapped(file);
    if (mapped.bytes().empty()) continue;
    std::vector<unsigned char> states((mapped.bytes().size() + page - 1) / page);
    void* const begin = const_cast<std::byte*>(mapped.bytes().data());
    if (::mincore(begin, mapped.bytes().size(), states.data()) != 0) {
      fail("{}: mincore: {}", file.string(), std::strerror(errno));
    }
    pages += states.size();
    for (const unsigned char state : states) resident += state & 1;
  }
  return pages == 0 ? 1 : static_cast<double>(resident) / static_cast<double>(pages);
}

void set_cached_fraction(const std::vector<fs::path>& files, double fraction) {
  for (const fs::path& file : files) {
    release_mappings(file);
    const FileDescriptor descriptor = open_to_read(file);
    drop(descriptor);
    read_evenly(descriptor, file, fraction);
  }
}

std::int64_t thread_read_bytes() {
  std::ifstream counters("/proc/thread-self/io");
  std::string name;
  for (std::int64_t value = 0; counters >> name >> value;) {
    if (name == "read_bytes:") return value;
  }
  return 0;
}

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
  for (const double fraction : plan.cached) {
    if (!(fraction >= 0 && fraction <= 1))
      throw UsageFailure(fmt::format("--cached: found {}, expected 0 to 1", fraction));
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
  std::vector<double> fractions = plan.cached;
  if (std::ranges::find(fractions, 1.0) == fractions.end())
    fractions.push_back(1);  // stalls beyond this fraction's are fetch stalls
  std::vector<insight::MeasuredStall> points;
  for (const int workers : plan.workers) {
    for (const double fraction : fractions) {
      insight::MeasuredStall& point = points.emplace_back();
      point.workers = workers;
      set_cached_fraction(files, fraction);
      point.cached = cached_fraction(files);
      point.cached_asked = fraction;
      run_epoch(*data.source, plan, config, point);
    }
  }
  return points;
}

}  // namespace babelring
