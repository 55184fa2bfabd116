#include "server/translate/pool.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cerrno>
#include <csignal>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "tests/soon.h"

namespace babelring::translate {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
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
  pool.translate(checkpoint, {.folders = {"/checkpoints/" + checkpoint}, .options = {}},
                 {{"text", json::array{json::value(text)}}},
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
  small.queue.requests = 4;
  small.queue.requests_an_owner = 2;
  Pool pool(small);
  std::atomic<bool> left = false;
  std::vector<std::future<JobOutcome>> answers;
  const auto send = [&](const std::string& owner, const std::string& text) {
    auto promise = std::make_shared<std::promise<JobOutcome>>();
    answers.push_back(promise->get_future());
    pool.translate("one", {.folders = {"/checkpoints/one"}, .options = {}}, {{"text", json::array{json::value(text)}}},
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
  small.queue.requests = 2;
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

std::shared_ptr<Job> job_of(const std::string& owner, std::initializer_list<const char*> lines, int beam = 5) {
  auto job = std::make_shared<Job>();
  job->checkpoint = "one";
  job->options = {{"beam", beam}};
  job->client.owner = owner;
  job->deadline = SteadyClock::now() + 10min;
  for (const char* line : lines) {
    job->lines.emplace_back(line);
    job->bytes += std::string_view(line).size();
  }
  return job;
}

/// The owner, first line and number of lines of each part.
std::vector<std::string> parts_of(const Batch& batch) {
  std::vector<std::string> parts;
  for (const Part& part : batch) {
    parts.push_back(part.job->client.owner + std::to_string(part.first) + "+" + std::to_string(part.count));
  }
  return parts;
}

Batch take(JobQueue& queue, double budget = JobQueue::full_batch) {
  return queue.take([](const Job&) { return true; }, budget);
}

TEST(TranslatorQueue, OwnersTakeTurnsLineByLine) {
  JobQueue queue({});
  for (const auto& [owner, lines] : {std::pair("a", 6), std::pair("b", 2), std::pair("c", 1)}) {
    for (int i = 0; i < lines; ++i) queue.add(job_of(owner, {"four"}));
  }
  const double line = JobQueue::cost({job_of("", {"four"}), 0, 1});
  EXPECT_EQ(line, 2 * 5) << "a subword and </s>, five hypotheses";
  EXPECT_THAT(parts_of(take(queue, 4 * line)), ElementsAre("a0+1", "b0+1", "c0+1", "a0+1"));
  EXPECT_THAT(parts_of(take(queue, 2 * line)), ElementsAre("b0+1", "a0+1"));
  queue.add(job_of("d", {"four"}));
  EXPECT_THAT(parts_of(take(queue, 2 * line)), ElementsAre("d0+1", "a0+1")) << "a has had more than d";
  EXPECT_EQ(queue.size(), 2u);
}

TEST(TranslatorQueue, ALargeRequestLetsOthersBetweenItsLines) {
  JobQueue queue({});
  queue.add(job_of("a", {"four", "four", "four", "four", "four"}));
  EXPECT_THAT(parts_of(take(queue, 20)), ElementsAre("a0+2"));
  queue.add(job_of("b", {"four"}));
  EXPECT_THAT(parts_of(take(queue, 20)), ElementsAre("b0+1", "a2+1"));
  EXPECT_THAT(parts_of(take(queue)), ElementsAre("a3+2"));
  EXPECT_TRUE(queue.empty());
}

TEST(TranslatorQueue, CostlyLinesCountForMore) {
  JobQueue queue({});
  queue.add(job_of("a", {"twelve bytes", "twelve bytes"}, 10));  // 40 each
  queue.add(job_of("b", {"four", "four", "four", "four", "four"}));
  EXPECT_THAT(parts_of(take(queue, 90)), ElementsAre("a0+1", "b0+4")) << "four of b cost as much as one of a";
  EXPECT_THAT(parts_of(take(queue, 1)), ElementsAre("a1+1")) << "one line at least";
}

TEST(TranslatorQueue, SamplesCountAsHypotheses) {
  const auto cost = [](const json::object& options) {
    auto job = job_of("", {"four"});
    job->options = options;
    return JobQueue::cost({job, 0, 1});
  };
  EXPECT_EQ(cost({{"mbr", true}}), 2 * 32);
  EXPECT_EQ(cost({{"mbr", true}, {"mbr_samples", 8}, {"beam", 4}}), 2 * 12);
  EXPECT_EQ(cost({{"sample", true}, {"nbest", 3}}), 2 * 3);
  EXPECT_EQ(cost({{"sample", true}}), 2 * 1);
}

TEST(TranslatorQueue, ABatchHasOneCheckpointAndABoundedNumberOfRows) {
  JobQueue queue({});
  for (int i = 0; i < 26; ++i) queue.add(job_of("a", {""}));
  EXPECT_EQ(take(queue).size(), 25u) << "128 hypotheses at most";
  EXPECT_EQ(take(queue).size(), 1u);
  for (int i = 0; i < 70; ++i) queue.add(job_of("a", {""}, 1));
  auto other = job_of("b", {"x"});
  other->checkpoint = "two";
  queue.add(other);
  EXPECT_THAT(parts_of(take(queue)), ElementsAre("b0+1")) << "b's turn, with another checkpoint";
  EXPECT_EQ(take(queue).size(), 64u);
  EXPECT_EQ(take(queue).size(), 6u);
}

TEST(TranslatorQueue, BytesAreBounded) {
  JobQueue queue({.requests = 9, .requests_an_owner = 9, .bytes = 10});
  EXPECT_TRUE(queue.check_room("a", 99).ok()) << "nothing else waits";
  queue.add(job_of("a", {"six by"}));
  EXPECT_TRUE(queue.check_room("a", 4).ok());
  EXPECT_EQ(queue.check_room("a", 5).error(), "requests of 6 bytes are waiting already");
}

/// A pool of one process, which can be stopped while requests gather.
class JoinedTest : public ::testing::Test {
 protected:
  explicit JoinedTest(std::chrono::milliseconds deadline = 10min) {
    options_.program = BABELRING_BIN_DIR "/fake_translator";
    options_.max_helpers = 1;
    options_.deadline = deadline;
    pool_ = std::make_unique<Pool>(options_);
  }
  std::future<JobOutcome> ask(const std::string& text, Client client = {}) {
    return ask_lines({json::value(text)}, std::move(client));
  }
  std::future<JobOutcome> ask_lines(json::array lines, Client client = {}) {
    auto promise = std::make_shared<std::promise<JobOutcome>>();
    auto outcome = promise->get_future();
    pool_->translate(
        "one", {.folders = {"/checkpoints/one"}, .options = {}}, {{"text", std::move(lines)}},
        [promise](JobOutcome given) { promise->set_value(std::move(given)); }, std::move(client));
    return outcome;
  }
  /// Stops the process with a request in work: all later ones wait.
  std::future<JobOutcome> stop() {
    process_ = static_cast<pid_t>(item(ask("a").get(), "source_pieces"));
    EXPECT_EQ(kill(process_, SIGSTOP), 0);
    auto held = ask("stopped");
    EXPECT_TRUE(soon([&] { return pool_->load().running == 1; }));
    return held;
  }
  void go_on() { EXPECT_EQ(kill(process_, SIGCONT), 0); }

  static std::int64_t item(const JobOutcome& outcome, const char* member, std::size_t line = 0) {
    return outcome.answer.at("items").at(line).at(member).to_number<std::int64_t>();
  }
  /// The number of requests that were translated together, as fake_translator tells it.
  static double joined(const JobOutcome& outcome) {
    return -0.5 - outcome.answer.at("items").at(0).at("score").to_number<double>();
  }
  static std::string hyp(const JobOutcome& outcome, std::size_t line = 0) {
    if (outcome.status != JobOutcome::Status::done) return outcome.detail;
    return std::string(outcome.answer.at("items").at(line).at("hyp").as_string());
  }

  PoolOptions options_;
  std::unique_ptr<Pool> pool_;
  pid_t process_ = 0;
};

TEST_F(JoinedTest, WaitingRequestsShareABatch) {
  auto held = stop();
  std::vector<std::future<JobOutcome>> answers;
  for (int i = 0; i < 5; ++i) answers.push_back(ask("x" + std::to_string(i)));
  answers.push_back(ask("long"));
  EXPECT_EQ(pool_->load().waiting, 6u);
  go_on();
  EXPECT_EQ(joined(held.get()), 1);
  for (int i = 0; i < 5; ++i) {
    const JobOutcome outcome = answers[static_cast<std::size_t>(i)].get();
    EXPECT_EQ(hyp(outcome), std::to_string(i) + "x");
    EXPECT_EQ(joined(outcome), 6);
  }
  EXPECT_EQ(answers[5].get().code, "too_long") << "refused alone";
}

TEST_F(JoinedTest, ALargeRequestIsPutTogetherFromSeveralBatches) {
  auto held = stop();
  json::array lines;
  for (int i = 0; i < 100; ++i) lines.emplace_back("x" + std::to_string(i));
  auto large = ask_lines(lines);
  lines[99] = "long";
  auto refused = ask_lines(lines);
  auto small = ask("abc", {.owner = "b"});
  go_on();
  EXPECT_EQ(hyp(small.get()), "cba");
  const JobOutcome outcome = large.get();
  ASSERT_EQ(outcome.answer.at("items").as_array().size(), 100u);
  for (std::size_t i = 0; i < 100; ++i) {
    const std::string number = std::to_string(i);
    EXPECT_EQ(hyp(outcome, i), std::string(number.rbegin(), number.rend()) + "x");
  }
  EXPECT_GT(outcome.answer.at("ms").to_number<double>(), 1.5) << "of at least two batches";
  EXPECT_EQ(refused.get().detail, "text[99]: 700 tokens");
}

TEST_F(JoinedTest, ACrashFailsOnlyTheRequestThatCausesIt) {
  auto held = stop();
  auto first = ask("abc"), bad = ask("die"), nonsense = ask("nonsense"), last = ask("de"), two = ask("die-joined");
  go_on();
  EXPECT_EQ(hyp(first.get()), "cba");
  EXPECT_EQ(hyp(last.get()), "ed");
  EXPECT_EQ(hyp(two.get()), "denioj-eid") << "well by itself";
  EXPECT_EQ(bad.get().detail, "the translator ended (signal 9) while translating");
  EXPECT_EQ(nonsense.get().status, JobOutcome::Status::crashed);
  EXPECT_EQ(joined(ask("abc").get()), 1) << "it goes on";
}

TEST_F(JoinedTest, ABatchGoesOnWithoutTheClientsThatLeft) {
  auto held = stop();
  std::atomic<bool> left = false;
  const Client leaver{.owner = "a", .abandoned = [&] { return left.load(); }};
  auto one = ask("abc", leaver), two = ask("abc", {.owner = "b"});
  left = true;
  EXPECT_EQ(one.get().detail, "the client disconnected") << "at once, though the process is stopped";
  go_on();
  EXPECT_EQ(item(held.get(), "source_pieces"), process_);
  EXPECT_EQ(item(two.get(), "source_pieces"), process_) << "not killed";
}

TEST_F(JoinedTest, StreamsWhatIsKnown) {
  std::mutex mutex;
  std::vector<std::string> seen;
  const Client client{.progress = [&](const json::object& part) {
    const std::lock_guard lock(mutex);
    const json::value* text = part.if_contains("text");
    const std::string_view known(text == nullptr ? part.at("item").at("hyp").as_string() : text->as_string());
    seen.push_back(fmt::format("{}{}{}", part.at("line").as_int64(), known, text == nullptr ? "!" : ""));
  }};
  EXPECT_EQ(hyp(ask_lines({"ab", "c"}, client).get(), 1), "c");
  EXPECT_THAT(seen, ElementsAre("0b", "0ba", "0ba!", "1c", "1c!"));
}

class LateTest : public JoinedTest {
 protected:
  LateTest() : JoinedTest(2s) {}
};

TEST_F(LateTest, EachRequestHasItsOwnDeadline) {
  JobOutcome first, second;
  EXPECT_TRUE(soon([&] {  // on a slow machine both may be late in the queue
    auto held = stop();
    auto hanging = ask("hang");
    std::this_thread::sleep_for(200ms);
    auto beside = ask("abc");
    go_on();
    held.get();
    first = hanging.get();
    second = beside.get();
    return first.status == JobOutcome::Status::late && second.status == JobOutcome::Status::late;
  }));
  EXPECT_EQ(first.detail, "the translator was still translating after 2 s");
  EXPECT_EQ(second.detail, "the translator was still translating after 2 s and was killed");
}

}  // namespace
}  // namespace babelring::translate
