#include <CLI/CLI.hpp>

#include "base/compiled_instruction_sets.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/log.h"
#include "base/options/completion.h"
#include "base/options/man_page.h"
#include "base/options/options.h"
#include "base/options/program.h"
#include "base/options/usage.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/emulate/emulate.h"
#include "cli/gssm/gssm_commands.h"
#include "cli/probe/probe.h"
#include "cli/runs/run_commands.h"
#include "cli/sweep/sweep_runs.h"
#include "nmt/train/setup/config.h"

namespace {

/// Runs before all other constructors, which may use instructions that this processor lacks.
[[gnu::constructor(101)]] void check_processor() {
  babelring::require_instruction_sets(babelring::compiled_instruction_sets, "nmt");
}

/// Reads the configuration as `worker` does and returns it with all keys resolved.
std::string read_configuration(const std::string& file, const std::vector<std::string>& overrides) {
  if (const std::string wrong = babelring::existing_file(file); !wrong.empty()) {
    throw babelring::UsageFailure("--config: " + wrong);
  }
  return babelring::config_yaml(babelring::read_config(babelring::read_file(file), file, overrides));
}

void declare(CLI::App& app, const babelring::OptionBinder& keys) {
  babelring::set_help_form(app);
  app.set_version_flag("--version", std::string("nmt ") + babelring::version, "print the version and exit");
  app.require_subcommand(1);
  babelring::add_prepare(app);
  babelring::add_translate(app);
  babelring::add_augment(app);
  babelring::add_evaluate(app);
  babelring::add_score(app);
  babelring::add_shortlist(app);
  babelring::add_average(app);
  babelring::add_interpolate(app);
  babelring::add_export(app);
  babelring::add_import(app);
  babelring::add_gssm(app);
  babelring::add_run(app, read_configuration);
  babelring::add_what_if(*app.get_subcommand("run"));
  babelring::add_alert(app);
  babelring::add_rule(app);
  babelring::add_webhook(app);
  babelring::add_sweep(app);
  babelring::add_trace(app);
  babelring::add_probe(app);
  babelring::add_emulate(app);
  babelring::add_report(app);
  babelring::add_doctor(app);
  babelring::add_completion(app, keys);
  babelring::add_man_page_option(app, keys);
  babelring::add_examples(app);
}

}  // namespace

int main(int argc, char** argv) {
  return babelring::run_program("nmt", [&] {
    CLI::App app(
        "Prepares training text, translates, evaluates and averages checkpoints, and controls runs on a server", "nmt");
    babelring::TrainConfig defaults;
    babelring::OptionBinder keys;
    defaults.bind(keys);
    babelring::init_log("");
    declare(app, keys);
    try {
      babelring::parse_command_line(app, argc, argv);
    } catch (const CLI::RuntimeError& outcome) {  // the command has printed why
      return outcome.get_exit_code();
    }
    return 0;
  });
}
