#include "worker/console.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "base/options/program.h"
#include "base/records/records.h"
#include "base/text.h"
#include "worker/terminal.h"

namespace babelring {

namespace {

/// An emulated run has no losses.
std::string losses(double loss, double nll, const std::string& excess) {
  return std::isnan(loss) ? "emulated" : fmt::format("loss {:.4f}, nll {:.4f}{}", loss, nll, excess);
}

std::string time_left(const StepRecord& step) {
  if (step.seconds_left <= 0 && step.fraction_done < 1) return "unknown time";
  const double minutes = step.seconds_left / 60;
  if (minutes < 1) return fmt::format("{:.0f} s", step.seconds_left);
  if (minutes < 120) return fmt::format("{:.0f} min", minutes);
  return fmt::format("{:.1f} h", minutes / 60);
}

/// The progress bar without the last of the columns, which makes some terminals begin another line.
std::string progress_line(const StepRecord& step, int columns) {
  const std::string loss = std::isnan(step.loss) ? "emulated" : fmt::format("loss {:.3f}", step.loss);
  const std::string text = fmt::format("{:3.0f} %  update {}  {}  {} left", 100 * step.fraction_done,
                                       grouped(static_cast<double>(step.update)), loss, time_left(step));
  const int room = columns - 1 - static_cast<int>(text.size()) - 3;  // brackets and a space
  const int width = std::min(room, 30), filled = static_cast<int>(step.fraction_done * width);
  if (width < 5) return text.substr(0, static_cast<std::size_t>(std::max(columns - 1, 0)));
  return fmt::format("[{:#<{}}{:.<{}}] {}", "", filled, "", width - filled, text);
}

}  // namespace

Console::Console(const TrainConfig& config, bool terminal)
    : terminal_(terminal), log_every_(config.training.log_every) {}

Console::~Console() {
  if (terminal_) print_error("\x1b[K");
}

void Console::write(RecordBody body) {
  if (const auto* step = std::get_if<StepRecord>(&body)) show(*step);
  if (const auto* eval = std::get_if<EvalRecord>(&body)) show(*eval);
  if (const auto* checkpoint = std::get_if<CheckpointRecord>(&body)) show(*checkpoint);
}

void Console::show(const StepRecord& step) {
  const Progress before = progress_;
  progress_ = {
      .update = step.update, .epoch = step.epoch, .target_tokens = progress_.target_tokens + step.update_target_tokens};
  window_.steps += 1;
  window_.target_tokens += step.update_target_tokens;
  window_.loss += step.loss * static_cast<double>(step.update_target_tokens);
  window_.nll += step.nll * static_cast<double>(step.update_target_tokens);
  if (!std::isnan(step.entropy)) {
    window_.excess += (step.nll - step.entropy) * static_cast<double>(step.update_target_tokens);
    window_.excess_tokens += step.update_target_tokens;
  }
  window_.alignment_loss += step.alignment_loss * static_cast<double>(step.update_target_tokens);
  window_.r_drop_loss += step.r_drop_loss * static_cast<double>(step.update_target_tokens);
  window_.step_ms += step.times.step;
  window_.exposed_ms += step.times.exposed_communication;
  window_.data_ms += step.times.data;
  if (terminal_) draw_bar(step);
  if (log_every_.times(progress_) == log_every_.times(before)) return;

  const auto tokens = static_cast<double>(window_.target_tokens);
  // Generated sequences have no epochs.
  const std::string epoch = step.epoch > 0 ? fmt::format(" (epoch {:.2f})", step.epoch) : "";
  const std::string excess =
      window_.excess_tokens > 0
          ? fmt::format(", excess {:.4f}", window_.excess / static_cast<double>(window_.excess_tokens))
          : "";
  std::string others = excess;
  for (const auto& [name, loss] : {std::pair("alignment", window_.alignment_loss), {"R-Drop", window_.r_drop_loss}}) {
    if (!std::isnan(loss)) others += fmt::format(", {} loss {:.4f}", name, loss / tokens);
  }
  if (!step.corpus_loss.empty()) {
    std::string corpora;
    for (const auto& [name, loss] : step.corpus_loss) {
      corpora += fmt::format("{}{} {:.4f}", corpora.empty() ? "" : ", ", name, loss);
    }
    others += fmt::format(", by corpus: {}", corpora);
  }
  spdlog::info(
      "update {}{}: {}, {} target tokens/s, learning rate {:.3g}, step {:.0f} ms "
      "(waiting for all-reduce {:.1f} %, for data {:.1f} %), {} left",
      grouped(static_cast<double>(step.update)), epoch, losses(window_.loss / tokens, window_.nll / tokens, others),
      grouped(tokens / window_.step_ms * 1e3), step.learning_rate, window_.step_ms / static_cast<double>(window_.steps),
      100 * window_.exposed_ms / window_.step_ms, 100 * window_.data_ms / window_.step_ms, time_left(step));
  window_ = {};
}

void Console::show(const EvalRecord& eval) {
  std::string scores;
  if (!std::isnan(eval.entropy)) {
    scores += fmt::format(", entropy {:.4f}, excess {:.4f}", eval.entropy, eval.nll - eval.entropy);
  }
  if (!std::isnan(eval.teacher_forced_bleu)) {
    scores += fmt::format(", teacher-forced BLEU {:.2f}", eval.teacher_forced_bleu);
  }
  if (!std::isnan(eval.sacrebleu)) {
    scores += fmt::format(", sacreBLEU {:.2f}, chrF2 {:.2f}", eval.sacrebleu, eval.chrf);
  }
  if (!std::isnan(eval.above_best.difference)) scores += ", " + difference_to_best(eval);
  spdlog::info("{} after update {}: loss {:.4f}, perplexity {:.2f}, accuracy {:.1f} %{}{} ({:.1f} s)",
               evaluation_name(eval.set), grouped(static_cast<double>(eval.update)), eval.loss, std::exp(eval.nll),
               100 * eval.accuracy, scores, eval.best ? ", the best so far" : "", eval.seconds);
}

void Console::show(const CheckpointRecord& checkpoint) {
  if (checkpoint.removed) return;
  spdlog::info("checkpoint {}{} ({:.1f} s)", checkpoint.folder, checkpoint.best ? " (best)" : "",
               checkpoint.write_seconds);
}

void Console::draw_bar(const StepRecord& step) {
  const auto now = SteadyClock::now();
  if (last_drawn_ && now - *last_drawn_ < std::chrono::milliseconds(100)) return;
  last_drawn_ = now;
  print_error(fmt::format("\x1b[K{}\r", progress_line(step, progress_columns())));
}

}  // namespace babelring
