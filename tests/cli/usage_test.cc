#include "base/options/usage.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/failure.h"
#include "cli/commands.h"
#include "cli/runs/run_commands.h"

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

TEST(Explain, HandlesNestedCommands) {
  EXPECT_EQ(explained({"run", "lsit"}),
            "unknown command 'lsit'; did you mean 'list'? (`nmt run --help` lists the commands)");
  EXPECT_EQ(explained({"run", "logs", "toy", "--folow"}),
            "unknown option '--folow'; did you mean '--follow'? (`nmt run logs --help` lists the options)");
  EXPECT_EQ(explained({"run"}).substr(0, 32), "expected a command: submit, list");
}

TEST(Explain, KeepsOtherMessagesOfTheParser) {
  const std::string words = "the parser's own words";
  EXPECT_EQ(explained({"translate", "--beam", "x"}), words + " (`nmt translate --help` lists the options)");
  EXPECT_EQ(explained({"translate", "--length-penalty", "-1"}), words + " (`nmt translate --help` lists the options)");
}

TEST(Explain, PrintsNoNumberWithThreeHundredDigits) {
  CLI::App app("test", "server");
  std::int64_t number = 0;
  app.add_option("--memory", number)->check(CLI::NonNegativeNumber);
  try {
    app.parse(std::vector<std::string>{"-1", "--memory"});
    FAIL() << "taken";
  } catch (const CLI::ParseError& error) {
    EXPECT_EQ(explain(app, {"--memory", "-1"}, error.what()),
              "--memory: found -1, expected a number of at least 0 (`server --help` lists the options)");
  }
}

TEST(Explain, KnowsTheWordsOfLaterVersionsOfCli11) {
  CLI::App app("test", "server");
  std::int64_t number = 0;
  app.add_option("--memory", number);
  EXPECT_EQ(explain(app, {"--memory", "-1"}, "--memory: Value -1 not in range [0 - 1.79769e+308]"),
            "--memory: found -1, expected a number of at least 0 (`server --help` lists the options)");
  EXPECT_EQ(explain(app, {"--memory", "9"}, "--memory: Value 9 not in range [1 - 8]"),
            "--memory: found 9, expected 1 to 8 (`server --help` lists the options)");
}

/// The message of the command line, or the value of --number and --share.
std::string parsed(std::vector<std::string> arguments) {
  CLI::App app("test", "nmt");
  int number = 0;
  double share = 0;
  std::uint64_t seed = 0;
  app.add_option("--number", number)->check(CLI::Range(1, 1000));
  app.add_option("--share", share)->check(CLI::Range(0.0, 10.0));
  app.add_option("--seed", seed);
  arguments.insert(arguments.begin(), "nmt");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  try {
    parse_command_line(app, static_cast<int>(pointers.size()), pointers.data());
  } catch (const UsageFailure& failure) {
    const std::string line = failure.what();
    return line.substr(0, line.find(" (`nmt --help`"));
  }
  return fmt::format("{} {} {}", number, share, seed);
}

TEST(ParseCommandLine, ReadsDecimalNumbers) {
  EXPECT_EQ(parsed({"--number", "010", "--share", "010", "--seed", "010"}), "10 10 10");
  EXPECT_EQ(parsed({"--number", "+1e2", "--share", "1e-1", "--seed", "1e6"}), "100 0.1 1000000");
  EXPECT_EQ(parsed({"--number", "01001"}), "--number: found 1001, expected 1 to 1000");
  EXPECT_EQ(parsed({"--number", "0x10"}), "--number: found '0x10', expected an integer from 1 to 1000");
  EXPECT_EQ(parsed({"--number", "1.5"}), "--number: found '1.5', expected an integer from 1 to 1000");
  EXPECT_EQ(parsed({"--number", "99999999999999999999"}),
            "--number: found '99999999999999999999', expected an integer from 1 to 1000");
  for (const char* text : {"nan", "inf", "0x1p1", "1e999", "ten"}) {
    EXPECT_EQ(parsed({"--share", text}), fmt::format("--share: found '{}', expected a number from 0 to 10", text));
  }
  EXPECT_EQ(parsed({"--seed", "-1"}), "--seed: found '-1', expected an integer of at least 0");
}

TEST(WithoutRepeats, CountsAFolderByAnotherNameOnce) {
  namespace fs = std::filesystem;
  std::string pattern = (fs::temp_directory_path() / "babelring-usage-XXXXXX").string();
  const fs::path folder = mkdtemp(pattern.data());
  fs::create_directories(folder / "a");
  fs::create_directories(folder / "b");
  fs::create_directory_symlink("a", folder / "latest");
  const std::vector<fs::path> paths = {folder / "a",      folder / "b",      folder / "a/",    folder / "./b",
                                       folder / "latest", folder / "absent", folder / "absent"};
  EXPECT_EQ(without_repeats(paths, "average"), (std::vector<fs::path>{folder / "a", folder / "b", folder / "absent"}));
  fs::remove_all(folder);
}

TEST(PositiveNumber, IsAboveZero) {
  for (const char* number : {"1", "0.001", "1e9"}) EXPECT_EQ(positive_number(number), "");
  for (const char* number : {"0", "-1", "nan"}) {
    EXPECT_EQ(positive_number(number), std::string("found ") + number + ", expected a number above 0");
  }
}

TEST(Explain, NamesFoundAndExpectedValues) {
  const auto said = [](const std::string& option, const std::string& value) {
    CLI::App app("test", "nmt");
    int number = 0;
    double share = 0;
    std::string word;
    app.set_version_flag("--version", "1");
    app.add_option("--number", number)->check(CLI::Range(1, 1000));
    app.add_option("--share", share)->check(CLI::Range(0.5, 1.0));
    app.add_option("--word", word)->check(CLI::IsMember({"power", "gnmt"}));
    try {
      app.parse(std::vector<std::string>{value, option});
    } catch (const CLI::ParseError& error) {
      const std::string line = explain(app, {option, value}, error.what());
      return line.substr(0, line.find(" (`nmt --help`"));
    }
    return std::string("taken");
  };
  EXPECT_EQ(said("--number", "0"), "--number: found 0, expected 1 to 1000");
  EXPECT_EQ(said("--number", "x"), "--number: found x, expected 1 to 1000");
  EXPECT_EQ(said("--share", "2"), "--share: found 2, expected 0.5 to 1");
  EXPECT_EQ(said("--word", "foo"), "--word: found 'foo', expected power or gnmt");
  EXPECT_EQ(said("--word", "gnm"), "--word: found 'gnm', expected power or gnmt; did you mean 'gnmt'?");
  EXPECT_EQ(said("--word", "gnmt"), "taken");
  EXPECT_EQ(said("-v", "1"), "unknown option '-v'; did you mean '--version'?");
  EXPECT_EQ(said("-q", "1"), "unknown option '-q'");
}

}  // namespace
}  // namespace babelring
