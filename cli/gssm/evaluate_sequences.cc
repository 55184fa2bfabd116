#include "cli/gssm/evaluate_sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "base/failure.h"
#include "base/json.h"
#include "base/text.h"
#include "nmt/data/gssm/gssm_source.h"
#include "nmt/data/gssm/likelihood.h"
#include "nmt/data/sequence_source.h"
#include "nmt/ops/backend.h"
#include "nmt/train/evaluation/sequence_validator.h"

namespace babelring {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t max_parts = 8;

/// Sums over sequences.
struct SequenceSums {
  std::vector<double> nll, entropy;  // by position; entropy: empty if unknown
  double loss = 0;
  std::int64_t correct = 0;
  std::vector<double> excess;  // per token, of each sequence
};

void add(const TokenLosses& losses, std::int64_t first, const GssmHeldOut* source, double smoothing,
         SequenceSums& sums) {
  const std::size_t targets = sums.nll.size();
  sums.correct += losses.correct;
  for (std::size_t begin = 0; begin < losses.nll.size(); begin += targets, ++first) {
    std::vector<double> entropy;
    if (source != nullptr) entropy = source->target_entropies(first);
    double excess = 0;
    for (std::size_t i = 0; i < targets; ++i) {
      const double nll = losses.nll[begin + i];
      sums.nll[i] += nll;
      sums.loss += (1 - smoothing) * nll + smoothing * losses.spread[begin + i];
      if (entropy.empty()) continue;
      sums.entropy[i] += entropy[i];
      excess += nll - entropy[i];
    }
    if (!entropy.empty()) sums.excess.push_back(excess / static_cast<double>(targets));
  }
}

double standard_error(const std::vector<double>& values) {
  if (values.size() < 2) return unknown;
  return summarise_entropy(values, 1).standard_error;
}

/// The mean over `sequences` of positions [first, last).
double mean_of(const std::vector<double>& sums, std::int64_t first, std::int64_t last, std::int64_t sequences) {
  double sum = 0;
  for (std::int64_t i = first; i < last; ++i) sum += sums[static_cast<std::size_t>(i)];
  return sum / static_cast<double>((last - first) * sequences);
}

json::array along(const SequenceSums& sums, std::int64_t sequences) {
  const std::int64_t targets = std::ssize(sums.nll), parts = std::min(max_parts, targets);
  json::array list;
  for (std::int64_t part = 0; part < parts; ++part) {
    const SequenceRange range = part_of_range({0, targets}, part, parts);
    const double nll = mean_of(sums.nll, range.first, range.last, sequences);
    json::object entry = {{"first", range.first + 1}, {"last", range.last}, {"nll", nll}};
    if (!sums.entropy.empty()) {
      entry["entropy"] = mean_of(sums.entropy, range.first, range.last, sequences);
      entry["excess"] = nll - entry["entropy"].as_double();
    }
    list.push_back(std::move(entry));
  }
  return list;
}

/// The first `count` sequences of a set.
std::int64_t limited(std::int64_t count, const SequenceSet& set) {
  return count > 0 ? std::min(count, set.sequences()) : set.sequences();
}

std::unique_ptr<GssmHeldOut> generated(const TrainConfig& config, std::int64_t sequences) {
  return std::make_unique<GssmHeldOut>(make_gssm_graph(config.gssm), generated_set(config),
                                       sequences > 0 ? sequences : config.validation.sequences,
                                       config.data.sequence_length, static_cast<std::uint64_t>(config.training.seed));
}

}  // namespace

std::string generated_set(const TrainConfig& config) {
  return config.data.valid_set.empty() ? "generated" : config.data.valid_set;
}

