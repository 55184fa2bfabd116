#include "nmt/data/segment_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/failure.h"
#include "nmt/core/random.h"
#include "nmt/data/corpus.h"
#include "nmt/data/vocabulary.h"

namespace babelring {
namespace {

using PieceType = SubwordModel::PieceType;

/// True for the pieces of text, which are segmented anew.
bool is_text(const SubwordModel::Piece& piece) {
  return piece.type == PieceType::normal || piece.type == PieceType::unused;
}

/// Where the characters of UTF-8 text begin, and its end.
std::vector<std::size_t> character_bounds(std::string_view text) {
  std::vector<std::size_t> bounds;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) bounds.push_back(i);
  }
  bounds.push_back(text.size());
  return bounds;
}

constexpr std::string_view word_mark = "\u2581";

}  // namespace

/// Segments runs of pieces of text anew. `table` must outlive this only while it is constructed.
class SegmentSampler::ModelSampler {
 public:
  virtual ~ModelSampler() = default;

  std::vector<std::int32_t> draw(std::span<const std::int32_t> ids, Random& random) const {
    std::vector<std::int32_t> drawn;
    for (std::size_t first = 0; first < ids.size();) {
      std::size_t last = first + 1;
      if (is_text_[static_cast<std::size_t>(ids[first])]) {
        while (last < ids.size() && goes_on(ids[last])) ++last;
        draw_run(ids.subspan(first, last - first), random, drawn);
      } else {
        drawn.push_back(ids[first]);
      }
      first = last;
    }
    return drawn;
  }

  /// Where the text of each piece ends, in bytes from the beginning.
  std::vector<std::size_t> ends(std::span<const std::int32_t> ids) const {
    std::vector<std::size_t> ends;
    std::size_t end = 0;
    for (const std::int32_t id : ids) ends.push_back(end += sizes_[static_cast<std::size_t>(id)]);
    return ends;
  }

 protected:
  explicit ModelSampler(const SubwordModel& table) {
    for (const SubwordModel::Piece& piece : table.pieces) {
      is_text_.push_back(is_text(piece));
      sizes_.push_back(std::max<std::size_t>(1, piece.text.size()));
      begins_word_.push_back(piece.text.starts_with(word_mark));
      if (is_text(piece) && piece.text.find(word_mark, 1) != std::string::npos) words_apart_ = false;
    }
  }
  void keep_whole(std::size_t id) { is_text_[id] = false; }

  /// Appends a segmentation of the pieces' text. No piece of the model lies across the ends of the run.
  virtual void draw_run(std::span<const std::int32_t> ids, Random& random, std::vector<std::int32_t>& drawn) const = 0;

 private:
  bool goes_on(std::int32_t id) const {
    const auto at = static_cast<std::size_t>(id);
    return is_text_[at] && !(words_apart_ && begins_word_[at]);
  }

  std::vector<bool> is_text_, begins_word_;
  std::vector<std::size_t> sizes_;
  bool words_apart_ = true;  // no piece goes on behind a space
};

/// Begins with the characters and merges pairs, the best first, unless the pair is left out. As SentencePiece does, a
/// pair that was left out is tried again when one of its parts has changed.
class SegmentSampler::BpeSampler : public ModelSampler {
 public:
  BpeSampler(const SubwordModel& table, double dropout) : ModelSampler(table), dropout_(dropout) {
    std::unordered_map<std::string_view, std::int32_t> ids;
    for (std::size_t id = 0; id < table.pieces.size(); ++id) {
      const SubwordModel::Piece& piece = table.pieces[id];
      scores_.push_back(piece.score);
      unused_.push_back(piece.type == PieceType::unused);
      if (is_text(piece)) ids.emplace(piece.text, static_cast<std::int32_t>(id));
    }
    characters_.resize(table.pieces.size());
    for (std::size_t id = 0; id < table.pieces.size(); ++id) {
      if (is_text(table.pieces[id])) add_merges(table.pieces[id].text, static_cast<std::int32_t>(id), ids);
    }
  }

 private:
  static constexpr std::int32_t none = -1;
  struct Symbol {
    std::int32_t id, merged;  // `merged`: with the next symbol; none: never, or left out
  };

