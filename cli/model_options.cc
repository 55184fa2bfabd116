#include "cli/model_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/checkpoint_folder.h"
#include "nmt/ops/precision.h"
#include "nmt/parallel/device.h"

namespace babelring {

void ModelOptions::declare(CLI::App& command) {
  command.add_option("--checkpoint", checkpoint, "a checkpoint, or a run's folder: then its best one, else the newest")
      ->required();
  command.add_option("--precision", precision, "of products: f32, or bf16, faster where the processor has it")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command
      .add_option("--threads", threads,
                  "0: one for each processor that affinity and the CPU quota allow, or OMP_NUM_THREADS")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  const std::size_t others = command.get_options(nullptr).size();
  declare_search(command);
  const std::vector<CLI::Option*> options = command.get_options(nullptr);
  for (std::size_t i = others; i < options.size(); ++i) options[i]->group("Search");
}

void ModelOptions::declare_device(CLI::App& command) {
  command.add_option("--device", device, "what computes: auto is a CUDA GPU where there is one, else the processor")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
}

void ModelOptions::declare_search(CLI::App& command) {
  BeamOptions& beam = translate.beam;
  command.add_option("--beam", beam.beam, "hypotheses of a sentence; 1: greedy")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--length-penalty", beam.length_penalty, "larger favours longer translations; 0: none")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  command
      .add_option_function<std::string>(
          "--length-formula",
          [&beam](const std::string& name) {
            beam.length_formula = name == "gnmt" ? LengthFormula::gnmt : LengthFormula::power;
          },
          "log-probability is divided by n^penalty (power) or ((5+n)/6)^penalty (gnmt)")
      ->check(CLI::IsMember({"power", "gnmt"}))
      ->default_str("power");
  command.add_option("--max-length-factor", beam.max_length_factor, "most tokens of a translation: factor * source")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command.add_option("--max-length-extra", beam.max_length_extra, "tokens added to that")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str();
  command.add_option("--unk-penalty", beam.unk_penalty, "taken from the log-probability of <unk>; 1000 forbids it")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--batch-tokens", translate.batch_tokens, "most source tokens searched at once")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--batch-sentences", translate.batch_sentences, "most sentences searched at once")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      .add_option("--max-source", translate.max_source_pieces,
                  "most pieces translated at once; longer lines are split at sentence ends")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
}

std::unique_ptr<Backend> ModelOptions::make_backend() const {
  return choose_backend(device, threads, *make_single_communicator()).backend;
}

LoadedModel ModelOptions::load(Backend& backend) const {
  translate.check();
  const DType type = precision == "bf16" ? DType::bf16 : DType::f32;
  require_products(backend, type, "--precision f32");
  return load_model(find_checkpoint(checkpoint), backend, type);
}

}  // namespace babelring
