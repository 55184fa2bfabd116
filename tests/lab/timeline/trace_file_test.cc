#include "lab/timeline/trace_file.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "base/files.h"
#include "base/gzip.h"
#include "lab/timeline/merged_trace.h"
#include "lab/timeline/summary.h"
#include "lab/timeline/timeline.h"
#include "nmt/data/line_reader.h"
#include "tests/lab/timeline/made_timeline.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Two ranks whose clocks differ by 3 s.
std::vector<RankEvents> made_ranks() {
  std::vector<RankEvents> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    const double behind_ms = 3000 * rank;
    const RankEvents events = events_of(made_timeline(rank, behind_ms, rank), made_clock(behind_ms), made_time(0));
    ranks.push_back(RankEvents::unpack(events.packed()).value());
  }
  return ranks;
}

class TraceFileTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) {
    const std::filesystem::path file = folder_.path() / "trace-update-00000020.json.gz";
    write_file_atomically(file, bytes);
    return file;
  }
  TraceFile read(const std::string& bytes) { return read_trace(write(bytes)); }

  TemporaryFolder folder_;
};

TEST_F(TraceFileTest, HasTheEventsOfAllRanksOnRank0sClock) {
  const TraceFile trace = read(merge_ranks("r_1", 20, 1, made_ranks()).value());
  EXPECT_EQ(trace.run, "r_1");
  EXPECT_EQ(trace.first_update, 20);
  ASSERT_EQ(trace.ranks.size(), 2U);
  EXPECT_EQ(trace.ranks[1].host, "hostB");
  EXPECT_NEAR(trace.ranks[1].clock_error_us, 20, 1e-6);
  for (const int rank : {0, 1}) {
    std::vector<std::string> phases;
    double end = 0;
    for (const TraceEvent& event : trace.events) {
      if (event.rank != rank || event.category != "phase") continue;
      EXPECT_NEAR(event.begin_us, end, 0.002) << "phases leave no gap";
      end = event.end_us;
      phases.push_back(event.name);
    }
    EXPECT_NEAR(end, 100e3, 0.002);
    EXPECT_THAT(phases, ElementsAre("data", "other", "forward", "backward", "communication", "optimizer", "other"));
  }
}

TEST_F(TraceFileTest, EventsOfAThreadNest) {
  std::map<std::pair<int, int>, std::vector<TraceEvent>> threads;
  for (TraceEvent& event : read(merge_ranks("r_1", 20, 1, made_ranks()).value()).events) {
    threads[{event.rank, event.thread}].push_back(std::move(event));
  }
  EXPECT_EQ(threads.size(), 2U * 5) << "main, device, data and two of communication";
  for (auto& [thread, events] : threads) {
    for (const TraceEvent& a : events) {
      for (const TraceEvent& b : events) {
        const bool apart = a.end_us <= b.begin_us + 0.002 || b.end_us <= a.begin_us + 0.002;
        const bool inside = (a.begin_us >= b.begin_us - 0.002 && a.end_us <= b.end_us + 0.002) ||
                            (b.begin_us >= a.begin_us - 0.002 && b.end_us <= a.end_us + 0.002);
        EXPECT_TRUE(apart || inside) << a.name << " and " << b.name;
      }
    }
  }
}

TEST_F(TraceFileTest, OpsAndCollectivesSayWhatTheyDid) {
  const TraceFile trace = read(merge_ranks("r_1", 20, 1, made_ranks()).value());
  const auto find = [&trace](const std::string& name) {
    return *std::ranges::find(trace.events, name, &TraceEvent::name);
  };
  const json::object op = find("linear_forward").arguments;
  EXPECT_NEAR(op.at("gflop_per_s").to_number<double>(), 3.35, 1e-3);
  EXPECT_EQ(op.at("shapes").at("weight").as_string(), "[512, 512]");
  const json::object fill = find("fill").arguments;
  EXPECT_FALSE(fill.contains("gflop_per_s"));
  EXPECT_EQ(fill.at("shapes").at("x").as_string(), "[64]");
  EXPECT_EQ(fill.at("shapes").at("x.2").as_string(), "[8]") << "a second field with this name";
  const TraceEvent bucket = find("all-reduce of 2.0 MB");
  EXPECT_EQ(bucket.arguments.at("bytes").as_int64(), 2000);
  EXPECT_NEAR(bucket.arguments.at("asked_us").to_number<double>(), 45e3, 0.002);
}

