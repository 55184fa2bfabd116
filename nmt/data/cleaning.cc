#include "nmt/data/cleaning.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/failure.h"

namespace babelring {

std::vector<SetWork> sets_of(const PrepareOptions& options) {
  std::vector<SetWork> sets;
  if (options.valid) sets.push_back({.name = "valid", .inputs = {*options.valid}, .held_out = true});
  if (options.test) sets.push_back({.name = "test", .inputs = {*options.test}, .held_out = true});
  sets.push_back({.name = "train", .inputs = options.train});
  return sets;
}

void Cleaning::clean(SetWork& set, const Keep& keep) {
  std::vector<std::pair<TextPair, std::string>> waiting;  // until the filter has learned
  const auto judge_waiting = [&] {
    for (const auto& [pair, file] : waiting) judge(set, pair, file, keep);
    waiting.clear();
  };
  TextPair pair;
  for (const TextFiles& files : set.inputs) {
    PairReader reader(files, options_.choice, options_.unequal, set.report);
    const std::string file = files.source.string();
    while (reader.next(pair)) {
      if (set.held_out || !filter_.is_learning()) {
        judge(set, pair, file, keep);
        continue;
      }
      filter_.learn(pair.source, pair.target);
      waiting.emplace_back(pair, file);
      if (!filter_.is_learning()) judge_waiting();
    }
    require_direction(file, reader.languages());
  }
  if (!set.held_out) filter_.finish_learning();
  judge_waiting();
  spdlog::info("{}: cleaning: {} pairs read, {} kept", set.name, set.report.read(), set.report.kept());
}

void Cleaning::judge(SetWork& set, const TextPair& pair, const std::string& file, const Keep& keep) {
  if (set.held_out) {
    filter_.hold_out(pair.source, pair.target);
  } else if (const auto finding = filter_.judge(pair.source, pair.target)) {
    set.report.add_pair(*finding, fmt::format("{}:{}", file, pair.line), pair.source, pair.target);
    return;
  }
  keep(pair, file);
  set.report.add_kept();
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
  if (options.train.empty()) throw UsageFailure("prepare: no training text");
  Cleaning cleaning(options);
  std::vector<PrepareReport> reports;
  for (SetWork& set : sets_of(options)) {
    cleaning.clean(set, [](const TextPair&, const std::string&) {});
    reports.push_back(std::move(set.report));
  }
  std::rotate(reports.begin(), reports.end() - 1, reports.end());
  return reports;
}

}  // namespace babelring
