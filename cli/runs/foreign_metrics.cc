#include "cli/runs/foreign_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <set>
#include <string_view>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "base/text.h"

namespace babelring {
namespace {

/// A quantity of our records, as which a metric of another program is imported.
struct Quantity {
  const char* name;
  bool training, validation;         // in which records it is
  std::vector<std::string> foreign;  // its names elsewhere, in lower case with _ between words
};

const std::vector<Quantity>& quantities() {
  static const std::vector<Quantity> all = {
      {"loss", true, true, {"loss", "xent", "cost", "cross_entropy", "ce", "ce_mean_words"}},
      {"nll", true, true, {"nll", "nll_loss"}},
      {"perplexity", true, true, {"ppl", "perplexity"}},
      {"learning_rate", true, false, {"lr", "learning_rate", "learningrate", "l_r"}},
      {"gradient_norm", true, false, {"gnorm", "g_norm", "grad_norm", "gradient_norm", "global_norm", "total_norm"}},
      {"epoch", true, false, {"epoch"}},
      {"tokens_per_second",
       true,
       false,
       {"wps", "words_s", "tok_s", "tokens_s", "tgttok_s", "tgttokens_s", "tokens_per_second", "words_per_second"}},
      {"sacrebleu",
       false,
       true,
       {"bleu", "sacrebleu", "sacre_bleu", "bleu_score", "bleu_detok", "bleu_detoken", "bleu_4", "bleu4"}},
      {"chrf", false, true, {"chrf", "chr_f", "chrf2", "chrf_2"}},
      {"accuracy", false, true, {"acc", "accuracy", "token_accuracy"}}};
  return all;
}

const Quantity* find_quantity(std::string_view name) {
  const auto found = std::ranges::find(quantities(), name, [](const Quantity& each) { return each.name; });
  return found == quantities().end() ? nullptr : &*found;
}

/// The words of a metric's name, in lower case: "Loss/trainInner" has loss, train and inner.
std::vector<std::string> words_of(const std::string& metric) {
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < metric.size(); ++i) {
    const auto is_upper = [&](std::size_t at) { return metric[at] >= 'A' && metric[at] <= 'Z'; };
    const std::string letter = lower(metric.substr(i, 1));
    if (!std::isalnum(static_cast<unsigned char>(letter[0]))) {
      words.emplace_back();
      continue;
    }
    if (is_upper(i) && i > 0 && !is_upper(i - 1)) words.emplace_back();
    words.back() += letter;
  }
  std::erase(words, "");
  return words;
}

/// The target that a metric's name suggests: "valid/bleu", "eval_loss", "Loss/val", "train_inner/gnorm", "lr".
std::optional<Target> suggested_target(const std::string& metric) {
  static const std::set<std::string> of_training = {"train", "training", "inner", "progress"},
                                     of_validation = {"valid", "validation", "val", "eval", "dev"};
  Target target;
  bool training = false;
  std::string rest;
  for (const std::string& word : words_of(metric)) {
    const bool numbered = word.starts_with("valid") && word.size() > 5 && word[5] >= '0' && word[5] <= '9';
    if (of_training.contains(word)) {
      training = true;
    } else if (of_validation.contains(word)) {
      target.set = "valid";
    } else if (word == "test" || numbered) {
      target.set = word;
    } else {
      rest += (rest.empty() ? "" : "_") + word;
    }
  }
  for (const Quantity& quantity : quantities()) {
    if (std::ranges::find(quantity.foreign, rest) == quantity.foreign.end()) continue;
    target.quantity = quantity.name;
    if (target.set.empty() && !training && !quantity.training && target.quantity != "accuracy") target.set = "valid";
    if (target.set.empty() ? quantity.training : quantity.validation) return target;
  }
  return std::nullopt;
}

/// THEIRS=OURS, THEIRS=OURS*FACTOR, or THEIRS= to leave it out. Throws UsageFailure.
void choose_target(const std::string& text, std::vector<Mapping>& mappings) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos) {
    throw UsageFailure(fmt::format("--map: found '{}', expected THEIRS=OURS", printable(text)));
  }
  const std::string metric = text.substr(0, equals);
  std::vector<std::string> known;
  for (const Mapping& each : mappings) known.push_back(each.metric);
  const auto mapping = std::ranges::find(mappings, metric, &Mapping::metric);
  if (mapping == mappings.end()) {
    throw UsageFailure(fmt::format("--map: found '{}', expected a metric of the run{}", printable(metric),
                                   did_you_mean(metric, known)));
  }
  mapping->chosen = true;
  std::string ours = text.substr(equals + 1);
  if (const std::size_t star = ours.find('*'); star != std::string::npos) {
    const auto factor = parse_decimal<double>(ours.substr(star + 1));
    if (!factor) {
      throw UsageFailure(fmt::format("--map: {}: found '{}', expected a number behind the *", printable(metric),
                                     printable(ours.substr(star + 1))));
    }
    mapping->factor = *factor;
    ours.resize(star);
  }
  mapping->target = std::nullopt;
  mapping->note = "by --map";
  if (ours.empty()) return;
  const std::size_t dot = ours.rfind('.');
  const Target target = {.set = dot == std::string::npos ? "" : ours.substr(0, dot),
                         .quantity = dot == std::string::npos ? ours : ours.substr(dot + 1)};
  const Quantity* const quantity = find_quantity(target.quantity);
  if (quantity == nullptr || !(target.set.empty() ? quantity->training : quantity->validation)) {
    throw UsageFailure(
        fmt::format("--map: {}: found '{}', expected loss, nll, perplexity, learning_rate, gradient_norm, epoch or "
                    "tokens_per_second, or of a set, as valid.sacrebleu: loss, nll, perplexity, sacrebleu, chrf or "
                    "accuracy",
                    printable(metric), printable(ours)));
  }
  mapping->target = target;
}

