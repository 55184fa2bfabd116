#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/failure.h"
#include "base/options/usage.h"
#include "cli/commands.h"
#include "cli/translate_service.h"
#include "nmt/checkpoint/store.h"
#include "nmt/data/line_reader.h"
#include "nmt/data/text.h"
#include "nmt/interop/export.h"
#include "nmt/interop/import.h"

namespace babelring {
namespace {

struct ExportArguments {
  std::string checkpoint, output, sources;
  std::int64_t lines = 20;
  bool sources_optional = false;
  ServiceLimits limits;
  ExportOptions options;
};

/// The lines of --sources, or of the checkpoint's validation set; none if that is absent and they are optional.
std::vector<std::string> sources_of(const ExportArguments& arguments, const std::filesystem::path& checkpoint) {
  std::vector<std::string> lines;
  if (arguments.sources.empty()) {
    lines = validation_sources(checkpoint, arguments.lines);
    if (!lines.empty() || arguments.sources_optional) return lines;
    throw UsageFailure("export: the checkpoint's validation set is not here; expected --sources FILE");
  }
  LineReader reader(arguments.sources);
  RawLine line;
  while (std::ssize(lines) < arguments.lines && reader.read(line).value()) {
    if (line.over_long) fail("{}:{}: over {} bytes", arguments.sources, line.number, LineReader::longest_bytes);
    if (const std::size_t at = find_invalid_utf8(line.text); at != std::string::npos) {
      fail("{}:{}: byte {} is not UTF-8", arguments.sources, line.number, at + 1);
    }
    if (line.text.find_first_not_of(" \t") != std::string::npos) lines.push_back(line.text);
  }
  if (lines.empty()) fail("--sources: {} has no line with text", arguments.sources);
  return lines;
}

void export_model(ExportArguments& arguments) {
  apply_limits(arguments.limits);
  const std::filesystem::path checkpoint = find_checkpoint(arguments.checkpoint);
  arguments.options.sources = sources_of(arguments, checkpoint);
  const ExportOptions& options = arguments.options;
  const std::string& quantization = word_of(quantizations(), options.quantization);
  const bool is_argos = options.format == ExportFormat::argos;
  const bool has_types = is_argos || options.format == ExportFormat::ctranslate2;
  if (!has_types && options.quantization != Quantization::float32) {
    throw UsageFailure(
        fmt::format("--quantization: found {}, which only --to ctranslate2 and argos have", quantization));
  }
  if (is_argos) check_languages(options);
  for (const auto& [name, code] : {std::pair("--from", options.from), std::pair("--into", options.into)}) {
    if (!is_argos && !code.empty()) throw UsageFailure(fmt::format("{}: only --to argos has it", name));
  }
  arguments.options.command = fmt::format("nmt export --checkpoint {} --to {}{} --output {}", arguments.checkpoint,
                                          word_of(export_formats(), options.format),
                                          has_types ? " --quantization " + quantization : "", arguments.output);
  if (is_argos) arguments.options.command += fmt::format(" --from {} --into {}", options.from, options.into);
  if (!arguments.sources.empty()) {
    arguments.options.command += fmt::format(" --sources {} --lines {}", arguments.sources, arguments.lines);
  }
  const std::string omission = export_checkpoint(checkpoint, options, arguments.output);
  fmt::print("{}: {} of {}\n", arguments.output, word_of(export_formats(), options.format), checkpoint.string());
  if (!omission.empty()) fmt::print("{}\n", omission);
}

struct ImportArguments {
  ImportOptions options;
  std::string output;
};

void import_model(ImportArguments& arguments) {
  ImportOptions& options = arguments.options;
  options.command = fmt::format("nmt import {} --output {}", options.input.string(), arguments.output);
  if (!options.vocabulary.empty()) options.command += " --vocabulary " + options.vocabulary.string();
  if (options.positions != Positions::sinusoid) options.command += " --positions marian";
  const ModelConfig model = import_checkpoint(options, arguments.output);
  fmt::print("{}: {}+{} layers, width {}, {} heads; train on with --config {}/config.yaml training.start_from={}\n",
             arguments.output, model.encoder_layers, model.decoder_layers, model.width, model.heads, arguments.output,
             arguments.output);
}

}  // namespace

void add_import(CLI::App& app) {
  CLI::App* command = app.add_subcommand("import", "Makes a checkpoint of another program's model");
  const auto arguments = std::make_shared<ImportArguments>();
  command
      ->add_option("model", arguments->options.input,
                   "folder that ctranslate2.Translator loads, an unpacked package of Argos Translate, a folder of a "
                   "MarianMTModel of Hugging Face, a release of OPUS-MT (.zip), or a model of Marian: a folder or a "
                   ".npz file")
      ->required()
      ->type_name("PATH");
  command->add_option("--output", arguments->output, "folder of the new checkpoint; must not exist")->required();
  command
      ->add_option(
          "--vocabulary", arguments->options.vocabulary,
          "SentencePiece model; CTranslate2: default: sentencepiece.model of the folder; Marian: of both sides, "
          "if there is a vocabulary in YAML and no source.spm and target.spm")
      ->type_name("FILE");
  add_choice(
      *command, "--positions", arguments->options.positions, position_spacings(),
      "Hugging Face only: positions; sinusoid: as transformers computes them; marian: those that Marian trained with, "
      "of a model that was converted from it");
  command->callback([arguments] { import_model(*arguments); });
}

void add_export(CLI::App& app) {
  CLI::App* command = app.add_subcommand("export", "Writes a checkpoint in the format of another program");
  const auto arguments = std::make_shared<ExportArguments>();
  command
      ->add_option("--checkpoint", arguments->checkpoint,
                   "checkpoint, or a run's folder: its best checkpoint, or the newest if there is no best")
      ->required();
  add_choice(
      *command, "--to", arguments->options.format, export_formats(),
      "format; ctranslate2: a folder that ctranslate2.Translator loads; argos: a package for Argos Translate and "
      "LibreTranslate; huggingface: a folder that transformers.js loads, and transformers if model.norm is post; "
      "marian: "
      "a folder that marian-decoder loads; bergamot: a folder in 8 bits that Bergamot loads, in browsers, too");
  command->get_option("--to")->required()->default_str("");
  command->add_option("--output", arguments->output, "new folder, for argos a new file; must not exist")->required();
  command->add_option("--from", arguments->options.from, "argos only: code of the source language, such as en");
  command->add_option("--into", arguments->options.into, "argos only: code of the target language, such as de");
  add_choice(*command, "--quantization", arguments->options.quantization, quantizations(),
             "ctranslate2 and argos only: type of the matrices");
  command->add_option("--sources", arguments->sources,
                      "file with lines of the source language to translate into conformance.jsonl; "
                      "default: the checkpoint's validation set");
  command->add_option("--lines", arguments->lines, "max sources in conformance.jsonl; lines without text are skipped")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_flag("--sources-optional", arguments->sources_optional,
                    "leave conformance.jsonl out if the checkpoint's validation set is not here");
  command->add_option("--memory-mb", arguments->limits.memory_mb, "max address space; 0: no limit")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  command->add_flag("--end-with-parent", arguments->limits.end_with_parent, "terminate when the parent process ends");
  command->callback([arguments] { export_model(*arguments); });
}

}  // namespace babelring
