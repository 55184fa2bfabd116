#include "nmt/ops/cuda/cudnn_attention_graphs.h"

#include <utility>

namespace babelring::cuda {

namespace {

constexpr cudnnDataType_t rows_type = CUDNN_DATA_BFLOAT16;

/// What both graphs are made of.
class AttentionGraph {
 public:
  AttentionGraph(const CudnnLibrary& library, const CudnnShape& shape)
      : shape_(shape),
        graph(library),
        scores(dense_form({shape.sentences, shape.heads, shape.length, shape.length})),
        row(dense_form({shape.sentences, shape.heads, shape.length, 1})),
        query_lengths(lengths(cudnn_number::query_lengths)),
        key_lengths(lengths(cudnn_number::key_lengths)),
        scale(graph.scalar(cudnn_number::scale)),
        minus_infinity(graph.scalar(cudnn_number::minus_infinity)) {}

  /// Rows of heads, [sentences, heads, length, head width].
  CudnnTensor rows(Packed tensor) { return graph.in_memory(number_of(tensor), rows_form(tensor), starts(tensor)); }
  /// The same with the last two axes exchanged.
  CudnnTensor columns(Packed tensor) {
    const CudnnForm form = turned(rows_form(tensor));
    return graph.in_memory(number_of(tensor), form, starts(tensor));
  }
  CudnnTensor log_sum_exp() {
    CudnnForm form = row;
    form.strides = {shape_.length * shape_.heads, 1, shape_.heads, 1};
    return graph.in_memory(number_of(Packed::log_sum_exp), form, starts(Packed::log_sum_exp));
  }

  CudnnTensor score(cudnnPointwiseMode_t mode, CudnnTensor x, CudnnTensor y = nullptr) {
    return graph.pointwise(mode, x, y, graph.inside(scores));
  }
  /// scale * q k^T.
  CudnnTensor scaled_scores(CudnnTensor q, CudnnTensor turned_k) {
    const CudnnTensor s = graph.matmul(q, turned_k, {.m = query_lengths, .n = key_lengths}, graph.inside(scores));
    return score(CUDNN_POINTWISE_MUL, s, scale);
  }
  /// Minus infinity beyond the sentences' lengths and, if the attention is causal, for keys behind the query.
  CudnnTensor masked(CudnnTensor s) {
    const CudnnTensor in_query = compare(CUDNN_POINTWISE_CMP_LT, graph.index(2, s), query_lengths);
    const CudnnTensor in_keys = compare(CUDNN_POINTWISE_CMP_LT, graph.index(3, s), key_lengths);
    s = keep(compare(CUDNN_POINTWISE_LOGICAL_AND, in_query, in_keys), s);
    if (!shape_.causal) return s;
    return keep(compare(CUDNN_POINTWISE_CMP_GE, graph.index(2, s), graph.index(3, s)), s);
  }
  /// The transpose of probabilities or their gradients, rounded for the matmul with rows.
  CudnnTensor turned_scores(CudnnTensor s) {
    CudnnForm form = turned(scores);
    form.type = rows_type;
    return graph.reshape(s, graph.inside(form));
  }

 private:
  static std::int64_t number_of(Packed tensor) { return static_cast<std::int64_t>(tensor) + 1; }
  CudnnForm rows_form(Packed tensor) const {
    const std::int64_t stride = shape_.strides.of(tensor);
    return {.extents = {shape_.sentences, shape_.heads, shape_.length, shape_.head_width},
            .strides = {shape_.length * stride, shape_.head_width, stride, 1},
            .type = rows_type};
  }
  CudnnTensor starts(Packed tensor) {
    return graph.in_memory(cudnn_number::first_starts + number_of(tensor),
                           dense_form({shape_.sentences + 1, 1, 1, 1}, CUDNN_DATA_INT32));
  }
  CudnnTensor lengths(std::int64_t number) {
    return graph.in_memory(number, dense_form({shape_.sentences, 1, 1, 1}, CUDNN_DATA_INT32));
  }
  CudnnTensor compare(cudnnPointwiseMode_t mode, CudnnTensor x, CudnnTensor y) {
    CudnnForm form = scores;
    form.type = CUDNN_DATA_BOOLEAN;
    return graph.pointwise(mode, x, y, graph.inside(form));
  }
  CudnnTensor keep(CudnnTensor mask, CudnnTensor s) {
    return graph.select(mask, s, minus_infinity, graph.inside(scores));
  }

