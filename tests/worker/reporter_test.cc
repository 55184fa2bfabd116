#include "worker/reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "base/failure.h"
#include "base/files.h"
#include "tests/soon.h"
#include "tests/worker/full_disk.h"
#include "tests/worker/log_capture.h"
#include "tests/worker/reporter_fixture.h"
#include "worker/log_records.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::ThrowsMessage;

TEST_F(ReporterTest, AllRecordsArriveOnceAndInOrder) {
  TestServer server(ledger_);
  Reporter reporter(options(server.address()));
  write_steps(reporter, 2500);
  EXPECT_EQ(reporter.close(longest_wait), 0);
  expect_complete(2500);
  EXPECT_EQ(ledger_.duplicates(), 0);
  EXPECT_EQ(server.connections(), 1) << "the connection is kept alive";
  EXPECT_LE(server.largest_body(), std::size_t{1} << 20);
}

TEST_F(ReporterTest, RecordsThatTheServerLostAreSentAgain) {
  const LogCapture log;
  TestServer server(ledger_);
  {
    Reporter(options(server.address())).write(LogRecord{.level = "info", .text = "of attempt 1"});
  }
  expect_complete(1);
  Reporter reporter(options(server.address(), 2));
  write_steps(reporter, 60);
  ASSERT_TRUE(soon([&] { return ledger_.records() == 61; }));
  ledger_.lose_after(20);
  write_steps(reporter, 1);
  ASSERT_TRUE(soon([&] { return ledger_.records() == 62; }));
  ledger_.lose_after(0);  // also what attempt 1 sent
  write_steps(reporter, 1);
  EXPECT_EQ(reporter.close(longest_wait), 0);
  EXPECT_EQ(log.count("has lost records 21 to 60 of spool"), 1);
  expect_complete(1, 1);
  const std::vector<std::int64_t> arrived = ledger_.sequences(2, 0);
  EXPECT_TRUE(std::ranges::is_sorted(arrived)) << "nothing is stored before what precedes it";
  EXPECT_EQ(arrived.size(), 62U);
}

TEST_F(ReporterTest, ARefusedRecordIsNotTakenForALostOne) {
  ledger_.set_rule([](const std::vector<Record>& records, std::size_t) {
    const bool bad = std::ranges::any_of(records, [](const Record& each) { return each.header.sequence % 10 == 0; });
    return bad ? 422 : 200;
  });
  TestServer server(ledger_);
  Reporter reporter(options(server.address()));
  for (int i = 0; i < 5; ++i) {
    write_steps(reporter, 10);  // the last one is refused
    ASSERT_TRUE(soon([&] { return ledger_.records() >= static_cast<std::size_t>(9 * (i + 1)); }));
  }
  EXPECT_EQ(reporter.close(longest_wait), 0);
  EXPECT_EQ(ledger_.duplicates(), 0);
}

TEST_F(ReporterTest, NothingIsSentWithoutAServer) {
  Reporter reporter(options(""));
  write_steps(reporter, 5);
  EXPECT_EQ(reporter.close(1s), 0);
  EXPECT_EQ(SpoolReader(spool_path(folder_, 1, 0)).remaining(), 5);
}

TEST_F(ReporterTest, ServerIsDownAtTheStart) {
  const HeldPort port;
  Reporter reporter(options(port.address()));
  write_steps(reporter, 50);
  std::this_thread::sleep_for(100ms);
  TestServer server(ledger_, {}, port.number());
  write_steps(reporter, 50);
  EXPECT_EQ(reporter.close(longest_wait), 0);
  expect_complete(100);
}

TEST_F(ReporterTest, ServerRestartsDuringTheRun) {
  const HeldPort port;
  auto server = std::make_unique<TestServer>(ledger_, nullptr, port.number());
  Reporter reporter(options(port.address()));
  for (int round = 0; round < 5; ++round) {
    write_steps(reporter, 100);
    ASSERT_TRUE(soon([&] { return ledger_.records() >= static_cast<std::size_t>(200 * round + 100); }));
    server.reset();
    write_steps(reporter, 100);
    server = std::make_unique<TestServer>(ledger_, nullptr, port.number());
    ASSERT_TRUE(soon([&] { return ledger_.records() >= static_cast<std::size_t>(200 * round + 200); }));
  }
  EXPECT_EQ(reporter.close(longest_wait), 0);
  expect_complete(1000);
}

