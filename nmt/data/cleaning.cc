#include "nmt/data/cleaning.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/failure.h"

namespace babelring {

std::vector<SetWork> sets_of(const PrepareOptions& options) {
  std::vector<SetWork> sets;
  const auto whole = [](const char* set, std::vector<TextFiles> inputs) {
    std::vector<SetPart> parts;
    parts.push_back({.corpus = {}, .tag = {}, .inputs = std::move(inputs), .report = PrepareReport(set)});
    return parts;
  };
  if (options.valid) sets.push_back({.name = "valid", .parts = whole("valid", {*options.valid}), .held_out = true});
  if (options.test) sets.push_back({.name = "test", .parts = whole("test", {*options.test}), .held_out = true});
  SetWork train{.name = "train", .parts = {}};
  for (const NamedText& text : options.corpora) {
    train.parts.push_back(
        {.corpus = text.name, .tag = text.tag, .inputs = text.files, .report = PrepareReport(train.name, text.name)});
  }
  if (options.corpora.empty()) train.parts = whole("train", options.train);
  sets.push_back(std::move(train));
  return sets;
}

PrepareReport SetWork::report() const {
  if (parts.front().corpus.empty()) return parts.front().report;
  PrepareReport all(name);
  for (const SetPart& part : parts) all.add_corpus(part.report);
  return all;
}

void Cleaning::clean(SetWork& set, const Keep& keep) {
  std::vector<Waiting> waiting;
  for (SetPart& part : set.parts) read(part, set.held_out, keep, waiting);
  if (!set.held_out) filter_.finish_learning();
  judge_waiting(keep, waiting);
  for (const SetPart& part : set.parts) {
    spdlog::info("{}: cleaning: {} pairs read, {} kept", part.report.name(), part.report.read(), part.report.kept());
  }
}

void Cleaning::read(SetPart& part, bool held_out, const Keep& keep, std::vector<Waiting>& waiting) {
  TextPair pair;
  for (const TextFiles& files : part.inputs) {
    PairReader reader(files, options_.choice, options_.unequal, part.report);
    const std::string file = files.source.string();
    while (reader.next(pair)) {
      if (held_out || !filter_.is_learning()) {
        judge(part, held_out, pair, file, keep);
        continue;
      }
      filter_.learn(pair.source, pair.target);
      waiting.push_back({part, pair, file});
      if (!filter_.is_learning()) judge_waiting(keep, waiting);
    }
    require_direction(file, reader.languages());
  }
}

void Cleaning::judge_waiting(const Keep& keep, std::vector<Waiting>& waiting) {
  for (const Waiting& pair : waiting) judge(pair.part, false, pair.pair, pair.file, keep);
  waiting.clear();
}

void Cleaning::judge(SetPart& part, bool held_out, const TextPair& pair, const std::string& file, const Keep& keep) {
  if (held_out) {
    filter_.hold_out(pair.source, pair.target);
  } else if (const auto finding = filter_.judge(pair.source, pair.target)) {
    part.report.add_pair(*finding, fmt::format("{}:{}", file, pair.line), pair.source, pair.target);
    return;
  }
  keep(part, pair, file);
  part.report.add_kept();
}

/// `found`: as in "en to de".
void Cleaning::require_direction(const std::string& file, const std::string& found) {
  if (found.empty()) return;
  if (direction_.empty()) {
    direction_ = found;
    direction_file_ = file;
  }
  if (direction_ == found) return;
  fail("{} is read from {}, {} from {}; choose by --languages, such as en,de", direction_file_, direction_, file,
       found);
}

std::vector<PrepareReport> try_cleaning(const PrepareOptions& options) {
  if (options.train.empty() && options.corpora.empty()) throw UsageFailure("prepare: no training text");
  Cleaning cleaning(options);
  std::vector<PrepareReport> reports;
  for (SetWork& set : sets_of(options)) {
    cleaning.clean(set, [](const SetPart&, const TextPair&, const std::string&) {});
    reports.push_back(set.report());
  }
  std::rotate(reports.begin(), reports.end() - 1, reports.end());
  return reports;
}

}  // namespace babelring
