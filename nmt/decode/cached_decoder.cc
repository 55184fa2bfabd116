#include "nmt/decode/cached_decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/failure.h"
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

/// The elements of a contiguous tensor, f32 or bf16.
std::vector<float> fetch_floats(Backend& backend, ConstTensor from) {
  std::vector<float> values(static_cast<std::size_t>(from.shape.elements()));
  if (from.dtype == DType::f32) {
    backend.download(from, values.data());
    return values;
  }
  std::vector<BFloat16> stored(values.size());
  backend.download(from, stored.data());
  std::ranges::transform(stored, values.begin(), [](BFloat16 value) { return static_cast<float>(value); });
  return values;
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
                          std::int64_t max_length, IdLists lists) {
  choose_output(lists);
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
  steps_.clear();
  keys_.clear();
  queries_ = attention_choice_ ? batch_.make(Shape{max_rows, capacity_ * model_.config().width}, pass.dtype) : Tensor();
}

/// Copies the rows of the output layer that the lists name.
void CachedDecoder::choose_output(IdLists lists) {
  output_.reset();
  lists_.assign(lists.begin(), lists.end());
  columns_.assign(lists.size(), {});
  if (lists.empty()) return;
  std::vector<std::int32_t> column(static_cast<std::size_t>(model_.vocabulary()), -1), ids;
  for (const std::vector<std::int32_t>& list : lists_) {
    for (const std::int32_t id : list) column[static_cast<std::size_t>(id)] = 0;
  }
  for (std::size_t id = 0; id < column.size(); ++id) {
    if (column[id] < 0) continue;
    column[id] = static_cast<std::int32_t>(ids.size());
    ids.push_back(static_cast<std::int32_t>(id));
  }
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    for (const std::int32_t id : lists_[i]) columns_[i].push_back(column[static_cast<std::size_t>(id)]);
  }
  output_ = model_.output_rows(backend_, ids);
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
    const bool keeps =
        queries_ && attention_choice_->layer_of(model_.config().decoder_layers) == std::ssize(inputs) - 1;
    if (!keeps) continue;
    const std::int64_t width = model_.config().width;
    inputs.back().queries = queries_.row_slice(0, std::ssize(rows)).column_slice(position_ * width, width);
  }
  return inputs;
}

void CachedDecoder::step(std::span<const Row> rows, int count, bool all) {
  Context pass = context();
  std::vector<std::int32_t> tokens;
  for (const Row& row : rows) tokens.push_back(row.token);
  const std::vector<std::int32_t> positions(rows.size(), static_cast<std::int32_t>(position_));
  const Sequences sequences{.ids = upload_ids(backend_, saved_, tokens),
                            .positions = upload_ids(backend_, saved_, positions)};
  follow_parents(rows);
  fetch_best(model_.decode_step(pass, sequences, step_inputs(rows), output_ ? &*output_ : nullptr), rows, count, all);
  if (queries_) steps_.emplace_back(rows.begin(), rows.end());
  ++position_;
}

namespace {

template <class T>
void copy_columns(ConstTensor from, std::int64_t row, std::span<const std::int32_t> columns, Tensor to) {
  const T* x = from.as<T>() + row * from.columns();
  T* y = to.as<T>() + row * to.columns();
  for (std::size_t i = 0; i < columns.size(); ++i) y[i] = x[columns[i]];
  std::fill(y + columns.size(), y + to.columns(), T(-std::numeric_limits<float>::infinity()));
}

}  // namespace

/// The logits of each row's list side by side, so that its sums are the same whatever the others name. Shorter lists
/// are followed by minus infinities, which change no sum.
Tensor CachedDecoder::listed(ConstTensor logits, std::span<const Row> rows) {
  std::size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, columns_[static_cast<std::size_t>(row.sentence)].size());
  const Tensor listed = scratch_.make(Shape{logits.rows(), static_cast<std::int64_t>(longest)}, logits.dtype);
  for (std::int64_t i = 0; i < logits.rows(); ++i) {
    const auto& columns = columns_[static_cast<std::size_t>(rows[static_cast<std::size_t>(i)].sentence)];
    logits.dtype == DType::f32 ? copy_columns<float>(logits, i, columns, listed)
                               : copy_columns<BFloat16>(logits, i, columns, listed);
  }
  return listed;
}

void CachedDecoder::fetch_best(ConstTensor logits, std::span<const Row> rows, int count, bool all) {
  if (output_) logits = listed(logits, rows);
  const std::int64_t best = std::min<std::int64_t>(count, logits.columns());
  const Shape shape{logits.rows(), best};
  const Tensor scores = scratch_.make(shape, DType::f32);
  const Tensor ids = scratch_.make(shape, DType::i32);
  const Tensor every = all ? scratch_.make(logits.shape, DType::f32) : Tensor();
  backend_.run(LogSoftmaxTopK{.logits = logits, .scores = scores, .indices = ids, .all = every});
  next_count_ = static_cast<std::size_t>(best);
  next_scores_.resize(static_cast<std::size_t>(shape.elements()));
  next_ids_.resize(next_scores_.size());
  backend_.download(scores, next_scores_.data());
  backend_.download(ids, next_ids_.data());
  if (all) {
    all_scores_.resize(static_cast<std::size_t>(every.shape.elements()));
    backend_.download(every, all_scores_.data());
  } else {
    all_scores_.clear();
  }
  if (output_) name_listed(rows);
}

