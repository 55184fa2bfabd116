#include <algorithm>
#include <optional>
#include <utility>

#include "nmt/decode/markup.h"

namespace babelring {
namespace {

/// Where in the translation the text of each of its pieces ends.
std::vector<std::size_t> target_ends(const Rendering& rendering, const Vocabulary& vocabulary) {
  constexpr std::string_view space_mark = "\u2581", unknown = "\u2047";
  const std::string_view text = rendering.text;
  std::vector<std::size_t> ends;
  std::size_t at = 0;
  for (const std::int32_t id : rendering.pieces()) {
    const std::string& piece = vocabulary.piece(id);
    const bool is_byte = piece.size() == 6 && piece.starts_with("<0x");
    std::size_t found = at;
    for (std::string_view rest = id == unk_id ? unknown : std::string_view(piece); !rest.empty() && !is_byte;) {
      const std::size_t length = rest.starts_with(space_mark) ? 0 : std::min(rest.find(space_mark), rest.size());
      while (found < text.size() && (text[found] == ' ' || text[found] == '\t')) ++found;
      if (!text.substr(found).starts_with(rest.substr(0, length))) break;
      found += length;
      rest.remove_prefix(length + (length < rest.size() ? space_mark.size() : 0));
    }
    at = is_byte ? std::min(at + 1, text.size()) : found;
    ends.push_back(at);
  }
  return ends;
}

/// The units to which each piece gives text, with the part of its bytes.
std::vector<std::vector<std::pair<std::size_t, float>>> units_of_pieces(const std::vector<std::size_t>& ends,
                                                                        const std::vector<TextUnit>& units) {
  std::vector<std::vector<std::pair<std::size_t, float>>> all;
  std::size_t begin = 0, first = 0;
  for (const std::size_t end : ends) {
    std::vector<std::pair<std::size_t, float>> found;
    while (first < units.size() && units[first].end <= begin) ++first;
    float total = 0;
    for (std::size_t u = first; u < units.size() && units[u].begin < end; ++u) {
      const auto bytes = static_cast<float>(std::min(end, units[u].end) - std::max(begin, units[u].begin));
      found.emplace_back(u, bytes);
      total += bytes;
    }
    for (auto& [unit, part] : found) part /= total;
    all.push_back(std::move(found));
    begin = end;
  }
  return all;
}

/// A range of units.
struct Range {
  std::size_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
  bool has(std::size_t unit) const { return unit >= begin && unit < end; }
};

/// Places the tags of a source in its translation and writes both.
class MarkupWriter {
 public:
  MarkupWriter(const MarkedText& marked, const std::vector<std::size_t>& source_ends, const Rendering& rendering,
               const Vocabulary& vocabulary)
      : text_(rendering.text), source_(text_units(marked.text)), target_(text_units(rendering.text)) {
    const auto source_units = units_of_pieces(source_ends, source_);
    const auto target_units = units_of_pieces(target_ends(rendering, vocabulary), target_);
    weights_.resize(target_.size());
    std::size_t piece = 0;
    for (const Attention::Part& part : rendering.attention.parts) {
      for (std::int64_t i = 0; i < part.target_pieces(); ++i, ++piece) {
        const std::span<const float> row = part.row(i);
        for (const auto& [target, target_part] : target_units[piece]) {
          for (std::size_t j = 0; j + 1 < row.size(); ++j) {
            for (const auto& [source, source_part] : source_units[static_cast<std::size_t>(part.first_source) + j]) {
              add_weight(target, source, row[j] * target_part * source_part);
            }
          }
        }
      }
    }
    for (const Weights& weights : weights_) {
      const auto best = std::ranges::max_element(weights.values);
      links_.push_back(best == weights.values.end()
                           ? source_.size()
                           : weights.first + static_cast<std::size_t>(best - weights.values.begin()));
    }
  }

  std::string write(const std::vector<MarkupNode>& nodes) {
    const Range source{0, source_.size()}, target{0, target_.size()};
    write_inside(nodes, source, target);
    return std::move(out_);
  }

 private:
  struct Placed {
    const MarkupNode* node = nullptr;
    Range source, target;  // units; empty ones mark a place
  };

  /// The attention of a target unit to the source units from `first`.
  struct Weights {
    std::size_t first = 0;
    std::vector<float> values;
  };
  void add_weight(std::size_t target, std::size_t source, float weight) {
    Weights& weights = weights_[target];
    if (weights.values.empty()) weights.first = source;
    if (source < weights.first) {
      weights.values.insert(weights.values.begin(), weights.first - source, 0);
      weights.first = source;
    }
    if (source >= weights.first + weights.values.size()) weights.values.resize(source - weights.first + 1);
    weights.values[source - weights.first] += weight;
  }
  float weight_of(std::size_t unit, Range source) const {
    const Weights& weights = weights_[unit];
    float weight = 0;
    for (std::size_t s = std::max(source.begin, weights.first); s < source.end; ++s) {
      if (s >= weights.first + weights.values.size()) break;
      weight += weights.values[s - weights.first];
    }
    return weight;
  }

