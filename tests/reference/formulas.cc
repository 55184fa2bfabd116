#include "tests/reference/formulas.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace babelring::reference {

Matrix linear(const Matrix& x, const Matrix& weight, const Matrix& bias, bool relu) {
  Matrix y(x.rows, weight.rows);
  for (std::int64_t row = 0; row < y.rows; ++row) {
    for (std::int64_t out = 0; out < y.columns; ++out) {
      double value = bias.columns == 0 ? 0 : bias(0, out);
      for (std::int64_t in = 0; in < x.columns; ++in) value += x(row, in) * weight(out, in);
      y(row, out) = relu ? std::max(value, 0.0) : value;
    }
  }
  return y;
}

Matrix rounded_rows(const Matrix& x) {
  Matrix y(x.rows, x.columns);
  for (std::int64_t row = 0; row < x.rows; ++row) {
    double largest = 0;
    bool finite = true;
    for (std::int64_t i = 0; i < x.columns; ++i) {
      finite &= std::isfinite(x(row, i));
      largest = std::max(largest, std::abs(x(row, i)));
    }
    const float factor = largest < 1e-30 ? 0 : 127 / static_cast<float>(largest);
    for (std::int64_t i = 0; i < x.columns; ++i) {
      // In f32, as the sums are then of the same integers.
      const double q = std::nearbyint(static_cast<float>(x(row, i)) * factor);
      y(row, i) = finite ? q * largest / 127 : std::nan("");
    }
  }
  return y;
}

Matrix linear_backward_data(const Matrix& dy, const Matrix& weight) {
  Matrix dx(dy.rows, weight.columns);
  for (std::int64_t row = 0; row < dy.rows; ++row) {
    for (std::int64_t out = 0; out < dy.columns; ++out) {
      for (std::int64_t in = 0; in < dx.columns; ++in) dx(row, in) += dy(row, out) * weight(out, in);
    }
  }
  return dx;
}

Matrix linear_backward_weight(const Matrix& dy, const Matrix& x) {
  Matrix dweight(dy.columns, x.columns);
  for (std::int64_t row = 0; row < dy.rows; ++row) {
    for (std::int64_t out = 0; out < dy.columns; ++out) {
      for (std::int64_t in = 0; in < x.columns; ++in) dweight(out, in) += dy(row, out) * x(row, in);
    }
  }
  return dweight;
}

Matrix column_sums(const Matrix& dy) {
  Matrix sums(1, dy.columns);
  for (std::int64_t row = 0; row < dy.rows; ++row) {
    for (std::int64_t column = 0; column < dy.columns; ++column) sums(0, column) += dy(row, column);
  }
  return sums;
}

Normalized layer_norm(const Matrix& x, const Matrix& gain, const Matrix& bias, double eps) {
  Normalized result{Matrix(x.rows, x.columns), Matrix(1, x.rows), Matrix(1, x.rows)};
  const auto width = static_cast<double>(x.columns);
  const bool centered = bias.columns > 0;
  for (std::int64_t row = 0; row < x.rows; ++row) {
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < x.columns && centered; ++i) mean += x(row, i) / width;
    for (std::int64_t i = 0; i < x.columns; ++i) variance += (x(row, i) - mean) * (x(row, i) - mean) / width;
    const double rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < x.columns; ++i) {
      result.y(row, i) = gain(0, i) * (x(row, i) - mean) * rstd + (centered ? bias(0, i) : 0);
    }
    result.mean(0, row) = mean;
    result.rstd(0, row) = rstd;
  }
  return result;
}

NormGradients layer_norm_backward(const Matrix& dy, const Matrix& x, const Matrix& gain, const Matrix& mean,
                                  const Matrix& rstd) {
  NormGradients result{Matrix(x.rows, x.columns), Matrix(1, x.columns), Matrix(1, x.columns)};
  const auto width = static_cast<double>(x.columns);
  const bool centered = mean.columns > 0;
  for (std::int64_t row = 0; row < x.rows; ++row) {
    double mean_g = 0, mean_gn = 0;
    const double center = centered ? mean(0, row) : 0;
    for (std::int64_t i = 0; i < x.columns; ++i) {
      const double n = (x(row, i) - center) * rstd(0, row), g = dy(row, i) * gain(0, i);
      if (centered) mean_g += g / width;
      mean_gn += g * n / width;
      result.dgain(0, i) += dy(row, i) * n;
      result.dbias(0, i) += dy(row, i);
    }
    for (std::int64_t i = 0; i < x.columns; ++i) {
      const double n = (x(row, i) - center) * rstd(0, row), g = dy(row, i) * gain(0, i);
      result.dx(row, i) = rstd(0, row) * (g - mean_g - n * mean_gn);
    }
  }
  return result;
}

