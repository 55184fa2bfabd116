#include "nmt/ops/attention.h"

#include <cmath>

#include "nmt/ops/cuda/attention_plan.h"
#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/launch.h"
#include "nmt/ops/cuda/tile_attention.h"

/// Chooses the route of attention, and implements the route of batched matmuls. For these the sentences of a group are
/// copied to arrays [sentence, head, row, column] of equal sizes, filled up with zeros; cuBLASLt multiplies all of them
/// at once; one kernel between the matmuls scales, masks, takes the softmax and drops. It needs room for the scores,
/// which AttentionPlan bounds.
namespace babelring::cuda {

namespace {

constexpr int score_rows = 4;  // a warp takes a row of scores
constexpr int score_threads = score_rows * warp_lanes;

/// The sentences of a group, on the device.
struct GroupView {
  const int* order;  // [count]
  const int *q_offsets, *k_offsets;
  int count, heads, queries, keys;  // queries and keys: room for each sentence's
  int head_width, padded_width;
};

/// One side of the operands: [tokens, width] in memory.
template <class T>
struct PackedRows {
  T* data;
  std::int64_t stride;
  const int* offsets;
  int room;  // rows for a sentence in the padded array
};

/// Blocks (sentence, part): copies a sentence's rows to the padded array, or `back` from there.
template <class T, bool back>
__global__ void copy_rows_kernel(GroupView group, PackedRows<T> rows, T* padded) {
  await_earlier_kernels();
  const int sentence = group.order[blockIdx.x];
  const int begin = rows.offsets[sentence], length = rows.offsets[sentence + 1] - begin;
  const std::int64_t elements = static_cast<std::int64_t>(group.heads) * rows.room * group.padded_width;
  padded += blockIdx.x * elements;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.x;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; at < elements; at += step) {
    const auto column = static_cast<int>(at % group.padded_width);
    const auto row = static_cast<int>(at / group.padded_width % rows.room);
    const auto head = static_cast<int>(at / group.padded_width / rows.room);
    const bool inside = row < length && column < group.head_width;
    const std::int64_t place =
        (begin + static_cast<std::int64_t>(row)) * rows.stride + head * group.head_width + column;
    if constexpr (back) {
      if (inside) rows.data[place] = padded[at];
    } else {
      padded[at] = inside ? rows.data[place] : narrow<T>(0);
    }
  }
}

/// Where a warp is: a row of scores of one sentence and head.
struct ScoreRow {
  __device__ explicit ScoreRow(const GroupView& group) {
    const int sentence = group.order[blockIdx.x / group.heads];
    head = blockIdx.x % group.heads;
    row = blockIdx.y * score_rows + threadIdx.x / warp_lanes;
    token = group.q_offsets[sentence] + row;
    inside = row < group.q_offsets[sentence + 1] - group.q_offsets[sentence];
    keys = group.k_offsets[sentence + 1] - group.k_offsets[sentence];
    at = (static_cast<std::int64_t>(blockIdx.x) * group.queries + row) * group.keys;
  }
  int head, row, token, keys;
  bool inside;
  std::int64_t at;  // of the row's first element
};

/// The dropout bits of a row of attention: those of (query row, head, key position).
__device__ DeviceDropoutRow attention_dropout(const DropoutKey& key, int head, int token) {
  DropoutKey of_head = read_key(key);
  of_head.key = derive_seed(of_head.key, static_cast<std::uint64_t>(head));
  return {of_head, token};
}

template <class T>
__global__ void softmax_kernel(GroupView group, const float* scores, T* probabilities, float* log_sum_exp, float scale,
                               bool causal, DropoutKey key) {
  await_earlier_kernels();
  const ScoreRow at(group);
  if (at.row >= group.queries) return;
  const int lane = threadIdx.x % warp_lanes;
  const float* s = scores + at.at;
  T* p = probabilities + at.at;
  const int visible = !at.inside ? 0 : causal ? min(at.keys, at.row + 1) : at.keys;
  float largest = -INFINITY;
  for (int j = lane; j < visible; j += warp_lanes) largest = fmaxf(largest, s[j] * scale);
  largest = warp_max(largest);
  float total = 0;
  for (int j = lane; j < visible; j += warp_lanes) total += expf(s[j] * scale - largest);
  total = warp_sum(total);
  const DeviceDropoutRow mask = attention_dropout(key, at.head, at.token);
  const float factor = 1.0f / total;
  for (int j = lane; j < group.keys; j += warp_lanes) {
    p[j] = narrow<T>(j < visible ? mask.apply(expf(s[j] * scale - largest) * factor, j) : 0.0f);
  }
  if (lane == 0 && at.inside) {
    log_sum_exp[static_cast<std::int64_t>(at.token) * group.heads + at.head] =
        visible > 0 ? largest + logf(total) : -INFINITY;
  }
}

/// From scores and the gradients of dropped probabilities, `dprobabilities`: the probabilities after dropout, and the
/// gradients of what q k^T gives.
template <class T>
__global__ void softmax_backward_kernel(GroupView group, const float* scores, const float* dprobabilities,
                                        const float* log_sum_exp, T* probabilities, T* gradients, float scale,
                                        bool causal, DropoutKey key) {
  await_earlier_kernels();
  const ScoreRow at(group);
  if (at.row >= group.queries) return;
  const int lane = threadIdx.x % warp_lanes;
  const float *s = scores + at.at, *d = dprobabilities + at.at;
  T *p = probabilities + at.at, *g = gradients + at.at;
  const int visible = !at.inside ? 0 : causal ? min(at.keys, at.row + 1) : at.keys;
  const float log_sum = at.inside ? log_sum_exp[static_cast<std::int64_t>(at.token) * group.heads + at.head] : 0.0f;
  const DeviceDropoutRow mask = attention_dropout(key, at.head, at.token);
  float mean = 0;  // of the gradients, by probability
  for (int j = lane; j < visible; j += warp_lanes) mean += mask.apply(expf(s[j] * scale - log_sum) * d[j], j);
  mean = warp_sum(mean);
  for (int j = lane; j < group.keys; j += warp_lanes) {
    const bool seen = j < visible;
    const float probability = seen ? expf(s[j] * scale - log_sum) : 0.0f;
    p[j] = narrow<T>(seen ? mask.apply(probability, j) : 0.0f);
    g[j] = narrow<T>(seen ? probability * (mask.apply(d[j], j) - mean) * scale : 0.0f);
  }
}

/// Values that all steps of a pass over one group share.
class GroupPass {
 public:
  template <class Op>
  GroupPass(const Op& op, const AttentionPlan& plan, const AttentionGroup& group, CudaContext& context)
      : context_(context), type_(op.q.dtype) {
    const std::int64_t head_width = op.q.shape[1] / op.heads;
    view = {.order = context.lists().on_device(plan.order) + group.first,
            .q_offsets = context.lists().on_device(host_list(op.q_offsets)),
            .k_offsets = context.lists().on_device(host_list(op.k_offsets)),
            .count = static_cast<int>(group.count),
            .heads = op.heads,
            .queries = static_cast<int>(group.queries),
            .keys = static_cast<int>(group.keys),
            .head_width = static_cast<int>(head_width),
            .padded_width = static_cast<int>((head_width + 7) / 8 * 8)};
  }