json::object evaluate_sequences(const LoadedModel& loaded, const EvaluatedSequences& choice, Backend& backend) {
  const LanguageModel& model = require_language_model(*loaded.model);
  std::unique_ptr<GssmHeldOut> source;
  std::unique_ptr<SequenceSet> file;
  if (choice.data.empty()) {
    source = generated(loaded.config, choice.sequences);
  } else {
    const Manifest manifest = load_manifest(choice.data);
    if (manifest.vocabulary_size != model.vocabulary()) {
      fail("--data: {} has a vocabulary of {} tokens, the model one of {}", choice.data, manifest.vocabulary_size,
           model.vocabulary());
    }
    file = std::make_unique<SequenceFileSet>(manifest, choice.set);
    for (const ManifestFile& each : manifest.files_of(choice.set)) check_file(manifest.folder, each, true);
  }
  const SequenceSet& set = source ? static_cast<const SequenceSet&>(*source) : *file;
  const std::int64_t sequences = limited(choice.sequences, set);
  const std::int64_t tokens = sequences * (set.length() - 1);
  SequenceSums sums{
      .nll = std::vector<double>(static_cast<std::size_t>(set.length() - 1)), .entropy = {}, .excess = {}};
  if (source) sums.entropy = sums.nll;
  ActivationArenas arenas(backend);
  std::int64_t first = 0;
  for_each_sequence_batch(set, {0, sequences}, [&](const PackedBatch& batch) {
    add(token_losses(model, batch, backend, arenas), first, source.get(), loaded.config.optimizer.label_smoothing,
        sums);
    first += batch.target_in.sentences();
  });
  const double nll = mean_of(sums.nll, 0, set.length() - 1, sequences);
  const double entropy = source ? mean_of(sums.entropy, 0, set.length() - 1, sequences)
                                : set.entropy(0, sequences, 1) / static_cast<double>(tokens);
  json::object figures = {{"checkpoint", loaded.checkpoint.folder.string()},
                          {"update", loaded.checkpoint.update},
                          {"set", set.name()},
                          {"sequences", sequences},
                          {"target_tokens", tokens},
                          {"loss", sums.loss / static_cast<double>(tokens)},
                          {"nll", nll},
                          {"perplexity", std::exp(nll)},
                          {"accuracy", static_cast<double>(sums.correct) / static_cast<double>(tokens)},
                          {"precision", name_of(model.precision())}};
  if (!std::isnan(entropy)) {
    figures["entropy"] = entropy;
    figures["excess"] = nll - entropy;
  }
  if (const double error = standard_error(sums.excess); !std::isnan(error)) figures["excess_standard_error"] = error;
  figures["along"] = along(sums, sequences);
  return figures;
}

void print_sequence_report(const json::object& figures) {
  const auto number = [&](const char* key) { return get_number(figures, key).value_or(unknown); };
  fmt::print("checkpoint  {} (update {})\n", get_text(figures, "checkpoint"), number("update"));
  fmt::print("set         {}: {} sequences, {} target tokens\n", get_text(figures, "set"), grouped(number("sequences")),
             grouped(number("target_tokens")));
  fmt::print("loss        {:.4f}, {:.4f} nats a token (perplexity {:.2f}), accuracy {:.2f} %\n", number("loss"),
             number("nll"), number("perplexity"), 100 * number("accuracy"));
  if (figures.contains("entropy")) {
    fmt::print("excess      {:.4f} nats a token over the source's entropy {:.4f}", number("excess"), number("entropy"));
    if (figures.contains("excess_standard_error"))
      fmt::print(", standard error {:.4f}", number("excess_standard_error"));
    fmt::print("\n");
  }
  fmt::print("\n{:>13} {:>9} {:>9} {:>9}\n", "targets", "nll", "entropy", "excess");
  for (const json::value& part : figures.at("along").as_array()) {
    const json::object& entry = part.as_object();
    const auto column = [&](const char* key) {
      const auto value = get_number(entry, key);
      return value ? fmt::format("{:.4f}", *value) : std::string("-");
    };
    fmt::print("{:>6}-{:<6} {:>9} {:>9} {:>9}\n", entry.at("first").as_int64(), entry.at("last").as_int64(),
               column("nll"), column("entropy"), column("excess"));
  }
}

}  // namespace babelring
