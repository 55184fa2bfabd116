#include "nmt/decode/aligner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "base/failure.h"

namespace babelring {

namespace {

void require_below(int found, int count, const char* option, const char* unit) {
  if (found < count) return;
  throw UsageFailure(fmt::format("{}: found {}, expected 1 to {}: the decoder's {}", option, found + 1, count, unit));
}

}  // namespace

void AttentionChoice::check(int layers, int heads) const {
  require_below(layer, layers, "alignment-layer", "layers");
  require_below(head, heads, "alignment-head", "heads");
}

void Attention::append(const Attention& next) {
  const std::int64_t before = parts.empty() ? 0 : parts.back().first_source + parts.back().source_pieces;
  for (const Part& part : next.parts) {
    parts.push_back(part);
    parts.back().first_source += before;
  }
}

std::vector<float> attention_weights(std::span<const float> query, const AttentionKeys& keys, int heads, int head) {
  const std::int64_t depth = std::ssize(query) / heads;
  const auto tokens = static_cast<std::size_t>(std::ssize(keys.keys) / keys.stride);
  const float scale = 1 / std::sqrt(static_cast<float>(depth));
  const int first = head < 0 ? 0 : head, count = head < 0 ? heads : 1;
  std::vector<float> weights(tokens), scores(tokens);
  for (int h = first; h < first + count; ++h) {
    const std::int64_t begin = h * depth;
    for (std::size_t j = 0; j < tokens; ++j) {
      const float* k = keys.keys.data() + static_cast<std::int64_t>(j) * keys.stride + begin;
      constexpr std::int64_t lanes = 8;  // sums that a processor adds at a time
      std::array<float, lanes> sums{};
      std::int64_t i = 0;
      for (; i + lanes <= depth; i += lanes) {
        for (std::int64_t lane = 0; lane < lanes; ++lane) sums[lane] += query[begin + i + lane] * k[i + lane];
      }
      for (; i < depth; ++i) sums[0] += query[begin + i] * k[i];
      scores[j] = std::accumulate(sums.begin(), sums.end(), 0.0F) * scale;
    }
    const float largest = *std::ranges::max_element(scores);
    float total = 0;
    for (float& score : scores) total += score = std::exp(score - largest);
    for (std::size_t j = 0; j < tokens; ++j) weights[j] += scores[j] / (total * static_cast<float>(count));
  }
  return weights;
}

std::vector<AlignedPair> aligned_pieces(const Attention& attention) {
  std::vector<AlignedPair> pairs;
  std::int64_t target = 0;
  for (const Attention::Part& part : attention.parts) {
    for (std::int64_t i = 0; i < part.target_pieces(); ++i, ++target) {
      if (part.source_pieces == 0) continue;
      const std::span<const float> row = part.row(i).first(static_cast<std::size_t>(part.source_pieces));
      const std::int64_t best = part.first_source + (std::ranges::max_element(row) - row.begin());
      pairs.push_back({static_cast<std::int32_t>(best), static_cast<std::int32_t>(target)});
    }
  }
  std::ranges::sort(pairs);
  return pairs;
}

std::vector<std::int32_t> word_numbers(std::span<const std::int32_t> ids, const Vocabulary& vocabulary) {
  constexpr std::string_view space_mark = "\u2581";
  std::vector<std::int32_t> words;
  for (const std::int32_t id : ids) {
    const bool begins = words.empty() || vocabulary.piece(id).starts_with(space_mark);
    words.push_back(words.empty() ? 0 : words.back() + (begins ? 1 : 0));
  }
  return words;
}

std::vector<AlignedPair> aligned_words(const Attention& attention, std::span<const std::int32_t> source_words,
                                       std::span<const std::int32_t> target_words) {
  std::vector<AlignedPair> pairs;
  std::map<std::int32_t, float> sums;  // of a target word, by source word
  std::size_t target = 0;
  for (const Attention::Part& part : attention.parts) {
    for (std::int64_t i = 0; i < part.target_pieces(); ++i, ++target) {
      const std::span<const float> row = part.row(i);
      for (std::int64_t j = 0; j < part.source_pieces; ++j) {
        sums[source_words[static_cast<std::size_t>(part.first_source + j)]] += row[static_cast<std::size_t>(j)];
      }
      if (target + 1 < target_words.size() && target_words[target + 1] == target_words[target]) continue;
      const auto best = std::ranges::max_element(sums, {}, [](const auto& sum) { return sum.second; });
      if (best != sums.end()) pairs.push_back({best->first, target_words[target]});
      sums.clear();
    }
  }
  std::ranges::sort(pairs);
  return pairs;
}

std::string moses_form(std::span<const AlignedPair> pairs) {
  std::string text;
  for (const AlignedPair& pair : pairs) {
    text += fmt::format("{}{}-{}", text.empty() ? "" : " ", pair.source, pair.target);
  }
  return text;
}

}  // namespace babelring