Matrix dropout_factors(const DropoutKey& key, std::int64_t rows, std::int64_t columns) {
  Matrix factors(rows, columns);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto bits = DropoutKey::bits(key.row_key(row), static_cast<std::uint32_t>(column));
      factors(row, column) = bits < key.threshold() ? 0.0 : static_cast<double>(key.scale());
    }
  }
  return factors;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result = a;
  for (std::size_t i = 0; i < a.values.size(); ++i) result.values[i] *= b.values[i];
  return result;
}

Matrix sum(const Matrix& a, const Matrix& b) {
  Matrix result = a;
  for (std::size_t i = 0; i < a.values.size(); ++i) result.values[i] += b.values[i];
  return result;
}

Matrix relu_dropout_backward(const Matrix& dy, const Matrix& y, double scale) {
  Matrix dx = dy;
  for (std::size_t i = 0; i < dx.values.size(); ++i) dx.values[i] = y.values[i] > 0 ? dy.values[i] * scale : 0;
  return dx;
}

Matrix activated(const Matrix& z, Activation activation) {
  Matrix y = z;
  for (double& value : y.values) {
    const double gelu = value * std::erfc(-value / std::sqrt(2)) / 2, swish = value / (1 + std::exp(-value));
    value = activation == Activation::gelu ? gelu : swish;
  }
  return y;
}

Matrix activation_slope(const Matrix& z, Activation activation) {
  Matrix slope = z;
  for (double& value : slope.values) {
    const double density = std::exp(-value * value / 2) / std::sqrt(2 * std::acos(-1));
    const double s = 1 / (1 + std::exp(-value)), below = std::erfc(-value / std::sqrt(2)) / 2;
    value = activation == Activation::gelu ? below + value * density : s + value * s * (1 - s);
  }
  return slope;
}

Matrix embedding(const Matrix& ids, const Matrix& positions, const Matrix& table, const EmbeddingFormula& formula) {
  Matrix y(ids.columns, table.columns);
  for (std::int64_t row = 0; row < y.rows; ++row) {
    for (std::int64_t i = 0; i < y.columns; ++i) {
      const double power =
          static_cast<double>(i / 2 * 2) / static_cast<double>(formula.divisor == 0 ? y.columns : formula.divisor);
      const double angle = positions(0, row) / std::pow(10000.0, power);
      const double sinusoid = i % 2 == 0 ? std::sin(angle) : std::cos(angle);
      const bool is_zero = formula.zero_start && positions(0, row) == 0;
      const double entry = is_zero ? 0 : table(static_cast<std::int64_t>(ids(0, row)), i);
      y(row, i) = formula.scale * entry + (formula.sinusoids ? sinusoid : 0);
    }
  }
  return product(y, dropout_factors(formula.key, y.rows, y.columns));
}

Matrix rotary(const Matrix& x, const Matrix& positions, std::int64_t heads, bool inverse) {
  Matrix y = x;
  const std::int64_t head = x.columns / heads, half = head / 2;
  for (std::int64_t row = 0; row < x.rows; ++row) {
    for (std::int64_t i = 0; i < x.columns; ++i) {
      if (i % head >= half) continue;
      const double power = 2 * static_cast<double>(i % head) / static_cast<double>(head);
      const double angle = (inverse ? -1 : 1) * positions(0, row) / std::pow(10000.0, power);
      y(row, i) = x(row, i) * std::cos(angle) - x(row, i + half) * std::sin(angle);
      y(row, i + half) = x(row, i + half) * std::cos(angle) + x(row, i) * std::sin(angle);
    }
  }
  return y;
}

Matrix embedding_backward(const Matrix& ids, const Matrix& positions, const Matrix& dy, std::int64_t vocabulary,
                          const EmbeddingFormula& formula) {
  Matrix dtable(vocabulary, dy.columns);
  const Matrix kept = product(dy, dropout_factors(formula.key, dy.rows, dy.columns));
  for (std::int64_t row = 0; row < dy.rows; ++row) {
    if (formula.zero_start && positions(0, row) == 0) continue;
    for (std::int64_t i = 0; i < dy.columns; ++i) {
      dtable(static_cast<std::int64_t>(ids(0, row)), i) += formula.scale * kept(row, i);
    }
  }
  return dtable;
}

