#include "cli/report_evaluation.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "base/names.h"
#include "base/records/records.h"
#include "cli/runs/run_commands.h"
#include "cli/runs/table.h"
#include "nmt/data/line_reader.h"
#include "nmt/data/manifest.h"
#include "nmt/data/vocabulary.h"

namespace babelring {

EvaluationSet prepared_set(const std::filesystem::path& folder, const std::string& set, const Vocabulary& vocabulary) {
  const Manifest manifest = load_manifest(folder);
  const std::string& prepared_with = manifest.vocabulary.sha256;
  if (prepared_with != vocabulary.digest()) {
    fail("{}: prepared with vocabulary {:.12}, but the checkpoint has {:.12}", folder.string(), prepared_with,
         vocabulary.digest());
  }
  return {.name = set,
          .corpus = Corpus::open(manifest, set, true),
          .references = ParallelText::open(manifest, set, true).target};
}

EvaluationSet text_set(const std::filesystem::path& source, const std::filesystem::path& reference,
                       const Vocabulary& vocabulary) {
  const std::vector<std::string> sources = read_text_lines(source);
  std::vector<std::string> references = read_text_lines(reference);
  if (sources.size() != references.size()) {
    fail("evaluate: {} has {} lines, {} has {}", source.string(), sources.size(), reference.string(),
         references.size());
  }
  return {.name = source.filename().string(),
          .corpus = Corpus::from_memory(encode_lines(sources, TextSide::source, vocabulary, 0),
                                        encode_lines(references, TextSide::target, vocabulary, 0)),
          .references = std::move(references)};
}

namespace {

constexpr std::size_t sample_count = 10, max_sample_bytes = 4096, max_set_bytes = 128;

}  // namespace

json::array samples_of(const EvaluationSet& set, const std::vector<std::string>& hypotheses,
                       const Vocabulary& vocabulary) {
  json::array samples;
  const std::size_t count = std::min(sample_count, hypotheses.size());
  std::size_t left_out = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = k * hypotheses.size() / count;
    const std::string source = vocabulary.decode(set.corpus.source(static_cast<std::int64_t>(i)));
    if (std::max({source.size(), set.references[i].size(), hypotheses[i].size()}) > max_sample_bytes) {
      ++left_out;
      continue;
    }
    samples.push_back(
        json::object{{"source", source}, {"reference", set.references[i]}, {"hypothesis", hypotheses[i]}});
  }
  if (left_out > 0) {
    spdlog::info("--report: {} of {} samples are left out, as they are longer than {} bytes", left_out, count,
                 max_sample_bytes);
  }
  return samples;
}

EvaluationReport::EvaluationReport(const ServerAccess& access, const std::string& run) : api_(access) {
  const json::object found = find_run(api_, run);
  id_ = text_of(found, "id");
  name_ = text_of(found, "name");
}

void EvaluationReport::compare(const json::object& checkpoint_state) const {
  const std::string run = text_of(checkpoint_state, "run");
  if (run.empty() || run == id_) return;
  spdlog::warn("--report: the checkpoint is from run {}, but the evaluation is added to {} ({})", printable(run), id_,
               name_);
}

void EvaluationReport::send(const json::object& figures, json::array samples) {
  const std::string set = text_of(figures, "set");
  if (set.size() > max_set_bytes) fail("--report: the set's name is longer than {} bytes", max_set_bytes);
  json::object body = {{"update", figures.at("update")}, {"set", set}, {"signature", text_of(figures, "signature")}};
  const auto copy = [&](const char* name, double max) {
    const auto value = get_number(figures, name);
    if (value && std::isfinite(*value)) body[name] = std::min(*value, max);
  };
  for (const char* name : {"loss", "nll", "entropy", "accuracy"}) copy(name, std::numeric_limits<double>::max());
  // A perfect score may exceed 100 by rounding.
  for (const char* name : {"sacrebleu", "chrf", "teacher_forced_bleu"}) copy(name, 100);
  body["samples"] = std::move(samples);
  api_.send("POST", "/runs/" + id_ + "/evals", body, make_id('k'));
  const auto bleu = get_number(figures, "sacrebleu");
  const std::string score =
      bleu ? fmt::format("sacreBLEU {:.2f}", *bleu) : fmt::format("nll {:.4f}", figures.at("nll").to_number<double>());
  spdlog::info("added to run {} ({}) on {}: {} on {} after update {}", id_, name_, api_.access().address, score,
               printable(set), figures.at("update").to_number<std::int64_t>());
}

}  // namespace babelring
