#include "nmt/data/batch_pipeline.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/failure.h"

namespace babelring {

namespace {

/// Checks the options before the thread starts.
PipelineOptions checked(const PipelineOptions& options) {
  const RankPart& part = options.part;
  if (part.rank < 0 || part.rank >= part.world || part.micro_batch_tokens < 0) {
    fail(
        "pipeline: rank {} of {}, micro_batch_tokens {}; expected rank < "
        "world size and micro_batch_tokens >= 0",
        part.rank, part.world, part.micro_batch_tokens);
  }
  if (part.units < 0 || part.units % part.world != 0) {
    fail("pipeline: {} units, expected a multiple of the world size, {}", part.units, part.world);
  }
  return options;
}

}  // namespace

/// The queue of ready updates and the threads that fill it.
class BatchPipeline::Worker {
 public:
  Worker(Jobs jobs, std::int64_t first_update, int prefetch, int threads)
      : jobs_(std::move(jobs)), ahead_(prefetch + threads), claimed_(first_update), next_(first_update) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
  }

  UpdateBatches take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready_.contains(next_) || failed_at_ <= next_; });
    const auto found = ready_.find(next_);
    if (found == ready_.end()) std::rethrow_exception(failure_);
    UpdateBatches update = std::move(found->second);
    ready_.erase(found);
    ++next_;
    lock.unlock();
    changed_.notify_all();
    return update;
  }

 private:
  void run(const std::stop_token& stop) {
    std::int64_t update = 0;
    try {
      while (true) {
        std::unique_lock lock(mutex_);
        const auto room = [&] { return claimed_ - next_ < ahead_ || failure_; };
        if (!changed_.wait(lock, stop, room) || stop.stop_requested() || failure_) return;
        update = claimed_++;
        const DataPosition start = jobs_.claim();
        lock.unlock();
        UpdateBatches batches = jobs_.make(update, start);
        lock.lock();
        ready_.emplace(update, std::move(batches));
        lock.unlock();
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (update < failed_at_) failure_ = std::current_exception();
      failed_at_ = std::min(failed_at_, update);
      changed_.notify_all();
    }
  }

  const Jobs jobs_;
  const std::int64_t ahead_;  // max updates that are claimed and not taken
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::int64_t claimed_,
      next_;  // the next update that a thread makes, and that take() returns
  std::map<std::int64_t, UpdateBatches> ready_;
  std::exception_ptr failure_;  // of the first update that failed, failed_at_
  std::int64_t failed_at_ = std::numeric_limits<std::int64_t>::max();
  std::vector<std::jthread> threads_;  // last member: start after the others are
                                       // constructed, join before they go
};

BatchPipeline::BatchPipeline(Jobs jobs, std::int64_t first_update, int prefetch, int threads) {
  if (first_update < 1 || prefetch < 1 || threads < 1) {
    fail(
        "pipeline: first update {}, prefetch {}, {} threads; expected at "
        "least 1 each",
        first_update, prefetch, threads);
  }
  worker_ = std::make_unique<Worker>(std::move(jobs), first_update, prefetch, threads);
}

BatchPipeline::BatchPipeline(std::function<UpdateBatches(std::int64_t)> make, std::int64_t first_update, int prefetch)
    : BatchPipeline(
          {.claim = [] { return DataPosition(); },
           .make = [make = std::move(make)](std::int64_t update, const DataPosition&) { return make(update); }},
          first_update, prefetch, 1) {}

BatchPipeline::BatchPipeline(const UpdateSource& source, const PipelineOptions& options)
    : BatchPipeline({.claim =
                         [&source, next = options.start]() mutable {
                           const DataPosition start = next;
                           next = source.after(start);
                           return start;
                         },
                     .make =
                         [&source, checked = checked(options)](std::int64_t update, const DataPosition& start) {
                           const SpanScope preparing(checked.spans, "data", "batch");
                           return source.make(update, start, checked.part);
                         }},
                    options.first_update, options.prefetch, options.threads) {}

BatchPipeline::~BatchPipeline() = default;

UpdateBatches BatchPipeline::next() {
  return worker_->take();
}

}  // namespace babelring