  void add_merges(std::string_view text, std::int32_t id,
                  const std::unordered_map<std::string_view, std::int32_t>& ids) {
    const std::vector<std::size_t> bounds = character_bounds(text);
    std::vector<std::int32_t>& characters = characters_[static_cast<std::size_t>(id)];
    const auto id_of = [&](std::size_t first, std::size_t last) {
      const auto found = ids.find(text.substr(first, last - first));
      return found == ids.end() ? none : found->second;
    };
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) characters.push_back(id_of(bounds[i], bounds[i + 1]));
    // Without a piece for each character the text could become <unk>.
    if (std::ranges::find(characters, none) != characters.end()) keep_whole(static_cast<std::size_t>(id));
    for (std::size_t i = 1; i + 1 < bounds.size(); ++i) {
      const std::int32_t left = id_of(0, bounds[i]), right = id_of(bounds[i], text.size());
      if (left != none && right != none) merges_.emplace(pair(left, right), id);
    }
  }

  static std::uint64_t pair(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  std::int32_t merged(std::int32_t left, std::int32_t right) const {
    const auto found = merges_.find(pair(left, right));
    return found == merges_.end() ? none : found->second;
  }

  void draw_run(std::span<const std::int32_t> ids, Random& random, std::vector<std::int32_t>& drawn) const override {
    std::vector<Symbol> symbols;
    for (const std::int32_t id : ids) {
      for (const std::int32_t character : characters_[static_cast<std::size_t>(id)])
        symbols.push_back({character, none});
    }
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) symbols[i].merged = merged(symbols[i].id, symbols[i + 1].id);
    std::vector<std::pair<std::int32_t, std::uint64_t>> unused;  // unused pieces that were made, and their parts
    for (std::size_t best; (best = best_pair(symbols)) < symbols.size();) {
      Symbol& left = symbols[best];
      if (random.uniform() < dropout_) {
        left.merged = none;
        continue;
      }
      const std::int32_t id = left.merged;
      if (unused_[static_cast<std::size_t>(id)]) unused.emplace_back(id, pair(left.id, symbols[best + 1].id));
      left.id = id;
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
      left.merged = best + 1 < symbols.size() ? merged(id, symbols[best + 1].id) : none;
      if (best > 0) symbols[best - 1].merged = merged(symbols[best - 1].id, id);
    }
    for (const Symbol& symbol : symbols) append(symbol.id, unused, drawn);
  }

  /// The pair with the highest score, the first of equal ones; symbols.size() if there is none.
  std::size_t best_pair(const std::vector<Symbol>& symbols) const {
    std::size_t best = symbols.size();
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      if (symbols[i].merged != none && (best == symbols.size() || score(symbols[i]) > score(symbols[best]))) best = i;
    }
    return best;
  }
  float score(const Symbol& symbol) const { return scores_[static_cast<std::size_t>(symbol.merged)]; }

  static void append(std::int32_t id, const std::vector<std::pair<std::int32_t, std::uint64_t>>& unused,
                     std::vector<std::int32_t>& drawn) {
    const auto made = std::ranges::find(unused, id, &std::pair<std::int32_t, std::uint64_t>::first);
    if (made == unused.end()) return drawn.push_back(id);
    append(static_cast<std::int32_t>(made->second >> 32), unused, drawn);
    append(static_cast<std::int32_t>(made->second & 0xffffffff), unused, drawn);
  }

  double dropout_;
  std::vector<float> scores_;
  std::vector<bool> unused_;
  std::vector<std::vector<std::int32_t>> characters_;  // the pieces of a piece's characters
  std::unordered_map<std::uint64_t, std::int32_t> merges_;
};

/// Draws a path through the lattice of all segmentations, from its end, by the sums of the weights of the paths to each
/// place.
class SegmentSampler::UnigramSampler : public ModelSampler {
 public:
  UnigramSampler(const SubwordModel& table, double power) : ModelSampler(table) {
    for (std::size_t id = 0; id < table.pieces.size(); ++id) {
      const SubwordModel::Piece& piece = table.pieces[id];
      texts_.emplace_back(piece.text);
      // In single precision, so that processors whose exponential differs in the last bit draw the same.
      const auto weight = static_cast<float>(std::exp(power * static_cast<double>(piece.score)));
      weights_.push_back(std::max(weight, std::numeric_limits<float>::min()));
    }
    for (std::size_t id = 0; id < table.pieces.size(); ++id) {
      if (table.pieces[id].type != PieceType::normal) continue;
      ids_.emplace(texts_[id], static_cast<std::int32_t>(id));
      longest_ = std::max(longest_, character_bounds(texts_[id]).size() - 1);
    }
  }
  UnigramSampler(const UnigramSampler&) = delete;  // ids_ refers to texts_

 private:
  /// A number that may be smaller than a double can be: value * 2^exponent.
  struct Sum {
    double value = 0;
    int exponent = 0;
  };
  struct Arc {
    std::int32_t id;
    std::size_t from;  // a character's place
    double weight;     // of all paths through it, relative to the others that end where it does
  };

