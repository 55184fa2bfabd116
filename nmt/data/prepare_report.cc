#include "nmt/data/prepare_report.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "base/log.h"

namespace babelring {

namespace {

constexpr std::size_t excerpt_bytes = 80;

constexpr std::array<std::pair<std::string_view, std::string_view>, finding_count> words = {{
    {"over_long_line", "line longer than 1 MiB"},
    {"control_byte", "NUL or other control byte"},
    {"invalid_utf8", "not valid UTF-8"},
    {"empty", "empty on one side"},
    {"too_short", "too few words"},
    {"too_long", "too many words"},
    {"ratio", "length ratio too large"},
    {"identical", "source equals target"},
    {"duplicate", "duplicate pair"},
    {"held_out", "one side occurs in a held-out set"},
    {"too_many_pieces", "too many subwords"},
    {"too_many_unknown", "too many <unk>"},
    {"unpaired", "lines after the end of the shorter file"},
    {"crlf", "CR LF line end (pair kept, CR removed)"},
}};

}  // namespace

std::string_view name_of(Finding finding) {
  return words[static_cast<std::size_t>(finding)].first;
}

void PrepareReport::add(Finding finding, std::string_view file, std::int64_t line, std::string_view text) {
  add(finding, fmt::format("{}:{}", file, line), text);
}

void PrepareReport::add(Finding finding, std::string_view place, std::string_view text) {
  Entry& entry = entries_[static_cast<std::size_t>(finding)];
  ++entry.count;
  if (entry.examples.size() >= examples_kept) return;
  const bool cut = text.size() > excerpt_bytes;
  std::string_view excerpt = text.substr(0, excerpt_bytes);
  // Cut at a character boundary.
  while (cut && !excerpt.empty() && (static_cast<unsigned char>(text[excerpt.size()]) & 0xc0) == 0x80) {
    excerpt.remove_suffix(1);
  }
  entry.examples.push_back(fmt::format("{}: {}{}", place, printable(excerpt), cut ? " …" : ""));
}

json::object PrepareReport::to_json() const {
  json::object findings;
  for (std::size_t i = 0; i < finding_count; ++i) {
    if (entries_[i].count == 0) continue;
    json::array examples(entries_[i].examples.begin(), entries_[i].examples.end());
    findings[words[i].first] = json::object{{"count", entries_[i].count}, {"examples", std::move(examples)}};
  }
  const auto pieces = [](const Pieces& side) { return json::object{{"pieces", side.all}, {"unknown", side.unknown}}; };
  return {{"set", set_},
          {"pairs_read", read_},
          {"pairs_kept", kept_},
          {"source", pieces(source_)},
          {"target", pieces(target_)},
          {"findings", std::move(findings)}};
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
    fmt::format_to(std::back_inserter(out), "{}{} {}", out.empty() ? "" : ", ", words[i].first, entries_[i].count);
  }
  return out;
}

std::string PrepareReport::table() const {
  std::string out = fmt::format("{}: {} pairs read, {} kept\n", set_, read_, kept_);
  for (const auto& [side, pieces] : {std::pair{"source", source_}, std::pair{"target", target_}}) {
    const double fraction = pieces.all > 0 ? static_cast<double>(pieces.unknown) / static_cast<double>(pieces.all) : 0;
    fmt::format_to(std::back_inserter(out), "  {:>10}  {} pieces, {} of them <unk> ({:.2f} %)\n", pieces.all, side,
                   pieces.unknown, 100 * fraction);
  }
  for (std::size_t i = 0; i < finding_count; ++i) {
    if (entries_[i].count == 0) continue;
    fmt::format_to(std::back_inserter(out), "  {:>10}  {:<16} {}\n", entries_[i].count, words[i].first,
                   words[i].second);
    for (const std::string& example : entries_[i].examples) out += "              " + example + "\n";
  }
  return out;
}

}  // namespace babelring
