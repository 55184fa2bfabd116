#include "nmt/decode/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/failure.h"
#include "nmt/layers/context.h"
#include "nmt/ops/elementwise.h"

namespace babelring {
namespace {

constexpr std::int64_t max_rows = 64, max_cache_bytes = std::int64_t{1} << 30;

using Sequence = std::vector<std::int32_t>;

std::int64_t cache_elements(const LanguageModel& model, std::int64_t length) {
  return length * 2 * model.config().width;
}

/// Sequences that are drawn together, so that their caches take at most 1 GiB.
std::int64_t rows_at_once(const LanguageModel& model, std::int64_t length) {
  const auto bytes = cache_elements(model, length) * model.config().decoder_layers *
                     static_cast<std::int64_t>(size_of(model.compute_dtype()));
  return std::clamp<std::int64_t>(max_cache_bytes / bytes, 1, max_rows);
}

/// Extends sequences of one length by a token at a time.
class StepDecoder {
 public:
  StepDecoder(const LanguageModel& model, Backend& backend, std::int64_t rows, std::int64_t length)
      : model_(model), backend_(backend), packed_(backend), rows_(rows), length_(length) {
    for (int layer = 0; layer < model.config().decoder_layers; ++layer) {
      caches_.push_back(kept_.make(Shape{rows, cache_elements(model, length)}, model.compute_dtype()));
    }
  }

  /// Logits [rows, vocabulary] of the tokens that follow `tokens`, those at
  /// position_.
  std::vector<float> step(const std::vector<std::int32_t>& tokens) {
    saved_.reset();
    scratch_.reset();
    Context pass{.backend = backend_,
                 .saved = saved_,
                 .scratch = scratch_,
                 .dtype = model_.compute_dtype(),
                 .packed_weights = &packed_};
    std::vector<std::int32_t> cached;
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t j = 0; j <= position_; ++j) cached.push_back(static_cast<std::int32_t>(row * length_ + j));
    }
    const std::vector<std::int32_t> positions(tokens.size(), static_cast<std::int32_t>(position_));
    const std::vector<std::int32_t> counts(tokens.size(), static_cast<std::int32_t>(position_ + 1));
    std::vector<SelfAttention::StepInput> inputs;
    for (const Tensor& cache : caches_) {
      inputs.push_back({.cache = cache,
                        .position = position_,
                        .rows = ConstTensor(cached.data(), Shape{rows_, position_ + 1}, DType::i32),
                        .count = ConstTensor(counts.data(), Shape{rows_}, DType::i32)});
    }
    const Sequences newest{.ids = upload_ids(backend_, saved_, tokens),
                           .positions = upload_ids(backend_, saved_, positions)};
    const Tensor logits = model_.step(pass, newest, inputs);
    const Tensor plain = scratch_.make(logits.shape, DType::f32);
    backend_.run(Cast{.x = logits, .y = plain});
    std::vector<float> values(static_cast<std::size_t>(rows_ * model_.vocabulary()));
    backend_.download(plain, values.data());
    ++position_;
    return values;
  }

 private:
  Arena arena() {
    return Arena([this](std::size_t bytes) { return backend_.allocate(bytes, MemoryPurpose::decoding); },
                 backend_.pads_rows());
  }

  const LanguageModel& model_;
  Backend& backend_;
  PackedWeights packed_;
  std::int64_t rows_, length_, position_ = 0;
  Arena kept_ = arena(), saved_ = arena(), scratch_ = arena();
  std::vector<Tensor> caches_;  // per layer, [rows, length * 2 width]
};

/// Draws sequences [first, first + rows).
std::vector<Sequence> draw_rows(const LanguageModel& model, Backend& backend, std::int64_t first, std::int64_t rows,
                                const SampleOptions& options) {
  std::vector<Sequence> sequences(static_cast<std::size_t>(rows), options.prompt);
  std::vector<Random> randoms;
  for (std::int64_t row = 0; row < rows; ++row) {
    randoms.emplace_back(derive_seed(options.seed, static_cast<std::uint64_t>(first + row)));
  }
  StepDecoder decoder(model, backend, rows, options.length);
  const auto vocabulary = static_cast<std::size_t>(model.vocabulary());
  for (std::size_t position = 0; position + 1 < static_cast<std::size_t>(options.length); ++position) {
    std::vector<std::int32_t> tokens;
    for (const Sequence& sequence : sequences) tokens.push_back(sequence[position]);
    const std::vector<float> logits = decoder.step(tokens);
    if (position + 1 < options.prompt.size()) continue;
    for (std::size_t row = 0; row < sequences.size(); ++row) {
      sequences[row].push_back(
          draw_token(std::span(logits).subspan(row * vocabulary, vocabulary), options, randoms[row]));
    }
  }
  return sequences;
}

}  // namespace

void SampleOptions::check(std::int64_t vocabulary) const {
  if (prompt.empty()) throw UsageFailure("sample: the prompt is empty, expected at least one token");
  for (const std::int32_t token : prompt) {
    if (token >= 0 && token < vocabulary) continue;
    throw UsageFailure(fmt::format("sample: token {} of the prompt, expected 0 to {}", token, vocabulary - 1));
  }
  if (length <= std::ssize(prompt)) {
    throw UsageFailure(
        fmt::format("sample: a length of {} tokens, expected "
                    "more than those of the prompt, {}",
                    length, prompt.size()));
  }
}

std::int32_t draw_token(std::span<const float> logits, const SampleOptions& options, Random& random) {
  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto larger = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  const double uniform = random.uniform();
  if (options.temperature == 0) return *std::ranges::min_element(tokens, larger);
  if (options.top_k > 0 && options.top_k < std::ssize(tokens)) {
    std::ranges::nth_element(tokens, tokens.begin() + options.top_k - 1, larger);
    tokens.resize(static_cast<std::size_t>(options.top_k));
    std::ranges::sort(tokens);  // the draw must not depend on the order that
                                // nth_element leaves
  }
  const double max = *std::ranges::max_element(logits);
  std::vector<double> sums;
  double sum = 0;
  for (const std::int32_t token : tokens) {
    sum += std::exp((logits[static_cast<std::size_t>(token)] - max) / options.temperature);
    sums.push_back(sum);
  }
  const auto chosen = std::ranges::upper_bound(sums, uniform * sum) - sums.begin();
  return tokens[static_cast<std::size_t>(std::min<std::ptrdiff_t>(chosen, std::ssize(tokens) - 1))];
}

std::vector<Sequence> sample_sequences(const LanguageModel& model, Backend& backend, std::int64_t count,
                                       const SampleOptions& options) {
  options.check(model.vocabulary());
  const std::int64_t at_once = rows_at_once(model, options.length);
  std::vector<Sequence> all;
  for (std::int64_t first = 0; first < count; first += at_once) {
    for (Sequence& sequence : draw_rows(model, backend, first, std::min(at_once, count - first), options)) {
      all.push_back(std::move(sequence));
    }
  }
  return all;
}

}  // namespace babelring
