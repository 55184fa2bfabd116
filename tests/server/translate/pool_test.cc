#include "server/translate/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cerrno>
#include <csignal>
#include <future>
#include <latch>
#include <mutex>
#include <set>

#include "tests/soon.h"

namespace babelring::translate {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

PoolOptions options() {
  PoolOptions options;
  options.program = BABELRING_BIN_DIR "/fake_translator";
  options.deadline = 10min;
  return options;
}

std::future<JobOutcome> ask(Pool& pool, const std::string& checkpoint, const std::string& text) {
  auto promise = std::make_shared<std::promise<JobOutcome>>();
  auto outcome = promise->get_future();
  pool.translate(checkpoint, "/checkpoints/" + checkpoint, {{"text", json::array{json::value(text)}}},
                 [promise](JobOutcome given) { promise->set_value(std::move(given)); });
  return outcome;
}

std::string hyp(const JobOutcome& outcome) {
  if (outcome.status != JobOutcome::Status::done) return outcome.detail;
  return std::string(outcome.answer.at("items").at(0).at("hyp").as_string());
}

std::int64_t pid(const JobOutcome& outcome) {
  return outcome.answer.at("items").at(0).at("source_pieces").as_int64();
}

bool exists(pid_t process) {
  return kill(process, 0) == 0;
}

/// Until a child that was killed has died of it; it is left to be reaped.
void wait_for_death(pid_t process) {
  siginfo_t how{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(process), &how, WEXITED | WNOWAIT), 0);
}

/// Neither running nor left to be reaped.
bool no_child_is_left() {
  siginfo_t child{};
  return waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == -1 && errno == ECHILD;
}

TEST(TranslatorPool, OneProcessServesACheckpointsRequests) {
  Pool pool(options());
  const JobOutcome first = ask(pool, "one", "abc").get();
  EXPECT_EQ(hyp(first), "cba");
  EXPECT_FALSE(first.answer.contains("id"));
  const JobOutcome second = ask(pool, "one", "xyz").get();
  EXPECT_EQ(pid(first), pid(second));
  ASSERT_EQ(pool.loaded().size(), 1u);
  EXPECT_EQ(pool.loaded()[0].checkpoint, "one");
}

TEST(TranslatorPool, ParallelRequestsAreAllAnswered) {
  Pool pool(options());
  std::vector<std::future<JobOutcome>> answers;
  for (int i = 0; i < 16; ++i) answers.push_back(ask(pool, i % 2 == 0 ? "one" : "two", "x" + std::to_string(i)));
  std::set<std::int64_t> pids;
  for (int i = 0; i < 16; ++i) {
    const JobOutcome outcome = answers[static_cast<std::size_t>(i)].get();
    const std::string number = std::to_string(i);
    EXPECT_EQ(hyp(outcome), std::string(number.rbegin(), number.rend()) + "x");
    pids.insert(pid(outcome));
  }
  EXPECT_EQ(pids.size(), 2u);
}

TEST(TranslatorPool, RequestsWhoseClientsLeftGiveTheirPlacesBack) {
  PoolOptions small = options();
  small.max_helpers = 1;
  small.queue = 4;
  small.queue_an_owner = 2;
  Pool pool(small);
  std::atomic<bool> left = false;
  std::vector<std::future<JobOutcome>> answers;
  const auto send = [&](const std::string& owner, const std::string& text) {
    auto promise = std::make_shared<std::promise<JobOutcome>>();
    answers.push_back(promise->get_future());
    pool.translate("one", "/checkpoints/one", {{"text", json::array{json::value(text)}}},
                   [promise](JobOutcome given) { promise->set_value(std::move(given)); },
                   {owner, [&] { return left.load(); }});
  };
  send("a", "hang");
  ASSERT_TRUE(soon([&] { return pool.load().running == 1; }));
  for (const char* owner : {"a", "a", "a", "b", "b"}) send(owner, "hang");
  EXPECT_EQ(answers[3].get().status, JobOutcome::Status::busy) << "two of one client wait";
  EXPECT_EQ(pool.load().waiting, 4U);
  EXPECT_EQ(ask(pool, "one", "abc").get().status, JobOutcome::Status::busy) << "four wait";
  left = true;
  EXPECT_EQ(hyp(ask(pool, "one", "abc").get()), "cba") << "by a fresh process: the first hung for a client that left";
  for (auto& answer : answers) {
    if (!answer.valid()) continue;
    EXPECT_EQ(answer.get().detail, "the client disconnected");
  }
}