TEST_F(TraceFileTest, TheContentOfTheArtifactAgreesWithTheSummaryOfTheFile) {
  const std::vector<RankEvents> ranks = made_ranks();
  const TimelineSummary summary = summarize(read(merge_ranks("r_1", 20, 1, ranks).value()));
  const json::object content = trace_content({.first_update = 20, .updates = 1, .request = 7}, ranks);
  EXPECT_EQ(content.at("request"), 7);
  ASSERT_EQ(content.at("ranks").as_array().size(), 2U);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const json::object& listed = content.at("ranks").at(rank).as_object();
    const RankSplit& shares = summary.ranks[rank];
    EXPECT_EQ(listed.at("host").as_string(), shares.host);
    const auto ms = [&listed](const char* name) { return listed.at(name).to_number<double>(); };
    EXPECT_NEAR(ms("total_ms"), shares.total_ms, 2e-3);
    EXPECT_NEAR(ms("compute_ms"), shares.compute_ms, 2e-3);
    EXPECT_NEAR(ms("exposed_ms"), shares.exposed_ms, 2e-3);
    EXPECT_NEAR(ms("hidden_ms"), shares.hidden_ms, 2e-3);
    EXPECT_NEAR(ms("data_ms"), shares.data_ms, 2e-3);
    EXPECT_NEAR(ms("other_ms"), shares.other_ms, 2e-3);
  }
  const std::vector<RankEvents> many(1001, ranks[0]);
  EXPECT_TRUE(trace_content({}, many).at("ranks").as_array().empty()) << "too many for a record";
}

/// Arrows of a whole file, as "s 0-op-7".
std::vector<std::string> arrows_of(const std::filesystem::path& file) {
  std::vector<std::string> arrows;
  for (const std::string& text : read_text_lines(file)) {
    if (text.find(R"("cat":"bucket")") == std::string::npos) continue;
    const json::value event = parse_json(std::string_view(text).substr(0, text.rfind('}') + 1)).value();
    arrows.push_back(std::string(event.at("ph").as_string()) + " " + std::string(event.at("id").as_string()));
  }
  std::ranges::sort(arrows);
  return arrows;
}

TEST_F(TraceFileTest, ArrowsLeadFromOpsToBucketsAndFromTheLateRank) {
  const std::filesystem::path file = write(merge_ranks("r_1", 20, 1, made_ranks()).value());
  EXPECT_THAT(arrows_of(file), ElementsAre("f 0-op-7", "f 0-op-8", "f 1-op-7", "f 1-op-8", "f 1-to-0-7", "f 1-to-0-8",
                                           "s 0-op-7", "s 0-op-8", "s 1-op-7", "s 1-op-8", "s 1-to-0-7", "s 1-to-0-8"));
}

TEST_F(TraceFileTest, RankWithoutAClockOffsetPreventsTheFile) {
  std::vector<RankEvents> ranks = made_ranks();
  ranks[1] = RankEvents::unpack(events_of(made_timeline(1, 0, 0), std::nullopt, made_time(0)).packed()).value();
  const Result<std::string> file = merge_ranks("r_1", 20, 1, ranks);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error(), "rank 1 on hostB has no clock offset to rank 0, expected one for every rank");
  EXPECT_FALSE(RankEvents::unpack("nonsense").ok());
}

TEST_F(TraceFileTest, RefusesOtherFiles) {
  const auto message = [this](const std::string& bytes) {
    try {
      read(bytes);
    } catch (const Failure& failure) {
      return std::string(failure.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message("{}"), HasSubstr("format is '', expected babelring-trace-1"));
  EXPECT_THAT(message(gzip("[1]")), HasSubstr("format is ''"));
  EXPECT_THAT(message(gzip(R"({"otherData":{"format":"babelring-trace-1"},"traceEvents":[]})")),
              HasSubstr("it lists no ranks"));
  const std::string whole = merge_ranks("r_1", 20, 1, made_ranks()).value();
  EXPECT_THAT(message(whole.substr(0, whole.size() - 20)), HasSubstr("damaged or truncated gzip data"));
  EXPECT_THAT(message(""), HasSubstr("trace-update-00000020.json.gz"));
}

TEST_F(TraceFileTest, FindsTheNewestFileOfARun) {
  EXPECT_THAT([this] { newest_trace(folder_.path()); },
              ThrowsMessage<UsageFailure>(HasSubstr("found no lab/trace-update-*.json.gz, expected one")));
  std::filesystem::create_directories(folder_.path() / "lab");
  for (const char* name : {"trace-update-00000020.json.gz", "trace-update-00000300.json.gz", "trace-x.json"}) {
    write_file_atomically(folder_.path() / "lab" / name, "");
  }
  EXPECT_EQ(newest_trace(folder_.path()).filename(), "trace-update-00000300.json.gz");
}

}  // namespace
}  // namespace babelring
