// The order of many sentence pairs: time until the first update is known, until the first one of the next epoch is, and
// memory, with ranks that have one plan in common. The last line is JSON.
//   bench_plan [--pairs 20000] [--tokens 25000] [--folder DIR [--set train]]
// Without --folder it writes id files of pairs of 1 to 3 subwords to a temporary folder: 32 bytes a pair.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "base/clock.h"
#include "base/failure.h"
#include "base/json.h"
#include "nmt/core/random.h"
#include "nmt/data/batch_plan.h"
#include "nmt/data/corpus.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

struct Options {
  std::string folder, set = "train";
  std::int64_t pairs = 20'000, tokens = 25'000;
};

/// Writes one side of a set and describes it.
ManifestFile write_side(const std::filesystem::path& folder, const std::string& name, std::int64_t pairs,
                        std::uint64_t seed, std::int64_t& tokens) {
  constexpr std::array<std::int32_t, 3> ids{3, 4, 5};
  IdFileWriter writer(folder / name);
  Random random(seed);
  for (std::int64_t i = 0; i < pairs; ++i) writer.add(std::span(ids).first(1 + random.below(ids.size())));
  writer.finish();
  tokens = writer.tokens();
  return describe_file(folder, name);
}

Manifest make_data(const std::filesystem::path& folder, const Options& options) {
  std::ofstream(folder / "none.model") << "none";
  ManifestSet set{.name = options.set, .sentences = options.pairs};
  set.source_ids = write_side(folder, "source.ids", options.pairs, 1, set.source_tokens);
  set.target_ids = write_side(folder, "target.ids", options.pairs, 2, set.target_tokens);
  Manifest manifest{.folder = folder, .program = "bench_plan", .vocabulary_size = 6};
  manifest.vocabulary = describe_file(folder, "none.model");
  manifest.sets.push_back(set);
  return manifest;
}

/// Bytes of this process that are not pages of mapped files on a disk.
std::int64_t own_bytes() {
  std::ifstream status("/proc/self/status");
  std::int64_t kilobytes = 0;
  for (std::string line; std::getline(status, line);) {
    for (const std::string_view key : {"RssAnon:", "RssShmem:"}) {
      if (line.starts_with(key)) kilobytes += std::stoll(line.substr(key.size()));
    }
  }
  return kilobytes * 1024;
}

int run(const Options& options) {
  const TemporaryFolder work;
  const Manifest manifest = options.folder.empty() ? make_data(work.path(), options) : load_manifest(options.folder);
  const PlanOptions plan_options{.tokens_per_update = options.tokens};
  const std::int64_t before = own_bytes();
  std::shared_ptr<SharedFile> memory;
  const PlanMemory share = [&](std::size_t bytes, const std::string&, const std::function<void(char*)>& prepare) {
    if (memory) return SharedFile::open(memory->invitation());
    memory = SharedFile::create(bytes);
    if (memory) prepare(memory->data());
    return memory;
  };
  json::object row{{"bench", "plan"}};
  Stopwatch watch;
  const auto report = [&](const std::string& name, const std::string& key) {
    const double seconds = watch.lap_ms() / 1e3;
    fmt::print("{:<56} {:>9.3f} s, {:>6} MB\n", name, seconds, (own_bytes() - before) >> 20);
    row[key] = seconds;
    watch.lap_ms();
  };
  const Corpus corpus = Corpus::open(manifest, options.set);
  report("id files opened and checked", "open_s");
  const BatchPlan first(corpus, plan_options, share);
  report("sentences counted", "count_s");
  UpdatePlan update = first({});
  report("first update", "first_update_s");
  const auto pairs = static_cast<double>(corpus.sentences());
  const double one_epoch = static_cast<double>(own_bytes() - before) / pairs;
  const BatchPlan second(corpus, plan_options, share);
  if (second({}).sentences != update.sentences) fail("plan: two ranks have different updates");
  report("the same update on a second rank", "second_rank_s");
  // By the plan that made it: the system counts pages once for each place where this process maps and uses them.
  const auto updates = static_cast<double>(first.updates_per_epoch());
  static_cast<void>(first(first.position_at((updates - 1) / updates)));
  report("last update of the epoch, all others cut", "cut_epoch_s");
  update = second({1, 0});
  report("first update of the next epoch", "next_epoch_s");
  const double two_epochs = static_cast<double>(own_bytes() - before) / pairs;
  fmt::print(
      "{} pairs, {} updates an epoch; bytes a pair and host: {:.2f} in the first epoch, {:.2f} from the second\n",
      corpus.sentences(), first.updates_per_epoch(), one_epoch, two_epochs);
  row["pairs"] = corpus.sentences();
  row["updates_per_epoch"] = first.updates_per_epoch();
  row["bytes_a_pair"] = one_epoch;
  row["bytes_a_pair_two_epochs"] = two_epochs;
  fmt::print("{}\n", to_text(row));
  return 0;
}

}  // namespace
}  // namespace babelring

int main(int argc, char** argv) {
  CLI::App app("Time and memory of the order of many sentence pairs");
  babelring::Options options;
  app.add_option("--pairs", options.pairs, "to make")->check(CLI::Range(1000L, 4'000'000'000L))->capture_default_str();
  app.add_option("--tokens", options.tokens, "target tokens of an update")->check(CLI::PositiveNumber);
  app.add_option("--folder", options.folder, "a prepared folder");
  app.add_option("--set", options.set)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return babelring::run(options);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
