#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/json.h"
#include "base/names.h"
#include "insight/report/answers.h"
#include "insight/report/report_text.h"
#include "insight/steps.h"

namespace babelring::insight {
namespace {

constexpr std::size_t plotted_points = 160;

/// A length in the configuration, such as 4000u, 2e or 50Mt.
struct ConfiguredLength {
  double value = 0;
  std::string variable, unit;  // "u" and "updates"
};

ConfiguredLength parse_length(const std::string& text) {
  ConfiguredLength length{verdict::number_in(text), "u", "updates"};
  if (text.ends_with("Mt")) {
    length.value *= 1e6;
    length.variable = "t", length.unit = "target tokens";
  } else if (text.ends_with("e")) {
    length.variable = "e", length.unit = "epochs";
  }
  return length;
}

struct RateSchedule {
  std::string name, formula;
  double peak = 0;
  ConfiguredLength warm_up = {};
};

std::optional<RateSchedule> schedule_of(const RunHistory& history) {
  const auto scalar = [&](const char* key) { return verdict::config_scalar(history.config, key); };
  RateSchedule schedule{.name = scalar("optimizer.schedule"), .formula = {}};
  if (schedule.name.empty()) return std::nullopt;
  schedule.peak = verdict::number_in(scalar("optimizer.learning_rate"));
  schedule.warm_up = parse_length(scalar("optimizer.warm_up"));
  const std::string peak = number_words(schedule.peak), v = schedule.warm_up.variable;
  const std::string warm = count_words(schedule.warm_up.value);
  const std::string rise =
      schedule.warm_up.value > 0 ? fmt::format("{} · min({} / {}, ", peak, v, warm) : peak + " · (";
  const double end = parse_length(scalar("optimizer.decay")).value;
  const double fraction = verdict::number_in(scalar("optimizer.final_fraction"));
  const std::string part = fmt::format("({} − {}) / {}", v, warm, count_words(end - schedule.warm_up.value));
  const std::string fall = fraction > 0 ? number_words(1 - fraction) + " · " : "";
  if (schedule.name == "inverse-sqrt") {
    schedule.formula = rise + (schedule.warm_up.value > 0 ? fmt::format("sqrt({} / {}))", warm, v) : "1)");
  } else if (schedule.name == "linear") {
    schedule.formula = fmt::format("{}1 − {}min(1, {}))", rise, fall, part);
  } else if (schedule.name == "cosine") {
    schedule.formula = fmt::format("{}1 − {}(1 − cos(π · min(1, {}))) / 2)", rise, fall, part);
  } else {
    schedule.formula = rise + "1)";
  }
  return schedule;
}

Plot rate_plot(const std::vector<HistoryStep>& steps) {
  Plot plot{.kind = Plot::Kind::lines, .title = "Learning rate", .x_label = "update", .y_label = "learning rate"};
  PlotSeries rate{"learning rate", {}};
  const std::size_t count = std::min(plotted_points, steps.size());
  for (std::size_t i = 0; i < count; ++i) {
    const HistoryStep& step = steps[count < 2 ? 0 : i * (steps.size() - 1) / (count - 1)];
    plot.x.push_back(static_cast<double>(step.update));
    rate.values.push_back(step.learning_rate);
  }
  plot.series = {std::move(rate)};
  return plot;
}

/// The newest checkpoint, or the best one if there is one.
const CheckpointRecord* shown_checkpoint(const RunHistory& history) {
  const CheckpointRecord* shown = nullptr;
  for (const HistoryCheckpoint& each : history.checkpoints) {
    if (!each.checkpoint.files.empty()) shown = &each.checkpoint;
  }
  return shown;
}

std::string purpose_of(const std::string& file) {
  for (const auto& [tensors, purpose] :
       {std::pair{weight_tensors, "the f32 master weights, or with training.ema their average, by parameter name"},
        std::pair{optimizer_tensors, "Adam's first and second moments, with training.ema also the master weights"}}) {
    const int shards = shards_of_file(file, tensors);
    if (shards == 1) return purpose;
    if (shards > 1) return fmt::format("{}; one of {} shards", purpose, shards);
  }
  struct Purpose {
    const char *name, *purpose;
  };
  constexpr std::array purposes = {
      Purpose{"spm.model", "the vocabulary, so that the checkpoint translates by itself"},
      Purpose{"config.yaml", "the resolved configuration"},
      Purpose{"state.json", "how far training has come, and sizes and digests of the files"},
      Purpose{"SHA256SUMS", "digests of all files, for sha256sum -c"}};
  const auto found = std::ranges::find_if(purposes, [&](const Purpose& each) { return file == each.name; });
  return found == purposes.end() ? "not known to this program" : found->purpose;
}

/// The files of a checkpoint as its folder holds them: records leave out SHA256SUMS, which is beside state.json since
/// checkpoints have both, with a line "DIGEST  NAME" for each of the others.
std::vector<CheckpointFile> files_in_folder(const CheckpointRecord& checkpoint) {
  std::vector<CheckpointFile> files = checkpoint.files;
  const auto is_state = [](const CheckpointFile& file) { return file.name == "state.json"; };
  if (std::ranges::none_of(files, is_state)) return files;
  std::int64_t bytes = 0;
  for (const CheckpointFile& file : files) bytes += std::ssize(file.sha256) + 2 + std::ssize(file.name) + 1;
  files.push_back({"SHA256SUMS", bytes, "–"});
  return files;
}

/// The training set of a run of generated sequences: a folder of them, or none.
void describe_sequences(const RunHistory& history, Answer& answer) {
  if (!history.data.is_object()) {
    const double length = verdict::number_in(verdict::config_scalar(history.config, "data.sequence_length"));
    answer.text = fmt::format("It has none: the generator makes new sequences of {} for every update.",
                              count_of(length, "token"));
    answer.add("sequence_length", length, "tokens");
    answer.rests_on = {"the resolved configuration"};
    return;
  }
  const json::object& data = history.data.get_object();
  const auto number = [&](const char* name) { return static_cast<double>(get_integer(data, name)); };
  const double sequences = number("pairs"), tokens = number("target_tokens"), targets = tokens - sequences;
  answer.text = fmt::format(
      "{} of {}, of which the first is given and the others are predicted: {}. They are in {} of ids, over an alphabet "
      "of {}. Digest {}.",
      count_of(sequences, "generated sequence"), count_of(sequences > 0 ? tokens / sequences : 0, "token"),
      count_of(targets, "target token"), bytes_words(number("bytes")), count_of(number("vocabulary"), "symbol"),
      get_text(data, "digest"));
  answer.add("sequences", sequences);
  answer.add("target_tokens", targets);
  answer.add("vocabulary", number("vocabulary"));
  answer.add("bytes", number("bytes"), "bytes");
}

void no_checkpoint(Answer& answer) {
  answer.cannot_be_told("no checkpoint is recorded that still exists");
  answer.rests_on = {"checkpoint records"};
}

}  // namespace

Answer learning_rate_plot(const RunHistory& history) {
  Answer answer{.question_number = 6, .key = "learning_rate", .question = "How did the learning rate change?"};
  if (history.first_rank() == nullptr) {
    answer.cannot_be_told("rank 0 has not reported any update");
    return answer;
  }
  const auto& steps = history.first_rank()->steps;
  const auto is_known = [](const HistoryStep& step) { return std::isfinite(step.learning_rate); };
  const auto last = std::ranges::find_if(steps.rbegin(), steps.rend(), is_known);
  if (last == steps.rend()) {
    answer.cannot_be_told("no record has the learning rate");
    answer.rests_on = {"learning_rate of rank 0's step records"};
    return answer;
  }
  const auto known_rate = [&](const HistoryStep& step) { return is_known(step) ? step.learning_rate : -INFINITY; };
  const auto highest = std::ranges::max_element(steps, {}, known_rate);
  if (const auto schedule = schedule_of(history)) {
    answer.text = fmt::format("Schedule {}: learning rate = {}, with {} in {}, and a warm-up to {}. ", schedule->name,
                              schedule->formula, schedule->warm_up.variable, schedule->warm_up.unit,
                              number_words(schedule->peak));
  } else {
    answer.text = "The configuration does not name the schedule. ";
  }
  answer.text += fmt::format("Its highest value was {} at update {}; the last, at update {}, is {}.",
                             number_words(highest->learning_rate), count_words(static_cast<double>(highest->update)),
                             count_words(static_cast<double>(last->update)), number_words(last->learning_rate));
  answer.add("peak", highest->learning_rate);
  answer.add("peak_update", static_cast<double>(highest->update), "updates");
  answer.add("last", last->learning_rate);
  answer.plots.push_back(rate_plot(steps));
  answer.rests_on = {"learning_rate of rank 0's step records", "the resolved configuration"};
  return answer;
}

Answer training_set(const RunHistory& history) {
  Answer answer{.question_number = 7, .key = "training_set", .question = "How large is the training set?"};
  answer.rests_on = {"data of the started record"};
  if (history.of_sequences()) {
    describe_sequences(history, answer);
    return answer;
  }
  if (!history.data.is_object()) {
    answer.cannot_be_told("the worker reported no training set: it is an older one, or it made the data as it trained");
    const std::string folder = verdict::config_scalar(history.config, "data.folder");
    if (!folder.empty()) answer.text += fmt::format(" It is in {}.", folder);
    return answer;
  }
  const json::object& data = history.data.get_object();
  const auto number = [&](const char* name) { return static_cast<double>(get_integer(data, name)); };
  const double pairs = number("pairs"), source = number("source_tokens"), target = number("target_tokens");
  answer.text = fmt::format(
      "{} with {} source and {} target tokens ({:.1f} and {:.1f} a sentence), in {} of ids; the vocabulary has {}.",
      count_of(pairs, "sentence pair"), count_words(source), count_words(target), pairs > 0 ? source / pairs : 0,
      pairs > 0 ? target / pairs : 0, bytes_words(number("bytes")), count_of(number("vocabulary"), "subword"));
  double dropped = 0;
  if (const json::object* reasons = get_object(data, "dropped")) {
    AnswerTable table{"Pairs dropped when the text was prepared", {"reason", "pairs"}, {}};
    for (const auto& [reason, count] : *reasons) {
      const auto pairs_dropped = static_cast<double>(count.is_int64() ? count.get_int64() : 0);
      dropped += pairs_dropped;
      if (pairs_dropped > 0) table.rows.push_back({std::string(reason), count_words(pairs_dropped)});
    }
    answer.text += dropped > 0 ? fmt::format(" {} dropped when the text was prepared.",
                                             count_of(dropped, "pair") + (dropped == 1 ? " was" : " were"))
                               : " No pair was dropped when the text was prepared.";
    if (!table.rows.empty()) answer.tables.push_back(std::move(table));
    answer.add("dropped", dropped, "pairs");
  } else {
    answer.text += " How many pairs were dropped is unknown: the folder has no report.json.";
  }
  answer.text += fmt::format(" Digest {}.", get_text(data, "digest"));
  for (const char* name : {"pairs", "source_tokens", "target_tokens", "vocabulary"}) answer.add(name, number(name));
  answer.add("bytes", number("bytes"), "bytes");
  return answer;
}

Answer checkpoint_files(const RunHistory& history) {
  Answer answer{.question_number = 8, .key = "checkpoint_files", .question = "Which files make up a checkpoint?"};
  const CheckpointRecord* checkpoint = shown_checkpoint(history);
  if (checkpoint == nullptr) {
    no_checkpoint(answer);
    return answer;
  }
  const std::vector<CheckpointFile> all = files_in_folder(*checkpoint);
  const auto files = static_cast<double>(all.size());
  answer.text = fmt::format("{} has {} in {}.", checkpoint->name, count_of(files, "file"), checkpoint->folder);
  int shards = 1;
  AnswerTable table{"Files of " + checkpoint->name, {"file", "purpose", "bytes", "SHA-256"}, {}};
  for (const CheckpointFile& file : all) {
    shards = std::max(shards, shards_of_file(file.name, weight_tensors));
    table.rows.push_back({file.name, purpose_of(file.name), count_words(static_cast<double>(file.size)), file.sha256});
  }
  if (shards > 1) {
    answer.text += fmt::format(" Weights and moments are in {} shards each, written by as many hosts.", shards);
    answer.add("shards", shards);
  }
  answer.add("files", files);
  answer.tables.push_back(std::move(table));
  answer.rests_on = {"the newest checkpoint record whose checkpoint was not removed"};
  return answer;
}

Answer checkpoint_size(const RunHistory& history) {
  Answer answer{.question_number = 9, .key = "checkpoint_size", .question = "How large is a checkpoint?"};
  const CheckpointRecord* checkpoint = shown_checkpoint(history);
  if (checkpoint == nullptr) {
    no_checkpoint(answer);
    return answer;
  }
  double total = 0, weights = 0, optimizer = 0;
  for (const CheckpointFile& file : files_in_folder(*checkpoint)) {
    const auto size = static_cast<double>(file.size);
    total += size;
    if (shards_of_file(file.name, weight_tensors) > 0) weights += size;
    if (shards_of_file(file.name, optimizer_tensors) > 0) optimizer += size;
  }
  answer.text = fmt::format("{}: {} of weights, {} of moments, {} of everything else.", bytes_words(total),
                            bytes_words(weights), bytes_words(optimizer), bytes_words(total - weights - optimizer));
  if (history.parameters > 0) {
    const auto parameters = static_cast<double>(history.parameters);
    answer.text += fmt::format(" That is {} bytes for each of {} parameters.",
                               fmt::format("{:.4g}", total / parameters), count_words(parameters));
    answer.add("bytes_per_parameter", total / parameters, "bytes");
    answer.add("parameters", parameters);
  }
  answer.add("bytes", total, "bytes");
  answer.add("weights_bytes", weights, "bytes");
  answer.add("optimizer_bytes", optimizer, "bytes");
  answer.add("other_bytes", total - weights - optimizer, "bytes");
  answer.rests_on = {"the newest checkpoint record whose checkpoint was not removed"};
  return answer;
}

}  // namespace babelring::insight
