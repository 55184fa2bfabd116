#include "nmt/metrics/ter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/failure.h"
#include "base/version.h"
#include "nmt/metrics/ngrams.h"
#include "nmt/metrics/tokenizer.h"

namespace babelring {
namespace {

// The limits of Tercom, and the last one of sacreBLEU.
constexpr int beam_width = 25;
constexpr std::ptrdiff_t max_shift_words = 10, max_shift_distance = 50;
constexpr int max_shifts_tried = 1000;

enum class Edit : std::uint8_t { unreached, keep, substitute, insert, remove };

struct Cell {
  int cost = std::numeric_limits<int>::max() / 2;
  Edit edit = Edit::unreached;  // the last one on the way here
};

/// A row of the matrix of edit distances: cells of reference lengths from `begin`; all others are unreached.
struct Row {
  std::ptrdiff_t begin = 0;
  std::vector<Cell> cells;

  Cell at(std::ptrdiff_t reference) const {
    const std::ptrdiff_t i = reference - begin;
    return i >= 0 && i < std::ssize(cells) ? cells[static_cast<std::size_t>(i)] : Cell{};
  }
};

/// Edit distances (Levenshtein 1966) of hypotheses of one length to a reference, computed in a beam around the diagonal
/// of the matrix. Of edits with the same cost the order keep or substitute, remove, insert decides.
class EditMatrix {
 public:
  EditMatrix(std::u32string_view reference, std::size_t hypothesis_words)
      : reference_(reference), rows_(hypothesis_words + 1) {
    const auto words = static_cast<double>(hypothesis_words), length = static_cast<double>(reference.size());
    ratio_ = hypothesis_words == 0 ? 1 : length / words;
    beam_ = ratio_ / 2 > beam_width ? static_cast<std::ptrdiff_t>(std::ceil(ratio_ / 2 + beam_width)) : beam_width;
    for (std::size_t j = 0; j <= reference.size(); ++j) {
      rows_[0].cells.push_back({.cost = static_cast<int>(j), .edit = Edit::insert});
    }
  }

  /// Computes all rows and keeps them. Returns the distance.
  int compute(std::u32string_view hypothesis) {
    for (std::size_t i = 1; i < rows_.size(); ++i) fill(rows_[i], rows_[i - 1], i, hypothesis[i - 1]);
    return last_cost(rows_.back());
  }

  /// The distance of a hypothesis whose first `same` words are those of the computed one, whose rows are kept.
  int distance(std::u32string_view hypothesis, std::size_t same) {
    const Row* before = &rows_[same];
    for (std::size_t i = same + 1; i < rows_.size(); ++i) {
      Row& row = scratch_[i % 2];
      fill(row, *before, i, hypothesis[i - 1]);
      before = &row;
    }
    return last_cost(*before);
  }

  /// The edits of the computed hypothesis, from its begin to its end.
  std::vector<Edit> edits() const {
    std::vector<Edit> edits;
    std::size_t i = rows_.size() - 1, j = reference_.size();
    while (i > 0 || j > 0) {
      const Edit edit = rows_[i].at(static_cast<std::ptrdiff_t>(j)).edit;
      if (edit == Edit::unreached) fail("ter: the beam of {} words has no way to the end", beam_);
      edits.push_back(edit);
      if (edit != Edit::insert) --i;
      if (edit != Edit::remove) --j;
    }
    std::reverse(edits.begin(), edits.end());
    return edits;
  }

 private:
  int last_cost(const Row& row) const { return row.at(static_cast<std::ptrdiff_t>(reference_.size())).cost; }