TEST_F(ReporterTest, ServerDropsDuplicatesAfterALostResponse) {
  TestServer server(ledger_, [](int request) { return Behaviour{.drop_after_storing = request % 3 == 0}; });
  Reporter reporter(options(server.address()));
  for (int i = 0; i < 50; ++i) {
    write_steps(reporter, 2);
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_EQ(reporter.close(longest_wait), 0);
  expect_complete(100);
  EXPECT_GT(ledger_.duplicates(), 0);
}

TEST_F(ReporterTest, ReconnectsAfterAnIdleConnectionIsClosed) {
  TestServer server(ledger_, [](int) { return Behaviour{.close_after_answer = true}; });
  Reporter reporter(options(server.address()));
  for (int i = 0; i < 5; ++i) {
    write_steps(reporter, 1);
    ASSERT_TRUE(soon([&] { return ledger_.records() == static_cast<std::size_t>(i + 1); }));
  }
  EXPECT_EQ(reporter.close(longest_wait), 0);
  expect_complete(5);
  EXPECT_EQ(ledger_.duplicates(), 0);
}

TEST_F(ReporterTest, RecordsReachTheServerDespiteAFullDisk) {
  const LogCapture log;
  TestServer server(ledger_);
  Reporter reporter(options(server.address()));
  write_steps(reporter, 10);
  {
    const FullDisk full(spool_path(folder_, 1, 0));
    write_steps(reporter, 40);
    ASSERT_TRUE(soon([&] { return ledger_.records() == 50; }));
  }
  EXPECT_EQ(log.count("cannot be written: File too large; training continues"), 1);
  write_steps(reporter, 10);
  EXPECT_EQ(reporter.close(longest_wait), 0);
  expect_complete(60);
}

TEST_F(ReporterTest, DroppedRecordsAreCountedAndReported) {
  const LogCapture log;
  const HeldPort port;
  Reporter reporter(options(port.address()));
  write_steps(reporter, 1);
  std::int64_t written = 0;
  {
    const FullDisk full(spool_path(folder_, 1, 0));
    // 10 MB where memory keeps 6.
    for (int i = 0; i < 1000; ++i) reporter.write(LogRecord{.level = "info", .text = std::string(10'000, 'x')});
    reporter.write(LifecycleRecord{.event = "finished"});
  }
  TestServer server(ledger_, {}, port.number());
  ASSERT_TRUE(soon([&] {
    write_steps(reporter, 1);
    ++written;
    return log.count("can be written again") > 0;
  }));
  EXPECT_EQ(reporter.close(longest_wait), 0);
  EXPECT_EQ(log.count("records of rank 0 were dropped"), 1);
  const auto arrived = static_cast<std::int64_t>(ledger_.records());
  EXPECT_GT(arrived, 500);
  EXPECT_LT(arrived, 700 + written);
  expect_complete(arrived);
}

TEST_F(ReporterTest, LostRecordsAreReported) {
  const LogCapture log;
  const HeldPort port;
  Reporter reporter(options(port.address()));
  write_steps(reporter, 5);
  const FullDisk full(spool_path(folder_, 1, 0));
  write_steps(reporter, 7);
  reporter.close(50ms);
  EXPECT_EQ(log.count("cannot be written: File too large; 7 records of rank 0 are lost"), 1);
}

TEST_F(ReporterTest, ServerErrorsAreRetried) {
  TestServer server(ledger_, [](int request) {
    const int statuses[] = {500, 502, 503, 429, 408};
    return Behaviour{.status = request < 5 ? statuses[request] : 200};
  });
  Reporter reporter(options(server.address()));
  write_steps(reporter, 10);
  EXPECT_EQ(reporter.close(longest_wait), 0);
  expect_complete(10);
}

TEST_F(ReporterTest, RetryAfterIsRespected) {
  TestServer server(
      ledger_, [](int request) { return request == 0 ? Behaviour{.status = 503, .retry_after = "1"} : Behaviour{}; });
  Reporter reporter(options(server.address()));
  const Stopwatch watch;
  write_steps(reporter, 1);
  ASSERT_TRUE(soon([&] { return ledger_.records() == 1; }));
  EXPECT_GE(watch.elapsed_ms(), 1000);
  EXPECT_EQ(server.requests(), 2);
}

TEST_F(ReporterTest, RefusedRecordsAreSkippedAndTheOthersArrive) {
  for (const int status : {400, 409, 422}) {
    fs::remove_all(folder_);
    Ledger ledger;
    ledger.set_rule([&](const std::vector<Record>& records, std::size_t) {
      const bool bad = std::any_of(records.begin(), records.end(), [](const Record& record) {
        return record.header.sequence == 5 || record.header.sequence == 700 || record.header.sequence == 701;
      });
      return bad ? status : 200;
    });
    TestServer server(ledger);
    LogCapture log;
    Reporter reporter(options(server.address()));
    write_steps(reporter, 1000);
    EXPECT_EQ(reporter.close(longest_wait), 0) << "what is refused is not waiting to be sent";
    std::vector<std::int64_t> expected;
    for (std::int64_t sequence = 1; sequence <= 1000; ++sequence) {
      if (sequence != 5 && sequence != 700 && sequence != 701) expected.push_back(sequence);
    }
    EXPECT_EQ(ledger.sequences(1, 0), expected);
    EXPECT_EQ(SpoolReader(spool_path(folder_, 1, 0)).remaining(), 0);
    EXPECT_EQ(log.count("permanently refused"), 1) << "one line for one reason:\n" << log.text();
    EXPECT_EQ(log.count("refused record 5 of rank 0, attempt 1"), 1) << log.text();
    EXPECT_EQ(log.count(std::to_string(status) + " Unavailable: as the rule says"), 1) << log.text();
    EXPECT_EQ(log.count("3 records of rank 0 were refused"), 1) << log.text();
  }
}

TEST_F(ReporterTest, FinalWarningsAreNotCountedAsRemainingRecords) {
  ledger_.set_rule([](const std::vector<Record>& records, std::size_t) {
    return std::holds_alternative<StepRecord>(records.front().body) ? 422 : 200;
  });
  TestServer server(ledger_);
  const LogCapture log;
  LogRecords log_records;
  Reporter reporter(options(server.address()));
  const LogRecords::Connection connection(log_records, reporter);
  write_steps(reporter, 1);
  EXPECT_EQ(reporter.close(longest_wait), 0);
  EXPECT_EQ(log.count("1 records of rank 0 were refused"), 1) << log.text();
  EXPECT_EQ(log.count("were not confirmed"), 0) << log.text();
}

TEST_F(ReporterTest, ABatchThatIsTooLargeIsSplit) {
  ledger_.set_rule([](const std::vector<Record>&, std::size_t bytes) { return bytes > 20000 ? 413 : 200; });
  TestServer server(ledger_);
  Reporter reporter(options(server.address()));
  write_steps(reporter, 500);
  reporter.write(LogRecord{"info", std::string(30000, 'x')});  // no part of it is small enough
  write_steps(reporter, 10);
  EXPECT_EQ(reporter.close(longest_wait), 0);
  std::vector<std::int64_t> expected(511);
  std::iota(expected.begin(), expected.end(), std::int64_t{1});
  expected.erase(expected.begin() + 500);
  EXPECT_EQ(ledger_.sequences(1, 0), expected);
}

/// A proxy that takes 20,000 bytes at most, until it takes more.
TEST_F(ReporterTest, AProxyThatLimitsRequestsGetsSmallerBatchesAndLosesNothing) {
  const LogCapture log;
  std::atomic<std::size_t> limit = 20'000;
  TestServer* proxy = nullptr;
  TestServer server(ledger_, [&](int) {
    return proxy->newest_body().size() > limit ? Behaviour{.status = 413, .body = "<title>413</title>"} : Behaviour{};
  });
  proxy = &server;
  Reporter reporter(options(server.address()));
  write_steps(reporter, 500);
  ASSERT_TRUE(soon([&] { return ledger_.records() == 500; }));
  reporter.write(LogRecord{"info", std::string(30000, 'x')});  // does not pass even alone
  ASSERT_TRUE(soon([&] {
    return log.count("answered 413 a page titled '413'; training continues, records are kept") > 0;
  })) << log.text();
  limit = 1 << 20;
  EXPECT_EQ(reporter.close(longest_wait), 0);
  expect_complete(501);
}

/// Log-in pages, other programs' APIs and http at an https port: nothing of theirs is a verdict on records.
TEST_F(ReporterTest, AnswersOfOthersAreAnOutage) {
  struct Foreign {
    int status;
    const char *body, *said;
  };
  for (const auto& [status, body, said] :
       {Foreign{200, "<html><title>Log in</title>", "200 a page titled 'Log in', which does not confirm the records"},
        Foreign{202, "", "which does not confirm the records"},
        Foreign{200, R"({"status":"ok"})", "which does not confirm the records: is this a Babelring server?"},
        Foreign{200, R"({"accepted":1,"duplicates":0})", "which does not confirm the records"},
        Foreign{400, R"({"code":"tls_wanted","title":"Bad Request","detail":"this address speaks https"})",
                "speaks https"},
        Foreign{409, "[]", "409"}, Foreign{422, R"({"detail":"of another program"})", "422 of another program"},
        Foreign{403, "<title>Forbidden</title>", "403 a page titled 'Forbidden'"}}) {
    fs::remove_all(folder_);
    Ledger ledger;
    const LogCapture log;
    std::atomic<bool> foreign = true;
    TestServer server(ledger, [&](int) { return foreign ? Behaviour{.status = status, .body = body} : Behaviour{}; });
    Reporter reporter(options(server.address()));
    write_steps(reporter, 10);
    ASSERT_TRUE(soon([&] { return log.count("training continues, records are kept") > 0; })) << status << body;
    EXPECT_GE(log.count(said), 1) << log.text();
    foreign = false;
    EXPECT_EQ(reporter.close(longest_wait), 0);
    EXPECT_EQ(ledger.records(), 10u) << status << body;
  }
}

TEST_F(ReporterTest, RefusalsForOtherReasonsAreRetried) {
  TestServer server(ledger_, [](int request) {
    const int statuses[] = {401, 403, 404, 405, 421};
    return Behaviour{.status = request < 5 ? statuses[request] : 200};
  });
  Reporter reporter(options(server.address()));
  write_steps(reporter, 10);
  EXPECT_TRUE(soon([&] { return ledger_.records() == 10; }));
  EXPECT_EQ(reporter.close(longest_wait), 0);
  expect_complete(10);
}

TEST_F(ReporterTest, CloseDoesNotWaitForAServerThatBarsItsToken) {
  std::int64_t unconfirmed = 0;
  for (const int status : {401, 403}) {
    TestServer server(ledger_,
                      [&](int) { return Behaviour{.status = status, .body = R"({"code":"scope_insufficient"})"}; });
    Reporter reporter(options(server.address()));
    write_steps(reporter, 10);
    EXPECT_EQ(reporter.close(1h), unconfirmed += 10);
    EXPECT_GE(server.requests(), 1);
  }
}

TEST_F(ReporterTest, OutageDuringBisectionLosesAndRepeatsNothing) {
  ledger_.set_rule([](const std::vector<Record>& records, std::size_t) {
    return records.size() > 1 && records.front().header.sequence <= 8 ? 422
                                                                      : 200;  // of halves, and alone, it is stored
  });
  TestServer server(ledger_, [](int request) { return Behaviour{.status = request % 3 == 1 ? 503 : 200}; });
  Reporter reporter(options(server.address()));
  write_steps(reporter, 64);
  EXPECT_EQ(reporter.close(longest_wait), 0);
  expect_complete(64);
  EXPECT_EQ(ledger_.duplicates(), 0);
}

TEST_F(ReporterTest, WritingNeverWaitsForASlowServerAndCloseIsBounded) {
  TestServer server(ledger_, [](int) { return Behaviour{.delay = 1h}; });
  ReporterOptions patient = options(server.address());
  patient.request_timeout = 1h;
  Reporter reporter(patient);
  write_steps(reporter, 1000);
  EXPECT_EQ(reporter.close(200ms), 1000) << "nothing was answered before that";
}

TEST_F(ReporterTest, SilentServerTimesOutAndIsRetried) {
  TestServer server(ledger_, [](int request) { return Behaviour{.delay = request == 0 ? 300ms : 0ms}; });
  ReporterOptions impatient = options(server.address());
  impatient.request_timeout = 100ms;
  Reporter reporter(impatient);
  write_steps(reporter, 5);
  EXPECT_EQ(reporter.close(longest_wait), 0);
  expect_complete(5);
}

TEST_F(ReporterTest, TheNextAttemptSendsRemainingRecords) {
  for (const std::int64_t rank : {0, 1, 2}) {
    Reporter down(options("http://127.0.0.1:1", 1, rank));
    write_steps(down, 20);
    EXPECT_EQ(down.close(20ms), 20);
  }
  TestServer server(ledger_);
  Reporter reporter(options(server.address(), 2));
  write_steps(reporter, 7);
  EXPECT_EQ(reporter.close(longest_wait), 0);
  for (const std::int64_t rank : {0, 1, 2}) expect_complete(20, 1, rank);
  expect_complete(7, 2, 0);
}

TEST_F(ReporterTest, SameAttemptContinuesItsSequence) {
  TestServer server(ledger_);
  for (int i = 0; i < 3; ++i) {
    Reporter reporter(options(server.address()));
    write_steps(reporter, 10);
    EXPECT_EQ(reporter.close(longest_wait), 0);
  }
  expect_complete(30);
  EXPECT_EQ(ledger_.duplicates(), 0) << "the acknowledged offset was kept";
}

TEST_F(ReporterTest, ManyThreadsWriteWithoutGaps) {
  TestServer server(ledger_);
  Reporter reporter(options(server.address()));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { write_steps(reporter, 250); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reporter.close(longest_wait), 0);
  expect_complete(1000);
}

TEST_F(ReporterTest, LargeRecordsAreSentInSeveralBatches) {
  TestServer server(ledger_);
  Reporter reporter(options(server.address()));
  for (int i = 0; i < 5; ++i) reporter.write(LogRecord{"info", std::string(400000, 'x')});
  reporter.write(LogRecord{"info", std::string(1500000, 'y')});
  EXPECT_EQ(reporter.close(longest_wait), 0);
  expect_complete(6);
  EXPECT_GE(server.requests(), 4);
}

TEST_F(ReporterTest, ClosingTwiceAndWritingAfterwardsIsSafe) {
  TestServer server(ledger_);
  Reporter reporter(options(server.address()));
  write_steps(reporter, 1);
  EXPECT_EQ(reporter.close(longest_wait), 0);
  EXPECT_EQ(reporter.close(longest_wait), 0);
  write_steps(reporter, 1);
  EXPECT_EQ(SpoolReader(spool_path(folder_, 1, 0)).remaining(), 1);
}

TEST_F(ReporterTest, BadAddressesAreRefused) {
  for (const char* server : {"localhost:8080", "ftp://h:1", "http://", "none ", "http://u@h:1", "http://h:1/?q"}) {
    EXPECT_THAT([&] { Reporter reporter(options(server)); },
                ThrowsMessage<UsageFailure>(
                    std::string("server: expected http://host:port or https://host:port, found '") + server + "'"));
  }
}

}  // namespace
}  // namespace babelring