  /// A padded array of q's or k's rows.
  Tensor rows(bool of_keys) const { return make(of_keys ? view.keys : view.queries, view.padded_width, type_); }
  Tensor scores(DType type) const { return make(view.queries, view.keys, type); }

  /// The group's rows of a tensor [tokens, width] in a padded array.
  Tensor padded(const ConstTensor& tensor, bool of_keys) const {
    const Tensor to = rows(of_keys);
    copy<false>(const_cast<void*>(tensor.data), tensor.row_stride, of_keys, to);
    return to;
  }
  void unpad(const Tensor& from, bool of_keys, const Tensor& to) const {
    copy<true>(to.data, to.row_stride, of_keys, from);
  }

  /// c = a b, a^T b or a b^T, matrix by matrix of padded arrays [count * heads, rows, columns].
  void matmul(const Tensor& a, bool turn_a, const Tensor& b, bool turn_b, const Tensor& c) const {
    const auto alignment = [](const Tensor& t) {
      const auto size = static_cast<std::int64_t>(size_of(t.dtype));
      return static_cast<std::uint8_t>(alignment_of(t.data, t.shape[2] * size, t.shape[1] * t.shape[2] * size));
    };
    context_.matmul().run({.m = c.shape[1],
                           .n = c.shape[2],
                           .k = turn_a ? a.shape[1] : a.shape[2],
                           .a_row = turn_a ? 1 : a.shape[2],
                           .a_column = turn_a ? a.shape[2] : 1,
                           .b_row = turn_b ? 1 : b.shape[2],
                           .b_column = turn_b ? b.shape[2] : 1,
                           .c_row = c.shape[2],
                           .batch = c.shape[0],
                           .a_batch = a.shape[1] * a.shape[2],
                           .b_batch = b.shape[1] * b.shape[2],
                           .c_batch = c.shape[1] * c.shape[2],
                           .type = a.dtype,
                           .c_type = c.dtype,
                           .varying = Varying::batch,
                           .a_alignment = alignment(a),
                           .b_alignment = alignment(b),
                           .c_alignment = alignment(c)},
                          {.a = a.data, .b = b.data, .c = c.data});
  }

