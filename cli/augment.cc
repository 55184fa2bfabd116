#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <regex>
#include <set>

#include "base/digest.h"
#include "base/failure.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options/usage.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "cli/pair_files.h"
#include "cli/translation_lines.h"

namespace babelring {
namespace {

/// One of equal parts of the work, which separate processes do.
struct Shard {
  std::int64_t index = 0, count = 1;
};

struct AugmentArguments {
  ModelOptions model;
  std::string mono, output, tag, shard, invalid = "fail";
  bool forward = false;
  std::int64_t block_lines = 2000;
};

/// --shard K/N; else the rank that mpirun gives each process; else all lines.
Shard shard_of(const std::string& given) {
  const auto number = [](std::string_view text) {
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? value : -1;
  };
  constexpr std::int64_t most = 10'000;
  if (!given.empty()) {
    const std::size_t slash = std::min(given.find('/'), given.size() - 1);
    const Shard shard{number(std::string_view(given).substr(0, slash)) - 1,
                      number(std::string_view(given).substr(slash + 1))};
    if (shard.count <= most && shard.index >= 0 && shard.index < shard.count) return shard;
    throw UsageFailure(
        fmt::format("--shard: found '{}', expected K/N with K from 1 to N, such as 2/4", printable(given)));
  }
  const char *rank = std::getenv("OMPI_COMM_WORLD_RANK"), *size = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (rank == nullptr || size == nullptr) return {};
  return {number(rank), number(size)};
}

std::int64_t lines_in(const std::string& file) {
  LineReader reader(file);
  for (RawLine line; reader.next(line);) continue;
  return reader.lines();
}

/// Makes a pair of files, or a part of it.
class Augmentation {
 public:
  Augmentation(const AugmentArguments& arguments, Shard shard, json::object made_of)
      : arguments_(arguments), shard_(shard), made_of_(std::move(made_of)), whole_{arguments.output} {}

  /// Whether a run with the same options has made everything. Throws UsageFailure if the files are others.
  bool complete() const {
    const auto found = whole_.stored();
    if (const std::string other = other_part(); !other.empty()) {
      if (!found || !found->complete) {
        throw UsageFailure(
            fmt::format("--shard: found {}, which {} {} would not use, expected the same number or no such file", other,
                        shard_.count, shard_.count == 1 ? "part" : "parts"));
      }
      spdlog::warn("{}: a part that nothing uses: {} is complete", other, arguments_.output);
    }
    if (found) {
      require_same(found->made_of, made_of_, whole_.progress());
      if (!found->complete && shard_.count > 1) {
        throw UsageFailure(fmt::format("--shard: {} was begun without it", whole_.progress().string()));
      }
      return found->complete;
    }
    // A process may have ended while it joined complete parts.
    if (whole_.exist() && !all_parts()) {
      throw UsageFailure(
          fmt::format("--output: {} or {} exists already", whole_.source().string(), whole_.target().string()));
    }
    return false;
  }

  /// Makes the lines of the shard that are missing.
  void make(Translator& translator, const TranslateOptions& options) const;
  /// Joins the parts of all shards once they are complete, which the process does that completes the last.
  void join() const;
  void print_counts() const;

 private:
  PairFiles part(std::int64_t index) const {
    return shard_.count == 1 ? whole_
                             : PairFiles{fmt::format("{}.{}-of-{}", arguments_.output, index + 1, shard_.count)};
  }
  /// Appends a block.
  AugmentCounts append(const PairFiles& files, const std::vector<std::string>& lines,
                       const std::vector<Translation>& translations) const;
  std::optional<PairProgress> all_parts() const;
  std::string other_part() const;