Series series_of(const ForeignRun& run, const std::vector<Mapping>& mappings) {
  std::map<std::string, const Mapping*> by_metric;
  for (const Mapping& mapping : mappings) by_metric[mapping.metric] = &mapping;
  Series series;
  for (const LoggedValue& value : run.values) {
    const Mapping& mapping = *by_metric.at(value.metric);
    if (mapping.target) series[*mapping.target][value.step] = value.value * mapping.factor.value_or(1);
  }
  return series;
}

/// Whether perplexities are 2 to the power of the losses of their steps, as fairseq's, rather than e: then the losses
/// are in bits.
bool has_losses_in_bits(const Series& series) {
  int bits = 0, nats = 0;
  for (const auto& [target, perplexities] : series) {
    if (target.quantity != "perplexity") continue;
    for (const char* quantity : {"nll", "loss"}) {
      const auto losses = series.find({target.set, quantity});
      if (losses == series.end()) continue;
      for (const auto& [step, perplexity] : perplexities) {
        const auto loss = losses->second.find(step);
        if (loss == losses->second.end() || loss->second < 0.1) continue;  // both powers are near 1
        constexpr double rounding = 0.02;  // fairseq writes perplexities with two decimals, losses with three
        if (std::abs(std::exp2(loss->second) / perplexity - 1) < rounding) ++bits;
        if (std::abs(std::exp(loss->second) / perplexity - 1) < rounding) ++nats;
      }
      break;
    }
  }
  return bits > nats;
}

