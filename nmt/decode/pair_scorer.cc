#include "nmt/decode/pair_scorer.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/failure.h"
#include "nmt/data/batch_plan.h"
#include "nmt/data/text.h"

namespace babelring {

namespace {

// They bound the memory of what is read at a time.
constexpr std::size_t max_pairs = 10'000, max_bytes = 32 << 20;
// A line that is cut keeps this much for its score: the search for the pieces of a mebibyte without spaces takes 12 s.
constexpr std::size_t max_cut_bytes = 1 << 16;

}  // namespace

PairInput::PairInput(PairInputOptions options, const Vocabulary& vocabulary)
    : options_(std::move(options)),
      vocabulary_(vocabulary),
      source_(open_pairs(options_.source, options_.target, options_.choice)) {}

LinePairs PairInput::next() {
  using Next = PairSource::Next;
  LinePairs pairs;
  RawLine source, target;
  for (std::size_t bytes = 0; pairs.size() < max_pairs && bytes < max_bytes;) {
    const Next next = source_->next(source, target);
    if (next == Next::source_only || next == Next::target_only) fail_lengths();
    if (next == Next::end) break;
    if (next != Next::pair) {
      if (++incomplete_ == 1) first_incomplete_ = fmt::format("{}:{}", options_.source, source.number);
      continue;
    }
    check(source_->source_file(), source);
    check(source_->target_file(), target);
    bytes += source.text.size() + target.text.size();
    pairs.sources.push_back(std::move(source.text));
    pairs.targets.push_back(std::move(target.text));
    pairs.source_lines.push_back(source.number);
    pairs.target_lines.push_back(target.number);
  }
  pairs_ += static_cast<std::int64_t>(pairs.size());
  pairs.source_ids = encode(TextSide::source, pairs.sources, pairs.source_lines);
  pairs.target_ids = encode(TextSide::target, pairs.targets, pairs.target_lines);
  return pairs;
}

void PairInput::check(const std::filesystem::path& file, RawLine& line) const {
  if (line.over_long && !options_.truncate) {
    fail("{}:{}: over {} bytes (--truncate cuts the line)", file.string(), line.number, LineReader::longest_bytes);
  }
  if (line.over_long) cut_text(line.text, LineReader::longest_bytes);
  const std::size_t invalid = find_invalid_utf8(line.text);
  if (invalid != std::string::npos) fail("{}:{}: byte {} is not UTF-8", file.string(), line.number, invalid + 1);
}

/// Reads both texts to their ends, to name their lengths.
void PairInput::fail_lengths() {
  RawLine source, target;
  while (source_->next(source, target) != PairSource::Next::end) {
  }
  fail("{} has {} lines, {} has {}; expected equal numbers", options_.source, source_->source_lines(), options_.target,
       source_->target_lines());
}

/// `numbers`: of the lines in their file.
std::vector<std::vector<std::int32_t>> PairInput::encode(TextSide side, const std::vector<std::string>& lines,
                                                         const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> texts = lines;
  if (options_.truncate) {
    for (std::string& text : texts) cut_text(text, max_cut_bytes);
  }
  std::vector<std::vector<std::int32_t>> ids = encode_lines(texts, side, vocabulary_, options_.threads);
  const auto max_pieces = static_cast<std::size_t>(options_.max_pieces);
  const std::filesystem::path& file = side == TextSide::source ? source_->source_file() : source_->target_file();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (ids[i].size() <= max_pieces && texts[i].size() == lines[i].size()) continue;
    const std::string place = fmt::format("{}:{}", file.string(), numbers[i]);
    if (!options_.truncate) {
      fail(
          "{}: {} pieces, expected at most {}, data.max_length of the training without </s> (--truncate cuts the line)",
          place, ids[i].size(), max_pieces);
    }
    ids[i].resize(std::min(ids[i].size(), max_pieces));
    if (++cut_ == 1) first_cut_ = place;
  }
  return ids;
}

std::vector<std::vector<float>> PairScorer::score(const LinePairs& pairs) {
  std::vector<std::vector<float>> scores;
  scores.reserve(pairs.size());
  const Corpus corpus = Corpus::from_memory(pairs.source_ids, pairs.target_ids);
  for (const PackedBatch& batch : sequential_batches(corpus, 0, corpus.sentences(), batch_tokens_)) {
    Context context = arenas_.begin(model_.compute_dtype());
    context.packed_weights = &packed_;
    const DeviceBatch on_device(backend_, context.saved, batch);
    const ConstTensor losses = model_.token_losses(context, on_device);
    std::vector<float> values(batch.target_out.size());
    backend_.download(losses.row_slice(1, 1), values.data());  // nlls
    for (float& value : values) value = 0 - value;             // not -0 for a probability of 1
    const std::vector<std::int32_t>& offsets = batch.target_in.offsets;
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      scores.emplace_back(values.begin() + offsets[i], values.begin() + offsets[i + 1]);
    }
  }
  return scores;
}

PairAligner::PairAligner(const Transformer& model, Backend& backend, const AttentionChoice& choice)
    : decoder_(model, backend), lists_(backend.host_memory()) {
  decoder_.keep_attention(choice);
}

std::vector<std::vector<AlignedPair>> PairAligner::align(const LinePairs& pairs) {
  constexpr std::size_t batch_pairs = 64;
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return pairs.target_ids[i].size(); });
  std::vector<std::vector<AlignedPair>> aligned(pairs.size());
  for (std::span<const std::size_t> rest(order); !rest.empty();) {
    const std::size_t count = std::min(batch_pairs, rest.size());
    align_batch(pairs, rest.first(count), aligned);
    rest = rest.subspan(count);
  }
  return aligned;
}

/// `batch`: the longest targets first, so that those that still have a piece are the first rows of each step.
void PairAligner::align_batch(const LinePairs& pairs, std::span<const std::size_t> batch,
                              std::vector<std::vector<AlignedPair>>& aligned) {
  std::vector<std::span<const std::int32_t>> sources, targets;
  for (const std::size_t i : batch) {
    sources.emplace_back(pairs.source_ids[i]);
    targets.emplace_back(pairs.target_ids[i]);
  }
  // No next token is asked for, so that the output layer may be as small as can be.
  std::vector<std::vector<std::int32_t>> lists;
  if (lists_) lists.assign(sources.size(), {eos_id});
  decoder_.start(sources, std::ssize(sources), std::max<std::int64_t>(1, std::ssize(targets.front())), lists);
  for (std::size_t position = 0; position < targets.front().size(); ++position) {
    std::vector<CachedDecoder::Row> rows;
    for (std::size_t i = 0; i < targets.size() && targets[i].size() > position; ++i) {
      const auto row = static_cast<std::int32_t>(i);
      rows.push_back({.token = position == 0 ? bos_id : targets[i][position - 1], .sentence = row, .parent = row});
    }
    decoder_.step(rows, 1);
  }
  for (std::size_t i = 0; i < batch.size(); ++i) aligned[batch[i]] = aligned_pieces(decoder_.attention(i, targets[i]));
}

}  // namespace babelring