  void draw_run(std::span<const std::int32_t> ids, Random& random, std::vector<std::int32_t>& drawn) const override {
    std::string text;
    for (const std::int32_t id : ids) text += texts_[static_cast<std::size_t>(id)];
    const std::vector<std::size_t> bounds = character_bounds(text);
    std::vector<Sum> sums(bounds.size());
    std::vector<std::vector<Arc>> arcs(bounds.size());
    sums[0].value = 1;
    for (std::size_t end = 1; end < bounds.size(); ++end) {
      arcs[end] = arcs_to(end, text, bounds, sums);
      sums[end] = sum(arcs[end], sums);
    }
    std::vector<std::int32_t> reversed;
    for (std::size_t end = bounds.size() - 1; end > 0;) {
      const Arc& arc = drawn_arc(arcs[end], random);
      reversed.push_back(arc.id);
      end = arc.from;
    }
    drawn.insert(drawn.end(), reversed.rbegin(), reversed.rend());
  }

  /// The pieces that end before character `end` and begin where a path has come.
  std::vector<Arc> arcs_to(std::size_t end, std::string_view text, const std::vector<std::size_t>& bounds,
                           const std::vector<Sum>& sums) const {
    std::vector<Arc> arcs;
    for (std::size_t from = end - std::min(end, longest_); from < end; ++from) {
      if (sums[from].value == 0) continue;
      const auto found = ids_.find(text.substr(bounds[from], bounds[end] - bounds[from]));
      if (found == ids_.end()) continue;
      arcs.push_back({.id = found->second, .from = from, .weight = weights_[static_cast<std::size_t>(found->second)]});
    }
    return arcs;
  }

  /// The weight of all paths that end with one of the arcs, whose weights become those of their paths.
  static Sum sum(std::vector<Arc>& arcs, const std::vector<Sum>& sums) {
    if (arcs.empty()) return {};
    int exponent = std::numeric_limits<int>::min();
    for (const Arc& arc : arcs) exponent = std::max(exponent, sums[arc.from].exponent);
    double total = 0;
    for (Arc& arc : arcs) {
      arc.weight *= std::ldexp(sums[arc.from].value, sums[arc.from].exponent - exponent);
      total += arc.weight;
    }
    int shift = 0;
    const double value = std::frexp(total, &shift);
    return {.value = value, .exponent = exponent + shift};
  }

  static const Arc& drawn_arc(const std::vector<Arc>& arcs, Random& random) {
    const auto add = [](double sum, const Arc& arc) { return sum + arc.weight; };
    double left = random.uniform() * std::accumulate(arcs.begin(), arcs.end(), 0.0, add);
    const auto is_drawn = [&left](const Arc& arc) { return (left -= arc.weight) < 0; };
    return *std::find_if(arcs.begin(), arcs.end() - 1, is_drawn);
  }

  std::vector<std::string> texts_;
  std::vector<float> weights_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::size_t longest_ = 0;  // characters
};

namespace {

void check_kind(const SegmentationOptions& options, bool is_bpe) {
  if (is_bpe && options.sampling > 0) {
    throw UsageFailure(
        fmt::format("data.sampling: {}, but the vocabulary is of BPE; use data.bpe_dropout", options.sampling));
  }
  if (!is_bpe && options.bpe_dropout > 0) {
    throw UsageFailure(fmt::format("data.bpe_dropout: {}, but the vocabulary is a unigram model; use data.sampling",
                                   options.bpe_dropout));
  }
}

/// For each piece that ends at new_ends, the pieces that end at old_ends and that it overlaps: [first, last).
std::vector<std::pair<std::size_t, std::size_t>> overlaps(const std::vector<std::size_t>& new_ends,
                                                          const std::vector<std::size_t>& old_ends) {
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  std::size_t first = 0;
  for (const std::size_t end : new_ends) {
    std::size_t last = first;
    while (old_ends[last] < end) ++last;
    parts.emplace_back(first, last + 1);
    first = old_ends[last] == end ? last + 1 : last;
  }
  return parts;
}

}  // namespace

SegmentSampler::SegmentSampler(const Vocabulary& vocabulary, const SegmentationOptions& options, std::uint64_t seed,
                               int max_length)
    : options_(options), seed_(seed), max_length_(static_cast<std::size_t>(max_length)) {
  const VocabularyModels models = split_models(vocabulary.bytes());
  const auto sampler_of = [&](const std::string& model) -> std::shared_ptr<const ModelSampler> {
    const SubwordModel table(model);
    check_kind(options, table.type == SubwordModel::ModelType::bpe);
    if (table.type == SubwordModel::ModelType::bpe) return std::make_shared<BpeSampler>(table, options.bpe_dropout);
    return std::make_shared<UnigramSampler>(table, options.sampling);
  };
  source_ = sampler_of(models.source);
  target_ = models.target.empty() ? source_ : sampler_of(models.target);
}