  /// Row i, of the first i words of a hypothesis, whose last one is `word`.
  void fill(Row& row, const Row& before, std::size_t i, char32_t word) const {
    const auto diagonal = static_cast<std::ptrdiff_t>(std::floor(static_cast<double>(i) * ratio_));
    const std::ptrdiff_t length = std::ssize(reference_);
    const std::ptrdiff_t begin = std::max<std::ptrdiff_t>(0, diagonal - beam_);
    const std::ptrdiff_t end = i + 1 == rows_.size() ? length + 1 : std::min(length + 1, diagonal + beam_);
    row.begin = begin;
    row.cells.assign(static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, end - begin)), Cell{});
    Cell left;
    for (std::ptrdiff_t j = begin; j < end; ++j) {
      Cell best;
      const Cell above = before.at(j);
      if (j == 0) {
        best = {.cost = above.cost + 1, .edit = Edit::remove};
      } else {
        const bool same = word == reference_[static_cast<std::size_t>(j - 1)];
        const int diagonal_cost = before.at(j - 1).cost + (same ? 0 : 1);
        if (diagonal_cost < best.cost) best = {.cost = diagonal_cost, .edit = same ? Edit::keep : Edit::substitute};
        if (above.cost + 1 < best.cost) best = {.cost = above.cost + 1, .edit = Edit::remove};
        if (left.cost + 1 < best.cost) best = {.cost = left.cost + 1, .edit = Edit::insert};
      }
      row.cells[static_cast<std::size_t>(j - begin)] = left = best;
    }
  }

  std::u32string_view reference_;
  double ratio_ = 1;  // reference words a hypothesis word
  std::ptrdiff_t beam_ = beam_width;
  std::vector<Row> rows_;
  Row scratch_[2];
};

/// Where edits leave each reference word, and the words that they change.
struct Alignment {
  std::vector<std::ptrdiff_t> position;  // of each reference word: of its hypothesis word or the one before; -1: none
  std::vector<char> wrong_reference, wrong_hypothesis;

  explicit Alignment(const std::vector<Edit>& edits) {
    std::ptrdiff_t at = -1;
    for (const Edit edit : edits) {
      const char wrong = edit == Edit::keep ? 0 : 1;
      if (edit != Edit::insert) {
        ++at;
        wrong_hypothesis.push_back(wrong);
      }
      if (edit == Edit::remove) continue;
      position.push_back(at);
      wrong_reference.push_back(wrong);
    }
  }
};

bool any_wrong(const std::vector<char>& wrong, std::ptrdiff_t begin, std::ptrdiff_t length) {
  return std::any_of(wrong.begin() + begin, wrong.begin() + begin + length, [](char w) { return w != 0; });
}

/// A sequence of words that hypothesis and reference have in common.
struct Common {
  std::ptrdiff_t hypothesis = 0, reference = 0, length = 0;
};

/// `words` with `length` of them from `begin` moved before position `to`; if that is inside of them, `to` - `begin`
/// places to the right.
std::u32string shifted(std::u32string_view words, std::size_t begin, std::size_t length, std::size_t to) {
  std::u32string moved(words);
  const auto at = [&](std::size_t i) { return moved.begin() + static_cast<std::ptrdiff_t>(std::min(i, moved.size())); };
  if (to < begin) {
    std::rotate(at(to), at(begin), at(begin + length));
  } else {
    std::rotate(at(begin), at(begin + length), at(to > begin + length ? to : to + length));
  }
  return moved;
}

/// Finds the shift that lowers the edit distance most, by Tercom's rules.
class ShiftSearch {
 public:
  ShiftSearch(std::u32string_view hypothesis, std::u32string_view reference, EditMatrix& matrix, int& tried)
      : hypothesis_(hypothesis),
        reference_(reference),
        matrix_(matrix),
        tried_(tried),
        before_(matrix.compute(hypothesis)),
        alignment_(matrix.edits()) {}

  /// The distance without a shift.
  int distance() const { return before_; }

  /// Tries shifts. Returns by how much the best one lowers the distance; 0: no shift was possible.
  int run() {
    const std::ptrdiff_t words = std::ssize(hypothesis_), references = std::ssize(reference_);
    for (std::ptrdiff_t h = 0; h < words; ++h) {
      const std::ptrdiff_t begin = std::max<std::ptrdiff_t>(0, h - max_shift_distance);
      for (std::ptrdiff_t r = begin; r < std::min(references, h + max_shift_distance + 1); ++r) {
        const std::ptrdiff_t max_length = std::min({max_shift_words, words - h, references - r});
        for (std::ptrdiff_t length = 1; length <= max_length; ++length) {
          const auto last = static_cast<std::size_t>(length - 1);
          if (hypothesis_[static_cast<std::size_t>(h) + last] != reference_[static_cast<std::size_t>(r) + last]) break;
          if (!useful({h, r, length})) continue;
          try_targets({h, r, length});
          if (tried_ >= max_shifts_tried) return best_gain();
        }
      }
    }
    return best_gain();
  }

  /// The hypothesis after the best shift.
  std::u32string result() const { return best_words_; }

