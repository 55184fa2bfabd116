#include "nmt/data/prepare_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "nmt/data/text.h"

namespace babelring {
namespace {

constexpr std::size_t excerpt_bytes = 80;

struct Words {
  std::string_view name, description, option;  // option: of `nmt prepare`, which decides; may be empty
};

constexpr std::array<Words, finding_count> words = {{
    {"too_few_columns", "fewer columns than chosen", "--columns"},
    {"untranslated", "without text in both languages", "--languages"},
    {"over_long_line", "line longer than 1 MiB", ""},
    {"control_byte", "NUL or other control character", ""},
    {"invalid_utf8", "not valid UTF-8", ""},
    {"empty", "nothing visible, or no subword, on one side", ""},
    {"too_short", "too few words", "--min-words"},
    {"too_long", "too many words", "--max-words"},
    {"long_word", "word too long", "--max-word-length"},
    {"ratio", "length ratio too large", "--max-ratio"},
    {"identical", "source equals target", "--keep-identical"},
    {"other_script", "too few letters of the script", "--min-script"},
    {"symbols", "too many digits and marks", "--max-symbols"},
    {"repeated", "a character too often in a row", "--max-repeated"},
    {"numbers", "sides have other numbers", "--min-numbers"},
    {"addresses", "sides have other web or mail addresses", "--same-addresses"},
    {"near_identical", "source equals target but for case, marks, digits", "--drop-near-identical"},
    {"other_language", "in another language", "--identify"},
    {"duplicate", "duplicate pair", "--keep-duplicates"},
    {"near_duplicate", "duplicate but for case, marks, digits", "--drop-near-duplicates"},
    {"held_out", "one side occurs in a held-out set", "--keep-held-out"},
    {"too_many_pieces", "too many subwords", "--max-pieces"},
    {"too_many_unknown", "too many <unk>", "--max-unknown"},
    {"suspect", "loss that fell too little in training", "--drop-suspects"},
    {"unpaired", "lines after the end of the shorter file", ""},
    {"crlf", "CR LF line end (pair kept, CR removed)", ""},
}};

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

/// At most `bytes` bytes from `from`, in whole characters. `from` may lie inside a character, which is then included.
std::string_view window(std::string_view text, std::size_t from, std::size_t bytes) {
  from = std::min(from, text.size());
  while (from > 0 && from < text.size() && is_continuation(text[from])) --from;
  std::size_t end = std::min(text.size(), from + bytes);
  while (end > from && end < text.size() && is_continuation(text[end])) --end;
  return text.substr(from, end - from);
}

/// The start of a text, with an ellipsis if it goes on.
std::string excerpt_of(std::string_view text) {
  const std::string_view excerpt = window(text, 0, excerpt_bytes);
  return printable(excerpt) + (excerpt.size() < text.size() ? " …" : "");
}

json::array examples_json(const PrepareReport::Entry& entry) {
  return json::array(entry.examples.begin(), entry.examples.end());
}

}  // namespace

std::string_view name_of(Finding finding) {
  return words[static_cast<std::size_t>(finding)].name;
}

void PrepareReport::add(Finding finding, std::string_view file, std::int64_t line, std::string_view text) {
  add(finding, fmt::format("{}:{}", file, line), text);
}

PrepareReport::Entry* PrepareReport::count(Finding finding) {
  Entry& entry = entries_[static_cast<std::size_t>(finding)];
  ++entry.count;
  return entry.examples.size() < examples_kept ? &entry : nullptr;
}

void PrepareReport::add(Finding finding, std::string_view place, std::string_view text) {
  if (Entry* entry = count(finding)) entry->examples.push_back(fmt::format("{}: {}", place, excerpt_of(text)));
}

void PrepareReport::add_pair(Finding finding, std::string_view place, std::string_view source,
                             std::string_view target) {
  if (Entry* entry = count(finding)) {
    entry->examples.push_back(fmt::format("{}: {} ||| {}", place, excerpt_of(source), excerpt_of(target)));
  }
}

void PrepareReport::add_changed(std::string_view place, std::string_view line, std::string_view decoded) {
  ++changed_.count;
  if (changed_.examples.size() >= changed_examples_kept) return;
  constexpr std::size_t bytes_before = 16, bytes_shown = 48;
  const auto differing = std::mismatch(line.begin(), line.end(), decoded.begin(), decoded.end());
  const auto same = static_cast<std::size_t>(differing.first - line.begin());
  const std::size_t from = same - std::min(same, bytes_before);
  changed_.examples.push_back(fmt::format("{}: target '{}' comes back as '{}'", place,
                                          printable(window(line, from, bytes_shown)),
                                          printable(window(decoded, from, bytes_shown))));
}

void PrepareReport::add_corpus(const PrepareReport& corpus) {
  const auto add = [](Entry& sum, const Entry& entry, std::size_t examples) {
    sum.count += entry.count;
    for (const std::string& example : entry.examples) {
      if (sum.examples.size() < examples) sum.examples.push_back(example);
    }
  };
  read_ += corpus.read_;
  kept_ += corpus.kept_;
  add_pieces(corpus.source_, corpus.target_);
  add(changed_, corpus.changed_, changed_examples_kept);
  for (std::size_t i = 0; i < finding_count; ++i) add(entries_[i], corpus.entries_[i], examples_kept);
  corpora_.push_back(corpus);
}

json::object PrepareReport::to_json() const {
  json::object findings;
  for (std::size_t i = 0; i < finding_count; ++i) {
    if (entries_[i].count == 0) continue;
    findings[words[i].name] = json::object{{"count", entries_[i].count}, {"examples", examples_json(entries_[i])}};
  }
  const auto pieces = [](const Pieces& side) { return json::object{{"pieces", side.all}, {"unknown", side.unknown}}; };
  json::object report = {
      {"set", set_},
      {"pairs_read", read_},
      {"pairs_kept", kept_},
      {"source", pieces(source_)},
      {"target", pieces(target_)},
      {"target_changed", json::object{{"count", changed_.count}, {"examples", examples_json(changed_)}}},
      {"findings", std::move(findings)}};
  if (!corpus_.empty()) report["corpus"] = corpus_;
  json::array corpora;
  for (const PrepareReport& corpus : corpora_) corpora.push_back(corpus.to_json());
  if (!corpora.empty()) report["corpora"] = std::move(corpora);
  return report;
}

void PrepareReport::add_pieces(const Pieces& source, const Pieces& target) {
  source_.all += source.all;
  source_.unknown += source.unknown;
  target_.all += target.all;
  target_.unknown += target.unknown;
}

std::string PrepareReport::summary() const {
  std::string out;
  for (std::size_t i = 0; i < finding_count; ++i) {
    if (entries_[i].count == 0) continue;
    fmt::format_to(std::back_inserter(out), "{}{} {}", out.empty() ? "" : ", ", words[i].name, entries_[i].count);
  }
  return out;
}

std::string PrepareReport::options() const {
  std::string out;
  for (std::size_t i = 0; i < finding_count; ++i) {
    if (entries_[i].count == 0 || words[i].option.empty()) continue;
    fmt::format_to(std::back_inserter(out), "{}{}", out.empty() ? "" : ", ", words[i].option);
  }
  return out;
}

/// "too many words (--max-words)".
std::string PrepareReport::described(std::size_t finding) const {
  const auto& [name, description, option] = words[finding];
  std::string text(description);
  const auto is = static_cast<Finding>(finding);
  if (!corpus_.empty() && (is == Finding::duplicate || is == Finding::near_duplicate)) {
    text += " in this corpus or one before it, which keeps the pair";
  }
  return option.empty() ? text : fmt::format("{} ({})", text, option);
}

std::vector<std::string> PrepareReport::warnings() const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < finding_count; ++i) {
    if (i == static_cast<std::size_t>(Finding::crlf) || 10 * entries_[i].count <= read_) continue;
    out.push_back(fmt::format("{}: {} of {} pairs dropped: {}, such as {}", name(), entries_[i].count, read_,
                              described(i), entries_[i].examples.front()));
  }
  if (10 * changed_.count > kept_) {
    out.push_back(
        fmt::format("{}: {} of {} target lines come back changed from the vocabulary, so no translation can equal them "
                    "(--normalization identity, --byte-fallback): {}",
                    name(), changed_.count, kept_, changed_.examples.front()));
  }
  return out;
}

