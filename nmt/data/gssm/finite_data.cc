#include "nmt/data/gssm/finite_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "base/version.h"
#include "base/work_folder.h"
#include "nmt/data/corpus.h"
#include "nmt/data/gssm/generator.h"

namespace babelring {
namespace {

constexpr std::int64_t sequences_per_round = 1024;
constexpr const char* graph_name = "gssm.yaml";

std::string config_text(const GssmConfig& config) {
  GssmConfig copy = config;
  OptionBinder binder;
  copy.bind(binder);
  return dump_yaml(binder);
}

/// Generates sequences [0, count) of the place's update on several threads and writes them in order into `folder`.
ManifestSet write_set(const GssmDataOptions& options, const WorkFolder& folder, const GssmGenerator& generator,
                      const std::string& name, std::int64_t count, const SequenceId& place) {
  const std::string file_name = name + ".target.ids";
  IdFileWriter file(folder / file_name);
  const auto length = static_cast<std::size_t>(options.config.sequence_length);
  std::vector<std::int32_t> tokens;
  for (std::int64_t start = 0; start < count; start += sequences_per_round) {
    const std::int64_t round = std::min(sequences_per_round, count - start);
    tokens.resize(static_cast<std::size_t>(round) * length);
    const auto sequence = [&](std::int64_t i) {
      return std::span(tokens).subspan(static_cast<std::size_t>(i) * length, length);
    };
    for_each_part(round, options.threads, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const SequenceId at{.seed = place.seed, .update = place.update, .sequence = start + i};
        generator.generate(generator.kernels(at), at, sequence(i));
      }
    });
    for (std::int64_t i = 0; i < round; ++i) file.add(sequence(i));
  }
  file.finish();
  return {.name = name,
          .sentences = file.sentences(),
          .source_tokens = 0,
          .target_tokens = file.tokens(),
          .source_ids = {},
          .target_ids = describe_file(folder.path(), file_name)};
}

json::object options_json(const GssmDataOptions& options, const GssmGraph& graph, const GssmEntropy& entropy) {
  json::object object = {{"train", options.train},
                         {"test", options.test},
                         {"length", options.config.sequence_length},
                         {"seed", options.config.seed},
                         {"graph", graph.digest()}};
  if (entropy.sequences == 0) return object;
  object["entropy"] = json::object{{"nats", entropy.nats},
                                   {"standard_error", entropy.standard_error},
                                   {"bits", entropy.nats / std::log(2.0)},
                                   {"share", entropy.nats / std::log(static_cast<double>(graph.vocabulary()))},
                                   {"sequences", entropy.sequences}};
  return object;
}

void check(const GssmDataOptions& options) {
  if (options.output.empty()) throw UsageFailure("gssm data: no output folder");
  if (options.train < 1 || options.test < 1) {
    throw UsageFailure(fmt::format("gssm data: {} training and {} test sequences, expected at least 1 each",
                                   options.train, options.test));
  }
}

}  // namespace

GssmDataResult write_gssm_data(const GssmDataOptions& options) {
  check(options);
  const GssmGenerator generator(make_gssm_graph(options.config.gssm));
  const WorkFolder work(options.output, "work");
  write_file_atomically(work / graph_name, config_text(options.config));

  const auto seed = static_cast<std::uint64_t>(options.config.seed);
  const SequenceId train{.seed = seed, .update = 0}, test{.seed = seed, .update = -1};
  GssmDataResult result;
  Manifest& manifest = result.manifest;
  manifest.folder = options.output;
  manifest.program = std::string("nmt ") + version;
  manifest.vocabulary = describe_file(work.path(), graph_name);
  manifest.vocabulary_size = generator.graph().vocabulary();
  manifest.sets = {write_set(options, work, generator, "train", options.train, train),
                   write_set(options, work, generator, "test", options.test, test)};
  if (const std::int64_t sequences = std::min(options.test, options.entropy_sequences); sequences > 0) {
    result.entropy = estimate_entropy(generator, test, sequences, options.config.sequence_length, options.threads);
  }
  manifest.options = options_json(options, generator.graph(), result.entropy);
  std::vector<std::string> finished = {graph_name};
  for (const ManifestSet& set : manifest.sets) finished.push_back(set.target_ids.name);
  publish_folder(options.output, work.path(), finished, manifest);
  return result;
}

}  // namespace babelring