  const AugmentArguments& arguments_;
  Shard shard_;
  json::object made_of_;
  PairFiles whole_;
};

AugmentCounts Augmentation::append(const PairFiles& files, const std::vector<std::string>& lines,
                                   const std::vector<Translation>& translations) const {
  AugmentCounts counts{.lines = std::ssize(lines)};
  std::string sources, targets;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string made = translations[i].text();
    if (!made.empty()) {  // nmt prepare drops a pair with an empty side, but would keep a tag alone
      ++counts.pairs;
      if (!arguments_.tag.empty()) sources += arguments_.tag + " ";
    }
    sources += (arguments_.forward ? lines[i] : made) + "\n";
    targets += (arguments_.forward ? made : lines[i]) + "\n";
    if (translations[i].parts > 1) ++counts.split;
    if (!translations[i].complete()) ++counts.cut;
  }
  files.append(sources, targets);
  return counts;
}

void Augmentation::make(Translator& translator, const TranslateOptions& options) const {
  const PairFiles files = part(shard_.index);
  const PairLock lock(files.prefix, false);
  PairProgress progress = files.resume(made_of_);
  if (progress.complete) return;
  files.store(progress);  // before the first block, so that a run that ends in it can be resumed
  const std::int64_t total = shard_.count > 1 ? lines_in(arguments_.mono) : INT64_MAX / 2;
  const std::int64_t first = shard_.count > 1 ? total * shard_.index / shard_.count : 0;
  const std::int64_t end = shard_.count > 1 ? total * (shard_.index + 1) / shard_.count : total;
  TranslationInput input(arguments_.mono, arguments_.invalid == "replace" ? Invalid::replace : Invalid::fail);
  std::int64_t number = first + progress.counts.lines;
  input.skip(number);
  if (progress.counts.lines > 0) spdlog::info("{}: continues after line {}", files.prefix, number);
  const std::int64_t repaired_before = progress.counts.repaired;
  while (!progress.complete) {
    const auto lines = input.next(std::min(arguments_.block_lines, end - number));
    if (lines.empty()) {
      progress.complete = true;
    } else {
      progress.counts.add(append(files, lines, translator.translate(lines, options, {}, number)));
      progress.counts.repaired = repaired_before + input.repaired_lines();
      number += std::ssize(lines);
    }
    files.store(progress);
  }
  input.warn_of_replaced();
}

/// The progress of all shards together; none while one is not complete.
std::optional<PairProgress> Augmentation::all_parts() const {
  PairProgress all{.complete = true, .made_of = made_of_};
  for (std::int64_t index = 0; index < shard_.count; ++index) {
    const PairFiles files = part(index);
    const auto found = files.stored();
    if (!found || !found->complete) return std::nullopt;
    require_same(found->made_of, made_of_, files.progress());
    all.counts.add(found->counts);
  }
  return all;
}

/// The first file of a part that was made with another number of shards, which nothing would join or remove; empty if
/// there is none.
std::string Augmentation::other_part() const {
  static const std::regex form("[0-9]+-of-([0-9]+)\\.(source|target|augment\\.json)");
  const std::filesystem::path whole(arguments_.output);
  const std::string stem = whole.filename().string() + ".";
  std::string first;
  std::error_code absent;
  const auto folder = whole.has_parent_path() ? whole.parent_path() : std::filesystem::path(".");
  for (const auto& entry : std::filesystem::directory_iterator(folder, absent)) {
    const std::string name = entry.path().filename().string();
    std::smatch parts;
    const std::string rest = name.starts_with(stem) ? name.substr(stem.size()) : "";
    if (!std::regex_match(rest, parts, form) || parts[1] == fmt::format("{}", shard_.count)) continue;
    const std::string file = (whole.parent_path() / name).string();
    if (first.empty() || file < first) first = file;
  }
  return first;
}

void Augmentation::join() const {
  if (shard_.count == 1) return;
  const PairLock lock(whole_.prefix, true);
  if (!whole_.stored()) {  // otherwise another process has joined them
    auto all = all_parts();
    if (!all) return;
    AtomicFile source(whole_.source()), target(whole_.target());
    for (std::int64_t index = 0; index < shard_.count; ++index) {
      source.write(read_file(part(index).source()));
      target.write(read_file(part(index).target()));
    }
    AtomicFile::commit_both(source, target);
    whole_.store(*all);
  }
  for (std::int64_t index = 0; index < shard_.count; ++index) part(index).remove();
}

void Augmentation::print_counts() const {
  const PairFiles files = whole_.stored() ? whole_ : part(shard_.index);
  const AugmentCounts counts = files.stored().value_or(PairProgress()).counts;
  std::cout << fmt::format(
      "{}: {} lines, {} pairs, {} lines without a translation, {} split, {} cut at the maximum length, {} with bytes "
      "replaced or cut\n",
      files.prefix, counts.lines, counts.pairs, counts.lines - counts.pairs, counts.split, counts.cut, counts.repaired);
}

/// All that the files depend on: the models, the text, and the options but those that say where and how fast.
json::object made_of(const CLI::App& command, const AugmentArguments& arguments, const LoadedEnsemble& ensemble) {
  static const std::set<std::string> others = {"help",    "checkpoint", "mono",         "output",
                                               "shard",   "threads",    "batch-tokens", "batch-sentences",
                                               "invalid", "block-lines"};
  json::object object;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_single_name();
    if (others.contains(name)) continue;
    std::string value =
        option->count() > 0 ? fmt::format("{}", fmt::join(option->results(), ",")) : option->get_default_str();
    if (option->get_type_name() == "FILE" && option->count() > 0) value = sha256_file(value);
    object[name] = value;
  }
  json::array models;
  for (const LoadedModel& model : ensemble.models) {
    const Checkpoint& checkpoint = model.checkpoint;
    models.emplace_back(checkpoint.weights_digest.root.empty() ? sha256_file(checkpoint.folder / "SHA256SUMS")
                                                               : checkpoint.weights_digest.root);
  }
  object["checkpoint"] = std::move(models);
  object["mono"] = sha256_file(arguments.mono);
  return object;
}

