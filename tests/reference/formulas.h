#pragma once

#include <vector>

#include "nmt/core/random.h"
#include "nmt/ops/linear.h"
#include "tests/reference/matrix.h"

/// The formulas of nmt/ops, written as plainly as possible, in double. tests/nmt/ops checks the gradients among them by
/// central differences, and the backends against them.
namespace babelring::reference {

/// x W^T + bias (an empty bias: none), cut at zero if `relu`.
Matrix linear(const Matrix& x, const Matrix& weight, const Matrix& bias, bool relu = false);
/// The rows of x rounded to -127 to 127 times a scale each, see quantize().
Matrix rounded_rows(const Matrix& x);
Matrix linear_backward_data(const Matrix& dy, const Matrix& weight);
Matrix linear_backward_weight(const Matrix& dy, const Matrix& x);
Matrix column_sums(const Matrix& dy);

struct Normalized {
  Matrix y, mean, rstd;
};
/// Without a bias, by the root mean square; backward likewise without a mean.
Normalized layer_norm(const Matrix& x, const Matrix& gain, const Matrix& bias, double eps);
struct NormGradients {
  Matrix dx, dgain, dbias;
};
NormGradients layer_norm_backward(const Matrix& dy, const Matrix& x, const Matrix& gain, const Matrix& mean,
                                  const Matrix& rstd);

/// 0 or key.scale(), element by element.
Matrix dropout_factors(const DropoutKey& key, std::int64_t rows, std::int64_t columns);
Matrix product(const Matrix& a, const Matrix& b);  // element by element
Matrix sum(const Matrix& a, const Matrix& b);
Matrix relu_dropout_backward(const Matrix& dy, const Matrix& y, double scale);
/// Swish or GELU, and its derivative. Of swiglu, those of its gate, which are swish's.
Matrix activated(const Matrix& z, Activation activation);
Matrix activation_slope(const Matrix& z, Activation activation);

struct EmbeddingFormula {
  double scale = 1;
  DropoutKey key;
  std::int64_t divisor = 0;  // of positions; 0: width
  bool zero_start = false;
  bool sinusoids = true;
};
Matrix embedding(const Matrix& ids, const Matrix& positions, const Matrix& table, const EmbeddingFormula& formula);
/// `positions` is read only with zero_start.
Matrix embedding_backward(const Matrix& ids, const Matrix& positions, const Matrix& dy, std::int64_t vocabulary,
                          const EmbeddingFormula& formula);

/// Every head's features turned by its row's position, or back.
Matrix rotary(const Matrix& x, const Matrix& positions, std::int64_t heads, bool inverse);

struct AttentionShape {
  std::vector<std::int64_t> q_offsets, k_offsets;
  std::int64_t heads = 1;
  bool causal = false;
  double scale = 1;
  DropoutKey key;
};
struct Attended {
  Matrix out, log_sum_exp;
};
Attended attention(const AttentionShape& shape, const Matrix& q, const Matrix& k, const Matrix& v);
struct AttentionGradients {
  Matrix dq, dk, dv;
};
AttentionGradients attention_backward(const AttentionShape& shape, const Matrix& dout, const Matrix& q, const Matrix& k,
                                      const Matrix& v);
/// `key_rows`: of each row of q, where its keys and values are.
Matrix decode_attention(const Matrix& q, const Matrix& keys, const Matrix& values,
                        const std::vector<std::vector<std::int64_t>>& key_rows, std::int64_t heads, double scale);

/// Guided attention of one head. `links`: of each row of q, positions of keys in its sentence. The gradients are those
/// of the sum of all losses.
struct Guided {
  Matrix loss, dq, dk;  // loss [rows of q, 1]
};
Guided guided_attention(const AttentionShape& shape, const Matrix& q, const Matrix& k,
                        const std::vector<std::vector<std::int64_t>>& links, std::int64_t guided_head);

/// Row by row log softmax.
Matrix log_softmax(const Matrix& logits);
struct Losses {
  Matrix loss, nll, correct, dlogits;  // dlogits for gradient_scale 1
};
Losses cross_entropy(const Matrix& logits, const Matrix& targets, double smoothing);
/// KL(p || q) + KL(q || p) of each row, p and q being the softmax of both; the gradients are those of the sum.
struct Divergence {
  Matrix loss, dfirst, dsecond;  // loss [1, rows]
};
Divergence symmetric_divergence(const Matrix& first, const Matrix& second, const Matrix& targets);
struct Best {
  Matrix scores, indices;
};
Best log_softmax_top_k(const Matrix& logits, std::int64_t k);

struct AdamScalars {
  double gradient_scale, learning_rate, beta1, beta2, eps, weight_decay, step;
};
/// Updates master, m and v.
void adam(const AdamScalars& scalars, const Matrix& gradient, Matrix& master, Matrix& m, Matrix& v);

}  // namespace babelring::reference
