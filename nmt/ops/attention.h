#pragma once

#include <string_view>

#include "nmt/core/random.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// Multi-head scaled dot-product attention on packed sequences. For sentence s and head h:
///   out = dropout(softmax(scale * q k^T [masked to j <= i if causal])) v
/// Source: Vaswani et al. 2017, eq. 1. Head h uses columns [h * d, (h + 1) * d) of q, k, v and out, d = width / heads.
/// Dropout bits of (query row, head, key position in its sentence) come from row_key of
/// DropoutKey{derive_seed(key, head)}.
struct AttentionForward {
  ConstTensor q;          // [query tokens, width]; may be strided
  ConstTensor k, v;       // [key tokens, width], same type as q; may be strided
  ConstTensor q_offsets;  // [sentences + 1] i32, in host memory
  ConstTensor k_offsets;  // [sentences + 1] i32, in host memory
  int heads = 1;
  bool causal = false;  // requires equal q_offsets and k_offsets
  float scale = 1;      // 1 / sqrt(d)
  DropoutKey key;
  Tensor out;          // [query tokens, width], same type as q
  Tensor log_sum_exp;  // [query tokens, heads] f32: log-sum-exp of the scaled, masked scores, for the backward;
                       // -infinity without keys
  static constexpr std::string_view name = "attention_forward";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("q", op.q).reads("k", op.k).reads("v", op.v);
    f.reads_host("q_offsets", op.q_offsets).reads_host("k_offsets", op.k_offsets);
    f.writes("out", op.out).writes("log_sum_exp", op.log_sum_exp);
  }
  double flops() const;
};

/// Gradients of AttentionForward. Probabilities are recomputed from log_sum_exp. A sentence without keys gives zeros.
/// In bf16, scores, softmax and sums are f32; probabilities and score gradients may be rounded to bf16 for their
/// matmuls. Results then stay within 1 % of the largest element (forward and backward).
struct AttentionBackward {
  ConstTensor dout, out;  // [query tokens, width]; a backend may ignore out and compute dout . out as a sum over keys
  ConstTensor q, k, v;    // as in the forward
  ConstTensor q_offsets, k_offsets;  // as in the forward
  ConstTensor log_sum_exp;
  int heads = 1;
  bool causal = false;
  float scale = 1;
  DropoutKey key;
  Tensor dq, dk, dv;  // shapes of q, k, v, overwritten; may be strided
  static constexpr std::string_view name = "attention_backward";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("dout", op.dout).reads("out", op.out).reads("q", op.q).reads("k", op.k).reads("v", op.v);
    f.reads_host("q_offsets", op.q_offsets).reads_host("k_offsets", op.k_offsets);
    f.reads("log_sum_exp", op.log_sum_exp).writes("dq", op.dq).writes("dk", op.dk).writes("dv", op.dv);
  }
  double flops() const;
};

/// Attention of single query rows over cached keys, for decoding:
///   out[r] = softmax(scale * q[r] K_r^T) V_r
/// K_r is keys[key_begin[r] .. key_begin[r] + key_count[r]) or, with key_rows, the first key_count[r] of
/// keys[key_rows[r, 0]], keys[key_rows[r, 1]], …; V_r likewise from values.
struct DecodeAttention {
  ConstTensor q;             // [rows, width]; may be strided
  ConstTensor keys, values;  // [cache rows, width], same type; may be strided
  // The next three are in host memory. Exactly one of key_begin and key_rows must be given.
  ConstTensor key_begin;  // [rows] i32
  ConstTensor key_rows;   // [rows, n] i32, n at least as large as every count
  ConstTensor key_count;  // [rows] i32
  int heads = 1;
  float scale = 1;
  Tensor out;  // [rows, width]
  static constexpr std::string_view name = "decode_attention";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("q", op.q).reads("keys", op.keys).reads("values", op.values);
    f.reads_host("key_begin", op.key_begin).reads_host("key_rows", op.key_rows).reads_host("key_count", op.key_count);
    f.writes("out", op.out);
  }
  double bytes() const;  // only the cached rows that key_count covers are read
};

/// A loss that draws a head's attention to given keys, and its gradients. With p[i, j] = exp(scale q_i k_j^T -
/// log_sum_exp[i]) of the head, and the n links (i, j) of row i:
///   loss[i] = -1/n sum_links log p[i, j];  d(scale q_i k_j^T) = gradient_scale (p[i, j] - links(i, j) / n)
/// A row without links has neither. Source: Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer
/// Models", 4.2.
struct GuidedAttention {
  ConstTensor q, k;  // as in AttentionForward
  // The next four are in host memory.
  ConstTensor q_offsets, k_offsets;  // as in AttentionForward
  ConstTensor link_offsets;          // [query tokens + 1] i32: row i has links [link_offsets[i], link_offsets[i + 1])
  ConstTensor links;                 // [at least the last of link_offsets] i32: a key's position in its sentence
  ConstTensor log_sum_exp;           // [query tokens, heads] f32, of AttentionForward without `causal`
  int heads = 1, head = 0;
  float scale = 1;           // as in AttentionForward
  float gradient_scale = 1;  // of the losses in the whole loss
  Tensor dq, dk;             // shapes of q and k, added to; may be strided
  Tensor loss;               // [query tokens] f32
  static constexpr std::string_view name = "guided_attention";
  void check() const;
  static void fields(auto& op, auto&& f) {
    f.reads("q", op.q).reads("k", op.k).reads_host("q_offsets", op.q_offsets).reads_host("k_offsets", op.k_offsets);
    f.reads_host("link_offsets", op.link_offsets).reads_host("links", op.links).reads("log_sum_exp", op.log_sum_exp);
    f.updates("dq", op.dq).updates("dk", op.dk).writes("loss", op.loss);
  }
  double flops() const;
  double bytes() const;  // one head's columns
};

}  // namespace babelring
