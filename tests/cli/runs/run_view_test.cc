#include "cli/runs/run_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <sstream>

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::Not;

json::object object(const std::string& text) {
  return parse_json(text).value().as_object();
}

TEST(RunView, ANewAttemptMayRestartAndOtherRanksAreIgnored) {
  std::ostringstream out;
  RunView view({.out = out}, std::chrono::milliseconds(0));
  view.run(object(R"({"id":"r","name":"toy","state":"running","attempt":1,"update":100,"max_updates":200})"));
  view.metrics(object(R"({"attempt":1,"rank":1,"step":[150],"series":{}})"));
  EXPECT_THAT(out.str(), Not(HasSubstr("150")));
  view.run(object(R"({"id":"r","name":"toy","state":"restarting","attempt":2,"update":80,"max_updates":200})"));
  EXPECT_THAT(out.str(), HasSubstr("is restarting, attempt 2"));
  view.metrics(object(R"({"attempt":2,"rank":0,"step":[81],"series":{"loss":[null]}})"));
  EXPECT_THAT(out.str(), HasSubstr("update 81/200"));
}

TEST(RunView, TheOutcomeCountsRestartsAfterFaults) {
  std::ostringstream out;
  RunView view({.out = out}, std::chrono::milliseconds(0));
  view.run(object(R"({"id":"r","name":"toy","state":"succeeded","detail":"20e","restarts":2,"max_restarts":3})"));
  EXPECT_EQ(view.outcome(), "run toy (r) succeeded after 2 of 3 restarts: 20e");
  view.run(object(R"({"id":"r","name":"toy","state":"succeeded","detail":"20e","restarts":0,"max_restarts":3})"));
  EXPECT_EQ(view.outcome(), "run toy (r) succeeded: 20e");
}

TEST(RunView, WithoutALimitThereIsNoBarAndNoTimeLeft) {
  std::ostringstream out;
  RunView view({.out = out, .live = true, .colour = false, .width = 40}, std::chrono::milliseconds(0));
  view.run(object(R"({"id":"r","name":"toy","state":"running","attempt":1,"update":100,"max_updates":0,"step_ms":5})"));
  EXPECT_THAT(out.str(), HasSubstr("\r\x1b[Kupdate 100"));
  EXPECT_THAT(out.str(), Not(HasSubstr("left")));
}

TEST(RunView, UsesTheWorkersProgress) {
  std::ostringstream out;
  RunView view({.out = out, .live = true}, std::chrono::milliseconds(0));
  view.run(object(R"({"id":"r","name":"toy","state":"running","attempt":1,"update":100,"max_updates":0,"step_ms":5,
    "eta_seconds":300,"progress":{"fraction":0.5,"seconds_left":300,"end":"20 epochs","at_latest":true}})"));
  EXPECT_THAT(out.str(), HasSubstr("[###############...............]  50 %  update 100  5 min 0 s left at most"));
  out.str("");
  view.metrics(
      object(R"({"attempt":1,"rank":0,"step":[101],"series":{"fraction_done":[0.6],"seconds_left":[200.2]}})"));
  EXPECT_THAT(out.str(), HasSubstr(" 60 %  update 101  3 min 20 s left at most"));
}

TEST(RunView, ReportsAHealthProblemOnceAndItsEnd) {
  std::ostringstream out;
  RunView view({.out = out}, std::chrono::milliseconds(0));
  const auto run = [](const std::string& level) {
    return object(R"({"id":"r","name":"toy","state":"running","attempt":1,"update":9,"health":{"level":")" + level +
                  R"(","headline":"Not learning","action":"lower the rate","parts":[]}})");
  };
  view.run(run("good"));
  EXPECT_THAT(out.str(), Not(HasSubstr("Not learning")));
  view.run(run("bad"));
  EXPECT_THAT(out.str(), HasSubstr("Not learning; lower the rate\n"));
  out.str("");
  view.run(run("bad"));
  EXPECT_THAT(out.str(), Not(HasSubstr("Not learning")));
  view.run(run("good"));
  EXPECT_THAT(out.str(), HasSubstr("healthy again\n"));
}

}  // namespace
}  // namespace babelring