void augment(const CLI::App& command, AugmentArguments& arguments) {
  if (arguments.tag.find_first_of("\r\n") != std::string::npos || arguments.tag.starts_with(' ')) {
    throw UsageFailure(fmt::format("--tag: found '{}', expected a line", printable(arguments.tag)));
  }
  const Shard shard = shard_of(arguments.shard);
  choose_search(arguments.model.search, command.get_option("--beam")->count() > 0);
  const std::unique_ptr<Backend> backend = arguments.model.make_backend();
  const LoadedEnsemble ensemble = arguments.model.load_ensemble(*backend);
  const TranslateOptions options = arguments.model.translate_with(ensemble);
  const Augmentation augmentation(arguments, shard, made_of(command, arguments, ensemble));
  if (!augmentation.complete()) {
    Translator translator = ensemble.translator(*backend);
    augmentation.make(translator, options);
  }
  augmentation.join();
  augmentation.print_counts();
}

}  // namespace

void add_augment(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "augment", "Translates text of one language into pairs for `nmt prepare`: back-translation and distillation");
  const auto arguments = std::make_shared<AugmentArguments>();
  arguments->model.declare(*command, Models::ensemble);
  arguments->model.declare_device(*command);
  arguments->model.declare_sampling(*command);
  command->add_option("--mono", arguments->mono, "text of one language, plain or compressed")
      ->check(existing_file)
      ->type_name("FILE")
      ->required();
  command->add_option("--output", arguments->output, "writes PREFIX.source and PREFIX.target")
      ->type_name("PREFIX")
      ->required();
  command->add_flag("--forward", arguments->forward,
                    "distillation: the text is the source, its translation the target; otherwise the text is the "
                    "target, as for back-translation by a model of the other direction");
  command->add_option("--tag", arguments->tag,
                      "text before each source, such as '<BT>', which is `nmt prepare --symbols`");
  command
      ->add_option("--shard", arguments->shard,
                   "the K-th of N equal parts of the lines; the process that completes the last part joins them; under "
                   "mpirun a part for each rank")
      ->type_name("K/N");
  command
      ->add_option("--block-lines", arguments->block_lines,
                   "lines that are translated together and then safe: a run that was ended continues after them")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--invalid", arguments->invalid,
                   "invalid UTF-8 and lines over 1 MiB: fail, after the lines before, or replace the bytes by U+FFFD "
                   "and cut the line to 64 KiB, on both sides")
      ->check(CLI::IsMember({"fail", "replace"}))
      ->capture_default_str();
  command->callback([command, arguments] { augment(*command, *arguments); });
}

}  // namespace babelring