  dim3 score_grid() const {
    return {static_cast<unsigned>(view.count * view.heads),
            static_cast<unsigned>((view.queries + score_rows - 1) / score_rows)};
  }

  GroupView view;

 private:
  Tensor make(std::int64_t rows, std::int64_t columns, DType type) const {
    return context_.scratch().make(Shape{static_cast<std::int64_t>(view.count) * view.heads, rows, columns}, type);
  }

  template <bool back>
  void copy(void* data, std::int64_t stride, bool of_keys, const Tensor& array) const {
    const std::int64_t elements = array.shape.elements() / view.count;
    constexpr std::int64_t max_parts = 1024;
    const std::int64_t parts = (elements + elementwise_threads - 1) / elementwise_threads;
    const dim3 grid(static_cast<unsigned>(view.count), static_cast<unsigned>(parts < max_parts ? parts : max_parts));
    with_device_type(type_, [&](auto tag) {
      using T = decltype(tag);
      const PackedRows<T> rows{static_cast<T*>(data), stride, of_keys ? view.k_offsets : view.q_offsets,
                               of_keys ? view.keys : view.queries};
      launch("attention", {grid, elementwise_threads, context_.stream()}, copy_rows_kernel<T, back>, view, rows,
             array.as<T>());
    });
  }

  CudaContext& context_;
  DType type_;
};

template <class Op>
bool goes_by_tiles(const Op& op, const CudaContext& context) {
  return context.attention_route() == AttentionRoute::automatic && fits_tile_attention(op);
}

void forward_group(const AttentionForward& op, const GroupPass& pass, CudaContext& context) {
  const Tensor q = pass.padded(op.q, false), k = pass.padded(op.k, true), v = pass.padded(op.v, true);
  const Tensor scores = pass.scores(DType::f32), probabilities = pass.scores(op.q.dtype), out = pass.rows(false);
  pass.matmul(q, false, k, true, scores);
  with_device_type(op.q.dtype, [&](auto tag) {
    using T = decltype(tag);
    launch(op.name, {pass.score_grid(), score_threads, context.stream()}, softmax_kernel<T>, pass.view,
           scores.as<float>(), probabilities.as<T>(), op.log_sum_exp.as<float>(), op.scale, op.causal, op.key);
  });
  pass.matmul(probabilities, false, v, false, out);
  pass.unpad(out, false, op.out);
}

void backward_group(const AttentionBackward& op, const GroupPass& pass, CudaContext& context) {
  const Tensor q = pass.padded(op.q, false), dout = pass.padded(op.dout, false);
  const Tensor k = pass.padded(op.k, true), v = pass.padded(op.v, true);
  const Tensor scores = pass.scores(DType::f32), dprobabilities = pass.scores(DType::f32);
  const Tensor probabilities = pass.scores(op.q.dtype), gradients = pass.scores(op.q.dtype);
  pass.matmul(q, false, k, true, scores);
  pass.matmul(dout, false, v, true, dprobabilities);
  with_device_type(op.q.dtype, [&](auto tag) {
    using T = decltype(tag);
    launch(op.name, {pass.score_grid(), score_threads, context.stream()}, softmax_backward_kernel<T>, pass.view,
           scores.as<float>(), dprobabilities.as<float>(), op.log_sum_exp.as<float>(), probabilities.as<T>(),
           gradients.as<T>(), op.scale, op.causal, op.key);
  });
  const Tensor of_queries = pass.rows(false), of_keys = pass.rows(true);
  pass.matmul(probabilities, true, dout, false, of_keys);
  pass.unpad(of_keys, true, op.dv);
  pass.matmul(gradients, true, q, false, of_keys);
  pass.unpad(of_keys, true, op.dk);
  pass.matmul(gradients, false, k, false, of_queries);
  pass.unpad(of_queries, false, op.dq);
}

}  // namespace

void run(const AttentionForward& op, CudaContext& context) {
  if (op.q.shape[1] == 0) return;
  if (goes_by_tiles(op, context)) return run_tiles(op, context);
  const AttentionPlan plan = plan_attention(host_list(op.q_offsets), host_list(op.k_offsets), op.heads);
  for (const AttentionGroup& group : plan.groups) {
    const Arena::Scope scope(context.scratch());
    forward_group(op, GroupPass(op, plan, group, context), context);
  }
}

void run(const AttentionBackward& op, CudaContext& context) {
  if (op.q.shape[1] == 0) return;
  if (goes_by_tiles(op, context)) return run_tiles(op, context);
  const AttentionPlan plan = plan_attention(host_list(op.q_offsets), host_list(op.k_offsets), op.heads);
  for (const AttentionGroup& group : plan.groups) {
    const Arena::Scope scope(context.scratch());
    backward_group(op, GroupPass(op, plan, group, context), context);
  }
}

}  // namespace babelring::cuda
