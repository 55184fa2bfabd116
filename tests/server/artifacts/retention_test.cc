#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <future>
#include <set>

#include "server/artifacts/checkpoint_files.h"
#include "server/artifacts/retention_service.h"
#include "tests/server/checkpoint_fixture.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using artifacts::choose_removals;
using artifacts::RetentionCandidate;
using artifacts::RetentionPolicy;

/// Steps 1000, 900, … 100 of ten bytes each; sacreBLEU grows to step 500 and falls again, the loss mirrors it.
std::vector<RetentionCandidate> ten() {
  std::vector<RetentionCandidate> all;
  for (std::int64_t step = 1000; step > 0; step -= 100) {
    const double bleu = 30 - std::abs(static_cast<double>(step) - 500) / 100;
    all.push_back({.step = step, .bytes = 10, .sacrebleu = bleu, .loss = 100 - bleu});
  }
  return all;
}

std::vector<std::int64_t> kept(const RetentionPolicy& policy, const std::vector<RetentionCandidate>& all) {
  std::set<std::size_t> gone;
  for (const std::size_t place : choose_removals(policy, all)) gone.insert(place);
  std::vector<std::int64_t> steps;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!gone.contains(i)) steps.push_back(all[i].step);
  }
  return steps;
}

using Steps = std::vector<std::int64_t>;

TEST(RetentionPolicy, KeepsEachCheckpointThatARuleSelects) {
  const auto all = ten();
  EXPECT_EQ(kept({}, all).size(), 10u);
  EXPECT_EQ(kept({.keep_last = 2}, all), (Steps{1000, 900}));
  EXPECT_EQ(kept({.keep_last = 1, .keep_best = 2}, all), (Steps{1000, 600, 500}));
  EXPECT_EQ(kept({.keep_best = 1, .metric = "loss"}, all), (Steps{1000, 500}));
  EXPECT_EQ(kept({.keep_every_steps = 400}, all), (Steps{1000, 800, 400}));
  EXPECT_EQ(kept({.keep_last = 1, .keep_every_steps = 300, .max_bytes = 30}, all), (Steps{1000, 900, 600}));
  EXPECT_EQ(kept({.max_bytes = 45}, all), (Steps{1000, 900, 800, 700}));
}

TEST(RetentionPolicy, NeverTakesPinnedBestOrTheLastComplete) {
  auto all = ten();
  all[0].intact = false;  // torn: a run would resume from the one before
  all[7].pinned = true;
  all[8].best = true;
  all[9].removable = false;
  EXPECT_EQ(kept({.keep_last = 1, .max_bytes = 0}, all), (Steps{900, 300, 200, 100}));
  EXPECT_EQ(artifacts::protection_of(all, 1), artifacts::Protection::last);
  EXPECT_EQ(artifacts::protection_of(all, 7), artifacts::Protection::pinned);
  EXPECT_EQ(artifacts::protection_of(all, 8), artifacts::Protection::best);
  EXPECT_EQ(artifacts::protection_of(all, 9), artifacts::Protection::in_use);
  EXPECT_EQ(artifacts::protection_of(all, 0), artifacts::Protection::none);
}

TEST(RetentionPolicy, SaysWhatIsWrong) {
  const auto message = [](const char* text) {
    const auto policy = artifacts::policy_from_json(parse_json(text).value());
    return policy.ok() ? std::string() : policy.error();
  };
  EXPECT_EQ(message(R"({"keep_last":0})"), "keep_last: expected an integer from 1, found 0");
  EXPECT_EQ(message(R"({"keep_last":1.5})"), "keep_last: expected an integer from 1, found 1.5");
  EXPECT_EQ(message(R"({"keep_best":{"metric":"bleu"}})"),
            "keep_best.metric: expected sacrebleu or loss, found \"bleu\"");
  EXPECT_EQ(message(R"({"keep_best":3})"), "keep_best: expected an object with metric and count, found 3");
  EXPECT_EQ(message(R"({"forever":true})"), "forever: unknown member");
  EXPECT_EQ(message("[]"), "expected an object, found []");
  EXPECT_EQ(message(R"({"keep_last":3,"keep_best":null,"max_bytes":0})"), "");
}

class RetentionTest : public testing::CheckpointFixture {
 protected:
  bool exists(std::int64_t update) { return std::filesystem::exists(folder_of(update)); }
  std::string remove(const std::string& path) { return code_of(ask("DELETE", path)); }
  std::size_t count(const std::string& query) {
    return object(run_path + "/checkpoints" + query).at("items").as_array().size();
  }
};

