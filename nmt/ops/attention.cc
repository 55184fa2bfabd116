#include "nmt/ops/attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "nmt/ops/check.h"

namespace babelring {

namespace {

void check_heads(const OpCheck& check, std::int64_t width, int heads) {
  check.at_least("heads", heads, 1);
  if (width % heads == 0) return;
  check.refuse(fmt::format("width {} is not a multiple of {} heads", width, heads));
}

/// Checks of the fields of both forward and backward: q, k, v, offsets, heads and scalars.
template <class Op>
void check_operands(const OpCheck& check, const Op& op) {
  const Field q{"q", op.q}, k{"k", op.k};
  check.rank(q, 2);
  check.floating(q);
  check.rank(k, 2);
  check.shape(k, {op.k.shape[0], op.q.shape[1]}, q);
  check.shape({"v", op.v}, op.k.shape, k);
  check.same_type(k, q);
  check.same_type({"v", op.v}, q);
  check.offsets({"q_offsets", op.q_offsets}, q);
  check.offsets({"k_offsets", op.k_offsets}, k);
  check.shape({"k_offsets", op.k_offsets}, op.q_offsets.shape, {"q_offsets", op.q_offsets});
  check_heads(check, op.q.shape[1], op.heads);
  check.finite("scale", op.scale);
  check.dropout(op.key);
  check.shape({"log_sum_exp", op.log_sum_exp}, {op.q.shape[0], op.heads}, q);
  check.type({"log_sum_exp", op.log_sum_exp}, DType::f32);
  check.contiguous({{"log_sum_exp", op.log_sum_exp}});
  if (!op.causal) return;
  for (std::int64_t i = 0; i < op.q_offsets.shape[0]; ++i) {
    const auto of_q = op.q_offsets.template as<std::int32_t>()[i], of_k = op.k_offsets.template as<std::int32_t>()[i];
    if (of_q == of_k) continue;
    check.refuse(fmt::format("causal needs equal offsets, q_offsets[{}] is {}, k_offsets[{}] is {}", i, of_q, i, of_k));
  }
}

/// Multiply-adds of one matmul of scores, over sentences and heads, times two; a causal sentence has n (n + 1) / 2.
double matmul_flops(const ConstTensor& q, const ConstTensor& q_offsets, const ConstTensor& k_offsets, bool causal) {
  const auto* of_q = q_offsets.as<std::int32_t>();
  const auto* of_k = k_offsets.as<std::int32_t>();
  double scores = 0;
  for (std::int64_t s = 0; s + 1 < q_offsets.shape[0]; ++s) {
    const double queries = of_q[s + 1] - of_q[s], keys = of_k[s + 1] - of_k[s];
    scores += causal ? queries * (queries + 1) / 2 : queries * keys;
  }
  return 2 * scores * static_cast<double>(q.shape[1]);
}

/// Each row's links are to keys of its sentence.
void check_links(const OpCheck& check, const GuidedAttention& op) {
  const auto *q_at = op.q_offsets.as<std::int32_t>(), *k_at = op.k_offsets.as<std::int32_t>();
  const auto *first = op.link_offsets.as<std::int32_t>(), *links = op.links.as<std::int32_t>();
  const std::int64_t rows = op.q.shape[0], given = op.links.shape[0];
  if (first[0] != 0) check.refuse("link_offsets must begin with 0");
  for (std::int64_t sentence = 0; sentence + 1 < op.q_offsets.shape[0]; ++sentence) {
    const std::int32_t keys = k_at[sentence + 1] - k_at[sentence];
    for (std::int64_t row = q_at[sentence]; row < q_at[sentence + 1]; ++row) {
      if (first[row + 1] < first[row] || first[row + 1] > given) {
        check.refuse(fmt::format("row {} has links {} to {}, links has {}", row, first[row], first[row + 1], given));
      }
      for (std::int64_t i = first[row]; i < first[row + 1]; ++i) {
        if (links[i] >= 0 && links[i] < keys) continue;
        check.refuse(fmt::format("row {} has a link to key {}, its sentence has {}", row, links[i], keys));
      }
    }
  }
  if (first[rows] > given) check.refuse(fmt::format("link_offsets ends at {}, links has {}", first[rows], given));
}

/// Every row's keys are in the cache.
void check_keys(const OpCheck& check, const DecodeAttention& op) {
  const auto *begin = op.key_begin.as<std::int32_t>(), *listed = op.key_rows.as<std::int32_t>();
  const auto* counts = op.key_count.as<std::int32_t>();
  const std::int64_t cached = op.keys.shape[0], most = op.key_rows.columns();
  for (std::int64_t row = 0; row < op.q.shape[0]; ++row) {
    const std::int64_t count = counts[row];
    if (op.key_rows) {
      if (count < 0 || count > most) {
        check.refuse(fmt::format("row {} has {} keys, key_rows lists {}", row, count, most));
      }
      const std::int32_t* rows = listed + row * most;
      const auto* wrong = std::find_if(rows, rows + count, [&](int key) { return key < 0 || key >= cached; });
      if (wrong == rows + count) continue;
      check.refuse(fmt::format("row {} has a key in row {}, the cache has {} rows", row, *wrong, cached));
    }
    if (begin[row] >= 0 && count >= 0 && begin[row] + count <= cached) continue;
    check.refuse(
        fmt::format("row {} has keys {} to {}, the cache has {} rows", row, begin[row], begin[row] + count, cached));
  }
}

}  // namespace

void AttentionForward::check() const {
  const OpCheck check(name);
  check_operands(check, *this);
  check.shape({"out", out}, q.shape, {"q", q});
  check.same_type({"out", out}, {"q", q});
  check.contiguous({{"out", out}});
  check.distinct({"out", out}, {{"q", q}, {"k", k}, {"v", v}});
  check.distinct({"log_sum_exp", log_sum_exp}, {{"q", q}, {"k", k}, {"v", v}, {"out", out}});
}

double AttentionForward::flops() const {
  return 2 * matmul_flops(q, q_offsets, k_offsets, causal);
}

void AttentionBackward::check() const {
  const OpCheck check(name);
  check_operands(check, *this);
  const Field of_q{"q", q}, of_k{"k", k}, of_v{"v", v};
  for (const Field& field : {Field{"dout", dout}, Field{"out", out}}) {
    check.shape(field, q.shape, of_q);
    check.same_type(field, of_q);
    check.contiguous({field});
  }
  const Field grad_q{"dq", dq}, grad_k{"dk", dk}, grad_v{"dv", dv};
  check.shape(grad_q, q.shape, of_q);
  check.shape(grad_k, k.shape, of_k);
  check.shape(grad_v, v.shape, of_v);
  for (const Field& field : {grad_q, grad_k, grad_v}) {
    check.same_type(field, of_q);
    check.distinct(field, {of_q, of_k, of_v, {"dout", dout}, {"out", out}, {"log_sum_exp", log_sum_exp}});
  }
  check.distinct(grad_q, {grad_k, grad_v});
  check.distinct(grad_k, {grad_v});
}

double AttentionBackward::flops() const {
  return 5 * matmul_flops(q, q_offsets, k_offsets, causal);
}

void DecodeAttention::check() const {
  const OpCheck check(name);
  const Field query{"q", q};
  check.rank(query, 2);
  check.floating(query);
  check.rank({"keys", keys}, 2);
  check.shape({"keys", keys}, {keys.shape[0], q.shape[1]}, query);
  check.shape({"values", values}, keys.shape, {"keys", keys});
  check.same_type({"keys", keys}, query);
  check.same_type({"values", values}, query);
  const bool listed = static_cast<bool>(key_rows);
  if (listed == static_cast<bool>(key_begin)) check.refuse("one of key_begin and key_rows is needed, not both");
  const Field place = listed ? Field{"key_rows", key_rows} : Field{"key_begin", key_begin};
  check.shape(place, listed ? Shape{q.shape[0], key_rows.columns()} : Shape{q.shape[0]}, query);
  check.shape({"key_count", key_count}, {q.shape[0]}, query);
  for (const Field& field : {place, Field{"key_count", key_count}}) check.type(field, DType::i32);
  check.contiguous({place});
  check_keys(check, *this);
  check_heads(check, q.shape[1], heads);
  check.finite("scale", scale);
  check.shape({"out", out}, q.shape, query);
  check.same_type({"out", out}, query);
  check.contiguous({{"out", out}});
  check.distinct({"out", out}, {query, {"keys", keys}, {"values", values}});
}

double DecodeAttention::bytes() const {
  std::int64_t keys_read = 0;
  for (std::int64_t row = 0; row < q.rows(); ++row) keys_read += key_count.as<std::int32_t>()[row];
  const double row_bytes = static_cast<double>(q.columns()) * static_cast<double>(size_of(q.dtype));
  return total_bytes({q, key_begin, key_rows, key_count, out}) + 2 * row_bytes * static_cast<double>(keys_read);
}

void GuidedAttention::check() const {
  const OpCheck check(name);
  const Field query{"q", q}, key{"k", k};
  check.rank(query, 2);
  check.floating(query);
  check.rank(key, 2);
  check.shape(key, {k.shape[0], q.shape[1]}, query);
  check.same_type(key, query);
  check.offsets({"q_offsets", q_offsets}, query);
  check.offsets({"k_offsets", k_offsets}, key);
  check.shape({"k_offsets", k_offsets}, q_offsets.shape, {"q_offsets", q_offsets});
  check_heads(check, q.shape[1], heads);
  check.range("head", head, 0, heads - 1);
  check.finite("scale", scale);
  check.finite("gradient_scale", gradient_scale);
  const Field sums{"log_sum_exp", log_sum_exp}, losses{"loss", loss}, first{"link_offsets", link_offsets};
  check.shape(sums, {q.shape[0], heads}, query);
  check.shape(losses, {q.shape[0]}, query);
  for (const Field& field : {sums, losses}) check.type(field, DType::f32);
  check.shape(first, {q.shape[0] + 1}, query);
  check.rank({"links", links}, 1);
  for (const Field& field : {first, Field{"links", links}}) check.type(field, DType::i32);
  check.contiguous({sums, losses, first});
  check_links(check, *this);
  const Field grad_q{"dq", dq}, grad_k{"dk", dk};
  check.shape(grad_q, q.shape, query);
  check.shape(grad_k, k.shape, key);
  for (const Field& field : {grad_q, grad_k}) {
    check.same_type(field, query);
    check.distinct(field, {query, key, sums, losses});
  }
  check.distinct(grad_q, {grad_k});
}

double GuidedAttention::flops() const {
  return 3 * matmul_flops(q, q_offsets, k_offsets, false) / heads;
}

double GuidedAttention::bytes() const {
  return total_bytes({q, k, dq, dq, dk, dk, log_sum_exp}) / heads + total_bytes({loss});
}

}  // namespace babelring