/// Turns places in the rows' lists into ids of the vocabulary.
void CachedDecoder::name_listed(std::span<const Row> rows) {
  const auto list_of = [&](std::size_t row) -> const auto& {
    return lists_[static_cast<std::size_t>(rows[row].sentence)];
  };
  for (std::size_t i = 0; i < next_ids_.size(); ++i) {
    const auto place = static_cast<std::size_t>(next_ids_[i]);
    const auto& list = list_of(i / next_count_);
    next_ids_[i] = place < list.size() ? list[place] : unk_id;  // whose score is minus infinity here
  }
  if (all_scores_.empty()) return;
  const std::size_t width = all_scores_.size() / rows.size(),
                    vocabulary = static_cast<std::size_t>(model_.vocabulary());
  const std::vector<float> by_place = std::exchange(all_scores_, {});
  all_scores_.assign(rows.size() * vocabulary, -std::numeric_limits<float>::infinity());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto& list = list_of(row);
    for (std::size_t i = 0; i < list.size(); ++i) {
      all_scores_[row * vocabulary + static_cast<std::size_t>(list[i])] = by_place[row * width + i];
    }
  }
}

NextTokens CachedDecoder::next(std::int32_t row) const {
  const std::size_t first = static_cast<std::size_t>(row) * next_count_;
  return {.log_probabilities = std::span(next_scores_).subspan(first, next_count_),
          .ids = std::span(next_ids_).subspan(first, next_count_)};
}

std::span<float> CachedDecoder::log_probabilities(std::int32_t row) {
  const auto vocabulary = static_cast<std::size_t>(model_.vocabulary());
  return std::span(all_scores_).subspan(static_cast<std::size_t>(row) * vocabulary, vocabulary);
}

/// The rows of the steps that predicted the pieces of a translation.
std::vector<std::int32_t> CachedDecoder::rows_of(std::size_t sentence, std::span<const std::int32_t> ids) const {
  std::vector<std::int32_t> path;
  for (std::size_t i = 0; i < ids.size() && i < steps_.size(); ++i) {
    const auto predicts = [&](const Row& row) {
      return static_cast<std::size_t>(row.sentence) == sentence &&
             (i == 0 || (row.token == ids[i - 1] && row.parent == path.back()));
    };
    const auto row = std::ranges::find_if(steps_[i], predicts);
    if (row == steps_[i].end()) break;
    path.push_back(static_cast<std::int32_t>(row - steps_[i].begin()));
  }
  if (path.size() < ids.size()) fail("attention: found no step that predicts piece {} of a translation", path.size());
  return path;
}

Attention CachedDecoder::attention(std::size_t sentence, std::span<const std::int32_t> ids) {
  if (!queries_) fail("attention: it was not kept");
  const ModelConfig& model = model_.config();
  const auto layer = static_cast<std::size_t>(attention_choice_->layer_of(model.decoder_layers));
  if (keys_.empty()) keys_ = fetch_floats(backend_, encoder_keys_values_[layer]);
  const std::int64_t first = source_offsets_[sentence], tokens = source_offsets_[sentence + 1] - first;
  const auto begin = static_cast<std::size_t>(first * 2 * model.width);
  const AttentionKeys keys{.keys = std::span(keys_).subspan(begin, static_cast<std::size_t>(tokens * 2 * model.width)),
                           .stride = 2 * model.width};
  Attention::Part part{.source_pieces = tokens - 1, .weights = {}};
  std::int64_t position = 0;
  for (const std::int32_t row : rows_of(sentence, ids)) {
    const ConstTensor query = queries_.row_slice(row, 1).column_slice(position++ * model.width, model.width);
    const std::vector<float> weights =
        attention_weights(fetch_floats(backend_, query), keys, model.heads, attention_choice_->head);
    part.weights.insert(part.weights.end(), weights.begin(), weights.end());
  }
  return {.parts = {std::move(part)}};
}

EnsembleDecoder::EnsembleDecoder(std::span<const EnsembleMember> members, Combination combination, Backend& backend,
                                 PackedWeights::Originals originals)
    : combination_(combination) {
  if (members.empty()) fail("ensemble: found no model, expected at least one");
  for (const EnsembleMember& member : members) {
    const std::int64_t found = member.model->vocabulary(), expected = members.front().model->vocabulary();
    if (found != expected) fail("ensemble: found models of {} and {} pieces, expected one vocabulary", expected, found);
    members_.emplace_back(*member.model, backend, originals);
    weights_.push_back(member.weight);
    total_weight_ += member.weight;
  }
}