TEST_F(RetentionTest, PinsReachTheFolderAndHoldBackRemoval) {
  const std::string first = make(10, 30), second = make(20, 31, true), third = make(30, 29);
  EXPECT_EQ(ask("PUT", first + "/pin").status, 204);
  EXPECT_TRUE(std::filesystem::exists(folder_of(10) / "pinned"));
  EXPECT_EQ(object(first).at("pinned"), true);
  EXPECT_EQ(count("?pinned=true"), 1u);
  EXPECT_EQ(count("?pinned=false"), 2u);
  EXPECT_EQ(remove(first), "pinned");
  EXPECT_EQ(remove(second), "best");
  EXPECT_EQ(remove(third), "last");
  EXPECT_TRUE(exists(10) && exists(20) && exists(30));
  EXPECT_EQ(ask("DELETE", first + "/pin").status, 204);
  EXPECT_FALSE(std::filesystem::exists(folder_of(10) / "pinned"));
  EXPECT_EQ(remove(first), "");
  EXPECT_FALSE(exists(10));
  EXPECT_FALSE(std::filesystem::exists(folder_of(10).parent_path() / ".tmp-deleted-update-00000010"));
  EXPECT_EQ(object(first).at("removed"), true);
  EXPECT_EQ(remove(first), "removed");
  EXPECT_EQ(code_of(ask("PUT", first + "/pin")), "removed");
  EXPECT_EQ(code_of(ask("PUT", "/api/v1/checkpoints/c_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E/pin")), "checkpoint_unknown");
}

TEST_F(RetentionTest, APinHoldsHoweverManyCheckpointsCameAfterIt) {
  const std::string first = make(10, 30);
  EXPECT_EQ(ask("PUT", first + "/pin").status, 204);
  std::vector<Record> later;  // of another machine
  for (std::int64_t update = 1; update <= 1001; ++update) {
    CheckpointRecord record{
        .update = 10 + update, .name = fmt::format("update-{:08}", 10 + update), .folder = "/elsewhere"};
    record.files = {{"state.json", 2, std::string(64, '0')}};
    later.push_back(testing::record_of(record, ++sequence));
  }
  testing::put(server.store(), std::move(later));
  EXPECT_EQ(remove(first), "pinned");
  EXPECT_TRUE(exists(10));
}

TEST_F(RetentionTest, ReadinessNamesTheDiskThatHasNoRoomForTheNextCheckpoint) {
  make(10, 1);
  const auto disk = [&] {
    const testing::Answer answer = ask("GET", "/readyz");
    const std::string word(parse_json(answer.body)->at("checkpoint_disk").as_string());
    EXPECT_EQ(answer.status, word == "ok" ? 200 : 503);
    return word;
  };
  EXPECT_EQ(disk(), "ok");
  const auto report = [&](std::int64_t update, std::int64_t bytes) {
    CheckpointRecord record{.update = update, .name = folder_of(update).filename(), .folder = folder_of(update)};
    record.files = {{"weights.safetensors", bytes, std::string(64, '0')}};
    testing::put(server.store(), {testing::record_of(record, ++sequence)});
  };
  make(20, 1);
  report(20, std::int64_t{1} << 60);
  EXPECT_EQ(disk(), "failing");
  make(30, 1);
  EXPECT_EQ(disk(), "ok") << "the newest one says how much is wanted";
  report(30, std::int64_t{1} << 60);
  EXPECT_EQ(disk(), "failing");
  testing::put(server.store(), {testing::record_of(LifecycleRecord{.event = "finished"}, ++sequence)});
  EXPECT_EQ(disk(), "ok") << "no more are written";
}

TEST_F(RetentionTest, TheLastCompleteOneIsWhatStandsOnTheDisk) {
  const std::string first = make(10, 30), second = make(20, 31);
  std::filesystem::resize_file(folder_of(20) / "weights.safetensors", 5);
  EXPECT_EQ(remove(first), "last");
  EXPECT_EQ(remove(second), "");  // the torn one may go
  EXPECT_TRUE(exists(10));
}

TEST_F(RetentionTest, OneWithAFlippedBitKeepsNoOthersPlace) {
  for (const std::int64_t update : {10, 20, 30}) make(update, 30);
  std::fstream(folder_of(30) / "weights.safetensors", std::ios::in | std::ios::out | std::ios::binary)
      .seekp(5000)
      .put(1);
  ASSERT_EQ(ask("PUT", run_path + "/retention", R"({"keep_last":1})").status, 200);
  EXPECT_TRUE(soon([&] { return !exists(10); }));
  EXPECT_TRUE(exists(20)) << "the newest undamaged one";
}