TEST(TranslatorPool, ClientsTakeTurns) {
  PoolOptions small = options();
  small.max_helpers = 1;
  Pool pool(small);
  std::mutex mutex;
  std::string order;
  std::latch held(1), done(6);
  const auto send = [&](const std::string& owner, bool hold) {
    pool.translate("one", "/checkpoints/one", {{"text", json::array{json::value("abc")}}},
                   [&, owner, hold](const JobOutcome&) {
                     {
                       const std::lock_guard lock(mutex);
                       order += owner;
                     }
                     if (hold) held.wait();  // the one thread that talks with a process
                     done.count_down();
                   },
                   {.owner = owner});
  };
  send("a", true);
  for (int i = 0; i < 3; ++i) send("a", false);
  for (int i = 0; i < 2; ++i) send("b", false);
  held.count_down();
  done.wait();
  EXPECT_EQ(order, "ababaa");
}

TEST(TranslatorPool, KilledInTheMiddleItFailsThatRequestAlone) {
  Pool pool(options());
  const std::int64_t before = pid(ask(pool, "one", "abc").get());
  const JobOutcome killed = ask(pool, "one", "die").get();
  EXPECT_EQ(killed.status, JobOutcome::Status::crashed);
  EXPECT_EQ(killed.detail, "the translator ended (signal 9) while translating");
  const JobOutcome after = ask(pool, "one", "abc").get();
  EXPECT_EQ(hyp(after), "cba");
  EXPECT_NE(pid(after), before);
}

TEST(TranslatorPool, KilledWhileIdleNobodyNotices) {
  Pool pool(options());
  const std::int64_t before = pid(ask(pool, "one", "abc").get());
  ASSERT_EQ(kill(static_cast<pid_t>(before), SIGKILL), 0);
  wait_for_death(static_cast<pid_t>(before));
  const JobOutcome after = ask(pool, "one", "abc").get();
  EXPECT_EQ(hyp(after), "cba");
  EXPECT_NE(pid(after), before);
}

TEST(TranslatorPool, OneThatHangsIsEndedAtTheDeadline) {
  PoolOptions impatient = options();
  impatient.deadline = 500ms;
  Pool pool(impatient);
  for (const auto& [checkpoint, text] : {std::pair("one", "hang"), std::pair("hangs-loading", "abc")}) {
    JobOutcome late;
    EXPECT_TRUE(soon([&, checkpoint = checkpoint, text = text] {  // it may be late before its turn has come
      late = ask(pool, checkpoint, text).get();
      return late.status != JobOutcome::Status::busy;
    }));
    EXPECT_EQ(late.status, JobOutcome::Status::late);
    EXPECT_THAT(late.detail, HasSubstr("after 0.5 s and was killed"));
    EXPECT_TRUE(no_child_is_left());
  }
  EXPECT_TRUE(soon([&] { return hyp(ask(pool, "one", "abc").get()) == "cba"; }));  // a slow machine needs several turns
}

TEST(TranslatorPool, ADamagedCheckpointIsToldFromACrash) {
  Pool pool(options());
  const JobOutcome damaged = ask(pool, "damaged", "abc").get();
  EXPECT_EQ(damaged.status, JobOutcome::Status::damaged);
  EXPECT_EQ(damaged.detail, "nmt: weights.safetensors: SHA-256 is other");
  const JobOutcome crashed = ask(pool, "dies-loading", "abc").get();
  EXPECT_EQ(crashed.status, JobOutcome::Status::crashed);
  EXPECT_EQ(crashed.detail, "the translator ended (signal 9) while loading the checkpoint");
  EXPECT_THAT(ask(pool, "one", "nonsense").get().detail, HasSubstr("unexpected response"));
  EXPECT_EQ(hyp(ask(pool, "one", "abc").get()), "cba");
}

