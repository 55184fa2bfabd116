#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "insight/report/answers.h"
#include "insight/report/loss_curve.h"
#include "insight/report/report_text.h"

namespace babelring::insight {
namespace {

constexpr std::size_t max_table_rows = 40;

/// The finite values of one measure by update.
struct QualityCurve {
  std::vector<double> updates, values;

  void add(double update, double value) {
    if (!std::isfinite(value)) return;
    updates.push_back(update);
    values.push_back(value);
  }
  /// "sacreBLEU went from 3.10 after update 100 to 20.40 after update 900. "; empty without values.
  std::string words(const char* name, int digits) const {
    if (values.empty()) return "";
    if (values.size() == 1) {
      return fmt::format("{} was {:.{}f} after update {}. ", name, values[0], digits, count_words(updates[0]));
    }
    return fmt::format("{} went from {:.{}f} after update {} to {:.{}f} after update {}. ", name, values.front(),
                       digits, count_words(updates.front()), values.back(), digits, count_words(updates.back()));
  }
  void plot(const char* title, const char* y_label, Answer& answer) const {
    if (values.empty()) return;
    Plot& made = answer.plots.emplace_back(curve_plot(title, y_label, updates));
    made.series.push_back({y_label, values});
  }
};

AnswerTable evaluation_table(const std::string& set, const std::vector<const EvalRecord*>& evals) {
  AnswerTable table{"Evaluations of " + set, {"update", "nll", "loss", "sacreBLEU", "chrF", "teacher-forced BLEU"}, {}};
  const std::size_t stride = (evals.size() + max_table_rows - 1) / max_table_rows;
  const auto cell = [](double value, int digits) {
    return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : std::string("–");
  };
  for (std::size_t i = 0; i < evals.size(); ++i) {
    if ((evals.size() - 1 - i) % stride != 0) continue;
    const EvalRecord& eval = *evals[i];
    table.rows.push_back({count_words(static_cast<double>(eval.update)), cell(eval.nll, 4), cell(eval.loss, 4),
                          cell(eval.sacrebleu, 2), cell(eval.chrf, 2), cell(eval.teacher_forced_bleu, 2)});
  }
  if (stride > 1) table.title += fmt::format(", 1 of {}", stride);
  return table;
}

}  // namespace

Answer quality_over_time(const RunHistory& history) {
  Answer answer{.question_number = 12, .key = "quality_over_time", .question = "How did BLEU and loss develop?"};
  const std::string set = main_set(history);
  std::vector<const EvalRecord*> evals;
  QualityCurve loss, sacrebleu, forced;
  std::string signature;
  for (const HistoryEval& each : history.evals) {
    const EvalRecord& eval = each.eval;
    if (eval.set != set) continue;
    evals.push_back(&eval);
    const auto update = static_cast<double>(eval.update);
    loss.add(update, nll_of(eval));
    sacrebleu.add(update, eval.sacrebleu);
    forced.add(update, eval.teacher_forced_bleu);
    if (!eval.signature.empty()) signature = eval.signature;
  }
  if (evals.empty()) {
    answer.cannot_be_told("no evaluation was recorded");
    return answer;
  }
  answer.text = loss.words("The validation loss (nll)", 4) + sacrebleu.words("sacreBLEU of translations", 2) +
                forced.words("Teacher-forced BLEU", 2);
  if (!forced.values.empty()) {
    answer.text +=
        "Teacher-forced BLEU is of the likeliest subword at each position of the reference: nothing is translated, so "
        "it is not comparable with sacreBLEU. ";
  }
  if (sacrebleu.values.empty()) answer.text += "No validation translated, so sacreBLEU is unknown. ";
  if (!signature.empty()) answer.text += "Signature: " + signature + ". ";
  answer.text.pop_back();
  if (!loss.values.empty()) answer.add("last_nll", loss.values.back(), "nats");
  if (!sacrebleu.values.empty()) answer.add("last_sacrebleu", sacrebleu.values.back());
  if (!forced.values.empty()) answer.add("last_teacher_forced_bleu", forced.values.back());
  loss.plot("Validation loss", "nll, nats per target token", answer);
  sacrebleu.plot("sacreBLEU", "sacreBLEU", answer);
  forced.plot("Teacher-forced BLEU", "teacher-forced BLEU", answer);
  answer.tables.push_back(evaluation_table(set, evals));
  answer.rests_on = {count_of(static_cast<double>(evals.size()), "evaluation record") + " of set " + set};
  return answer;
}

}  // namespace babelring::insight