TEST_F(RetentionTest, AMarkOrLinkOnTheDiskCountsToo) {
  const std::string first = make(10, 30), second = make(20, 31);
  make(30, 29);
  std::ofstream(folder_of(10) / "pinned") << "";
  const std::filesystem::path mark = folder_of(20).parent_path() / "best";
  std::filesystem::create_directory_symlink("update-00000020", mark);
  EXPECT_EQ(remove(first), "pinned");
  EXPECT_EQ(remove(second), "best");
  std::filesystem::remove(mark);
  std::ofstream(mark) << "update-00000020\n";  // on a file system without links
  EXPECT_EQ(remove(second), "best");
}

TEST_F(RetentionTest, RemovesNothingButACheckpoint) {
  const std::string first = make(10, 30);
  make(20, 31);
  std::ofstream(folder_of(10) / "thesis.tex") << "years of work";
  EXPECT_EQ(remove(first), "foreign_files");
  EXPECT_TRUE(std::filesystem::exists(folder_of(10) / "thesis.tex"));
  // A record that calls other files a checkpoint: they have no digests of their own.
  const auto victim = server.folder() / "precious";
  std::filesystem::create_directories(victim);
  std::ofstream(victim / "state.json") << "{}";
  CheckpointRecord record{.update = 5, .name = "precious", .folder = victim};
  record.files = {{"state.json", 2, std::string(64, '0')}};
  const auto stored = testing::put(server.store(), {testing::record_of(record, ++sequence)});
  EXPECT_EQ(remove("/api/v1/checkpoints/" + stored.fresh.at(0).id), "foreign_files");
  EXPECT_TRUE(std::filesystem::exists(victim / "state.json"));
}

TEST_F(RetentionTest, ListsByStepOrBleuAndCompleteness) {
  for (const auto& [update, bleu] : std::map<int, double>{{10, 30}, {20, 32}, {30, NAN}, {40, 31}}) make(update, bleu);
  std::string order;
  std::string query = "?sort=bleu&limit=3";
  for (int page = 0; page < 2; ++page) {
    const auto answer = object(run_path + "/checkpoints" + query);
    for (const auto& item : answer.at("items").as_array()) order += std::to_string(item.at("update").as_int64()) + " ";
    if (answer.at("next_cursor").is_null()) break;
    query = "?sort=bleu&limit=3&cursor=" + std::string(answer.at("next_cursor").as_string());
  }
  EXPECT_EQ(order, "20 40 10 30 ");
  CheckpointRecord bare{.update = 50, .name = "update-00000050", .removed = true};
  testing::put(server.store(), {testing::record_of(bare, ++sequence)});
  EXPECT_EQ(count("?complete=true"), 4u);
  EXPECT_EQ(count("?complete=false&removed=true"), 1u);
  EXPECT_EQ(ask("GET", run_path + "/checkpoints?sort=name").status, 400);
  EXPECT_EQ(ask("GET", run_path + "/checkpoints?pinned=1").status, 400);
}

TEST_F(RetentionTest, TheServerAppliesThePolicy) {
  for (const int update : {10, 20, 30, 40, 50}) make(update, 30 - update / 10, update == 20);
  const std::string pinned = make(60, 1);
  ask("PUT", pinned + "/pin");
  make(70, 2);
  const std::string path = run_path + "/retention";
  EXPECT_EQ(object(path).at("keep_last"), nullptr);
  EXPECT_EQ(code_of(ask("PUT", path, R"({"keep_last":"two"})")), "policy_refused");
  for (const auto& [body, pointer] :
       {std::pair{R"({"keep_last":0})", "/keep_last"}, std::pair{R"({"keep_best":{"count":0}})", "/keep_best/count"},
        std::pair{R"({"keep_best":{"odd":1}})", "/keep_best/odd"}, std::pair{R"({"odd":1})", "/odd"}}) {
    EXPECT_EQ(parse_json(ask("PUT", path, body).body)->at("errors").at(0).at("pointer"), pointer);
  }
  EXPECT_EQ(code_of(ask("PUT", path, "{")), "bad_json");
  const auto set = ask("PUT", path, R"({"keep_last":1,"keep_every_steps":40})");
  EXPECT_EQ(set.status, 200);
  EXPECT_EQ(object(path), parse_json(set.body).value().as_object());
  EXPECT_TRUE(soon([&] { return count("") == 4; }));
  for (const int update : {10, 30, 50}) {  // the folder goes a moment after its row
    EXPECT_TRUE(soon([&] { return !exists(update); })) << update;
  }
  for (const int update : {20, 40, 60, 70}) EXPECT_TRUE(exists(update)) << update;
  server.restart();
  EXPECT_EQ(object(path).at("keep_every_steps"), 40);
}

