#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/probe/probe_commands.h"
#include "cli/probe/report.h"

namespace babelring {

namespace {

struct ProbePrintArguments {
  std::string file, fields = "phase,layer,op,member,shape,sha256,mean,absmax", layers;
};

}  // namespace

void add_probe_print(CLI::App& probe) {
  CLI::App* command = probe.add_subcommand("print", "Prints a probe");
  const auto arguments = std::make_shared<ProbePrintArguments>();
  command->add_option("file", arguments->file, "probe")->required();
  command->add_option("--fields", arguments->fields, "members to show, separated by commas")->capture_default_str();
  command->add_option("--layers", arguments->layers, "glob of the layers to show; default: all");
  command->callback([arguments] {
    const std::vector<std::string> fields = probe_fields(arguments->fields);
    print_probe(read_probe(arguments->file), fields, arguments->layers, Screen::of_stdout());
  });
}

}  // namespace babelring
