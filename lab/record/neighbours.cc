#include "lab/record/neighbours.h"

#include <latch>
#include <utility>

#include "nmt/train/setup/task_data.h"
#include "nmt/train/trainer.h"

namespace babelring {

namespace {

/// Counts down at the first record.
class FirstUpdate final : public RecordSink {
 public:
  explicit FirstUpdate(std::latch& begun) : begun_(begun) {}
  ~FirstUpdate() override { count_down(); }
  void write(RecordBody) override { count_down(); }

 private:
  void count_down() {
    if (!std::exchange(counted_, true)) begun_.count_down();
  }
  std::latch& begun_;
  bool counted_ = false;
};

void train_until(const StopRequest& stop, TrainConfig config, int threads, std::latch& begun) {
  FirstUpdate records(begun);
  config.training.stop_after = "1000000000u";
  const auto backend = make_cpu_backend(threads);
  const auto communicator = make_single_communicator();
  const TaskData data = open_task_data(config);
  Trainer trainer({.config = config,
                   .backend = *backend,
                   .communicator = *communicator,
                   .source = *data.source,
                   .records = records,
                   .stop = stop,
                   .threads = threads,
                   .model_vocabulary = data.model_vocabulary});
  trainer.begin("r_00000000000000000000000000", 1);
  trainer.run();
}

}  // namespace

Neighbours::Neighbours(const TrainConfig& config, int count, int threads) {
  const auto begun = std::make_shared<std::latch>(count);
  for (int i = 0; i < count; ++i) {
    One& one = *all_.emplace_back(std::make_unique<One>());
    one.thread = std::thread([this, config, threads, begun, &one] {
      try {
        train_until(stop_, config, threads, *begun);
      } catch (...) {
        one.failure = std::current_exception();
      }
    });
  }
  begun->wait();
}

Neighbours::~Neighbours() {
  end();
}

void Neighbours::end() {
  stop_.request();
  for (const auto& one : all_) {
    if (one->thread.joinable()) one->thread.join();
  }
}

void Neighbours::finish() {
  end();
  for (const auto& one : all_) {
    if (one->failure) std::rethrow_exception(one->failure);
  }
}

}  // namespace babelring
