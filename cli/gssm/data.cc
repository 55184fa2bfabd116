#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/json.h"
#include "base/options/usage.h"
#include "cli/gssm/gssm_commands.h"
#include "nmt/core/processors.h"
#include "nmt/data/gssm/finite_data.h"

namespace babelring {
namespace {

struct DataArguments {
  GssmChoice choice;
  std::string output;
  std::int64_t train = 0, test = 0, entropy_sequences = 256;
};

void write_data(const DataArguments& arguments) {
  const GssmDataResult result = write_gssm_data({.config = arguments.choice.read(),
                                                 .output = arguments.output,
                                                 .train = arguments.train,
                                                 .test = arguments.test,
                                                 .entropy_sequences = arguments.entropy_sequences,
                                                 .threads = own_processors().count()});
  const Manifest& manifest = result.manifest;
  if (arguments.choice.json) {
    json::object object = manifest.options;
    object["output"] = arguments.output;
    object["vocabulary_size"] = manifest.vocabulary_size;
    fmt::print("{}\n", to_text(object));
    return;
  }
  for (const ManifestSet& set : manifest.sets) {
    fmt::print("{}: {} sequences, {} tokens\n", set.name, set.sentences, set.target_tokens);
  }
  if (result.entropy.sequences > 0) {
    fmt::print("entropy of {} test sequences: {:.4f} nats per token, standard error {:.4f}\n", result.entropy.sequences,
               result.entropy.nats, result.entropy.standard_error);
  }
  fmt::print("written to {}, vocabulary of {} tokens\n", arguments.output, manifest.vocabulary_size);
}

}  // namespace

void add_gssm_data(CLI::App& gssm) {
  CLI::App* command = gssm.add_subcommand("data", "Writes finite sets of sequences to a folder, with their entropy");
  const auto arguments = std::make_shared<DataArguments>();
  DataArguments& a = *arguments;
  a.choice.declare(*command);
  constexpr std::int64_t max_sequences = std::int64_t{1} << 40;
  command->add_option("--output", a.output, "output folder, created if absent")
      ->required()
      ->check(folder_or_nothing)
      ->type_name("DIR");
  command->add_option("--train", a.train, "training sequences")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, max_sequences));
  command->add_option("--test", a.test, "test sequences")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, max_sequences));
  command
      ->add_option("--entropy-sequences", a.entropy_sequences,
                   "max test sequences whose likelihood is computed; 0: none")
      ->check(CLI::Range(std::int64_t{0}, max_sequences))
      ->capture_default_str();
  command->callback([arguments] { write_data(*arguments); });
}

}  // namespace babelring
