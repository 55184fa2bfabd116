#include "worker/tensorboard.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <utility>

#include "base/records/records.h"

namespace babelring {
namespace {

constexpr std::size_t max_text_bytes = std::size_t{64} << 10;

/// TensorBoard groups tags by the part before the slash.
std::string tag_of(std::string_view key) {
  if (key.ends_with("_ms")) return fmt::format("time_ms/{}", key.substr(0, key.size() - 3));
  if (key.starts_with("memory_bytes.")) return fmt::format("memory_bytes/{}", key.substr(13));
  if (key.starts_with("corpus_loss.")) return fmt::format("train_loss_by_corpus/{}", key.substr(12));
  if (key.starts_with("corpus_tokens.")) return fmt::format("train_tokens_by_corpus/{}", key.substr(14));
  for (const char* of_training : {"epoch", "loss", "nll", "entropy", "excess", "alignment_loss", "r_drop_loss",
                                  "gradient_norm", "learning_rate", "skipped"}) {
    if (key == of_training) return fmt::format("train/{}", key);
  }
  return fmt::format("rank_0/{}", key);
}

/// Escapes a text for a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|' || c == '\\' || c == '<' || c == '*' || c == '_' || c == '`') escaped += '\\';
    escaped += c == '\n' || c == '\r' ? ' ' : c;
  }
  return escaped;
}

std::string samples_table(const EvalRecord& eval) {
  std::string table = "| source | reference | hypothesis |\n|---|---|---|\n";
  for (const EvalSample& sample : eval.samples) {
    if (table.size() > max_text_bytes) break;
    table += fmt::format("| {} | {} | {} |\n", cell(sample.source), cell(sample.reference), cell(sample.hypothesis));
  }
  return table;
}

SummaryBytes summary_of(const StepRecord& step) {
  SummaryBytes summary;
  for (const auto& [key, value] : metrics_of(step)) summary.scalar(tag_of(key), value);
  if (step.times.step > 0) {
    const double seconds = step.times.step / 1000;
    summary.scalar("speed/updates_per_second", 1 / seconds);
    summary.scalar("speed/target_tokens_per_second", static_cast<double>(step.update_target_tokens) / seconds);
  }
  return summary;
}

SummaryBytes summary_of(const EvalRecord& eval) {
  SummaryBytes summary;
  // The group `train` has the losses of the updates.
  const std::string group = eval.set == train_sample_set ? "train_sample" : eval.set;
  const std::pair<const char*, double> numbers[] = {{"loss", eval.loss},
                                                    {"nll", eval.nll},
                                                    {"perplexity", std::exp(eval.nll)},
                                                    {"accuracy", eval.accuracy},
                                                    {"seconds", eval.seconds}};
  for (const auto& [key, value] : numbers) summary.scalar(fmt::format("{}/{}", group, key), value);
  // Teacher-forced BLEU and sacreBLEU have separate curves. A validation without translation has no sacreBLEU.
  const std::pair<const char*, double> known[] = {{"entropy", eval.entropy},
                                                  {"excess", eval.nll - eval.entropy},
                                                  {"teacher_forced_bleu", eval.teacher_forced_bleu},
                                                  {"sacrebleu", eval.sacrebleu},
                                                  {"chrf", eval.chrf}};
  for (const auto& [key, value] : known) {
    if (!std::isnan(value)) summary.scalar(fmt::format("{}/{}", group, key), value);
  }
  if (!eval.samples.empty()) summary.text(group + "/samples", samples_table(eval));
  return summary;
}

}  // namespace

TensorBoard::TensorBoard(const std::filesystem::path& folder, const std::string& host, std::int64_t update)
    : file_(folder, host), watch_(fmt::format("tensorboard {}", folder.string())), update_(update) {
  file_.restart_at(update + 1);
}

void TensorBoard::write(RecordBody body) {
  if (const auto* step = std::get_if<StepRecord>(&body)) put(update_ = step->update, summary_of(*step));
  if (const auto* eval = std::get_if<EvalRecord>(&body)) put(eval->update, summary_of(*eval));
  if (const auto* life = std::get_if<LifecycleRecord>(&body); life != nullptr && !life->config.empty()) {
    SummaryBytes summary;
    summary.text("configuration", fmt::format("```yaml\n{}```\n", life->config));
    put(update_, summary);
  }
  if (const auto* life = std::get_if<LifecycleRecord>(&body); life != nullptr && life->event == "rewound") {
    file_.restart_at((update_ = life->update) + 1);
  }
}

void TensorBoard::put(std::int64_t update, const SummaryBytes& summary) {
  const WriteWatch::Scope scope(watch_);
  const WatchedCall watched;
  if (file_.write(update, summary) || std::exchange(warned_, true)) return;
  spdlog::warn("tensorboard: {}; no more events are written", file_.message());
}

}  // namespace babelring
