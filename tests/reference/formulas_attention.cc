#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/reference/formulas.h"

namespace babelring::reference {

namespace {

double dropout_factor(const DropoutKey& key, std::int64_t head, std::int64_t query_row, std::int64_t key_position) {
  DropoutKey of_head = key;
  of_head.key = derive_seed(key.key, static_cast<std::uint64_t>(head));
  const auto bits = DropoutKey::bits(of_head.row_key(query_row), static_cast<std::uint32_t>(key_position));
  return bits < key.threshold() ? 0.0 : static_cast<double>(key.scale());
}

/// The head's columns of a query times those of a key.
double dot(const Matrix& a, std::int64_t a_row, const Matrix& b, std::int64_t b_row, std::int64_t first,
           std::int64_t width) {
  double sum = 0;
  for (std::int64_t c = first; c < first + width; ++c) sum += a(a_row, c) * b(b_row, c);
  return sum;
}

/// Softmax of the query's scores against keys [first, end); returns log sum exp.
double softmax(const Matrix& q, std::int64_t row, const Matrix& k, std::int64_t first, std::int64_t end,
               std::int64_t column, std::int64_t width, double scale, std::vector<double>& p) {
  double largest = -std::numeric_limits<double>::infinity(), total = 0;
  p.clear();
  for (std::int64_t j = first; j < end; ++j) p.push_back(scale * dot(q, row, k, j, column, width));
  for (const double score : p) largest = std::max(largest, score);
  for (const double score : p) total += std::exp(score - largest);
  for (double& score : p) score = std::exp(score - largest) / total;
  return p.empty() ? largest : largest + std::log(total);
}

/// Calls body(head, query row, first key, end of keys).
template <class Body>
void for_each_query(const AttentionShape& shape, Body&& body) {
  for (std::size_t s = 0; s + 1 < shape.q_offsets.size(); ++s) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      for (std::int64_t row = shape.q_offsets[s]; row < shape.q_offsets[s + 1]; ++row) {
        const std::int64_t end = shape.causal ? row + 1 : shape.k_offsets[s + 1];
        body(head, row, shape.k_offsets[s], end);
      }
    }
  }
}

}  // namespace

Attended attention(const AttentionShape& shape, const Matrix& q, const Matrix& k, const Matrix& v) {
  Attended result{Matrix(q.rows, q.columns), Matrix(q.rows, shape.heads)};
  const std::int64_t width = q.columns / shape.heads;
  std::vector<double> p;
  for_each_query(shape, [&](std::int64_t head, std::int64_t row, std::int64_t first, std::int64_t end) {
    const std::int64_t column = head * width;
    result.log_sum_exp(row, head) = softmax(q, row, k, first, end, column, width, shape.scale, p);
    for (std::int64_t j = first; j < end; ++j) {
      const double weight = p[static_cast<std::size_t>(j - first)] * dropout_factor(shape.key, head, row, j - first);
      for (std::int64_t c = column; c < column + width; ++c) result.out(row, c) += weight * v(j, c);
    }
  });
  return result;
}

AttentionGradients attention_backward(const AttentionShape& shape, const Matrix& dout, const Matrix& q, const Matrix& k,
                                      const Matrix& v) {
  AttentionGradients result{Matrix(q.rows, q.columns), Matrix(k.rows, k.columns), Matrix(v.rows, v.columns)};
  const std::int64_t width = q.columns / shape.heads;
  std::vector<double> p, dp;
  for_each_query(shape, [&](std::int64_t head, std::int64_t row, std::int64_t first, std::int64_t end) {
    const std::int64_t column = head * width;
    softmax(q, row, k, first, end, column, width, shape.scale, p);
    dp.assign(p.size(), 0);
    double mean = 0;
    for (std::int64_t j = first; j < end; ++j) {
      const auto at = static_cast<std::size_t>(j - first);
      const double factor = dropout_factor(shape.key, head, row, j - first);
      dp[at] = factor * dot(dout, row, v, j, column, width);
      mean += p[at] * dp[at];
      for (std::int64_t c = column; c < column + width; ++c) result.dv(j, c) += p[at] * factor * dout(row, c);
    }
    for (std::int64_t j = first; j < end; ++j) {
      const auto at = static_cast<std::size_t>(j - first);
      const double ds = shape.scale * p[at] * (dp[at] - mean);
      for (std::int64_t c = column; c < column + width; ++c) {
        result.dq(row, c) += ds * k(j, c);
        result.dk(j, c) += ds * q(row, c);
      }
    }
  });
  return result;
}

Matrix decode_attention(const Matrix& q, const Matrix& keys, const Matrix& values,
                        const std::vector<std::vector<std::int64_t>>& key_rows, std::int64_t heads, double scale) {
  Matrix out(q.rows, q.columns);
  const std::int64_t width = q.columns / heads;
  std::vector<double> p;
  for (std::int64_t row = 0; row < q.rows; ++row) {
    const auto& own = key_rows[static_cast<std::size_t>(row)];
    Matrix own_keys(std::ssize(own), keys.columns), own_values = own_keys;
    for (std::int64_t j = 0; j < std::ssize(own); ++j) {
      for (std::int64_t c = 0; c < keys.columns; ++c) {
        own_keys(j, c) = keys(own[static_cast<std::size_t>(j)], c);
        own_values(j, c) = values(own[static_cast<std::size_t>(j)], c);
      }
    }
    for (std::int64_t column = 0; column < q.columns; column += width) {
      softmax(q, row, own_keys, 0, std::ssize(own), column, width, scale, p);
      for (std::int64_t j = 0; j < std::ssize(own); ++j) {
        for (std::int64_t c = column; c < column + width; ++c) {
          out(row, c) += p[static_cast<std::size_t>(j)] * own_values(j, c);
        }
      }
    }
  }
  return out;
}

Guided guided_attention(const AttentionShape& shape, const Matrix& q, const Matrix& k,
                        const std::vector<std::vector<std::int64_t>>& links, std::int64_t guided_head) {
  Guided result{Matrix(q.rows, 1), Matrix(q.rows, q.columns), Matrix(k.rows, k.columns)};
  const std::int64_t width = q.columns / shape.heads, column = guided_head * width;
  std::vector<double> p;
  for_each_query(shape, [&](std::int64_t head, std::int64_t row, std::int64_t first, std::int64_t end) {
    const auto& of_row = links[static_cast<std::size_t>(row)];
    if (head != guided_head || of_row.empty()) return;
    softmax(q, row, k, first, end, column, width, shape.scale, p);
    const double weight = 1.0 / static_cast<double>(of_row.size());
    for (const std::int64_t key : of_row) result.loss(row, 0) -= weight * std::log(p[static_cast<std::size_t>(key)]);
    for (const std::int64_t key : of_row) p[static_cast<std::size_t>(key)] -= weight;
    for (std::int64_t j = first; j < end; ++j) {
      const double slope = shape.scale * p[static_cast<std::size_t>(j - first)];
      for (std::int64_t c = column; c < column + width; ++c) {
        result.dq(row, c) += slope * k(j, c);
        result.dk(j, c) += slope * q(row, c);
      }
    }
  });
  return result;
}

}  // namespace babelring::reference
