#include "nmt/decode/beam_search.h"

#include <algorithm>

#include "nmt/data/vocabulary.h"
#include "nmt/ops/cross_entropy.h"

namespace babelring {
namespace {

/// Small blocks, because few sentences need little; start() makes one of those that a batch needed.
Arena arena_on(Backend& backend) {
  constexpr std::size_t block_bytes = std::size_t{2} << 20;
  return Arena([&backend](std::size_t bytes) { return backend.allocate(bytes, MemoryPurpose::decoding); },
               backend.pads_rows(), block_bytes);
}

PackedSequences pack_sources(std::span<const std::span<const std::int32_t>> sources) {
  PackedSequences packed;
  for (const auto& source : sources) {
    packed.ids.insert(packed.ids.end(), source.begin(), source.end());
    packed.ids.push_back(eos_id);
    packed.offsets.push_back(static_cast<std::int32_t>(packed.ids.size()));
  }
  return packed;
}

}  // namespace

CachedDecoder::CachedDecoder(const Transformer& model, Backend& backend, PackedWeights::Originals originals)
    : model_(model),
      backend_(backend),
      packed_(backend, originals),
      batch_(arena_on(backend)),
      saved_(arena_on(backend)),
      scratch_(arena_on(backend)) {}

Context CachedDecoder::context() {
  saved_.reset();
  scratch_.reset();
  return {.backend = backend_,
          .saved = saved_,
          .scratch = scratch_,
          .dtype = model_.compute_dtype(),
          .packed_weights = &packed_,
          .matmul_input = matmul_input_};
}

void CachedDecoder::start(std::span<const std::span<const std::int32_t>> sources, std::int64_t max_rows,
                          std::int64_t max_length) {
  for (Arena* arena : {&batch_, &saved_, &scratch_}) arena->reset_to_one_block();
  encoder_keys_values_.clear();
  caches_.clear();
  position_ = 0;
  capacity_ = max_length;
  const PackedSequences packed = pack_sources(sources);
  source_offsets_ = packed.offsets;
  Context pass = context();
  const Tensor memory = model_.encode(pass, upload_sequences(backend_, saved_, packed, 0));
  for (const DecoderLayer& layer : model_.decoder()) {
    encoder_keys_values_.push_back(layer.project_memory(pass, batch_, memory));
    caches_.push_back(batch_.make(Shape{max_rows, capacity_ * 2 * model_.config().width}, pass.dtype));
  }
  self_rows_.clear();
}

/// Extends each row's prefix: the cache rows of its parent, then the row of the new token.
void CachedDecoder::follow_parents(std::span<const Row> rows) {
  std::vector<std::int32_t> followed;
  followed.reserve(rows.size() * static_cast<std::size_t>(position_ + 1));
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto past = self_rows_.begin() + rows[row].parent * position_;
    if (position_ > 0) followed.insert(followed.end(), past, past + position_);
    followed.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(row) * capacity_ + position_));
  }
  self_rows_ = std::move(followed);
}

std::vector<DecoderLayer::StepInput> CachedDecoder::step_inputs(std::span<const Row> rows) {
  memory_begin_.clear();
  memory_count_.clear();
  self_count_.assign(rows.size(), static_cast<std::int32_t>(position_ + 1));
  for (const Row& row : rows) {
    const auto sentence = static_cast<std::size_t>(row.sentence);
    memory_begin_.push_back(source_offsets_[sentence]);
    memory_count_.push_back(source_offsets_[sentence + 1] - source_offsets_[sentence]);
  }
  const Shape one_each{std::ssize(rows)}, listed{std::ssize(rows), position_ + 1};
  DecoderLayer::StepInput input{.self = {.position = position_,
                                         .rows = ConstTensor(self_rows_.data(), listed, DType::i32),
                                         .count = ConstTensor(self_count_.data(), one_each, DType::i32)},
                                .memory_begin = ConstTensor(memory_begin_.data(), one_each, DType::i32),
                                .memory_count = ConstTensor(memory_count_.data(), one_each, DType::i32)};
  std::vector<DecoderLayer::StepInput> inputs;
  for (std::size_t layer = 0; layer < caches_.size(); ++layer) {
    input.self.cache = caches_[layer];
    input.memory = encoder_keys_values_[layer];
    inputs.push_back(input);
  }
  return inputs;
}

