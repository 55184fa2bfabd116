#include "nmt/data/batch_pipeline.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/failure.h"

namespace babelring {

namespace {

/// Checks the options before the thread starts.
const PipelineOptions& checked(const PipelineOptions& options) {
  const RankPart& part = options.part;
  if (part.rank < 0 || part.rank >= part.world || part.micro_batch_tokens < 0) {
    fail("pipeline: rank {} of {}, micro_batch_tokens {}; expected rank < world size and micro_batch_tokens >= 0",
         part.rank, part.world, part.micro_batch_tokens);
  }
  return options;
}

}  // namespace

/// The queue of ready updates and the thread that fills it.
class BatchPipeline::Worker {
 public:
  Worker(std::function<UpdateBatches(std::int64_t)> make, std::int64_t first_update, int prefetch)
      : make_(std::move(make)),
        first_update_(first_update),
        prefetch_(static_cast<std::size_t>(prefetch)),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}

  UpdateBatches take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || failure_; });
    if (ready_.empty()) std::rethrow_exception(failure_);
    UpdateBatches update = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return update;
  }

 private:
  void run(const std::stop_token& stop) {
    try {
      for (std::int64_t update = first_update_; !stop.stop_requested(); ++update) {
        UpdateBatches batches = make_(update);
        std::unique_lock lock(mutex_);
        const auto room = [&] { return ready_.size() < prefetch_; };
        if (!changed_.wait(lock, stop, room)) return;
        ready_.push_back(std::move(batches));
        lock.unlock();
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  const std::function<UpdateBatches(std::int64_t)> make_;
  const std::int64_t first_update_;
  const std::size_t prefetch_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<UpdateBatches> ready_;
  std::exception_ptr failure_;
  std::jthread thread_;  // last member: starts after the others are constructed, joins before they are destroyed
};

BatchPipeline::BatchPipeline(std::function<UpdateBatches(std::int64_t)> make, std::int64_t first_update, int prefetch) {
  if (first_update < 1 || prefetch < 1) {
    fail("pipeline: first update {}, prefetch {}; expected at least 1 each", first_update, prefetch);
  }
  worker_ = std::make_unique<Worker>(std::move(make), first_update, prefetch);
}

BatchPipeline::BatchPipeline(const UpdateSource& source, const PipelineOptions& options)
    : BatchPipeline(
          [&source, checked = checked(options), position = options.start](std::int64_t update) mutable {
            const SpanScope preparing(checked.spans, "data", "batch");
            UpdateBatches batches = source.make(update, position, checked.part);
            position = batches.next;
            return batches;
          },
          options.first_update, options.prefetch) {}

BatchPipeline::~BatchPipeline() = default;

UpdateBatches BatchPipeline::next() {
  return worker_->take();
}

}  // namespace babelring