std::vector<std::int32_t> SegmentSampler::draw(std::span<const std::int32_t> ids, TextSide side, Random& random) const {
  return (side == TextSide::source ? source_ : target_)->draw(ids, random);
}

std::vector<std::int32_t> SegmentSampler::draw_side(std::span<const std::int32_t> ids, TextSide side,
                                                    std::int64_t epoch, std::int64_t sentence) const {
  const bool is_source = side == TextSide::source;
  if (options_.sides == (is_source ? SampledSides::target : SampledSides::source)) return {ids.begin(), ids.end()};
  Random random(mix64(mix64(mix64(seed_ ^ 0x5e60) + static_cast<std::uint64_t>(epoch)) +
                      2 * static_cast<std::uint64_t>(sentence) + (is_source ? 0 : 1)));
  std::vector<std::int32_t> drawn = draw(ids, side, random);
  if (drawn.size() >= max_length_) return {ids.begin(), ids.end()};
  return drawn;
}

Corpus SegmentSampler::draw(const Corpus& corpus, std::int64_t epoch, std::span<const std::int64_t> sentences,
                            std::span<const std::int64_t> epochs) const {
  std::vector<std::vector<std::int32_t>> sources, targets, links;
  for (std::size_t at = 0; at < sentences.size(); ++at) {
    const std::int64_t i = sentences[at], own_epoch = epochs.empty() ? epoch : epochs[at];
    sources.push_back(draw_side(corpus.source(i), TextSide::source, own_epoch, i));
    targets.push_back(draw_side(corpus.target(i), TextSide::target, own_epoch, i));
    if (corpus.has_links()) links.push_back(new_links(corpus, i, sources.back(), targets.back()));
  }
  return Corpus::from_memory(sources, targets, links);
}

std::vector<std::int32_t> SegmentSampler::new_links(const Corpus& corpus, std::int64_t sentence,
                                                    std::span<const std::int32_t> source,
                                                    std::span<const std::int32_t> target) const {
  const std::span<const std::int32_t> old = corpus.links(sentence);
  const auto by_old_source = overlaps(source_->ends(corpus.source(sentence)), source_->ends(source));
  const auto by_new_target = overlaps(target_->ends(target), target_->ends(corpus.target(sentence)));
  std::vector<std::int32_t> links, linked;
  for (std::size_t row = 0; row < by_new_target.size(); ++row) {
    const auto [first, last] = by_new_target[row];
    linked.clear();
    for (std::size_t i = 0; i < old.size(); i += 2) {
      if (static_cast<std::size_t>(old[i + 1]) < first || static_cast<std::size_t>(old[i + 1]) >= last) continue;
      const auto [begin, end] = by_old_source[static_cast<std::size_t>(old[i])];
      for (std::size_t piece = begin; piece < end; ++piece) linked.push_back(static_cast<std::int32_t>(piece));
    }
    std::ranges::sort(linked);
    linked.erase(std::unique(linked.begin(), linked.end()), linked.end());
    for (const std::int32_t piece : linked) links.insert(links.end(), {piece, static_cast<std::int32_t>(row)});
  }
  return links;
}

SegmentSampler::Growth SegmentSampler::growth(const Corpus& corpus) const {
  constexpr std::int64_t max_sampled = 1000;
  const std::int64_t count = std::min(max_sampled, corpus.sentences());
  std::vector<std::int64_t> sentences;
  std::int64_t source = 0, target = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t i = k * corpus.sentences() / count;
    const std::int64_t source_tokens = corpus.source_length(i) + 1, target_tokens = corpus.target_length(i) + 1;
    if (std::max(source_tokens, target_tokens) > static_cast<std::int64_t>(max_length_)) continue;  // not trained
    sentences.push_back(i);
    source += source_tokens;
    target += target_tokens;
  }
  if (sentences.empty()) return {};
  const Corpus drawn = draw(corpus, 0, sentences);
  return {.source = static_cast<double>(drawn.source_tokens() + drawn.sentences()) / static_cast<double>(source),
          .target = static_cast<double>(drawn.target_tokens() + drawn.sentences()) / static_cast<double>(target)};
}

}  // namespace babelring