void CachedDecoder::step(std::span<const Row> rows, int count) {
  Context pass = context();
  std::vector<std::int32_t> tokens;
  for (const Row& row : rows) tokens.push_back(row.token);
  const std::vector<std::int32_t> positions(rows.size(), static_cast<std::int32_t>(position_));
  const Sequences sequences{.ids = upload_ids(backend_, saved_, tokens),
                            .positions = upload_ids(backend_, saved_, positions)};
  follow_parents(rows);
  fetch_best(model_.decode_step(pass, sequences, step_inputs(rows)), count);
  ++position_;
}

void CachedDecoder::fetch_best(ConstTensor logits, int count) {
  const std::int64_t best = std::min<std::int64_t>(count, model_.vocabulary());
  const Shape shape{logits.rows(), best};
  const Tensor scores = scratch_.make(shape, DType::f32);
  const Tensor ids = scratch_.make(shape, DType::i32);
  backend_.run(LogSoftmaxTopK{.logits = logits, .scores = scores, .indices = ids});
  next_count_ = static_cast<std::size_t>(best);
  next_scores_.resize(static_cast<std::size_t>(shape.elements()));
  next_ids_.resize(next_scores_.size());
  backend_.download(scores, next_scores_.data());
  backend_.download(ids, next_ids_.data());
}

NextTokens CachedDecoder::next(std::int32_t row) const {
  const std::size_t first = static_cast<std::size_t>(row) * next_count_;
  return {.log_probabilities = std::span(next_scores_).subspan(first, next_count_),
          .ids = std::span(next_ids_).subspan(first, next_count_)};
}

namespace {

/// Calls use(beam, sentence index) for each unfinished sentence.
template <class Use>
void for_each_open(std::vector<SentenceBeam>& beams, Use use) {
  for (std::size_t sentence = 0; sentence < beams.size(); ++sentence) {
    if (!beams[sentence].done()) use(beams[sentence], sentence);
  }
}

}  // namespace

std::vector<std::vector<Hypothesis>> BeamSearch::search(std::span<const std::span<const std::int32_t>> sources,
                                                        const BeamOptions& options) {
  options.check();
  if (sources.empty()) return {};
  std::vector<SentenceBeam> beams;
  std::int64_t max_length = 0;
  for (const auto& source : sources) {
    beams.emplace_back(options, static_cast<std::int64_t>(source.size()));
    max_length = std::max(max_length, beams.back().max_length());
  }
  decoder_.start(sources, static_cast<std::int64_t>(sources.size()) * options.beam, max_length);
  const auto open = [](const SentenceBeam& beam) { return !beam.done(); };
  while (std::any_of(beams.begin(), beams.end(), open)) step(beams, options);
  std::vector<std::vector<Hypothesis>> found;
  for (const SentenceBeam& beam : beams) found.push_back(beam.n_best());
  return found;
}

void BeamSearch::step(std::vector<SentenceBeam>& beams, const BeamOptions& options) {
  std::vector<CachedDecoder::Row> rows;
  for_each_open(beams, [&](SentenceBeam& beam, std::size_t sentence) {
    for (SentenceBeam::Live& live : beam.live()) {
      rows.push_back({.token = live.ids.empty() ? bos_id : live.ids.back(),
                      .sentence = static_cast<std::int32_t>(sentence),
                      .parent = live.row});
      live.row = static_cast<std::int32_t>(rows.size()) - 1;
    }
  });
  decoder_.step(rows, SentenceBeam::next_tokens_needed(options));
  for_each_open(beams, [&](SentenceBeam& beam, std::size_t) {
    std::vector<NextTokens> next;
    for (const SentenceBeam::Live& live : beam.live()) next.push_back(decoder_.next(live.row));
    beam.advance(next);
  });
}

}  // namespace babelring