TEST_F(RetentionTest, KeepsTheBestOfThoseMeasuredLikeTheNewest) {
  struct Evaluated {
    std::int64_t update;
    double bleu, loss;
    const char *set_digest, *scoring;
  };
  for (const Evaluated& each : {Evaluated{10, 90, 0.1, "another set", "another set"},
                                {20, 80, 2.0, "set", "another tokenizer"},
                                {30, 20, 3.0, "set", "own"},
                                {40, 25, 4.0, "set", "own"},
                                {50, 21, 5.0, "set", "own"}}) {
    const EvalRecord eval{.update = each.update,
                          .set = "valid",
                          .loss = each.loss,
                          .sacrebleu = each.bleu,
                          .set_digest = each.set_digest,
                          .scoring = each.scoring};
    EvalRecord beside = eval;
    beside.set = "general", beside.set_digest = "general set", beside.scoring = "general";
    testing::put(server.store(), {testing::record_of(eval, ++sequence)});
    testing::put(server.store(), {testing::record_of(beside, ++sequence)});
    make(static_cast<int>(each.update), each.bleu);
  }
  ASSERT_EQ(ask("PUT", run_path + "/retention", R"({"keep_best":{"metric":"sacrebleu","count":1}})").status, 200);
  EXPECT_TRUE(soon([&] { return count("") == 2; })) << count("");  // and the last one
  for (const int update : {40, 50}) EXPECT_TRUE(exists(update)) << update;
}

TEST_F(RetentionTest, WritesAreHeldAgainstIfMatch) {
  const std::string first = make(10, 30);
  make(20, 31);
  const std::string etag = ask("GET", first).headers.at("etag");
  EXPECT_EQ(ask("GET", first, "", "If-None-Match: " + etag + "\r\n").status, 304);
  EXPECT_EQ(ask("PUT", first + "/pin", "", "If-Match: " + etag + "\r\n").status, 204);
  EXPECT_EQ(ask("GET", first, "", "If-None-Match: " + etag + "\r\n").status, 200);
  EXPECT_EQ(code_of(ask("DELETE", first, "", "If-Match: " + etag + "\r\n")), "changed");
  EXPECT_EQ(code_of(ask("DELETE", first + "/pin", "", "If-Match: \"nothing\"\r\n")), "changed");
  EXPECT_EQ(ask("DELETE", first + "/pin", "", "If-Match: *\r\n").status, 204);
  EXPECT_EQ(ask("DELETE", first, "", "If-Match: " + ask("GET", first).headers.at("etag") + "\r\n").status, 204);
}

/// A proxy that compresses makes tags weak. They name a state, which is the same.
TEST_F(RetentionTest, IfMatchComparesStates) {
  const std::string first = make(10, 30), etag = ask("GET", first).headers.at("etag");
  const auto pin = [&](const std::string& tags) {
    return ask("PUT", first + "/pin", "", "If-Match: " + tags + "\r\n");
  };
  EXPECT_EQ(code_of(pin("W/\"y\"")), "changed");
  EXPECT_EQ(code_of(pin(etag.substr(1))), "changed") << "no entity tag";
  EXPECT_EQ(object(first).at("pinned"), false);
  EXPECT_EQ(pin("\"x\", W/" + etag).status, 204);
  EXPECT_EQ(code_of(pin("W/" + etag)), "changed") << "pinned meanwhile";
}

TEST_F(RetentionTest, RefusesOneOfTwoPinsOfTheSameState) {
  const std::string first = make(10, 30);
  for (int round = 0; round < 20; ++round) {
    const std::string method = round % 2 == 0 ? "PUT" : "DELETE";
    const std::string seen = "If-Match: " + ask("GET", first).headers.at("etag") + "\r\n";
    const auto change = [&] { return ask(method, first + "/pin", "", seen).status; };
    auto other = std::async(std::launch::async, change);
    const std::multiset<int> statuses = {change(), other.get()};
    ASSERT_EQ(statuses, (std::multiset<int>{204, 412})) << "round " << round;
  }
}

}  // namespace
}  // namespace babelring