std::string PrepareReport::table() const {
  std::string out = fmt::format("{}: {} pairs read, {} kept\n", name(), read_, kept_);
  for (const auto& [side, pieces] : {std::pair{"source", source_}, std::pair{"target", target_}}) {
    if (pieces.all == 0) continue;  // not encoded
    const double fraction = pieces.all > 0 ? static_cast<double>(pieces.unknown) / static_cast<double>(pieces.all) : 0;
    fmt::format_to(std::back_inserter(out), "  {:>10}  {} pieces, {} of them <unk> ({:.2f} %)\n", pieces.all, side,
                   pieces.unknown, 100 * fraction);
  }
  for (const PrepareReport& corpus : corpora_) out += corpus.table();
  if (!corpora_.empty()) return out;
  const auto add = [&](const Entry& entry, std::string_view what) {
    fmt::format_to(std::back_inserter(out), "  {:>10}  {}\n", entry.count, what);
    for (const std::string& example : entry.examples) out += "              " + example + "\n";
  };
  if (changed_.count > 0) add(changed_, "target lines that come back changed from the vocabulary");
  for (std::size_t i = 0; i < finding_count; ++i) {
    if (entries_[i].count == 0) continue;
    add(entries_[i], fmt::format("{:<16} {}", words[i].name, described(i)));
  }
  return out;
}

