#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "nmt/decode/beam_search.h"
#include "nmt/interop/export.h"
#include "nmt/parallel/device.h"
#include "nmt/train/checkpointing/training_state.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

json::object hypothesis_json(const Vocabulary& vocabulary, const Hypothesis& hypothesis) {
  return {{"text", vocabulary.decode(hypothesis.ids)},
          {"ids", json::array(hypothesis.ids.begin(), hypothesis.ids.end())},
          {"log_probability", hypothesis.log_probability},
          {"complete", hypothesis.complete}};
}

/// The best translation of each source by a beam of `beam`, not divided by length.
std::vector<Hypothesis> best_of(BeamSearch& search, const std::vector<std::vector<std::int32_t>>& sources, int beam) {
  BeamOptions options;
  options.beam = beam;
  options.length_penalty = 0;
  constexpr std::size_t batch = 2;  // each sentence needs memory for the caches of its longest possible translations
  std::vector<Hypothesis> best;
  for (std::size_t begin = 0; begin < sources.size(); begin += batch) {
    const auto first = sources.begin() + begin;
    const std::vector<std::span<const std::int32_t>> ids(first, first + std::min(batch, sources.size() - begin));
    for (std::vector<Hypothesis>& found : search.search(ids, options)) best.push_back(std::move(found.front()));
  }
  return best;
}

float largest_magnitude(const ConstTensor& x) {
  float largest = 0;
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    const auto* values = x.row_slice(row, 1).as<float>();
    for (std::int64_t i = 0; i < x.columns(); ++i) largest = std::max(largest, std::abs(values[i]));
  }
  return largest;
}

}  // namespace

void write_conformance(ExportedModel& model, const std::vector<std::string>& lines, const fs::path& file) {
  const std::unique_ptr<Backend> backend = choose_backend(DeviceChoice::cpu, 0, *make_single_communicator()).backend;
  const LoadedModel loaded = load_model(model.checkpoint.folder, *backend, DType::f32);
  std::vector<std::vector<std::int32_t>> sources;
  sources.reserve(lines.size());
  for (const std::string& line : lines) sources.push_back(loaded.vocabulary->encode(line));
  BeamSearch search(require_transformer(*loaded.model), *backend, PackedWeights::Originals::released);
  search.observe_inputs(
      [&](const Parameter& weight, ConstTensor x) { model.inputs[weight.name].push_back(largest_magnitude(x)); });
  const std::vector<Hypothesis> greedy = best_of(search, sources, 1);
  search.observe_inputs({});
  const std::vector<Hypothesis> beam = best_of(search, sources, conformance_beam);
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const json::object line = {{"source", lines[i]},
                               {"source_ids", json::array(sources[i].begin(), sources[i].end())},
                               {"greedy", hypothesis_json(*loaded.vocabulary, greedy[i])},
                               {"beam", conformance_beam},
                               {"best", hypothesis_json(*loaded.vocabulary, beam[i])}};
    text += to_text(line) + "\n";
  }
  write_file_atomically(file, text);
}

}  // namespace babelring