TEST(TranslatorPool, KeepsATranslatorThatRefusesItsInput) {
  Pool pool(options());
  const std::int64_t before = pid(ask(pool, "one", "abc").get());
  const JobOutcome refused = ask(pool, "one", "long").get();
  EXPECT_EQ(refused.status, JobOutcome::Status::refused);
  EXPECT_EQ(refused.code, "too_long");
  EXPECT_EQ(refused.detail, "text[0]: 700 tokens");
  EXPECT_EQ(pid(ask(pool, "one", "abc").get()), before);
}

TEST(TranslatorPool, AFullQueueIsBusyAtOnce) {
  PoolOptions small = options();
  small.max_helpers = 1;
  small.queue = 2;
  Pool pool(small);
  const auto process = static_cast<pid_t>(pid(ask(pool, "one", "a").get()));
  ASSERT_EQ(kill(process, SIGSTOP), 0);
  auto running = ask(pool, "one", "stopped");
  ASSERT_TRUE(soon([&] { return pool.loaded().at(0).busy; }));
  auto second = ask(pool, "one", "b"), third = ask(pool, "two", "c");
  const JobOutcome fourth = ask(pool, "one", "d").get();
  EXPECT_EQ(fourth.status, JobOutcome::Status::busy);
  EXPECT_EQ(fourth.detail, "2 requests are waiting already");
  ASSERT_EQ(kill(process, SIGCONT), 0);
  EXPECT_EQ(hyp(running.get()), "deppots");
  EXPECT_EQ(hyp(second.get()), "b");
  EXPECT_EQ(hyp(third.get()), "c");
}

TEST(TranslatorPool, TheLongestUnusedGivesWayToANewCheckpoint) {
  Pool pool(options());
  const auto one = static_cast<pid_t>(pid(ask(pool, "one", "a").get()));
  const auto two = static_cast<pid_t>(pid(ask(pool, "two", "a").get()));
  EXPECT_EQ(pid(ask(pool, "one", "a").get()), one);
  ask(pool, "three", "a").get();
  EXPECT_TRUE(soon([&] { return !exists(two); }));
  EXPECT_TRUE(exists(one));
  EXPECT_EQ(pool.loaded().size(), 2u);
}

TEST(TranslatorPool, AnIdleProcessIsEnded) {
  PoolOptions brief = options();
  brief.idle = 100ms;
  Pool pool(brief);
  const auto process = static_cast<pid_t>(pid(ask(pool, "one", "a").get()));
  EXPECT_TRUE(soon([&] { return !exists(process) && pool.loaded().empty(); }));
  EXPECT_EQ(hyp(ask(pool, "one", "ab").get()), "ba");
}

TEST(TranslatorPool, ATalkativeOneNeverWaitsForItsWords) {
  Pool pool(options());
  EXPECT_EQ(hyp(ask(pool, "talks", "abc").get()), "cba");
}

TEST(TranslatorPool, EndsInTheMiddleOfEverything) {
  std::vector<std::future<JobOutcome>> answers;
  pid_t process = 0;
  {
    PoolOptions one = options();
    one.max_helpers = 1;
    Pool pool(one);
    answers.push_back(ask(pool, "one", "hang"));
    ASSERT_TRUE(soon([&] { return !pool.loaded().empty() && pool.loaded()[0].busy; }));
    process = pool.loaded()[0].pid;
    answers.push_back(ask(pool, "two", "a"));
  }
  for (auto& answer : answers) EXPECT_EQ(answer.get().status, JobOutcome::Status::busy);
  EXPECT_FALSE(exists(process));
}

TEST(TranslatorPool, WithoutAProgramItSaysSo) {
  Pool none({});
  EXPECT_EQ(ask(none, "one", "a").get().detail, "no `nmt` program found in the server program's folder; set --nmt");
  PoolOptions wrong;
  wrong.program = "/dev/null/nmt";
  Pool pool(wrong);
  const JobOutcome outcome = ask(pool, "one", "a").get();
  EXPECT_EQ(outcome.status, JobOutcome::Status::unavailable);
  EXPECT_EQ(outcome.detail, "/dev/null/nmt: Not a directory");
}

}  // namespace
}  // namespace babelring::translate