  Range source_range(const MarkupNode& node) const {
    const auto ends_after = [&](const TextUnit& unit) { return unit.end > node.begin; };
    const auto begins_after = [&](const TextUnit& unit) { return unit.begin >= node.end; };
    const auto first = std::ranges::find_if(source_, ends_after) - source_.begin();
    const auto last = std::ranges::find_if(source_, begins_after) - source_.begin();
    const auto begin = static_cast<std::size_t>(first), end = static_cast<std::size_t>(last);
    return node.begin == node.end ? Range{begin, begin} : Range{begin, std::max(begin, end)};
  }

  /// The part of `free` whose units are aligned most with those of `source`; empty if none is.
  Range best_in(Range free, Range source) const {
    Range best;
    float best_sum = 0, sum = 0;
    std::size_t begin = free.begin;
    for (std::size_t u = free.begin; u < free.end; ++u) {
      const float size = target_[u].is_word ? 1.0F : 0.25F;
      if (sum <= 0) sum = 0, begin = u;
      sum += source.has(links_[u]) ? size : -size;
      if (sum > best_sum) best_sum = sum, best = {begin, u + 1};
    }
    const bool ends_in_mark = !source.empty() && !source_[source.end - 1].is_word;
    while (!best.empty() && !ends_in_mark && !target_[best.end - 1].is_word && best.end > best.begin + 1) --best.end;
    return best;
  }
  /// The unit of `free` that attends most to those of `source`.
  std::optional<std::size_t> nearest_in(Range free, Range source) const {
    std::optional<std::size_t> best;
    float most = -1;
    for (std::size_t u = free.begin; u < free.end; ++u) {
      const float weight = weight_of(u, source) - (target_[u].is_word ? 0.0F : 0.5F);
      if (weight > most) most = weight, best = u;
    }
    return best;
  }

  /// The parts of `within` that no placed element covers.
  static std::vector<Range> free_ranges(Range within, const std::vector<Placed>& placed) {
    std::vector<Range> taken;
    for (const Placed& each : placed) {
      if (!each.target.empty()) taken.push_back(each.target);
    }
    std::ranges::sort(taken, {}, &Range::begin);
    std::vector<Range> free;
    for (const Range& each : taken) {
      if (each.begin > within.begin) free.push_back({within.begin, each.begin});
      within.begin = each.end;
    }
    if (!within.empty()) free.push_back(within);
    return free;
  }

  /// A place for an element, and how well it fits.
  struct Candidate {
    Range range;
    float score = 0;
  };
  /// The best free place for the words of `source`: the units that are linked with them, or without links the one that
  /// attends to them most.
  Candidate candidate(Range source, const std::vector<Range>& free, bool by_links) const {
    Candidate best{.range = {}, .score = -1};
    for (const Range& part : free) {
      Candidate found{.range = best_in(part, source)};
      if (by_links) {
        for (std::size_t u = found.range.begin; u < found.range.end; ++u) {
          found.score += source.has(links_[u]) ? 1.0F : -1.0F;
        }
      } else if (const auto unit = nearest_in(part, source)) {
        found = {.range = {*unit, *unit + 1}, .score = weight_of(*unit, source)};
      }
      if (!found.range.empty() && found.score > best.score) best = found;
    }
    return best;
  }

  /// Places the elements with words, those that are aligned best first.
  void place_elements(std::vector<Placed>& elements, Range source, Range target) const {
    std::vector<Placed*> waiting;
    for (Placed& each : elements) {
      if (!each.source.empty()) waiting.push_back(&each);
    }
    if (waiting.size() == 1 && waiting[0]->source.begin == source.begin && waiting[0]->source.end == source.end) {
      waiting[0]->target = target;  // around all of it
      return;
    }
    for (const bool by_links : {true, false}) {
      std::vector<Candidate> candidates(waiting.size());
      bool is_first = true;
      for (Range taken = target; !waiting.empty(); is_first = false) {
        const std::vector<Range> free = free_ranges(target, elements);
        for (std::size_t i = 0; i < waiting.size(); ++i) {
          const Range& range = candidates[i].range;
          const bool overlaps = range.begin < taken.end && taken.begin < range.end;
          if (is_first || overlaps) candidates[i] = candidate(waiting[i]->source, free, by_links);
        }
        const auto best = std::ranges::max_element(candidates, {}, &Candidate::score);
        if (best->range.empty()) break;
        const auto place = best - candidates.begin();
        waiting[static_cast<std::size_t>(place)]->target = taken = best->range;
        waiting.erase(waiting.begin() + place);
        candidates.erase(best);
      }
    }
  }

