#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>

#include "base/records/records.h"
#include "insight/report/answers.h"
#include "insight/report/report_text.h"
#include "insight/report/statistics.h"

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
  std::string words(const std::string& name, int digits) const {
    if (values.empty()) return "";
    if (values.size() == 1) {
      return fmt::format("{} was {:.{}f} after update {}. ", name, values[0], digits, count_words(updates[0]));
    }
    return fmt::format("{} went from {:.{}f} after update {} to {:.{}f} after update {}. ", name, values.front(),
                       digits, count_words(updates.front()), values.back(), digits, count_words(updates.back()));
  }
  void plot(const std::string& title, const char* y_label, Answer& answer) const {
    if (values.empty()) return;
    Plot& made = answer.plots.emplace_back(curve_plot(title, y_label, updates));
    made.series.push_back({y_label, values});
  }
};

/// A column of the table of evaluations.
struct QualityColumn {
  const char* title;
  int digits;
  double (*value)(const EvalRecord&);
};

constexpr std::array<QualityColumn, 7> quality_columns = {{
    {"nll", 4, [](const EvalRecord& eval) { return eval.nll; }},
    {"entropy", 4, [](const EvalRecord& eval) { return eval.entropy; }},
    {"excess", 4, [](const EvalRecord& eval) { return eval.nll - eval.entropy; }},
    {"loss", 4, [](const EvalRecord& eval) { return eval.loss; }},
    {"sacreBLEU", 2, [](const EvalRecord& eval) { return eval.sacrebleu; }},
    {"chrF", 2, [](const EvalRecord& eval) { return eval.chrf; }},
    {"teacher-forced BLEU", 2, [](const EvalRecord& eval) { return eval.teacher_forced_bleu; }},
}};

/// A row for each evaluation, of the columns that any of them has.
AnswerTable evaluation_table(const std::string& set, const std::vector<const EvalRecord*>& evals) {
  AnswerTable table{"Evaluations of " + set, {"update"}, {}};
  std::vector<QualityColumn> columns;
  for (const QualityColumn& column : quality_columns) {
    if (std::ranges::none_of(evals, [&](const EvalRecord* eval) { return std::isfinite(column.value(*eval)); }))
      continue;
    columns.push_back(column);
    table.columns.emplace_back(column.title);
  }
  const std::size_t stride = (evals.size() + max_table_rows - 1) / max_table_rows;
  for (std::size_t i = 0; i < evals.size(); ++i) {
    if ((evals.size() - 1 - i) % stride != 0) continue;
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(count_words(static_cast<double>(evals[i]->update)));
    for (const QualityColumn& column : columns) {
      const double value = column.value(*evals[i]);
      row.push_back(std::isfinite(value) ? fmt::format("{:.{}f}", value, column.digits) : "–");
    }
  }
  if (stride > 1) table.title += fmt::format(", 1 of {}", stride);
  return table;
}

/// Whether the last validation that translated differs from the best before it by more than the choice of the sentences
/// explains.
void describe_significance(const std::vector<const EvalRecord*>& evals, Answer& answer) {
  const auto last = std::find_if(evals.rbegin(), evals.rend(),
                                 [](const EvalRecord* eval) { return std::isfinite(eval->above_best.difference); });
  if (last == evals.rend()) return;
  const ScoreDifference& found = (*last)->above_best;
  answer.text += fmt::format("The last that is compared, after update {}, is {}, the best before it{}. ",
                             count_words(static_cast<double>((*last)->update)), difference_to_best(**last),
                             std::isfinite(found.p_value) ? ", by paired bootstrap" : "");
  answer.add("last_above_best", found.difference, "BLEU");
  if (std::isfinite(found.p_value)) answer.add("p_value", found.p_value);
}

void describe_translations(const std::vector<const EvalRecord*>& evals, const QualityCurve& sacrebleu,
                           const QualityCurve& forced, const std::string& signature, Answer& answer) {
  answer.text += sacrebleu.words("sacreBLEU of translations", 2) + forced.words("Teacher-forced BLEU", 2);
  if (!forced.values.empty()) {
    answer.text +=
        "Teacher-forced BLEU is of the likeliest subword at each position of the reference: nothing is translated, so "
        "it is not comparable with sacreBLEU. ";
  }
  if (sacrebleu.values.empty()) answer.text += "No validation translated, so sacreBLEU is unknown. ";
  if (!signature.empty()) answer.text += "Signature: " + signature + ". ";
  describe_significance(evals, answer);
  if (!sacrebleu.values.empty()) answer.add("last_sacrebleu", sacrebleu.values.back());
  if (!forced.values.empty()) answer.add("last_teacher_forced_bleu", forced.values.back());
}

