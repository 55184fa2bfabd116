// Preparing parallel text, and making batches of it: lines and megabytes per second with and without training the
// vocabulary, updates a second made in place and taken from the thread that prepares them ahead. The last line is JSON.
//   bench_data --source FILE --target FILE [--pieces 8000] [--threads 2] [--tokens 4096] [--updates 500] [--repeats 3]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>

#include "base/clock.h"
#include "nmt/data/batch_pipeline.h"
#include "nmt/data/prepare.h"
#include "nmt/data/text_source.h"
#include "tests/bench/train_measurement.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

struct Options {
  std::string source, target;
  int pieces = 8000, threads = 2, repeats = 3;
  std::int64_t tokens = 4096, updates = 500;
};

struct Rate {
  std::string name, unit;
  double amount = 0;            // of `unit`, in each repeat
  std::vector<double> seconds;  // of the repeats
};

Rate measure(std::string name, std::string unit, int repeats, const std::function<double()>& work) {
  Rate rate{.name = std::move(name), .unit = std::move(unit)};
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const Stopwatch watch;
    rate.amount = work();
    rate.seconds.push_back(watch.elapsed_ms() / 1e3);
  }
  return rate;
}

PrepareOptions prepare_options(const Options& options, const std::filesystem::path& folder) {
  PrepareOptions prepare;
  prepare.train = {{options.source, options.target}};
  prepare.output = folder;
  prepare.vocabulary.size = options.pieces;
  prepare.threads = options.threads;
  return prepare;
}

/// Tokens of updates 1 to `updates`, which depend on the corpus alone.
double tokens_of(const BatchPlan& plan, std::int64_t updates) {
  std::int64_t tokens = 0;
  DataPosition position;
  for (std::int64_t update = 1; update <= updates; ++update) {
    const UpdatePlan planned = plan(position);
    tokens += planned.source_tokens + planned.target_tokens;
    position = planned.next;
  }
  return static_cast<double>(tokens);
}

/// Updates, each from `next`, checked against the plan.
double take(std::int64_t updates, double tokens, const std::function<UpdateBatches(std::int64_t)>& next) {
  double seen = 0;
  for (std::int64_t update = 1; update <= updates; ++update) {
    for (const PackedBatch& batch : next(update).micro_batches) {
      seen += static_cast<double>(batch.source.tokens() + batch.target_in.tokens());
    }
  }
  if (seen != tokens) fail("data: {} updates hold {} tokens, their plan says {}", updates, seen, tokens);
  return static_cast<double>(updates);
}

json::object report(const Rate& rate) {
  const double middle = median(rate.seconds);
  const auto [fastest, slowest] = std::minmax_element(rate.seconds.begin(), rate.seconds.end());
  fmt::print("{:<44} {:>12.1f} {:<10} ({:.1f} to {:.1f})\n", rate.name, rate.amount / middle, rate.unit + "/s",
             rate.amount / *slowest, rate.amount / *fastest);
  return {{"name", rate.name},
          {"unit", rate.unit + "/s"},
          {"rate", rate.amount / middle},
          {"min", rate.amount / *slowest},
          {"max", rate.amount / *fastest}};
}

int run(const Options& options) {
  const TemporaryFolder work;
  std::vector<Rate> rates;
  double lines = 0;
  const auto prepare_all = [&](const PrepareOptions& how) {
    lines = static_cast<double>(prepare(how).reports.front().read());
    return lines;
  };
  rates.push_back(measure("prepare, vocabulary trained", "pairs", 1,
                          [&] { return prepare_all(prepare_options(options, work.path() / "first")); }));
  PrepareOptions again = prepare_options(options, work.path() / "again");
  again.use_vocabulary = work.path() / "first" / "spm.model";
  rates.push_back(measure("prepare, vocabulary given", "pairs", options.repeats, [&] { return prepare_all(again); }));

  const Corpus corpus = Corpus::open(work.path() / "first", "train");
  const TextSource source(corpus, {.tokens_per_update = options.tokens});
  const double tokens = tokens_of(source.plan(), options.updates);
  rates.push_back(measure("batches made in place", "updates", options.repeats, [&] {
    return take(options.updates, tokens, [&, position = DataPosition()](std::int64_t update) mutable {
      UpdateBatches batches = source.make(update, position, {});
      position = batches.next;
      return batches;
    });
  }));
  rates.push_back(measure("batches from the thread that works ahead", "updates", options.repeats, [&] {
    BatchPipeline pipeline(source, {});
    return take(options.updates, tokens, [&](std::int64_t) { return pipeline.next(); });
  }));
  json::array rows;
  for (const Rate& rate : rates) rows.push_back(report(rate));
  const double mean_tokens = tokens / static_cast<double>(options.updates);
  fmt::print("{} pairs read, {} kept; an update holds {:.0f} tokens of both sides\n", lines, corpus.sentences(),
             mean_tokens);
  fmt::print("{}\n", to_text(json::object{{"bench", "data"},
                                          {"pairs_read", lines},
                                          {"pairs_kept", corpus.sentences()},
                                          {"pieces", options.pieces},
                                          {"threads", options.threads},
                                          {"tokens_per_update", mean_tokens},
                                          {"updates", options.updates},
                                          {"rows", rows}}));
  return 0;
}

}  // namespace
}  // namespace babelring

int main(int argc, char** argv) {
  CLI::App app("Speed of preparing text and of making batches");
  babelring::Options options;
  app.add_option("--source", options.source, "text, plain or gzip")->required();
  app.add_option("--target", options.target)->required();
  app.add_option("--pieces", options.pieces, "of the vocabulary")->capture_default_str();
  app.add_option("--threads", options.threads, "that encode")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--tokens", options.tokens, "target tokens of an update")->check(CLI::PositiveNumber);
  app.add_option("--updates", options.updates, "made in each repeat")->check(CLI::PositiveNumber);
  app.add_option("--repeats", options.repeats)->check(CLI::Range(1, 1000))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return babelring::run(options);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