Matrix log_softmax(const Matrix& logits) {
  Matrix result = logits;
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    double largest = logits(row, 0), total = 0;
    for (std::int64_t i = 0; i < logits.columns; ++i) largest = std::max(largest, logits(row, i));
    for (std::int64_t i = 0; i < logits.columns; ++i) total += std::exp(logits(row, i) - largest);
    for (std::int64_t i = 0; i < logits.columns; ++i) result(row, i) -= largest + std::log(total);
  }
  return result;
}

Losses cross_entropy(const Matrix& logits, const Matrix& targets, double smoothing) {
  const Matrix log_p = log_softmax(logits);
  Losses result{Matrix(1, logits.rows), Matrix(1, logits.rows), Matrix(1, logits.rows), log_p};
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    const auto target = static_cast<std::int64_t>(targets(0, row));
    if (target < 0) {
      for (std::int64_t i = 0; i < logits.columns; ++i) result.dlogits(row, i) = 0;
      continue;
    }
    bool largest = true;
    for (std::int64_t i = 0; i < logits.columns; ++i) {
      const double uniform = smoothing / static_cast<double>(logits.columns);
      const double q = (i == target ? 1 - smoothing : 0) + uniform;
      result.loss(0, row) -= q * log_p(row, i);
      result.dlogits(row, i) = std::exp(log_p(row, i)) - q;
      largest = largest && logits(row, i) <= logits(row, target);
    }
    result.nll(0, row) = -log_p(row, target);
    result.correct(0, row) = largest ? 1 : 0;
  }
  return result;
}

Divergence symmetric_divergence(const Matrix& first, const Matrix& second, const Matrix& targets) {
  const Matrix log_p = log_softmax(first), log_q = log_softmax(second);
  Divergence result{Matrix(1, first.rows), Matrix(first.rows, first.columns), Matrix(first.rows, first.columns)};
  for (std::int64_t row = 0; row < first.rows; ++row) {
    if (targets(0, row) < 0) continue;
    double from_p = 0, from_q = 0;
    for (std::int64_t i = 0; i < first.columns; ++i) {
      from_p += std::exp(log_p(row, i)) * (log_p(row, i) - log_q(row, i));
      from_q += std::exp(log_q(row, i)) * (log_q(row, i) - log_p(row, i));
    }
    result.loss(0, row) = from_p + from_q;
    for (std::int64_t i = 0; i < first.columns; ++i) {
      const double p = std::exp(log_p(row, i)), q = std::exp(log_q(row, i)), apart = log_p(row, i) - log_q(row, i);
      result.dfirst(row, i) = p * (apart - from_p) + p - q;
      result.dsecond(row, i) = q * (-apart - from_q) + q - p;
    }
  }
  return result;
}

Best log_softmax_top_k(const Matrix& logits, std::int64_t k) {
  const Matrix log_p = log_softmax(logits);
  Best best{Matrix(logits.rows, k), Matrix(logits.rows, k)};
  std::vector<std::int64_t> order(static_cast<std::size_t>(logits.columns));
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return logits(row, a) > logits(row, b); });
    for (std::int64_t i = 0; i < k; ++i) {
      best.indices(row, i) = static_cast<double>(order[static_cast<std::size_t>(i)]);
      best.scores(row, i) = log_p(row, order[static_cast<std::size_t>(i)]);
    }
  }
  return best;
}

void adam(const AdamScalars& s, const Matrix& gradient, Matrix& master, Matrix& m, Matrix& v) {
  for (std::int64_t i = 0; i < master.columns; ++i) {
    const double g = s.gradient_scale * gradient(0, i);
    m(0, i) = s.beta1 * m(0, i) + (1 - s.beta1) * g;
    v(0, i) = s.beta2 * v(0, i) + (1 - s.beta2) * g * g;
    const double first = m(0, i) / (1 - std::pow(s.beta1, s.step)), second = v(0, i) / (1 - std::pow(s.beta2, s.step));
    master(0, i) -= s.learning_rate * (first / (std::sqrt(second) + s.eps) + s.weight_decay * master(0, i));
  }
}

}  // namespace babelring::reference
