#include "nmt/decode/pair_scorer.h"

#include <algorithm>
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
      source_{LineReader(options_.source), {}},
      target_{LineReader(options_.target), {}} {}

LinePairs PairInput::next() {
  LinePairs pairs;
  for (std::size_t bytes = 0; pairs.size() < max_pairs && bytes < max_bytes;) {
    const bool has_source = read(source_), has_target = read(target_);
    if (has_source != has_target) fail_lengths();
    if (!has_source) break;
    bytes += source_.line.text.size() + target_.line.text.size();
    pairs.sources.push_back(std::move(source_.line.text));
    pairs.targets.push_back(std::move(target_.line.text));
  }
  encode(source_, pairs.sources, pairs.source_ids);
  encode(target_, pairs.targets, pairs.target_ids);
  return pairs;
}

/// Returns false at the end of the text.
bool PairInput::read(Side& side) const {
  RawLine& line = side.line;
  if (!side.reader.next(line)) return false;
  const std::string& file = side.reader.file().string();
  refuse_markup(file, line);
  if (line.over_long && !options_.truncate) {
    fail("{}:{}: over {} bytes (--truncate cuts the line)", file, line.number, LineReader::longest_bytes);
  }
  if (line.over_long) cut_text(line.text, LineReader::longest_bytes);
  const std::size_t invalid = find_invalid_utf8(line.text);
  if (invalid != std::string::npos) fail("{}:{}: byte {} is not UTF-8", file, line.number, invalid + 1);
  return true;
}

/// Reads both texts to their ends, to name their lengths.
void PairInput::fail_lengths() {
  for (Side* side : {&source_, &target_}) {
    while (side->reader.next(side->line)) {
    }
  }
  fail("{} has {} lines, {} has {}; expected equal numbers", options_.source, source_.reader.lines(), options_.target,
       target_.reader.lines());
}

/// `lines` are the last ones that `side` has read.
void PairInput::encode(const Side& side, const std::vector<std::string>& lines,
                       std::vector<std::vector<std::int32_t>>& ids) {
  std::vector<std::string> texts = lines;
  if (options_.truncate) {
    for (std::string& text : texts) cut_text(text, max_cut_bytes);
  }
  ids = encode_lines(texts, &side == &source_ ? TextSide::source : TextSide::target, vocabulary_, options_.threads);
  const auto max_pieces = static_cast<std::size_t>(options_.max_pieces);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (ids[i].size() <= max_pieces && texts[i].size() == lines[i].size()) continue;
    const std::int64_t number = side.reader.lines() - std::ssize(lines) + static_cast<std::int64_t>(i) + 1;
    const std::string place = fmt::format("{}:{}", side.reader.file().string(), number);
    if (!options_.truncate) {
      fail(
          "{}: {} pieces, expected at most {}, data.max_length of the training without </s> (--truncate cuts the line)",
          place, ids[i].size(), max_pieces);
    }
    ids[i].resize(std::min(ids[i].size(), max_pieces));
    if (++cut_ == 1) first_cut_ = place;
  }
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
    for (float& value : values) value = 0 - value;  // not -0 for a probability of 1
    const std::vector<std::int32_t>& offsets = batch.target_in.offsets;
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      scores.emplace_back(values.begin() + offsets[i], values.begin() + offsets[i + 1]);
    }
  }
  return scores;
}

}  // namespace babelring
