#include "nmt/ops/cuda/cudnn_graph.h"

#include <utility>
#include <vector>

namespace babelring::cuda {

namespace {

constexpr std::int64_t cudnn_tensor_alignment = 16;    // bytes
constexpr std::int64_t first_number_of_inside = 1000;  // below: tensors in memory

/// What an operation computes in.
cudnnDataType_t arithmetic_type(const CudnnForm& result) {
  return result.type == CUDNN_DATA_BFLOAT16 ? CUDNN_DATA_FLOAT : result.type;
}

}  // namespace

CudnnForm dense_form(const std::array<std::int64_t, 4>& extents, cudnnDataType_t type) {
  return {extents, {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1}, type};
}

CudnnForm turned(CudnnForm form) {
  std::swap(form.extents[2], form.extents[3]);
  std::swap(form.strides[2], form.strides[3]);
  return form;
}

CudnnTensor CudnnGraph::add(std::int64_t number, const CudnnForm& form, std::optional<cudnnBackendAttributeName_t> kind,
                            CudnnTensor starts) {
  CudnnDescriptor tensor(library_, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, form.type);
  tensor.set_list(CUDNN_ATTR_TENSOR_DIMENSIONS, form.extents);
  tensor.set_list(CUDNN_ATTR_TENSOR_STRIDES, form.strides);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, number);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, cudnn_tensor_alignment);
  if (kind) tensor.set(*kind, true);
  if (starts != nullptr) tensor.set(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, starts->descriptor);
  tensor.finalize();
  tensors_.push_back({std::move(tensor), form, starts});
  return &tensors_.back();
}

CudnnTensor CudnnGraph::in_memory(std::int64_t number, const CudnnForm& form, CudnnTensor starts) {
  return add(number, form, std::nullopt, starts);
}

CudnnTensor CudnnGraph::scalar(std::int64_t number) {
  return add(number, dense_form({1, 1, 1, 1}), CUDNN_ATTR_TENSOR_IS_BY_VALUE, nullptr);
}

CudnnTensor CudnnGraph::inside(const CudnnForm& form, CudnnTensor starts) {
  const auto number = first_number_of_inside + static_cast<std::int64_t>(tensors_.size());
  return add(number, form, CUDNN_ATTR_TENSOR_IS_VIRTUAL, starts);
}

CudnnTensor CudnnGraph::matmul(CudnnTensor a, CudnnTensor b, const CudnnLengths& lengths, CudnnTensor result) {
  CudnnDescriptor& matmul = arithmetics_.emplace_back(library_, CUDNN_BACKEND_MATMUL_DESCRIPTOR, "a matmul");
  matmul.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  matmul.set(CUDNN_ATTR_MATMUL_PADDING_VALUE, 0.0);
  matmul.finalize();
  CudnnDescriptor& operation =
      operations_.emplace_back(library_, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "the operation of a matmul");
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, matmul);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a->descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b->descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, result->descriptor);
  const std::pair<cudnnBackendAttributeName_t, CudnnTensor> bounds[] = {
      {CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, lengths.m},
      {CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, lengths.n},
      {CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, lengths.k}};
  for (const auto& [name, bound] : bounds) {
    if (bound != nullptr) operation.set(name, bound->descriptor);
  }
  operation.finalize();
  return result;
}

CudnnDescriptor& CudnnGraph::arithmetic(cudnnPointwiseMode_t mode, cudnnDataType_t type) {
  CudnnDescriptor& made = arithmetics_.emplace_back(library_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "an arithmetic");
  made.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  made.set(CUDNN_ATTR_POINTWISE_MATH_PREC, type);
  return made;
}

CudnnTensor CudnnGraph::apply(const CudnnDescriptor& arithmetic, CudnnTensor x, CudnnTensor y, CudnnTensor mask,
                              CudnnTensor result) {
  CudnnDescriptor& operation =
      operations_.emplace_back(library_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "a pointwise operation");
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, arithmetic);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x->descriptor);
  if (y != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, y->descriptor);
  if (mask != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, mask->descriptor);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, result->descriptor);
  operation.finalize();
  return result;
}

CudnnTensor CudnnGraph::pointwise(cudnnPointwiseMode_t mode, CudnnTensor x, CudnnTensor y, CudnnTensor result) {
  CudnnDescriptor& made = arithmetic(mode, arithmetic_type(result->form));
  made.finalize();
  return apply(made, x, y, nullptr, result);
}

CudnnTensor CudnnGraph::select(CudnnTensor mask, CudnnTensor x, CudnnTensor y, CudnnTensor result) {
  CudnnDescriptor& made = arithmetic(CUDNN_POINTWISE_BINARY_SELECT, arithmetic_type(result->form));
  made.finalize();
  return apply(made, x, y, mask, result);
}

CudnnTensor CudnnGraph::index(std::int64_t axis, CudnnTensor like) {
  CudnnForm form = like->form;
  form.type = CUDNN_DATA_INT32;
  CudnnDescriptor& made = arithmetic(CUDNN_POINTWISE_GEN_INDEX, form.type);
  made.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  made.finalize();
  return apply(made, like, nullptr, nullptr, inside(form));
}

CudnnTensor CudnnGraph::reduce(cudnnReduceTensorOp_t operation, CudnnTensor x, CudnnTensor result) {
  CudnnDescriptor& made = arithmetics_.emplace_back(library_, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "a reduction");
  made.set(CUDNN_ATTR_REDUCTION_OPERATOR, operation);
  made.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  made.finalize();
  CudnnDescriptor& reduction =
      operations_.emplace_back(library_, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "the operation of a reduction");
  reduction.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, made);
  reduction.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x->descriptor);
  reduction.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, result->descriptor);
  reduction.finalize();
  return result;
}

CudnnTensor CudnnGraph::reshape(CudnnTensor x, CudnnTensor result) {
  CudnnDescriptor& operation =
      operations_.emplace_back(library_, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "a change of shape");
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x->descriptor);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, result->descriptor);
  operation.finalize();
  return result;
}

CudnnDescriptor CudnnGraph::finish(cudnnHandle_t handle) const {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor& operation : operations_) operations.push_back(operation.handle());
  CudnnDescriptor graph(library_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a graph");
  if (handle != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph.set_raw(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(operations),
                operations.data());
  graph.finalize();
  return graph;
}

}  // namespace babelring::cuda
