#include "tests/reference/reference_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/failure.h"
#include "nmt/ops/ops.h"
#include "tests/reference/formulas.h"

namespace babelring {

namespace {

using reference::load;
using reference::Matrix;
using reference::store;

std::vector<std::int64_t> offsets_of(const ConstTensor& tensor) {
  const auto* offsets = tensor.as<std::int32_t>();
  return {offsets, offsets + tensor.shape[0]};
}

template <class Op>
reference::AttentionShape shape_of(const Op& op) {
  return {offsets_of(op.q_offsets), offsets_of(op.k_offsets), op.heads, op.causal, op.scale, op.key};
}

void put(const Matrix& values, const Tensor& to, bool accumulate) {
  accumulate ? reference::add(values, to) : store(values, to);
}

void scale_by(double factor, Matrix& matrix) {
  for (double& value : matrix.values) value *= factor;
}

class ReferenceBackend final : public Backend {
 public:
  void upload(const void* host, Tensor to) override {
    if (to.bytes() > 0) std::memcpy(to.data, host, to.bytes());
  }
  void download(ConstTensor from, void* host) override {
    if (from.bytes() > 0) std::memcpy(host, from.data, from.bytes());
  }
  void synchronize() override {}
  bool prefers_fused_matmuls() const override { return true; }
  bool prefers_fused_bias_gradients() const override { return true; }
  /// Chunks of at most 256 rows, so that small tests have several.
  LossChunks loss_chunks() const override { return {.bytes = 0, .equal = true}; }
  std::string description() const override { return "reference (double, 1 thread)"; }

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose) override { return allocate_host(bytes); }
  void do_run(const LinearForward& op) override {
    store(reference::linear(load(op.x), load(op.weight), load(op.bias), op.activation == Activation::relu), op.y);
  }
  void do_run(const QuantizedLinear& op) override {
    const Matrix whole = load(op.weight);
    Matrix weight(op.y.columns(), whole.columns);
    std::copy_n(whole.values.begin() + op.first * whole.columns, weight.values.size(), weight.values.begin());
    const Matrix x = reference::rounded_rows(load(op.x));
    store(reference::linear(x, weight, load(op.bias), op.activation == Activation::relu), op.y);
  }
  void do_run(const LinearBackwardData& op) override {
    Matrix dx = reference::linear_backward_data(load(op.dy), load(op.weight));
    if (op.gate) dx = reference::relu_dropout_backward(dx, load(op.gate), static_cast<double>(op.gate_scale));
    op.accumulate ? reference::add(dx, op.dx) : store(dx, op.dx);
    if (op.dbias) put(reference::column_sums(load(op.dx)), op.dbias, op.accumulate_dbias);
  }
  void do_run(const LinearBackwardWeight& op) override {
    const Matrix dy = load(op.dy);
    put(reference::linear_backward_weight(dy, load(op.x)), op.dweight, op.accumulate);
    if (op.dbias) put(reference::column_sums(dy), op.dbias, op.accumulate);
  }
  void do_run(const LayerNormForward& op) override {
    const auto result = reference::layer_norm(load(op.x), load(op.gain), load(op.bias), op.eps);
    store(result.y, op.y);
    if (op.mean) store(result.mean, op.mean);
    store(result.rstd, op.rstd);
  }
  void do_run(const ResidualNormForward& op) override {
    do_run(ResidualDropout{.residual = op.residual, .branch = op.branch, .y = op.sum, .key = op.key});
    do_run(LayerNormForward{
        .x = op.sum, .gain = op.gain, .bias = op.bias, .y = op.y, .mean = op.mean, .rstd = op.rstd, .eps = op.eps});
  }
  void do_run(const LayerNormBackward& op) override {
    const auto result =
        reference::layer_norm_backward(load(op.dy), load(op.x), load(op.gain), load(op.mean), load(op.rstd));
    op.accumulate ? reference::add(result.dx, op.dx) : store(result.dx, op.dx);
    put(result.dgain, op.dgain, op.accumulate_parameters);
    if (op.dbias) put(result.dbias, op.dbias, op.accumulate_parameters);
    if (op.dbranch) do_run(Dropout{.x = op.dx, .y = op.dbranch, .key = op.key});
    if (op.dbranch_bias) put(reference::column_sums(load(op.dbranch)), op.dbranch_bias, op.accumulate_parameters);
  }
  void do_run(const Dropout& op) override {
    const Matrix x = load(op.x);
    store(reference::product(x, reference::dropout_factors(op.key, x.rows, x.columns)), op.y);
  }
  void do_run(const ResidualDropout& op) override {
    const Matrix branch = load(op.branch);
    const Matrix kept = reference::product(branch, reference::dropout_factors(op.key, branch.rows, branch.columns));
    store(reference::sum(load(op.residual), kept), op.y);
  }
  void do_run(const ActivationForward& op) override {
    Matrix y = reference::activated(load(op.z), op.activation);
    if (op.up) y = reference::product(y, load(op.up));
    store(reference::product(y, reference::dropout_factors(op.key, y.rows, y.columns)), op.y);
  }
  void do_run(const ActivationBackward& op) override {
    const Matrix z = load(op.z), factors = reference::dropout_factors(op.key, z.rows, z.columns);
    const Matrix dy = reference::product(load(op.dy), factors);
    Matrix dz = reference::product(dy, reference::activation_slope(z, op.activation));
    if (op.up) dz = reference::product(dz, load(op.up));
    if (op.dup) store(reference::product(dy, reference::activated(z, op.activation)), op.dup);
    store(dz, op.dz);
  }
  void do_run(const EmbeddingForward& op) override {
    const reference::EmbeddingFormula formula = {.scale = op.scale,
                                                 .key = op.key,
                                                 .divisor = op.divisor,
                                                 .zero_start = op.zero_start,
                                                 .sinusoids = op.sinusoids};
    store(reference::embedding(load(op.ids), load(op.positions), op.quantized ? load(op.quantized) : load(op.table),
                               formula),
          op.y);
  }
  void do_run(const RotaryPositions& op) override {
    store(reference::rotary(load(op.x), load(op.positions), op.heads, op.inverse), op.y);
  }
  void do_run(const EmbeddingBackward& op) override {
    const bool zero_start = static_cast<bool>(op.positions);
    const Matrix dtable =
        reference::embedding_backward(load(op.ids), zero_start ? load(op.positions) : Matrix(), load(op.dy),
                                      op.dtable.shape[0], {.scale = op.scale, .key = op.key, .zero_start = zero_start});
    reference::add(dtable, op.dtable);
  }
  void do_run(const AttentionForward& op) override {
    const auto result = reference::attention(shape_of(op), load(op.q), load(op.k), load(op.v));
    store(result.out, op.out);
    store(result.log_sum_exp, op.log_sum_exp);
  }
  void do_run(const AttentionBackward& op) override {
    const auto result = reference::attention_backward(shape_of(op), load(op.dout), load(op.q), load(op.k), load(op.v));
    store(result.dq, op.dq);
    store(result.dk, op.dk);
    store(result.dv, op.dv);
  }
  void do_run(const DecodeAttention& op) override {
    std::vector<std::vector<std::int64_t>> rows(static_cast<std::size_t>(op.q.shape[0]));
    const Matrix begin = load(op.key_begin), listed = load(op.key_rows), count = load(op.key_count);
    for (std::int64_t row = 0; row < std::ssize(rows); ++row) {
      for (std::int64_t j = 0; j < static_cast<std::int64_t>(count(0, row)); ++j) {
        const auto place = op.key_rows ? listed(row, j) : begin(0, row) + static_cast<double>(j);
        rows[static_cast<std::size_t>(row)].push_back(static_cast<std::int64_t>(place));
      }
    }
    store(reference::decode_attention(load(op.q), load(op.keys), load(op.values), rows, op.heads, op.scale), op.out);
  }
  void do_run(const GuidedAttention& op) override {
    const auto *first = op.link_offsets.as<std::int32_t>(), *keys = op.links.as<std::int32_t>();
    std::vector<std::vector<std::int64_t>> links;
    for (std::int64_t row = 0; row < op.q.shape[0]; ++row) links.emplace_back(keys + first[row], keys + first[row + 1]);
    const AttentionForward as_forward{.q_offsets = op.q_offsets,
                                      .k_offsets = op.k_offsets,
                                      .heads = op.heads,
                                      .scale = op.scale,
                                      .key = {},
                                      .out = {},
                                      .log_sum_exp = {}};
    auto result = reference::guided_attention(shape_of(as_forward), load(op.q), load(op.k), links, op.head);
    store(result.loss, {op.loss.data, {op.loss.shape[0], 1}, DType::f32});
    scale_by(op.gradient_scale, result.dq);
    scale_by(op.gradient_scale, result.dk);
    reference::add(result.dq, op.dq);
    reference::add(result.dk, op.dk);
  }
  void do_run(const CrossEntropy& op) override {
    const Matrix logits = load(op.logits);
    auto result = reference::cross_entropy(logits, load(op.targets), op.smoothing);
    if (op.predicted) {
      Matrix places = reference::log_softmax_top_k(logits, 1).indices;
      const Matrix targets = load(op.targets);
      for (std::int64_t row = 0; row < logits.rows; ++row) places(row, 0) *= targets(0, row) < 0 ? 0 : 1;
      store(places, {op.predicted.data, {logits.rows, 1}, DType::i32});
    }
    store(result.loss, op.loss);
    store(result.nll, op.nll);
    store(result.correct, op.correct);
    scale_by(op.gradient_scale, result.dlogits);
    if (op.dlogits) store(result.dlogits, op.dlogits);
  }
  void do_run(const SymmetricDivergence& op) override {
    auto result = reference::symmetric_divergence(load(op.first), load(op.second), load(op.targets));
    store(result.loss, op.loss);
    scale_by(op.gradient_scale, result.dfirst);
    scale_by(op.gradient_scale, result.dsecond);
    for (const auto& [added, sum] : {std::pair(&result.dfirst, op.dfirst), {&result.dsecond, op.dsecond}}) {
      Matrix total = load(sum);
      for (std::size_t i = 0; i < total.values.size(); ++i) total.values[i] += added->values[i];
      store(total, sum);
    }
  }
  void do_run(const LogSoftmaxTopK& op) override {
    const auto best = reference::log_softmax_top_k(load(op.logits), op.scores.shape[1]);
    store(best.scores, op.scores);
    store(best.indices, op.indices);
    if (op.all) store(reference::log_softmax(load(op.logits)), op.all);
  }
  void do_run(const AdamUpdate& op) override {
    if (op.rows) fail("adam_update: the reference backend does not count rows");
    Matrix master = load(op.master), m = load(op.m), v = load(op.v);
    double clip_factor = 1;
    if (op.squares) {
      double norm = 0;
      for (const double square : load(op.squares).values) norm += square;
      norm = std::sqrt(norm);
      if (!std::isfinite(norm)) return;
      if (op.clip_norm > 0) clip_factor = std::min(1.0, op.clip_norm / norm);
    }
    reference::AdamScalars scalars{
        clip_factor, op.learning_rate, op.beta1, op.beta2, op.eps, op.weight_decay, static_cast<double>(op.step)};
    const Matrix old_master = master, old_m = m, old_v = v;
    if (!op.group) reference::adam(scalars, load(op.gradient), master, m, v);
    for (std::int32_t group = 0; op.group && group < op.groups.shape[0]; ++group) {
      const AdamUpdate::Group& settings = op.groups.as<AdamUpdate::Group>()[group];
      scalars.learning_rate = static_cast<double>(op.learning_rate) * static_cast<double>(settings.rate_factor);
      scalars.weight_decay = settings.weight_decay;
      Matrix updated = old_master, new_m = old_m, new_v = old_v;
      reference::adam(scalars, load(op.gradient), updated, new_m, new_v);
      for (std::size_t i = 0; i < master.values.size(); ++i) {
        if (op.group.as<std::int32_t>()[i / AdamUpdate::group_block] != group) continue;
        master.values[i] = updated.values[i];
        m.values[i] = new_m.values[i];
        v.values[i] = new_v.values[i];
      }
    }
    if (op.average) {
      Matrix average = load(op.average);
      const auto rate = static_cast<double>(op.average_rate);
      for (std::size_t i = 0; i < average.values.size(); ++i) {
        const bool moves = !op.group || op.group.as<std::int32_t>()[i / AdamUpdate::group_block] != AdamUpdate::frozen;
        if (moves) average.values[i] += rate * (master.values[i] - average.values[i]);
      }
      store(average, op.average);
    }
    store(master, op.master);
    store(m, op.m);
    store(v, op.v);
    if (op.compute) store(load(op.master), op.compute);
  }
  void do_run(const SquaredNorm& op) override {
    Matrix sums(1, op.sums.shape[0]);
    std::int64_t i = 0;
    for (const double value : load(op.x).values) sums(0, i++ / SquaredNorm::block) += value * value;
    store(sums, op.sums);
  }
  void do_run(const SumWithNorm& op) override {
    Matrix sum = load(op.parts[0]);
    for (std::size_t part = 1; part < op.parts.size(); ++part) {
      const Matrix more = load(op.parts[part]);
      for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += more.values[i];
    }
    store(sum, op.sum);
    do_run(SquaredNorm{.x = op.sum, .sums = op.norms});
  }
  void do_run(const Cast& op) override { store(load(op.x), op.y); }
  void do_run(const Fill& op) override { store(Matrix(op.y.rows(), op.y.columns(), op.value), op.y); }
  void do_run(const Add& op) override { reference::add(load(op.x), op.y); }
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace babelring
