#include "cli/runs/list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/client/scripted_server.h"

namespace babelring {
namespace {

using testing::HasSubstr;

TEST(ListRuns, ShowsProgressAndHealth) {
  ScriptedServer server([](const ScriptedRequest&) {
    return ScriptedAnswer{.body = R"({"next_cursor":null,"items":[
      {"id":"r_1","name":"a","state":"running","update":1234,"eta_seconds":271,
       "progress":{"fraction":0.62,"seconds_left":271,"end":"20 epochs","at_latest":false},
       "health":{"level":"good","headline":"Running","action":null,"parts":[]}},
      {"id":"r_2","name":"b","state":"failed","update":900,"eta_seconds":null,
       "progress":{"fraction":null,"seconds_left":null,"end":"","at_latest":false},
       "health":{"level":"bad","headline":"Failed at update 900: rank 2 on birch: CUDA out of memory and more","parts":[]}}]})"};
  });
  ApiClient api({.address = server.address(), .token = ""});
  std::ostringstream out;
  list_runs(api, {}, false, {.out = out});
  EXPECT_THAT(out.str(), HasSubstr("1,234  [######....]  62 %"));
  EXPECT_THAT(out.str(), HasSubstr("4 min 31 s"));
  EXPECT_THAT(out.str(), HasSubstr("good\n"));
  EXPECT_THAT(out.str(), HasSubstr("Failed at update 900: rank 2 on birch: CUDA out…\n"));
}

}  // namespace
}  // namespace babelring
