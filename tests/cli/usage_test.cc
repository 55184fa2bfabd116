#include "nmt/usage/usage.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "nmt/cli/average.h"
#include "nmt/cli/translate.h"
#include "nmt/runs/run_commands.h"

namespace babelring {
namespace {

std::string explained(const std::vector<std::string>& arguments) {
  CLI::App app("test", "nmt");
  add_translate(app);
  add_average(app);
  add_run(app, {});
  return explain(app, arguments, "the parser's own words");
}

TEST(Explain, NamesTheNearestCommand) {
  EXPECT_EQ(explained({"transalte", "--beam", "3"}),
            "unknown command 'transalte'; did you mean 'translate'? (`nmt --help` lists the commands)");
  EXPECT_EQ(explained({"xyzzy"}), "unknown command 'xyzzy' (`nmt --help` lists the commands)");
  EXPECT_EQ(explained({}), "expected a command: translate, average, run");
}

TEST(Explain, NamesTheNearestOption) {
  EXPECT_EQ(explained({"translate", "--chekpoint=x"}),
            "unknown option '--chekpoint'; did you mean '--checkpoint'? (`nmt translate --help` lists the options)");
  EXPECT_EQ(explained({"average", "--beam", "3"}), "unknown option '--beam' (`nmt average --help` lists the options)");
}

TEST(Explain, FollowsCommandsOfCommands) {
  EXPECT_EQ(explained({"run", "lsit"}),
            "unknown command 'lsit'; did you mean 'list'? (`nmt run --help` lists the commands)");
  EXPECT_EQ(explained({"run", "logs", "toy", "--folow"}),
            "unknown option '--folow'; did you mean '--follow'? (`nmt run logs --help` lists the options)");
  EXPECT_EQ(explained({"run"}).substr(0, 32), "expected a command: submit, list");
}

TEST(Explain, LeavesTheRestToTheParser) {
  const std::string words = "the parser's own words";
  EXPECT_EQ(explained({"translate", "--beam", "x"}), words + " (`nmt translate --help` lists the options)");
  EXPECT_EQ(explained({"translate", "--length-penalty", "-1"}), words + " (`nmt translate --help` lists the options)");
}

TEST(Explain, SaysNoNumberOfThreeHundredDigits) {
  CLI::App app("test", "server");
  std::int64_t number = 0;
  app.add_option("--memory", number)->check(CLI::NonNegativeNumber);
  try {
    app.parse(std::vector<std::string>{"-1", "--memory"});
    FAIL() << "taken";
  } catch (const CLI::ParseError& error) {
    EXPECT_EQ(explain(app, {"--memory", "-1"}, error.what()),
              "--memory: Value -1 is too small (`server --help` lists the options)");
  }
}

}  // namespace
}  // namespace babelring