PairReader::PairReader(const TextFiles& files, const PairChoice& choice, Unequal unequal, PrepareReport& report)
    : pairs_(open_pairs(files.source, files.target, choice)), unequal_(unequal), report_(report) {}

std::optional<Finding> PairReader::check(const std::filesystem::path& file, const RawLine& line) {
  if (line.crlf) report_.add(Finding::crlf, file.string(), line.number, line.text);
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
  if (finding) report_.add(*finding, file.string(), line.number, line.text);
  return finding;
}

bool PairReader::next(TextPair& pair) {
  while (true) {
    const PairSource::Next next = pairs_->next(source_line_, target_line_);
    const bool no_column = next == PairSource::Next::too_few_columns, no_text = next == PairSource::Next::untranslated;
    if (next != PairSource::Next::pair && !no_column && !no_text) {
      finish(next);
      return false;
    }
    report_.add_read();
    if (no_column || no_text) {
      report_.add(no_column ? Finding::too_few_columns : Finding::untranslated, pairs_->source_file().string(),
                  source_line_.number, source_line_.text);
      continue;
    }
    // One finding per pair, so that counts add up: the target is checked only if the source is valid.
    if (check(pairs_->source_file(), source_line_) || check(pairs_->target_file(), target_line_)) continue;
    pair.source.swap(source_line_.text);
    pair.target.swap(target_line_.text);
    pair.line = source_line_.number;
    return true;
  }
}

void PairReader::finish(PairSource::Next next) {
  if (next == PairSource::Next::end) return;
  const bool source_left = next == PairSource::Next::source_only;
  const std::string longer = (source_left ? pairs_->source_file() : pairs_->target_file()).string();
  for (; next != PairSource::Next::end; next = pairs_->next(source_line_, target_line_)) {
    const RawLine& line = source_left ? source_line_ : target_line_;
    report_.add(Finding::unpaired, longer, line.number, line.text);
  }
  if (unequal_ == Unequal::truncate) return;
  fail("{} has {} lines, {} has {}; expected equal numbers of lines (or use --unequal truncate)",
       pairs_->source_file().string(), pairs_->source_lines(), pairs_->target_file().string(), pairs_->target_lines());
}

}  // namespace babelring
