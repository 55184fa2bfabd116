#pragma once

#include <string>

#include "nmt/layers/context.h"
#include "nmt/layers/linear.h"
#include "nmt/ops/layer_norm.h"

namespace babelring {

/// How a token's features are normalised:
///   layer  by mean and variance, with gain and bias     Source: Ba et al. 2016
///   rms    by their root mean square, with a gain       Source: Zhang and Sennrich 2019
enum class NormKind { layer, rms };

struct NormOptions {
  NormKind kind = NormKind::layer;
  float epsilon = 1e-5f;  // added to the variance or the mean square
};

/// Normalisation of each row.
class Norm {
 public:
  struct Saved {
    ConstTensor x;
    Tensor mean, rstd;  // no mean with NormKind::rms
  };
  /// Declares NAME.gain and, with NormKind::layer, NAME.bias, [width].
  Norm(ParameterStore& store, const std::string& name, std::int64_t width, const NormOptions& options = {});

  /// x [rows, width] → [rows, width] in context.saved. `saved` refers to x, which must stay valid for backward.
  Tensor forward(Context& context, ConstTensor x, Saved& saved) const;
  /// Like forward() for x = residual + dropout(branch). The sum is kept in context.saved.
  Tensor forward_sum(Context& context, ConstTensor residual, ConstTensor branch, const DropoutKey& key,
                     Saved& saved) const;

  /// Writes dx, or adds to it with `accumulate`. Also computes the parameters' gradients and reports them ready.
  void backward(Context& context, ConstTensor dy, const Saved& saved, Tensor dx, bool accumulate) const;
  /// Backward of forward_sum(): overwrites dresidual (which may alias dy) and dbranch = dropout(dresidual).
  /// `dbranch_bias`: [width] f32, receives the sums of dbranch's columns (as Context::accumulate says); may be null.
  void backward_sum(Context& context, ConstTensor dy, const Saved& saved, const DropoutKey& key, Tensor dresidual,
                    Tensor dbranch, Tensor dbranch_bias) const;

 private:
  Saved begin_forward(Context& context, ConstTensor x) const;
  LayerNormBackward backward_op(const Context& context, ConstTensor dy, const Saved& saved, Tensor dx) const;
  void run_backward(Context& context, const LayerNormBackward& op) const;

  ConstTensor bias() const { return bias_ != nullptr ? ConstTensor(bias_->master) : ConstTensor(); }

  const Parameter* gain_;
  const Parameter* bias_ = nullptr;  // null with NormKind::rms
  float epsilon_;
};

enum class NormPosition { pre, post };

/// A sub-layer with its residual connection, dropout and normalisation:
///   pre   y = x + dropout(body(norm(x)))        Source: Wang et al. 2019, eq. 2
///   post  y = norm(x + dropout(body(x)))        Source: Vaswani et al. 2017, 3.1
/// The caller passes the body to each call, so one class serves attention and feed-forward.
class ResidualBlock {
 public:
  struct Saved {
    Norm::Saved norm;
    DropoutKey dropout;
  };
  ResidualBlock(ParameterStore& store, const std::string& name, std::int64_t width, NormPosition place,
                const NormOptions& norm, float dropout, std::uint64_t site);

  /// Returns y [rows, width] in context.saved. `body` maps [rows, width] to [rows, width] in context.scratch and may
  /// keep its input by reference until backward.
  template <class Body>
  Tensor forward(Context& context, ConstTensor x, std::int64_t first_row, Saved& saved, Body body) const {
    saved.dropout = context.dropout_key(site_, first_row, dropout_);
    const ConstTensor h = place_ == NormPosition::pre ? norm_.forward(context, x, saved.norm) : x;
    const Arena::Scope scope(context.scratch);
    return join(context, x, body(h), saved);
  }

  /// Replaces dy in `d` [rows, width] by dx. Calls body(dout, din, add): `dout` is the gradient of its output, which
  /// its layer `output` computed, `din` receives the gradient of its input, and `add` means to add to `din` instead of
  /// overwriting it. If `add` is true, both may be the same tensor, so the body must read `dout` before it writes
  /// `din`.
  template <class Body>
  void backward(Context& context, Tensor d, const Saved& saved, const Linear& output, Body body) const {
    const Arena::Scope scope(context.scratch);
    const OutputGradient dbranch = split(context, d, saved, output);
    if (place_ == NormPosition::post) {
      body(dbranch, d, true);
    } else {
      Tensor dh = context.scratch.make(d.shape, d.dtype);
      body(dbranch, dh, false);
      norm_.backward(context, dh, saved.norm, d, true);
    }
  }

 private:
  Tensor join(Context& context, ConstTensor x, Tensor branch, Saved& saved) const;
  OutputGradient split(Context& context, Tensor d, const Saved& saved, const Linear& output) const;

  Norm norm_;
  NormPosition place_;
  float dropout_;
  std::uint64_t site_;
};

}  // namespace babelring
