#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "nmt/base/failure.h"
#include "nmt/base/log.h"
#include "nmt/base/version.h"
#include "nmt/cli/average.h"
#include "nmt/cli/evaluate.h"
#include "nmt/cli/prepare.h"
#include "nmt/cli/score.h"
#include "nmt/cli/translate.h"
#include "nmt/cli/usage.h"

namespace {

constexpr int failed = 1;
constexpr int wrong_usage = 2;

void declare(CLI::App& app) {
  app.set_version_flag("--version", std::string("nmt ") + babelring::version);
  app.require_subcommand(1);
  babelring::add_prepare(app);
  babelring::add_translate(app);
  babelring::add_evaluate(app);
  babelring::add_score(app);
  babelring::add_average(app);
}

int complain(const std::string& message, int code) {
  fmt::print(stderr, "nmt: {}\n", message);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Prepares text for training, and translates, evaluates and averages what was trained", "nmt");
  try {
    babelring::init_log("");
    declare(app);
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
    return complain(babelring::explain(app, {argv + 1, argv + argc}, error.what()), wrong_usage);
  } catch (const babelring::UsageFailure& failure) {
    return complain(failure.what(), wrong_usage);
  } catch (const std::exception& failure) {
    return complain(failure.what(), failed);
  }
}
