#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "nmt/decode/aligner.h"
#include "nmt/decode/sentence_beam.h"
#include "nmt/model/transformer.h"

namespace babelring {

/// The ids that the translation of each source of a batch may have, ascending and at least one; without lists: any.
using IdLists = std::span<const std::vector<std::int32_t>>;

/// The model part of a search. Encodes a batch of sentences once, then extends hypotheses by one token per step,
/// caching the keys and values of all earlier positions. Cached values are never copied: a hypothesis only records
/// which cache rows hold its prefix. Memory and packed weights are kept between batches, so the model must not change
/// during the decoder's lifetime. Not thread-safe.
class CachedDecoder {
 public:
  /// `model` and `backend` must outlive the decoder.
  CachedDecoder(const Transformer& model, Backend& backend,
                PackedWeights::Originals originals = PackedWeights::Originals::kept);

  /// Starts a batch. Encodes the sources (subword ids without </s>) and reserves caches for `max_rows` hypotheses of at
  /// most `max_length` tokens each. With `lists`, which a processor's backend takes, the next tokens of a source are
  /// those of its list, and probabilities are relative to these: bit-equal for any other sources. Only rows of the
  /// output layer that a list of the batch names are read.
  void start(std::span<const std::span<const std::int32_t>> sources, std::int64_t max_rows, std::int64_t max_length,
             IdLists lists = {});

  /// One hypothesis in a step.
  struct Row {
    std::int32_t token = 0;     // its last token
    std::int32_t sentence = 0;  // index of its source in `sources`
    std::int32_t parent = 0;    // its row in the previous step; unused in the first step
  };
  /// Appends one token to each row and computes the `count` most probable next tokens (the whole vocabulary if
  /// smaller), and with `all` the log-probabilities of all tokens. That of a token which is not on the list of the
  /// row's source is minus infinity; such tokens come last if a list is shorter than `count`.
  void step(std::span<const Row> rows, int count, bool all = false);
  /// The next tokens of a row of the last step. Valid until the next step.
  NextTokens next(std::int32_t row) const;
  /// The log-probability of each token of the vocabulary, for a row of the last step, if that computed all.
  /// Callers may change them. Valid until the next step.
  std::span<float> log_probabilities(std::int32_t row);

  /// From the next start() on, keeps what attention() needs: the chosen layer's queries of all steps.
  void keep_attention(const std::optional<AttentionChoice>& choice) { attention_choice_ = choice; }
  /// The attention of a translation of a source of this batch (ids without </s>), whose rows the steps so far must have
  /// had. Throws Failure if they did not, or nothing was kept.
  Attention attention(std::size_t sentence, std::span<const std::int32_t> ids);

  /// See Context::matmul_input.
  using MatmulInput = std::function<void(const Parameter& weight, ConstTensor x)>;
  void observe_inputs(MatmulInput observer) { matmul_input_ = std::move(observer); }

  /// Bytes of the packed weights.
  std::size_t packed_bytes() const { return packed_.bytes(); }

 private:
  Context context();
  void follow_parents(std::span<const Row> rows);
  std::vector<DecoderLayer::StepInput> step_inputs(std::span<const Row> rows);
  void choose_output(IdLists lists);
  Tensor listed(ConstTensor logits, std::span<const Row> rows);
  void fetch_best(ConstTensor logits, std::span<const Row> rows, int count, bool all);
  void name_listed(std::span<const Row> rows);
  std::vector<std::int32_t> rows_of(std::size_t sentence, std::span<const std::int32_t> ids) const;