/// The excess over the exact entropy: how far the model is from the best possible one.
void describe_excess(const std::vector<const EvalRecord*>& evals, const QualityCurve& excess, Answer& answer) {
  if (excess.values.empty()) {
    answer.text += "No evaluation knows the entropy of its sequences, so the excess over it is unknown. ";
    return;
  }
  const auto last =
      std::find_if(evals.rbegin(), evals.rend(), [](const EvalRecord* eval) { return std::isfinite(eval->entropy); });
  answer.text += excess.words("The excess of the loss over the exact entropy", 4);
  answer.text += fmt::format("The entropy of the set is {:.4f} nats per target token. ", (*last)->entropy);
  answer.add("last_entropy", (*last)->entropy, "nats");
  answer.add("last_excess", excess.values.back(), "nats");
  answer.add("best_excess", *std::ranges::min_element(excess.values), "nats");
}

/// Adds how many evaluations of another version of the set, and how many BLEU scores, are not comparable with the
/// newest one.
void describe_left_out(std::size_t evaluations, std::size_t bleu, Answer& answer) {
  if (evaluations > 0) {
    answer.text += fmt::format("{} of another version of the set left out: {} not comparable. ",
                               count_of(static_cast<double>(evaluations), "evaluation"),
                               evaluations == 1 ? "its numbers are" : "their numbers are");
  }
  if (bleu > 0) {
    answer.text +=
        fmt::format("BLEU of {} left out: measured otherwise (tokenizer, beam, sentences), so not comparable. ",
                    count_of(static_cast<double>(bleu), "evaluation"));
  }
}

/// Adds the scores on the sets that were evaluated beside the validation set, whose course tells forgetting.
void describe_other_sets(const RunHistory& history, const std::string& main, Answer& answer) {
  std::set<std::string> names;
  for (const HistoryEval& each : history.evals) names.insert(each.eval.set);
  for (const std::string& name : names) {
    if (name == main || name == train_sample_set) continue;
    const ComparableEvals comparable = comparable_evals(history, name);
    QualityCurve loss, sacrebleu;
    for (const EvalRecord* eval : comparable.evals) {
      const auto update = static_cast<double>(eval->update);
      loss.add(update, nll_of(*eval));
      if (comparable.bleu_is_comparable(*eval)) sacrebleu.add(update, eval->sacrebleu);
    }
    answer.text += loss.words("The loss (nll) on " + name, 4) + sacrebleu.words("sacreBLEU on " + name, 2);
    loss.plot("Loss on " + name, "nll, nats per target token", answer);
    sacrebleu.plot("sacreBLEU on " + name, "sacreBLEU", answer);
    answer.tables.push_back(evaluation_table(name, comparable.evals));
  }
}

}  // namespace

Answer quality_over_time(const RunHistory& history) {
  const bool sequences = history.of_sequences();
  Answer answer{.question_number = 12,
                .key = "quality_over_time",
                .question = sequences ? "How did loss and excess develop?" : "How did BLEU and loss develop?"};
  const std::string set = main_set(history);
  const ComparableEvals comparable = comparable_evals(history, set);
  const std::vector<const EvalRecord*>& evals = comparable.evals;
  QualityCurve loss, excess, sacrebleu, forced;
  std::string signature;
  std::size_t other_bleu = 0;
  for (const EvalRecord* eval : evals) {
    const auto update = static_cast<double>(eval->update);
    loss.add(update, nll_of(*eval));
    excess.add(update, nll_of(*eval) - eval->entropy);
    if (!comparable.bleu_is_comparable(*eval)) {
      other_bleu += std::isfinite(eval->sacrebleu) || std::isfinite(eval->teacher_forced_bleu) ? 1 : 0;
      continue;
    }
    sacrebleu.add(update, eval->sacrebleu);
    forced.add(update, eval->teacher_forced_bleu);
    if (!eval->signature.empty()) signature = eval->signature;
  }
  if (evals.empty()) {
    answer.cannot_be_told("no evaluation was recorded");
    return answer;
  }
  answer.text = loss.words("The validation loss (nll)", 4);
  if (!loss.values.empty()) answer.add("last_nll", loss.values.back(), "nats");
  if (sequences) {
    describe_excess(evals, excess, answer);
  } else {
    describe_translations(evals, sacrebleu, forced, signature, answer);
  }
  describe_left_out(comparable.left_out, other_bleu, answer);
  loss.plot("Validation loss", "nll, nats per target token", answer);
  excess.plot("Excess over the entropy", "nats per target token", answer);
  sacrebleu.plot("sacreBLEU", "sacreBLEU", answer);
  forced.plot("Teacher-forced BLEU", "teacher-forced BLEU", answer);
  answer.tables.push_back(evaluation_table(set, evals));
  describe_other_sets(history, set, answer);
  answer.text.pop_back();
  answer.rests_on = {count_of(static_cast<double>(evals.size()), "evaluation record") + " of set " + set};
  return answer;
}

}  // namespace babelring::insight
