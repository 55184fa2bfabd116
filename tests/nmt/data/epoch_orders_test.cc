#include "nmt/data/epoch_orders.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "nmt/data/batch_plan.h"
#include "tests/nmt/data/synthetic.h"

namespace babelring {
namespace {

/// Memory for plans with equal keys, which each of them maps by itself, as ranks of a host do.
class SharedPlanTest : public testing::Test {
 protected:
  PlanMemory share() {
    return [this](std::size_t bytes, const std::string& key, const std::function<void(char*)>& prepare) {
      if (!file_) {
        file_ = SharedFile::create(bytes);
        key_ = key;
        prepare(file_->data());
      }
      return key == key_ ? SharedFile::open(file_->invitation()) : nullptr;
    };
  }
  static Corpus corpus_of(std::int64_t sentences, std::uint64_t seed = 3) {
    return make_synthetic({.sentences = sentences, .max_length = 30, .seed = seed});
  }

  std::shared_ptr<SharedFile> file_;
  std::string key_;
};

/// The sentences of `updates` updates from the beginning.
std::vector<std::int64_t> first_sentences(const BatchPlan& plan, int updates) {
  std::vector<std::int64_t> all;
  DataPosition position;
  for (int n = 0; n < updates; ++n) {
    const UpdatePlan update = plan(position);
    all.insert(all.end(), update.sentences.begin(), update.sentences.end());
    EXPECT_EQ(plan.after(position), update.next);
    position = update.next;
  }
  return all;
}

TEST_F(SharedPlanTest, GivesTheUpdatesOfAPlanOfOnesOwn) {
  const Corpus corpus = corpus_of(997);
  for (const DataOrder order : {DataOrder::shuffled, DataOrder::pooled}) {
    file_ = nullptr;
    const PlanOptions options{.tokens_per_update = 400, .max_length = 25, .order = order};
    const BatchPlan own(corpus, options), first(corpus, options, share()), second(corpus, options, share());
    const int updates = static_cast<int>(3 * own.updates_per_epoch());
    const std::vector<std::int64_t> expected = first_sentences(own, updates);
    EXPECT_EQ(first_sentences(first, updates), expected);
    EXPECT_EQ(first_sentences(second, updates), expected);
    EXPECT_EQ(second.left_out(), own.left_out());
  }
}

TEST_F(SharedPlanTest, TakesWhatTheFirstHasMade) {
  const PlanMemory any_key = [share = share()](std::size_t bytes, const std::string&, const auto& prepare) {
    return share(bytes, "any", prepare);
  };
  const Corpus corpus = Corpus::from_memory({{5, 5}, {6}}, {{7}, {8}});
  const Corpus longer = Corpus::from_memory({{5, 5}, {6}}, {{7, 7}, {8}});
  const BatchPlan first(corpus, {}, any_key), second(longer, {}, any_key), own(longer, {});
  EXPECT_EQ(own.target_tokens(), 5);
  EXPECT_EQ(second.target_tokens(), 4);
}

TEST_F(SharedPlanTest, KeepsItsOwnIfItsDataOrOptionsDiffer) {
  const Corpus corpus = corpus_of(300), other = corpus_of(300, 4);
  const PlanOptions options{.tokens_per_update = 100'000};
  const BatchPlan first(corpus, options, share());
  EXPECT_EQ(BatchPlan(other, options, share())({}).sentences, BatchPlan(other, options)({}).sentences);
  const PlanOptions other_seed{.tokens_per_update = 100'000, .seed = 2};
  EXPECT_EQ(BatchPlan(corpus, other_seed, share())({}).sentences, BatchPlan(corpus, other_seed)({}).sentences);
}

TEST_F(SharedPlanTest, IsUsedByThreadsAtDifferentPositions) {
  const Corpus corpus = corpus_of(60);
  const PlanOptions options{.tokens_per_update = 300};  // few updates an epoch: plans are epochs apart
  const std::vector<std::int64_t> expected = first_sentences(BatchPlan(corpus, options), 40);
  std::vector<std::unique_ptr<BatchPlan>> plans;
  for (int rank = 0; rank < 4; ++rank) plans.push_back(std::make_unique<BatchPlan>(corpus, options, share()));
  std::vector<std::vector<std::int64_t>> found(plans.size());
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    ranks.emplace_back([&, rank] { found[rank] = first_sentences(*plans[rank], 40); });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const auto& sentences : found) EXPECT_EQ(sentences, expected);
}

TEST_F(SharedPlanTest, DropsTheFirstHalfOfALongEpochWhenTheNextIsMade) {
  const Corpus corpus = corpus_of(100'000);
  for (const DataOrder order : {DataOrder::shuffled, DataOrder::pooled}) {
    file_ = nullptr;
    const PlanOptions options{.tokens_per_update = 200, .max_length = 30, .order = order};
    const BatchPlan plan(corpus, options, share()), own(corpus, options);
    ASSERT_GT(plan.updates_per_epoch(), 4096);
    const DataPosition late = own.position_at(0.75), early = own.position_at(0.25);
    const auto held = [&] {
      struct stat status{};
      EXPECT_EQ(fstat(std::stoi(file_->invitation().substr(file_->invitation().find(' '))), &status), 0);
      return status.st_blocks * 512;
    };
    const std::vector<std::int64_t> last = plan(late).sentences;
    const std::int64_t one_epoch = held();
    const DataPosition next{1, 0};
    EXPECT_EQ(plan(next).sentences, own(next).sentences);
    EXPECT_LT(held() - one_epoch, 4 * 50'000 + 12 * plan.updates_per_epoch() + 16 * 4096)
        << "half of the sentences, the updates, and parts of pages";
    EXPECT_EQ(plan(late).sentences, last) << "is still there";
    EXPECT_EQ(plan(early).sentences, own(early).sentences) << "is made anew";
    EXPECT_GT(held() - one_epoch, 4 * 90'000);
    EXPECT_EQ(plan(next).sentences, own(next).sentences);
  }
}

TEST_F(SharedPlanTest, IsMadeAgainIfItsMakerIsKilled) {
  const Corpus corpus = corpus_of(100'000);
  const PlanOptions options{.tokens_per_update = 5000};
  const std::vector<std::int64_t> expected = first_sentences(BatchPlan(corpus, options), 3);
  for (const long microseconds : {100, 500, 1000, 2000, 5000}) {
    file_ = nullptr;
    const BatchPlan survivor(corpus, options, share());
    const pid_t maker = fork();
    if (maker == 0) {
      itimerspec when{};
      when.it_value.tv_nsec = microseconds * 1000;
      sigevent kill_itself{};
      kill_itself.sigev_notify = SIGEV_SIGNAL;
      kill_itself.sigev_signo = SIGKILL;
      timer_t timer = nullptr;
      timer_create(CLOCK_MONOTONIC, &kill_itself, &timer);
      timer_settime(timer, 0, &when, nullptr);
      for (std::int64_t epoch = 0;; ++epoch) survivor({epoch, 0});
    }
    EXPECT_EQ(waitpid(maker, nullptr, 0), maker);
    EXPECT_EQ(first_sentences(survivor, 3), expected) << "killed after " << microseconds << " us";
  }
}

TEST(EpochOrdersTest, TakesFourBytesASentence) {
  const Corpus corpus = make_synthetic({.sentences = 50'000, .max_length = 30});
  std::size_t bytes = 0;
  const EpochOrders orders(corpus, {.tokens_per_update = 25'000},
                           [&](std::size_t asked, const std::string&, const std::function<void(char*)>&) {
                             bytes = asked;
                             return nullptr;
                           });
  EXPECT_LE(bytes, 2 * (4 * 50'000 + 12 * static_cast<std::size_t>(orders.totals().updates + 1)) + 8 * 4096);
}

}  // namespace
}  // namespace babelring
