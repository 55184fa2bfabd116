#include "nmt/runs/run_view.h"

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

TEST(RunView, ANewAttemptMayGoBackAndOtherRanksDoNotCount) {
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

TEST(RunView, WithoutAnEndThereIsNoBarAndNoTimeLeft) {
  std::ostringstream out;
  RunView view({.out = out, .live = true, .colour = false, .width = 40}, std::chrono::milliseconds(0));
  view.run(object(R"({"id":"r","name":"toy","state":"running","attempt":1,"update":100,"max_updates":0,"step_ms":5})"));
  EXPECT_THAT(out.str(), HasSubstr("\r\x1b[Kupdate 100"));
  EXPECT_THAT(out.str(), Not(HasSubstr("left")));
}

}  // namespace
}  // namespace babelring