  /// The place of a node without words: a unit before which it belongs.
  std::size_t place_of(Range at, Range source, Range target) const {
    const std::size_t next = at.begin;
    if (next <= source.begin) return target.begin;
    if (next >= source.end) return target.end;
    for (std::size_t u = target.begin; u < target.end; ++u) {
      if (links_[u] == next) return u;
    }
    for (std::size_t u = target.end; u > target.begin; --u) {
      if (links_[u - 1] == next - 1) return u;
    }
    return nearest_in(target, {next, next + 1}).value_or(target.end);
  }

  void write_inside(const std::vector<MarkupNode>& nodes, Range source, Range target) {
    std::vector<Placed> placed;
    for (const MarkupNode& node : nodes) placed.push_back({.node = &node, .source = source_range(node), .target = {}});
    place_elements(placed, source, target);
    for (std::size_t i = 0; i < placed.size(); ++i) {
      if (!placed[i].target.empty()) continue;
      std::size_t place = place_of(placed[i].source, source, target);
      for (std::size_t k = 0; k < placed.size(); ++k) {
        const Range& other = placed[k].target;
        if (other.begin < place && place < other.end) place = i < k ? other.begin : other.end;
      }
      placed[i].target = {place, place};
    }
    std::ranges::stable_sort(placed, [](const Placed& a, const Placed& b) {
      return std::pair(a.target.begin, a.target.end) < std::pair(b.target.begin, b.target.end);
    });
    for (const Placed& each : placed) {
      write_units(each.target.begin);
      each.target.empty() ? write_place(each) : write_element(each);
    }
    write_units(target.end);
  }

  void write_element(const Placed& placed) {
    write_gap();
    out_ += placed.node->open;
    write_inside(placed.node->children, placed.source, placed.target);
    out_ += placed.node->close;
  }

  /// A placeholder, or an element without words, with the spaces that it has in the source.
  void write_place(const Placed& placed) {
    const MarkupNode& node = *placed.node;
    const bool ended = next_ == target_.size(), in_gap = !gap_written_ && next_ > 0 && !ended && gap_size() > 0;
    const bool is_between = node.divides && !node.space_before && !node.space_after;
    if (node.space_before || (in_gap && !node.space_after && !is_between)) write_space();
    const bool follows_word = out_.size() == word_end_;
    out_ += node.open;
    write_inside(node.children, placed.source, placed.target);
    out_ += node.close;
    space_last_ = false;
    // Where the target has a word after it, but the source a mark: a space.
    const std::size_t next = placed.source.begin;
    const bool before_word = next < source_.size() && source_[next].is_word && source_[next].begin <= node.end;
    const bool parts = in_gap && node.space_before && target_[next_].is_word && !before_word;
    space_due_ |= !ended && (node.space_after || parts);
    between_end_ = is_between && follows_word ? out_.size() : 0;
    gap_written_ |= node.space_before || node.space_after || (in_gap && !is_between);
  }

  std::size_t gap_size() const {
    return next_ < target_.size() ? target_[next_].begin - (next_ > 0 ? target_[next_ - 1].end : 0) : 0;
  }
  void write_space() {
    if (!space_last_) out_ += ' ';
    space_last_ = true;
  }
  /// The space before the next unit, unless only a placeholder divided the words in the source, as in A<br>B.
  void write_gap() {
    const bool is_divided = between_end_ > 0 && between_end_ == out_.size();
    if (gap_written_ ? space_due_ : gap_size() > 0 && next_ > 0 && !is_divided) write_space();
    gap_written_ = true;
    space_due_ = false;
  }
  void write_units(std::size_t end) {
    for (; next_ < end; ++next_) {
      write_gap();
      for (const char c : text_.substr(target_[next_].begin, target_[next_].end - target_[next_].begin)) {
        out_ += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
      }
      gap_written_ = space_last_ = false;
      word_end_ = out_.size();
    }
  }

  std::string_view text_;
  std::vector<TextUnit> source_, target_;
  std::vector<Weights> weights_;    // of each target unit
  std::vector<std::size_t> links_;  // of each target unit: the source unit that it attends to most
  std::string out_;
  std::size_t next_ = 0;  // unit to be written
  bool gap_written_ = false, space_due_ = false, space_last_ = true;
  std::size_t word_end_ = 0, between_end_ = 0;  // of out_, after a unit, and after a placeholder that follows one
};

}  // namespace

std::string with_markup(const MarkedText& marked, const std::vector<std::size_t>& source_ends,
                        const Rendering& rendering, const Vocabulary& vocabulary) {
  return MarkupWriter(marked, source_ends, rendering, vocabulary).write(marked.nodes);
}

}  // namespace babelring