/// Brings values to our units, and says so in the notes: losses to nats, scores to 0 to 100, accuracies to 0 to 1.
void convert_units(std::vector<Mapping>& mappings, Series& series) {
  const bool bits = has_losses_in_bits(series);
  for (Mapping& mapping : mappings) {
    if (!mapping.target || mapping.factor) continue;
    auto& values = series.at(*mapping.target);
    double largest = 0;
    for (const auto& [step, value] : values) largest = std::max(largest, value);
    const std::string& quantity = mapping.target->quantity;
    if (bits && (quantity == "loss" || quantity == "nll")) {
      mapping.factor = std::numbers::ln2;
      mapping.note = "from bits to nats: the perplexity is 2 to its power";
    } else if ((quantity == "sacrebleu" || quantity == "chrf") && largest > 0 && largest <= 1 &&
               lower(mapping.metric).find("sacre") == std::string::npos) {  // sacreBLEU's are never from 0 to 1
      mapping.factor = 100;
      mapping.note = "from 0 to 1 to percent";
    } else if (quantity == "accuracy" && largest > 1) {
      mapping.factor = 0.01;
      mapping.note = "from percent to 0 to 1";
    }
    for (auto& [step, value] : values) value *= mapping.factor.value_or(1);
  }
  for (Mapping& mapping : mappings) {  // a loss from the perplexity, where there is no other
    if (!mapping.target || mapping.target->quantity != "perplexity") continue;
    const Target target = *mapping.target;
    const bool has_loss = series.contains({target.set, "loss"}) || series.contains({target.set, "nll"});
    mapping.target = has_loss ? std::nullopt : std::optional(Target{target.set, "nll"});
    mapping.note = has_loss ? "the loss is there; shows its unit" : "its logarithm";
    if (has_loss) continue;
    for (const auto& [step, value] : series.at(target)) series[*mapping.target][step] = std::log(value);
  }
  std::erase_if(series, [](const auto& each) { return each.first.quantity == "perplexity"; });
}

}  // namespace

std::vector<CsvColumn> describe_columns(const std::vector<std::string>& names, const std::set<std::size_t>& others,
                                        const std::filesystem::path& file) {
  bool several = true;
  for (std::size_t i = 0; i < names.size(); ++i) {
    several = several && (others.contains(i) || names[i].find(" - ") != std::string::npos);
  }
  const std::string stem = file.stem().string();
  const std::size_t tag = stem.find("-tag-");
  std::vector<CsvColumn> columns(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (others.contains(i) || names[i].empty() || names[i].ends_with("__MIN") || names[i].ends_with("__MAX")) continue;
    CsvColumn& column = columns[i];
    column.metric = names[i];
    if (several) {
      const std::size_t dash = names[i].rfind(" - ");
      column = {.run = names[i].substr(0, dash), .metric = names[i].substr(dash + 3)};
      if (lower(column.metric) == "_step" || lower(column.metric) == "step") column.metric.clear();
    } else if (names[i] == "Value" && tag != std::string::npos) {
      column = {.run = stem.starts_with("run-") ? stem.substr(4, tag - 4) : "", .metric = stem.substr(tag + 5)};
    }
  }
  return columns;
}

std::vector<Mapping> map_metrics(const ForeignRun& run, const std::vector<std::string>& maps) {
  std::map<std::string, std::size_t> counts;
  for (const LoggedValue& value : run.values) ++counts[value.metric];
  std::vector<Mapping> mappings;
  for (const auto& [metric, count] : counts) {
    mappings.push_back({.metric = metric, .target = suggested_target(metric), .values = count});
  }
  for (const std::string& text : maps) choose_target(text, mappings);
  std::map<Target, Mapping*> owners;
  for (Mapping& mapping : mappings) {
    if (!mapping.target) continue;
    Mapping*& owner = owners[*mapping.target];
    const auto rank = [](const Mapping& each) { return std::pair(each.chosen, each.values); };
    if (owner != nullptr && rank(*owner) >= rank(mapping)) {
      mapping.note = fmt::format("{} is from {}", mapping.target->text(), owner->metric);
      mapping.target = std::nullopt;
      continue;
    }
    if (owner != nullptr) {
      owner->note = fmt::format("{} is from {}", mapping.target->text(), mapping.metric);
      owner->target = std::nullopt;
    }
    owner = &mapping;
  }
  return mappings;
}

Series mapped_series(const ForeignRun& run, std::vector<Mapping>& mappings) {
  Series series = series_of(run, mappings);
  convert_units(mappings, series);
  return series;
}

}  // namespace babelring