 private:
  int best_gain() const { return found_ ? best_[0] : 0; }

  /// Both sides are wrong where the words are and where they belong, and they do not belong where they are.
  bool useful(const Common& common) const {
    const std::ptrdiff_t place = alignment_.position[static_cast<std::size_t>(common.reference)];
    return any_wrong(alignment_.wrong_hypothesis, common.hypothesis, common.length) &&
           any_wrong(alignment_.wrong_reference, common.reference, common.length) &&
           (place < common.hypothesis || place >= common.hypothesis + common.length);
  }

  void try_targets(const Common& common) {
    std::ptrdiff_t before = -1;
    for (std::ptrdiff_t offset = -1; offset < common.length; ++offset) {
      const std::ptrdiff_t reference = common.reference + offset;
      if (reference >= std::ssize(alignment_.position)) return;
      const std::ptrdiff_t to = reference < 0 ? 0 : alignment_.position[static_cast<std::size_t>(reference)] + 1;
      if (std::exchange(before, to) != to) try_shift(common, to);
    }
  }

  void try_shift(const Common& common, std::ptrdiff_t to) {
    std::u32string words = shifted(hypothesis_, static_cast<std::size_t>(common.hypothesis),
                                   static_cast<std::size_t>(common.length), static_cast<std::size_t>(to));
    const int gain = before_ - matrix_.distance(words, static_cast<std::size_t>(std::min(common.hypothesis, to)));
    ++tried_;
    // Tercom's rank: the largest gain, then the longest sequence, then the first, then the first target.
    const std::array<int, 4> rank = {gain, static_cast<int>(common.length), -static_cast<int>(common.hypothesis),
                                     -static_cast<int>(to)};
    if (found_ && rank <= best_) return;
    found_ = true;
    best_ = rank;
    best_words_ = std::move(words);
  }

  std::u32string_view hypothesis_, reference_;
  EditMatrix& matrix_;
  int& tried_;
  int before_;
  Alignment alignment_;
  bool found_ = false;
  std::array<int, 4> best_{};
  std::u32string best_words_;
};

/// sacreBLEU 2.6.0 tokenises references twice, which matters if TER is normalized: "dog's." is "dog's ." after the
/// first time, as in a hypothesis, and "dog 's ." after the second.
std::vector<std::u32string> reference_words_for_ter(const TerOptions& options, std::string_view reference) {
  std::u32string text;
  for (const std::u32string& word : words_for_ter(options, reference)) text += word + U' ';
  return words_for_ter(options, to_utf8(text));
}

std::string_view yes_no(bool value) {
  return value ? "yes" : "no";
}

}  // namespace

std::int64_t translation_edits(std::u32string_view hypothesis, std::u32string_view reference) {
  if (reference.empty()) return std::ssize(hypothesis);
  EditMatrix matrix(reference, hypothesis.size());
  std::u32string words(hypothesis);
  int shifts = 0, tried = 0;
  while (true) {
    ShiftSearch search(words, reference, matrix, tried);
    const int gain = search.run();
    if (tried >= max_shifts_tried || gain <= 0) return shifts + search.distance();
    ++shifts;
    words = search.result();
  }
}

TerCounts Ter::count(std::string_view hypothesis, const std::vector<std::string>& references) const {
  if (references.empty()) fail("ter: no references");
  WordNumbers numbers;
  const std::u32string hypothesis_words = numbers(words_for_ter(options_, hypothesis));
  TerCounts counts{.edits = std::numeric_limits<std::int64_t>::max()};
  std::size_t reference_words = 0;
  for (const std::string& reference : references) {
    const std::u32string own = numbers(reference_words_for_ter(options_, reference));
    counts.edits = std::min(counts.edits, translation_edits(hypothesis_words, own));
    reference_words += own.size();
  }
  counts.reference_words = static_cast<double>(reference_words) / static_cast<double>(references.size());
  return counts;
}

std::string Ter::signature(std::size_t references) const {
  return fmt::format("nrefs:{}|case:{}|tok:tercom|norm:{}|punct:{}|asian:{}|version:babelring-{}", references,
                     options_.case_sensitive ? "mixed" : "lc", yes_no(options_.normalized),
                     yes_no(!options_.no_punctuation), yes_no(options_.asian_support), version);
}

}  // namespace babelring
