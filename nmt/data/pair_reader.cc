#include "nmt/data/pair_reader.h"

#include <algorithm>

#include "base/failure.h"
#include "nmt/data/text.h"

namespace babelring {

namespace {
constexpr std::uint64_t source_seed = 1, target_seed = 2;
}  // namespace

PairReader::PairReader(const TextFiles& files, Unequal unequal, PrepareReport& report)
    : source_(files.source), target_(files.target), unequal_(unequal), report_(report) {}

std::optional<Finding> PairReader::check(const LineReader& reader, const RawLine& line) {
  const std::string file = reader.file().string();
  if (line.crlf) report_.add(Finding::crlf, file, line.number, line.text);
  std::optional<Finding> finding;
  if (line.over_long) {
    finding = Finding::over_long_line;
  } else if (find_control(line.text) != std::string::npos) {
    finding = Finding::control_byte;
  } else if (find_invalid_utf8(line.text) != std::string::npos) {
    finding = Finding::invalid_utf8;
  } else if (!is_visible(line.text)) {
    finding = Finding::empty;
  }
  if (finding) report_.add(*finding, file, line.number, line.text);
  return finding;
}

bool PairReader::next(TextPair& pair) {
  while (true) {
    const bool source_left = source_.next(source_line_);
    const bool target_left = target_.next(target_line_);
    if (!source_left || !target_left) {
      finish(source_left, target_left);
      return false;
    }
    refuse_markup(source_.file(), source_line_);
    refuse_markup(target_.file(), target_line_);
    report_.add_read();
    // One finding per pair, so that counts add up: the target is checked only if the source is valid.
    if (check(source_, source_line_) || check(target_, target_line_)) continue;
    pair.source.swap(source_line_.text);
    pair.target.swap(target_line_.text);
    pair.line = source_line_.number;
    return true;
  }
}

void PairReader::finish(bool source_left, bool target_left) {
  if (source_left == target_left) return;
  LineReader& longer = source_left ? source_ : target_;
  RawLine& line = source_left ? source_line_ : target_line_;
  do {
    report_.add(Finding::unpaired, longer.file().string(), line.number, line.text);
  } while (longer.next(line));
  if (unequal_ == Unequal::truncate) return;
  fail("{} has {} lines, {} has {}; expected equal numbers of lines (or use --unequal truncate)",
       source_.file().string(), source_.lines(), target_.file().string(), target_.lines());
}

void PairFilter::hold_out(std::string_view source, std::string_view target) {
  held_out_.insert(hash_text(comparable(source), source_seed));
  held_out_.insert(hash_text(comparable(target), target_seed));
}

std::optional<Finding> PairFilter::judge(std::string_view raw_source, std::string_view raw_target) {
  const std::string source = comparable(raw_source), target = comparable(raw_target);
  const std::int64_t source_words = count_words(source), target_words = count_words(target);
  const auto [shorter, longer] = std::minmax(source_words, target_words);
  if (shorter < options_.min_words) return Finding::too_short;
  if (longer > options_.max_words) return Finding::too_long;
  if (std::max(longest_word(source), longest_word(target)) > options_.max_word_length) return Finding::long_word;
  if (static_cast<double>(longer) > options_.max_ratio * static_cast<double>(shorter)) return Finding::ratio;
  if (!options_.keep_identical && source == target) return Finding::identical;
  const std::uint64_t source_hash = hash_text(source, source_seed), target_hash = hash_text(target, target_seed);
  if (!options_.keep_held_out && (held_out_.contains(source_hash) || held_out_.contains(target_hash))) {
    return Finding::held_out;
  }
  if (!options_.keep_duplicates && !seen_.insert(hash_text(target, source_hash)).second) return Finding::duplicate;
  return std::nullopt;
}

}  // namespace babelring
