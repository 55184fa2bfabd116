#include "nmt/train/evaluation/teacher_forced.h"

#include <limits>

#include "nmt/data/batch.h"
#include "nmt/train/setup/memory_plan.h"

namespace babelring {
namespace {

constexpr std::int64_t batch_tokens = 2048;

void add_forced_batch(const Model& model, const ValidationSet& set, const PackedBatch& batch, std::size_t sentence,
                      const Bleu& bleu, Backend& backend, ActivationArenas& arenas, TeacherForcedScores& sums) {
  Context context = arenas.begin(model.compute_dtype());
  const DeviceBatch on_device(backend, context.saved, batch);
  const Tensor predicted = context.saved.make(on_device.target_out.shape, DType::i32);
  sums.losses += model.evaluate(context, on_device, predicted);
  std::vector<std::int32_t> ids(batch.target_out.size());
  backend.download(predicted, ids.data());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    sums.repeats += ids[i] == batch.target_in.ids[i] && ids[i] != batch.target_out[i] ? 1 : 0;
  }
  for (std::size_t i = 0; i + 1 < batch.target_in.offsets.size(); ++i, ++sentence) {
    const auto begin = ids.begin() + batch.target_in.offsets[i], end = ids.begin() + batch.target_in.offsets[i + 1];
    sums.bleu += bleu.count(set.vocabulary.decode({begin, end}), {set.references[sentence]});
  }
}

}  // namespace

double TeacherForcedScores::bleu_score(const Bleu& by) const {
  if (2 * static_cast<double>(repeats) > losses.tokens) return std::numeric_limits<double>::quiet_NaN();
  return by.score(bleu).score;
}

ArenaBytes evaluation_need(const Model& model, Backend& backend) {
  return dry_run_evaluation(model, backend, batch_tokens);
}

TeacherForcedScores teacher_forced(const Model& model, const ValidationSet& set, std::int64_t first, std::int64_t last,
                                   const Bleu& bleu, Backend& backend, ActivationArenas& arenas) {
  TeacherForcedScores sums;
  auto sentence = static_cast<std::size_t>(first);
  for (const PackedBatch& batch : sequential_batches(set.corpus, first, last, batch_tokens)) {
    add_forced_batch(model, set, batch, sentence, bleu, backend, arenas, sums);
    sentence += static_cast<std::size_t>(batch.target_in.sentences());
  }
  return sums;
}

}  // namespace babelring
