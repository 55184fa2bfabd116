#include "nmt/ops/cross_entropy.h"

#include "nmt/ops/check.h"

namespace babelring {

void CrossEntropy::check() const {
  const OpCheck check(name);
  const Field input{"logits", logits};
  check.rank(input, 2);
  check.floating(input);
  check.at_least("vocabulary of logits", logits.shape[1], 1);
  check.shape({"targets", targets}, {logits.shape[0]}, input);
  check.type({"targets", targets}, DType::i32);
  check.range("smoothing", smoothing, 0, 1);
  check.finite("gradient_scale", gradient_scale);
  if (dlogits) {
    check.shape({"dlogits", dlogits}, logits.shape, input);
    check.same_type({"dlogits", dlogits}, input);
    check.same_or_distinct({"dlogits", dlogits}, {input});
  }
  const Field results[] = {{"loss", loss}, {"nll", nll}, {"correct", correct}};
  for (const Field& field : results) {
    check.shape(field, {logits.shape[0]}, input);
    check.type(field, DType::f32);
    check.distinct(field, {input, {"dlogits", dlogits}, {"targets", targets}});
  }
  check.distinct(results[0], {results[1], results[2]});
  check.distinct(results[1], {results[2]});
  if (!predicted) return;
  const Field places{"predicted", predicted};
  check.shape(places, {logits.shape[0]}, input);
  check.type(places, DType::i32);
  check.distinct(places, {input, {"dlogits", dlogits}, {"targets", targets}, results[0], results[1], results[2]});
}

void SymmetricDivergence::check() const {
  const OpCheck check(name);
  const Field input{"first", first};
  check.rank(input, 2);
  check.floating(input);
  check.at_least("vocabulary of first", first.shape[1], 1);
  check.finite("gradient_scale", gradient_scale);
  const Field others[] = {{"second", second}, {"dfirst", dfirst}, {"dsecond", dsecond}};
  for (const Field& field : others) {
    check.shape(field, first.shape, input);
    check.same_type(field, input);
  }
  check.distinct(others[1], {input, others[0], others[2]});
  check.distinct(others[2], {input, others[0]});
  check.shape({"targets", targets}, {first.shape[0]}, input);
  check.type({"targets", targets}, DType::i32);
  const Field result{"loss", loss};
  check.shape(result, {first.shape[0]}, input);
  check.type(result, DType::f32);
  check.distinct(result, {input, others[0], others[1], others[2], {"targets", targets}});
}

void LogSoftmaxTopK::check() const {
  const OpCheck check(name);
  const Field input{"logits", logits};
  check.rank(input, 2);
  check.floating(input);
  check.contiguous({input, {"scores", scores}, {"indices", indices}});
  check.rank({"scores", scores}, 2);
  check.shape({"scores", scores}, {logits.shape[0], scores.shape[1]}, input);
  check.range("k", static_cast<double>(scores.shape[1]), 1, static_cast<double>(logits.shape[1]));
  check.type({"scores", scores}, DType::f32);
  check.shape({"indices", indices}, scores.shape, {"scores", scores});
  check.type({"indices", indices}, DType::i32);
  check.distinct({"scores", scores}, {input, {"indices", indices}});
  check.distinct({"indices", indices}, {input});
  if (!all) return;
  const Field every{"all", all};
  check.contiguous({every});
  check.shape(every, logits.shape, input);
  check.type(every, DType::f32);
  check.distinct(every, {input, {"scores", scores}, {"indices", indices}});
}

}  // namespace babelring