void EnsembleDecoder::start(std::span<const std::span<const std::int32_t>> sources, std::int64_t max_rows,
                            std::int64_t max_length, IdLists lists) {
  for (CachedDecoder& member : members_) member.start(sources, max_rows, max_length, lists);
}

void EnsembleDecoder::step(std::span<const CachedDecoder::Row> rows, int count) {
  if (members_.size() == 1) return members_.front().step(rows, count);
  // Twice as many of each member nearly always hold the best of the ensemble.
  for (CachedDecoder& member : members_) member.step(rows, 2 * count, true);
  best_.resize(rows.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto place = static_cast<std::int32_t>(row);
    Best& best = best_[row];
    if (!find_best(place, count, best)) best_tokens(log_probabilities(place), count, best.log_probabilities, best.ids);
  }
}

NextTokens EnsembleDecoder::next(std::int32_t row) const {
  if (members_.size() == 1) return members_.front().next(row);
  const Best& best = best_[static_cast<std::size_t>(row)];
  return {.log_probabilities = best.log_probabilities, .ids = best.ids};
}

void EnsembleDecoder::step_all(std::span<const CachedDecoder::Row> rows) {
  for (CachedDecoder& member : members_) member.step(rows, 1, true);
}

std::span<float> EnsembleDecoder::log_probabilities(std::int32_t row) {
  if (members_.size() == 1) return members_.front().log_probabilities(row);
  whole_.resize(members_.front().log_probabilities(row).size());
  for (std::size_t id = 0; id < whole_.size(); ++id) whole_[id] = combined(row, id);
  return whole_;
}

std::size_t EnsembleDecoder::packed_bytes() const {
  std::size_t bytes = 0;
  for (const CachedDecoder& member : members_) bytes += member.packed_bytes();
  return bytes;
}

float EnsembleDecoder::combined(std::int32_t row, std::size_t id) {
  each_.clear();
  for (CachedDecoder& member : members_) each_.push_back(static_cast<double>(member.log_probabilities(row)[id]));
  return combine();
}

/// Combines each_. Its sums are those of the weights if all are equal, so that equal members change no bit.
float EnsembleDecoder::combine() const {
  double sum = 0;
  const double largest = *std::ranges::max_element(each_);
  const bool logarithms = combination_ == Combination::logarithms;
  if (largest == -std::numeric_limits<double>::infinity()) return static_cast<float>(largest);
  for (std::size_t i = 0; i < each_.size(); ++i) {
    sum += weights_[i] * (logarithms ? each_[i] - largest : std::exp(each_[i] - largest));
  }
  return static_cast<float>(largest + (logarithms ? sum / total_weight_ : std::log(sum / total_weight_)));
}

/// Finds the best of a row among the best of its members. Returns false if another token may be better: by no more than
/// the combination of the last in each list. Source: the threshold algorithm, Fagin et al. 2001.
bool EnsembleDecoder::find_best(std::int32_t row, int count, Best& best) {
  candidates_.clear();
  for (const CachedDecoder& member : members_) {
    for (const std::int32_t id : member.next(row).ids) candidates_.push_back({0, id});
  }
  const auto by_id = [](const Candidate& a, const Candidate& b) { return a.id < b.id; };
  const auto same_id = [](const Candidate& a, const Candidate& b) { return a.id == b.id; };
  std::ranges::sort(candidates_, by_id);
  candidates_.erase(std::ranges::unique(candidates_, same_id).begin(), candidates_.end());
  for (Candidate& candidate : candidates_) {
    candidate.log_probability = combined(row, static_cast<std::size_t>(candidate.id));
  }
  std::ranges::stable_sort(candidates_, std::ranges::greater(), &Candidate::log_probability);
  each_.clear();
  for (const CachedDecoder& member : members_)
    each_.push_back(static_cast<double>(member.next(row).log_probabilities.back()));
  const std::size_t wanted = std::min(static_cast<std::size_t>(count), candidates_.size());
  const bool complete = candidates_.size() == members_.front().log_probabilities(row).size();
  if (!complete && !(candidates_[wanted - 1].log_probability > combine())) return false;
  best = {};
  for (std::size_t i = 0; i < wanted; ++i) {
    best.log_probabilities.push_back(candidates_[i].log_probability);
    best.ids.push_back(candidates_[i].id);
  }
  return true;
}

void best_tokens(std::span<const float> log_probabilities, int count, std::vector<float>& best,
                 std::vector<std::int32_t>& ids) {
  best.clear();
  ids.clear();
  float least = -std::numeric_limits<float>::infinity();
  for (std::size_t id = 0; id < log_probabilities.size(); ++id) {
    const float value = log_probabilities[id];
    if (!(value > least)) continue;
    const auto place = std::ranges::find_if(best, [&](float other) { return value > other; }) - best.begin();
    best.insert(best.begin() + place, value);
    ids.insert(ids.begin() + place, static_cast<std::int32_t>(id));
    if (std::ssize(best) > count) best.pop_back(), ids.pop_back();
    if (std::ssize(best) == count) least = best.back();
  }
}

}  // namespace babelring
