// Beam search over the sentences of a prepared folder: sentences and tokens a second, what each op takes, and the share
// of a roofline. Sentences are sorted by length and searched a batch at a time. Without a checkpoint the weights are
// random; hypotheses then never end by themselves and are cut at about the length of their source. The last line is
// JSON.
//   bench_decode --data FOLDER [--set test] [--device cpu|cuda] [--preset base] [--checkpoint FOLDER] [--beam 4]
//   [--batch-sentences 64] …
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <numeric>

#include "base/clock.h"
#include "nmt/checkpoint/quantized_weights.h"
#include "nmt/data/manifest.h"
#include "nmt/decode/beam_search.h"
#include "nmt/decode/shortlist.h"
#include "nmt/ops/attention.h"
#include "nmt/ops/cross_entropy.h"
#include "nmt/ops/cuda_module.h"
#include "nmt/train/checkpointing/training_state.h"
#include "tests/bench/device_peaks.h"
#include "tests/bench/op_times.h"
#include "tests/bench/train_measurement.h"

namespace babelring {
namespace {

using Source = std::span<const std::int32_t>;

struct Options {
  std::string data, set = "test", device = "cpu", preset = "base", norm = "post", precision = "bf16", checkpoint,
                    shortlist;
  BeamOptions beam{.beam = 4};
  std::size_t batch_sentences = 64;
  std::int64_t sentences = 0;
  int threads = 2, repeats = 3;
};

DType precision_of(const Options& options) {
  if (options.precision == "int8") return DType::int8;
  return options.precision == "bf16" ? DType::bf16 : DType::f32;
}

std::unique_ptr<Model> open_model(const Options& options, Backend& backend) {
  if (!options.checkpoint.empty()) return load_model(options.checkpoint, backend, precision_of(options)).model;
  ModelConfig config = model_preset("transformer-" + options.preset);
  config.norm = options.norm == "pre" ? NormPosition::pre : NormPosition::post;
  ParameterMemory memory = parameter_memory_of(backend);
  memory.gradients = {};
  const DType precision = precision_of(options);
  auto model = std::make_unique<Transformer>(config, load_manifest(options.data).vocabulary_size, 0.0f, memory,
                                             precision == DType::int8 ? DType::f32 : precision);
  model->initialize(backend, 1);
  if (precision == DType::int8) return quantized_copy(*model, backend);
  return model;
}

/// Longest first, in batches of equally many sentences.
std::vector<std::vector<Source>> make_batches(const Corpus& corpus, const Options& options) {
  std::vector<Source> sources;
  const std::int64_t count = options.sentences == 0 ? corpus.sentences() : options.sentences;
  for (std::int64_t i = 0; i < std::min(count, corpus.sentences()); ++i) sources.push_back(corpus.source(i));
  std::stable_sort(sources.begin(), sources.end(),
                   [](const Source& a, const Source& b) { return a.size() > b.size(); });
  std::vector<std::vector<Source>> batches;
  for (std::size_t i = 0; i < sources.size(); i += options.batch_sentences) {
    const std::size_t end = std::min(i + options.batch_sentences, sources.size());
    batches.emplace_back(sources.begin() + static_cast<std::ptrdiff_t>(i),
                         sources.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return batches;
}

struct Totals {
  std::int64_t sentences = 0, source_tokens = 0, target_tokens = 0, complete = 0, listed = 0;
  double log_probability = 0;  // of the best hypotheses
};

Totals search_all(BeamSearch& search, const std::vector<std::vector<Source>>& batches, const BeamOptions& beam,
                  const Shortlist* shortlist) {
  Totals totals;
  for (const std::vector<Source>& batch : batches) {
    std::vector<std::vector<std::int32_t>> lists;
    for (const Source& source : batch) {
      totals.source_tokens += std::ssize(source) + 1;
      if (shortlist == nullptr) continue;
      lists.push_back(shortlist->list_of(source));
      totals.listed += std::ssize(lists.back());
    }
    for (const std::vector<Hypothesis>& best : search.search(batch, beam, {.lists = lists})) {
      ++totals.sentences;
      totals.target_tokens += std::ssize(best.front().ids) + (best.front().complete ? 1 : 0);
      totals.complete += best.front().complete ? 1 : 0;
      totals.log_probability += best.front().log_probability;
    }
  }
  return totals;
}

/// Bytes of the weights with this prefix, as matmuls read them.
double weight_bytes(const Transformer& model, std::string_view prefix) {
  double elements = 0;
  for (const Parameter& parameter : model.parameters().all()) {
    if (parameter.name.starts_with(prefix)) elements += static_cast<double>(parameter.shape.elements());
  }
  return elements * static_cast<double>(size_of(model.precision()));
}

/// The least work of the observed search: its matmuls; the encoder's weights once a batch; the decoder's and the
/// output's once a step; of each row's cached keys and values all, at every step.
OpCost unavoidable(const OpTimes& times, const Transformer& model, std::size_t batches) {
  OpCost cost;
  double steps = 0;
  for (const OpTime& op : times.rows()) {
    cost.flops += op.flops;
    if (op.name == LogSoftmaxTopK::name) steps = static_cast<double>(op.calls);
    if (op.name == DecodeAttention::name) cost.bytes += op.bytes;
  }
  const double output =
      static_cast<double>(model.vocabulary() * model.config().width) * static_cast<double>(size_of(model.precision()));
  cost.bytes += static_cast<double>(batches) * weight_bytes(model, "encoder");
  cost.bytes += steps * (weight_bytes(model, "decoder") + output);
  return cost;
}

json::object describe(const Options& options, const Backend& backend, const Transformer& model, const Totals& totals) {
  return {{"bench", "decode"},
          {"backend", backend.description()},
          {"preset", options.checkpoint.empty() ? options.preset : options.checkpoint},
          {"precision", options.precision},
          {"parameters", model.parameters().count()},
          {"vocabulary", model.vocabulary()},
          {"beam", options.beam.beam},
          {"mean_list", static_cast<double>(totals.listed) / static_cast<double>(totals.sentences)},
          {"batch_sentences", options.batch_sentences},
          {"sentences", totals.sentences},
          {"source_tokens", totals.source_tokens},
          {"target_tokens", totals.target_tokens},
          {"complete", totals.complete},
          {"mean_log_probability", totals.log_probability / static_cast<double>(totals.sentences)}};
}

int run(const Options& options) {
  const auto backend = options.device == "cuda" ? make_cuda_backend(0) : make_cpu_backend(options.threads);
  const std::unique_ptr<Model> opened = open_model(options, *backend);
  const Transformer& model = require_transformer(*opened);
  const Corpus corpus = Corpus::open(options.data, options.set);
  const auto batches = make_batches(corpus, options);
  if (batches.empty()) fail("decode: {} of {} has no sentences", options.set, options.data);
  std::unique_ptr<const Shortlist> shortlist;
  if (!options.shortlist.empty()) {
    const Vocabulary vocabulary = Vocabulary::load(std::filesystem::path(options.data) / "spm.model");
    shortlist = std::make_unique<const Shortlist>(Shortlist::load(options.shortlist, vocabulary));
  }
  BeamSearch search(model, *backend);
  search_all(search, {batches.front()}, options.beam, shortlist.get());
  MachinePeaks peaks = measure_peaks(*backend, options.threads);
  std::vector<double> seconds;
  Totals totals;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    const Stopwatch watch;
    totals = search_all(search, batches, options.beam, shortlist.get());
    seconds.push_back(watch.elapsed_ms() / 1e3);
  }
  peaks = larger_of(peaks, measure_peaks(*backend, options.threads));
  OpTimes times(false);
  backend->observe(&times);
  search_all(search, batches, options.beam, shortlist.get());
  backend->observe(nullptr);

  const OpCost cost = unavoidable(times, model, batches.size());
  const double floor = roofline_ms(peaks, model.precision(), cost.flops, cost.bytes) / 1e3;
  const double middle = median(seconds);
  const auto [fastest, slowest] = std::minmax_element(seconds.begin(), seconds.end());
  const auto sentences = static_cast<double>(totals.sentences), tokens = static_cast<double>(totals.target_tokens);
  json::object result = describe(options, *backend, model, totals);
  result["seconds"] = middle;
  result["sentences_per_s"] = sentences / middle;
  result["sentences_per_s_min"] = sentences / *slowest;
  result["sentences_per_s_max"] = sentences / *fastest;
  result["target_tokens_per_s"] = tokens / middle;
  result["packed_megabytes"] = static_cast<double>(search.packed_bytes()) / 1e6;
  result["gflop"] = cost.flops / 1e9;
  result["unavoidable_megabytes"] = cost.bytes / 1e6;
  result["roofline_s"] = floor;
  result["roofline_fraction"] = floor / middle;
  result["peaks"] = to_json(peaks);
  result["ops"] = to_json(times, peaks, model.compute_dtype());
  fmt::print("{}\n", backend->description());
  print_peaks(peaks);
  print_table(times, peaks, model.compute_dtype());
  fmt::print("{} sentences, {} source and {} target tokens, {} translations complete, in {:.2f} s ({:.2f} to {:.2f}): ",
             totals.sentences, totals.source_tokens, totals.target_tokens, totals.complete, middle, *fastest, *slowest);
  fmt::print("{:.1f} sentences/s, {:.0f} tokens/s; roofline {:.2f} s = {:.1f} %\n", sentences / middle, tokens / middle,
             floor, 100 * floor / middle);
  fmt::print("{}\n", to_text(result));
  return 0;
}

void declare(CLI::App& app, Options& options) {
  app.add_option("--data", options.data, "a folder of `nmt prepare`")->required();
  app.add_option("--set", options.set)->capture_default_str();
  app.add_option("--device", options.device)->check(CLI::IsMember({"cpu", "cuda"}))->capture_default_str();
  app.add_option("--sentences", options.sentences, "number of sentences, from the first; 0: all")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--preset", options.preset)->check(CLI::IsMember({"tiny", "base", "big"}))->capture_default_str();
  app.add_option("--norm", options.norm)->check(CLI::IsMember({"post", "pre"}))->capture_default_str();
  app.add_option("--checkpoint", options.checkpoint, "instead of random weights; its vocabulary must be the data's");
  app.add_option("--shortlist", options.shortlist, "a file of `nmt shortlist` for the data's vocabulary");
  app.add_option("--precision", options.precision)
      ->check(CLI::IsMember({"bf16", "f32", "int8"}))
      ->capture_default_str();
  app.add_option("--beam", options.beam.beam)->capture_default_str();
  app.add_option("--batch-sentences", options.batch_sentences)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--repeats", options.repeats)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--max-length-factor", options.beam.max_length_factor, "default: 1 without a checkpoint, else 2");
}

}  // namespace
}  // namespace babelring

int main(int argc, char** argv) {
  CLI::App app("Speed of beam search");
  babelring::Options options;
  babelring::declare(app, options);
  CLI11_PARSE(app, argc, argv);
  if (options.checkpoint.empty()) {
    if (app.count("--max-length-factor") == 0) options.beam.max_length_factor = 1;
    options.beam.max_length_extra = 1;
  }
  try {
    return babelring::run(options);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
