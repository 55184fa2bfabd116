#pragma once

#include <string_view>

#include "nmt/core/random.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// Multi-head scaled dot-product attention on packed sequences: for sentence s and head h,
/// out = dropout(softmax(scale * q k^T [masked to j <= i if causal])) v.  Source: Vaswani et al. 2017, eq. 1.
/// Head h uses columns [h * d, (h + 1) * d) of q, k, v and out, d = width / heads.
/// Dropout bits of (query row, head, key position in its sentence): row_key of DropoutKey{derive_seed(key, head)}.
struct AttentionForward {
  ConstTensor q;          // [query tokens, width]; may be strided
  ConstTensor k, v;       // [key tokens, width], same type as q; may be strided
  ConstTensor q_offsets;  // [sentences + 1] i32, in the host's memory
  ConstTensor k_offsets;  // likewise
  int heads = 1;
  bool causal = false;  // needs equal offsets
  float scale = 1;      // 1 / sqrt(d)
  DropoutKey key;
  Tensor out;          // [query tokens, width], same type as q
  Tensor log_sum_exp;  // [query tokens, heads] f32: of the scaled, masked scores, read again by the backward;
                       // -infinity without keys
  static constexpr std::string_view name = "attention_forward";
  void check() const;
  double flops() const;
  double bytes() const { return total_bytes({q, k, v, out, log_sum_exp}); }
};

/// Gradients of AttentionForward, probabilities recomputed from log_sum_exp. A sentence with no keys gives zeros.
/// bf16: scores, softmax and sums are f32; probabilities and gradients of scores may be rounded to bf16 for their
/// products, which leaves results within 1 % of the largest (forward and backward).
struct AttentionBackward {
  ConstTensor dout, out;  // [query tokens, width]; out may go unread: its dot product with dout is a sum over keys too
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
  double flops() const;
  double bytes() const { return total_bytes({dout, out, q, k, v, log_sum_exp, dq, dk, dv}); }
};

/// One query row against some cached keys each: for decoding.
/// out[r] = softmax(scale * q[r] K_r^T) V_r with K_r = keys[key_begin[r] .. key_begin[r] + key_count[r]), or, where
/// keys are listed, the first key_count[r] of keys[key_rows[r, 0]], keys[key_rows[r, 1]], …
struct DecodeAttention {
  ConstTensor q;             // [rows, width]; may be strided
  ConstTensor keys, values;  // [cache rows, width], same type; may be strided
  // The next three lie in the host's memory; one of the first two is given, the other absent.
  ConstTensor key_begin;  // [rows] i32
  ConstTensor key_rows;   // [rows, n] i32, n at least as large as every count
  ConstTensor key_count;  // [rows] i32
  int heads = 1;
  float scale = 1;
  Tensor out;  // [rows, width]
  static constexpr std::string_view name = "decode_attention";
  void check() const;
  double flops() const { return 0; }
  double bytes() const;
};

}  // namespace babelring