  const Transformer& model_;
  Backend& backend_;
  PackedWeights packed_;
  Arena batch_, saved_, scratch_;  // batch_ is reset by start() only
  MatmulInput matmul_input_;
  std::vector<std::int32_t> source_offsets_;
  std::vector<Tensor> encoder_keys_values_;  // per layer: projected encoder output, [source tokens, 2 width]
  std::vector<Tensor> caches_;               // per layer: cached keys and values, [max rows, capacity * 2 width]
  // Cache rows of the prefix of each row of the last step, [rows, position_].
  std::vector<std::int32_t> self_rows_;
  // For each row of attention: number of own tokens, first source token, number of source tokens.
  std::vector<std::int32_t> self_count_, memory_begin_, memory_count_;
  std::int64_t capacity_ = 0, position_ = 0;
  std::vector<float> next_scores_;  // [rows, next_count_]
  std::vector<std::int32_t> next_ids_;
  std::size_t next_count_ = 0;
  std::vector<float> all_scores_;                           // [rows, vocabulary], if all were computed
  std::vector<std::vector<std::int32_t>> lists_, columns_;  // of each source: its ids, and their columns in the logits
  std::optional<OutputRows> output_;                        // if there are lists: of all ids that one of them has
  std::optional<AttentionChoice> attention_choice_;
  Tensor queries_;                       // [max rows, capacity * width] of the chosen layer
  std::vector<float> keys_;              // its part of encoder_keys_values_, once attention() needs it
  std::vector<std::vector<Row>> steps_;  // the rows of each step, if attention is kept
};

/// Combines the next-token distributions of an ensemble. Both are bit-equal to the distribution of one member if all
/// are equal.
enum class Combination {
  probabilities,  // logarithm of the weighted mean of the probabilities
  logarithms,     // weighted mean of the logarithms, not normalised, as in Marian
};

/// One model of an ensemble.
struct EnsembleMember {
  const Transformer* model = nullptr;
  double weight = 1;  // above 0; relative to the others'
};

/// Steps several models through the same hypotheses and combines their distributions. A single model costs no more than
/// its CachedDecoder. Not thread-safe.
class EnsembleDecoder {
 public:
  /// The models and `backend` must outlive the decoder. Throws Failure unless there is a model and all have
  /// vocabularies of one size.
  EnsembleDecoder(std::span<const EnsembleMember> members, Combination combination, Backend& backend,
                  PackedWeights::Originals originals = PackedWeights::Originals::kept);

  /// As of CachedDecoder.
  void start(std::span<const std::span<const std::int32_t>> sources, std::int64_t max_rows, std::int64_t max_length,
             IdLists lists = {});
  void step(std::span<const CachedDecoder::Row> rows, int count);
  NextTokens next(std::int32_t row) const;

  /// Like step(), but computes the log-probabilities of all tokens instead of the best ones.
  void step_all(std::span<const CachedDecoder::Row> rows);
  /// The log-probability of each token of the vocabulary, for a row of the last step, which was a step_all(). Callers
  /// may change them. Valid until the next call or step.
  std::span<float> log_probabilities(std::int32_t row);

  /// As of CachedDecoder, by the first model.
  void keep_attention(const std::optional<AttentionChoice>& choice) { members_.front().keep_attention(choice); }
  Attention attention(std::size_t sentence, std::span<const std::int32_t> ids) {
    return members_.front().attention(sentence, ids);
  }

  void observe_inputs(CachedDecoder::MatmulInput observer) { members_.front().observe_inputs(std::move(observer)); }
  /// Bytes of the packed weights of all models.
  std::size_t packed_bytes() const;

 private:
  struct Candidate {
    float log_probability = 0;
    std::int32_t id = 0;
  };
  struct Best {  // tokens of a row
    std::vector<float> log_probabilities;
    std::vector<std::int32_t> ids;
  };
  float combined(std::int32_t row, std::size_t id);
  float combine() const;
  bool find_best(std::int32_t row, int count, Best& best);

  std::deque<CachedDecoder> members_;
  std::vector<double> weights_;
  double total_weight_ = 0;
  Combination combination_;
  std::vector<double> each_;  // a token's log-probability by each member
  std::vector<Candidate> candidates_;
  std::vector<Best> best_;    // by row, if there are several members
  std::vector<float> whole_;  // a row of log_probabilities()
};

/// The `count` most probable tokens of a row of log-probabilities (all if there are fewer), most probable first, the
/// smaller id first on ties. Tokens of probability 0 are left out.
void best_tokens(std::span<const float> log_probabilities, int count, std::vector<float>& best,
                 std::vector<std::int32_t>& ids);

}  // namespace babelring