  const CudnnShape& shape_;

 public:
  CudnnGraph graph;
  const CudnnForm scores, row;
  const CudnnTensor query_lengths, key_lengths, scale, minus_infinity;
};

/// The softmax of each row, rounded; its logarithm of the sum goes to log_sum_exp.
CudnnTensor softmax(AttentionGraph& of, CudnnTensor s) {
  CudnnGraph& graph = of.graph;
  const CudnnTensor largest = graph.reduce(CUDNN_REDUCE_TENSOR_MAX, s, graph.inside(of.row));
  const CudnnTensor exponentials = of.score(CUDNN_POINTWISE_EXP, of.score(CUDNN_POINTWISE_SUB, s, largest));
  const CudnnTensor total = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, graph.inside(of.row));
  const CudnnTensor log_total = graph.pointwise(CUDNN_POINTWISE_LOG, total, nullptr, graph.inside(of.row));
  graph.pointwise(CUDNN_POINTWISE_ADD, largest, log_total, of.log_sum_exp());
  CudnnForm rounded = of.scores;
  rounded.type = rows_type;
  return graph.pointwise(CUDNN_POINTWISE_DIV, exponentials, total, graph.inside(rounded));
}

/// The sums of out * dout over each head's columns: what the softmax's gradient subtracts.
CudnnTensor row_sums(AttentionGraph& of, const CudnnShape& shape, CudnnTensor out, CudnnTensor dout) {
  CudnnGraph& graph = of.graph;
  const CudnnForm form = dense_form({shape.sentences, shape.heads, shape.length, shape.head_width});
  const CudnnTensor products = graph.pointwise(CUDNN_POINTWISE_MUL, dout, out, graph.inside(form));
  const CudnnTensor sums = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, products, graph.inside(of.row));
  // The engines look for a scale here: that of dropout's survivors.
  return graph.pointwise(CUDNN_POINTWISE_MUL, sums, graph.scalar(cudnn_number::one),
                         graph.in_memory(cudnn_number::row_sums, of.row));
}

}  // namespace

CudnnGraph attention_forward_graph(const CudnnLibrary& library, const CudnnShape& shape) {
  AttentionGraph of(library, shape);
  const CudnnTensor s = of.masked(of.scaled_scores(of.rows(Packed::q), of.columns(Packed::k)));
  of.graph.matmul(softmax(of, s), of.rows(Packed::v), {.m = of.query_lengths, .k = of.key_lengths},
                  of.rows(Packed::out));
  return std::move(of.graph);
}

CudnnGraph attention_backward_graph(const CudnnLibrary& library, const CudnnShape& shape) {
  AttentionGraph of(library, shape);
  CudnnGraph& graph = of.graph;
  const CudnnTensor q = of.rows(Packed::q), k = of.columns(Packed::k), dout = of.rows(Packed::dout);
  const CudnnTensor sums = row_sums(of, shape, of.rows(Packed::out), dout);
  const CudnnTensor shifted = of.score(CUDNN_POINTWISE_SUB, of.scaled_scores(q, k), of.log_sum_exp());
  const CudnnTensor p = of.score(CUDNN_POINTWISE_EXP, of.masked(shifted));
  const CudnnLengths of_keys{.m = of.key_lengths, .k = of.query_lengths};
  graph.matmul(of.turned_scores(p), dout, of_keys, of.rows(Packed::dv));

  CudnnTensor ds =
      graph.matmul(dout, of.columns(Packed::v), {.m = of.query_lengths, .n = of.key_lengths}, graph.inside(of.scores));
  ds = of.score(CUDNN_POINTWISE_MUL, of.score(CUDNN_POINTWISE_SUB, ds, sums), p);
  ds = of.score(CUDNN_POINTWISE_MUL, ds, of.scale);
  graph.matmul(of.turned_scores(ds), q, of_keys, of.rows(Packed::dk));
  CudnnForm k_rows = turned(k->form);
  k_rows.type = CUDNN_DATA_FLOAT;
  graph.matmul(ds, graph.reshape(k, graph.inside(k_rows, k->starts)), {.m = of.query_lengths, .k = of.key_lengths},
               of.rows(Packed::dq));
  return std::move(of.graph);
}

std::int64_t row_sums_bytes(const CudnnShape& shape) {
  return shape.sentences * shape.heads * shape.length * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace babelring::cuda
