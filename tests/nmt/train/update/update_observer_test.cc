#include "nmt/train/update/update_observer.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "nmt/data/text_source.h"
#include "nmt/ops/elementwise.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/train/trained_rank.h"

namespace babelring {
namespace {

/// Observes the ops of some updates.
class ObservesSome final : public UpdateObserver, public OpObserver {
 public:
  std::int64_t vote_in = 0;      // the update whose vote asks for a trace
  std::int64_t observed_in = 0;  // the update whose ops are observed
  std::vector<std::int64_t> begun, traced, ended;
  std::vector<std::string> ranges;
  int depth = 0, ops = 0, updating = 0;

  bool votes_for_trace() override { return static_cast<std::int64_t>(begun.size()) + 1 == vote_in; }
  OpObserver* begin(const UpdateStart& start) override {
    begun.push_back(start.update);
    if (start.trace) traced.push_back(start.update);
    return start.update == observed_in ? this : nullptr;
  }
  void end(const StepRecord& record) override {
    ended.push_back(record.update);
    EXPECT_GT(record.times.step, 0);
  }
  Watch watch() const override { return Watch::values; }
  void enter(const char* range) override {
    if (depth++ == 0) ranges.emplace_back(range);
  }
  void leave() override { --depth; }
  void begins(const OpRun&) override { ++updating; }
  void ran(const OpRun& run) override {
    EXPECT_EQ(begun.size(), ended.size() + 1) << run.op;
    ++ops;
  }
};

std::vector<Collector> train_observed(const TrainConfig& config, std::vector<ObservesSome>* observers, int ranks) {
  const Corpus corpus =
      make_synthetic({.task = SyntheticTask::reverse, .sentences = 200, .vocabulary_size = pieces, .max_length = 12});
  ThreadGroup group(ranks, false);
  std::vector<Collector> collectors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      const auto communicator = group.rank(rank);
      const auto backend = make_cpu_backend(1);
      const StopRequest stop;
      TextSource source(corpus, config.plan_options());
      run_rank({.config = config,
                .backend = *backend,
                .communicator = *communicator,
                .source = source,
                .records = collectors[index],
                .stop = stop,
                .lab = observers != nullptr ? &(*observers)[index] : nullptr});
    });
  }
  for (std::thread& thread : threads) thread.join();
  return collectors;
}

TEST(UpdateObserver, SeesOneUpdateAndChangesNoBits) {
  TrainConfig config = small_config();
  config.training.stop_after = "4u";
  const std::vector<Collector> plain = train_observed(config, nullptr, 2);
  std::vector<ObservesSome> observers(2);
  observers[1].vote_in = 2;
  for (ObservesSome& observer : observers) observer.observed_in = 3;
  const std::vector<Collector> observed = train_observed(config, &observers, 2);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(observed[0].steps[i].weights_digest, plain[0].steps[i].weights_digest) << i;
    EXPECT_EQ(observed[0].steps[i].loss, plain[0].steps[i].loss) << i;
  }
  for (const ObservesSome& observer : observers) {
    EXPECT_EQ(observer.begun, (std::vector<std::int64_t>{1, 2, 3, 4}));
    EXPECT_EQ(observer.ended, observer.begun);
    EXPECT_EQ(observer.traced, (std::vector<std::int64_t>{3})) << "one rank's vote counts on all";
    EXPECT_EQ(observer.ranges, (std::vector<std::string>{"data", "micro_batch", "gradient_sum", "optimizer"}));
    EXPECT_EQ(observer.depth, 0);
    EXPECT_GT(observer.ops, 100);
    EXPECT_GT(observer.updating, 0);
    EXPECT_LT(observer.updating, observer.ops);
  }
}

/// Throws in its update.
class Fails final : public UpdateObserver, public OpObserver {
 public:
  OpObserver* begin(const UpdateStart&) override { return this; }
  void end(const StepRecord&) override {}
  Watch watch() const override { return Watch::order; }
  void ran(const OpRun&) override { throw Failure("enough"); }
};

TEST(UpdateObserver, IsRemovedAfterAnException) {
  const TrainConfig config = small_config();
  const Corpus corpus = make_synthetic({.task = SyntheticTask::reverse, .sentences = 50, .vocabulary_size = pieces});
  const auto communicator = make_single_communicator();
  const auto backend = make_cpu_backend(1);
  Collector records;
  const StopRequest stop;
  Fails lab;
  TextSource source(corpus, config.plan_options());
  Trainer trainer({.config = config,
                   .backend = *backend,
                   .communicator = *communicator,
                   .source = source,
                   .records = records,
                   .stop = stop,
                   .lab = &lab,
                   .model_vocabulary = pieces});
  trainer.begin("r_00000000000000000000000000", 1);
  EXPECT_THROW(trainer.run(), Failure);
  const Buffer numbers = backend->allocate(4);
  EXPECT_NO_THROW(backend->run(Fill{.y = numbers.view(Shape{1}, DType::f32), .value = 1}));
}

}  // namespace
}  // namespace babelring
