#include "cli/runs/run_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <sstream>

#include "cli/runs/table.h"
#include "tests/client/scripted_server.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Three runs as `nmt run list` shows them.
std::string listed(int width) {
  ScriptedServer server([](const ScriptedRequest&) {
    return ScriptedAnswer{.body = R"({"next_cursor":null,"items":[
      {"id":"r_01M8GQ652ZM6720WSDET0ZKQC3","name":"a","state":"running","update":1234,"eta_seconds":271,"loss":2.5,
       "epoch":4.5,"world_size":64,"target_tokens_per_second":1234567,"record_age_ms":1000,"best":{"sacrebleu":27.5},
       "progress":{"fraction":0.62,"seconds_left":271,"end":"20 epochs","at_latest":false},
       "health":{"level":"good","headline":"Running","action":null,"parts":[]}},
      {"id":"r_01M8GQ6M2QKDKWP21KVDDMMEME","name":"a run with a long name","state":"running","update":9,
       "eta_seconds":null,"loss":2.75,"progress":{"fraction":0.5,"seconds_left":null,"end":"","at_latest":false},
       "health":{"level":"warning","headline":"Restarted 2 of 3 times, last 22:46: rank 1 on vm was killed by signal 9"}},
      {"id":"r_02000000000000000000000000","name":"b","state":"failed","update":900,"eta_seconds":null,"loss":3.125,
       "progress":{"fraction":null,"seconds_left":null,"end":"","at_latest":false},
       "health":{"level":"bad","headline":"Failed at update 900: rank 2 on birch: CUDA out of memory and more","parts":[]}}]})"};
  });
  ApiClient api({.address = server.address(), .token = ""});
  std::ostringstream out;
  list_runs(api, {}, false, {.out = out, .width = width});
  return out.str();
}

TEST(ListRuns, ShowsProgressAndHealth) {
  const std::string text = listed(0);
  EXPECT_THAT(text, HasSubstr("1,234  [######....]  62 %"));
  EXPECT_THAT(text, HasSubstr("4 min 31 s"));
  EXPECT_THAT(text, HasSubstr("good\n"));
  EXPECT_THAT(text, HasSubstr("r_01M8GQ652ZM6720WSDET0ZKQC3")) << "scripts get whole ids";
  EXPECT_THAT(text, HasSubstr("Failed at update 900: rank 2 on birch: CUDA out of memory and more\n"));
}

TEST(ListRuns, HasLossBleuAndHealthInEightyColumns) {
  EXPECT_EQ(listed(80),
            "ID          NAME              STATE        LOSS   BLEU  HEALTH\n"
            "r_01M8GQ65  a                 ● running  2.5000  27.50  good\n"
            "r_01M8GQ6M  a run with a lo…  ▲ running  2.7500         Restarted 2 of 3 times,…\n"
            "r_02000000  b                 ✖ failed   3.1250         Failed at update 900: r…\n");
}

TEST(ListRuns, NeverDropsTheHealthAndCutsItLast) {
  for (int width = 48; width <= 240; ++width) {
    const std::string text = listed(width);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(text_width(line), static_cast<std::size_t>(width));
    EXPECT_THAT(text, HasSubstr("▲ running"));
    EXPECT_THAT(text, HasSubstr("HEALTH\n"));
    EXPECT_THAT(text, HasSubstr("Restart"));
    EXPECT_EQ(text.find("2.7500") != std::string::npos, width >= 49) << width;
  }
  EXPECT_THAT(listed(120), HasSubstr("[#####.....]  50 %")) << "progress is there at 120 columns";
}

using testing::HasSubstr;

std::vector<json::object> objects(const std::string& text) {
  std::vector<json::object> items;
  const json::value parsed = parse_json(text).value();
  for (const json::value& item : parsed.as_array()) items.push_back(item.as_object());
  return items;
}

std::string shown(const std::string& run, const std::string& evals = "[]", const std::string& metrics = "{}") {
  std::ostringstream out;
  print_run(parse_json(run).value().as_object(), objects(evals), parse_json(metrics).value().as_object(), {.out = out});
  return out.str();
}

TEST(ShowRun, ShowsTheLastLossOfEachCorpus) {
  const std::string run = R"({"id":"r","state":"running","loss":3})";
  EXPECT_THAT(
      shown(run, "[]", R"({"items":[{"key":"corpus_loss.clean","last":2.5},{"key":"corpus_loss.crawl","last":3.25},
    {"key":"corpus_tokens.clean","last":70},{"key":"loss","last":3}]})"),
      HasSubstr("loss by corpus  clean 2.5000, crawl 3.2500\n"));
  EXPECT_THAT(shown(run), Not(HasSubstr("corpus")));
}

TEST(ShowRun, ShowsHealthAndAdvice) {
  const std::string text = shown(R"({"id":"r","state":"failed","health":{"level":"bad",
    "headline":"Failed at update 900: rank 2 on birch: CUDA out of memory","action":"Resume","parts":[
    {"topic":"state","level":"bad","text":"Failed at update 900: rank 2 on birch: CUDA out of memory","action":"Resume"},
    {"topic":"learning","level":"good","text":"Training loss 3.21","action":null}]}})");
  EXPECT_THAT(text, HasSubstr("health          Failed at update 900: rank 2 on birch: CUDA out of memory\n"));
  EXPECT_THAT(text, HasSubstr("what to do      Resume\n"));
  EXPECT_THAT(text, HasSubstr("  learning      Training loss 3.21\n"));
}

/// An older checkpoint may be evaluated last.
TEST(ShowRun, ShowsTheNewestEvaluationOfEachSet) {
  const std::string run = R"({"id":"r","state":"running","last_eval":{"update":2000,"set":"valid","loss":3.5}})";
  const std::string text =
      shown(run, R"([{"update":1000,"set":"valid","loss":4},{"update":1000,"set":"general","loss":5},
    {"update":2000,"set":"valid","loss":3.5},{"update":2000,"set":"general","sacrebleu":20.5,"loss":4.5},
    {"update":2000,"set":"train","loss":3},{"update":1000,"set":"general","loss":5}])");
  EXPECT_THAT(text, HasSubstr("last validation update 2,000, valid, loss 3.5000\n"
                              "other sets      update 2,000, general, sacreBLEU 20.50, loss 4.5000\n"
                              "                update 2,000, train, loss 3.0000\n"));
  EXPECT_THAT(shown(run), Not(HasSubstr("other sets")));
}

TEST(ShowRun, DrawsProgressForEachKindOfLimit) {
  const std::string text = shown(R"({"id":"r","state":"running","eta_seconds":271,
    "progress":{"fraction":0.62,"seconds_left":271,"end":"20 epochs","at_latest":true}})");
  EXPECT_THAT(text, HasSubstr("progress        [############........] 62 % of at most 20 epochs\n"));
  EXPECT_THAT(text, HasSubstr("left            4 min 31 s\n"));
}

}  // namespace

}  // namespace babelring
