#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>

#include "nmt/ops/cuda/cudnn_descriptor.h"

namespace babelring::cuda {

/// Extents and strides, in elements, of a tensor of rank 4.
struct CudnnForm {
  std::array<std::int64_t, 4> extents{}, strides{};
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
};
/// A dense tensor whose last axis is contiguous.
CudnnForm dense_form(const std::array<std::int64_t, 4>& extents, cudnnDataType_t type = CUDNN_DATA_FLOAT);
/// The same elements with the last two axes exchanged.
CudnnForm turned(CudnnForm form);

/// A tensor of a graph.
struct CudnnNode;
/// Valid as long as its graph.
using CudnnTensor = const CudnnNode*;
struct CudnnNode {
  CudnnDescriptor descriptor;
  CudnnForm form;
  CudnnTensor starts = nullptr;  // the first element of each sentence
};

/// The length of each sentence, which limits the rows, columns or inner extent of a matmul; null: the full extent.
struct CudnnLengths {
  CudnnTensor m = nullptr, n = nullptr, k = nullptr;
};

/// A graph of operations. Each member function adds an operation and returns its result. Sums and products are f32.
class CudnnGraph {
 public:
  explicit CudnnGraph(const CudnnLibrary& library) : library_(library) {}

  /// A tensor in device memory. Each run gets its address by `number`. `starts`: [sentences + 1] i32, the first element
  /// of each sentence.
  CudnnTensor in_memory(std::int64_t number, const CudnnForm& form, CudnnTensor starts = nullptr);
  /// An f32 in host memory, read by each run.
  CudnnTensor scalar(std::int64_t number);
  /// A result inside the graph. `starts`: those of the tensor whose elements it has, if that has any.
  CudnnTensor inside(const CudnnForm& form, CudnnTensor starts = nullptr);

  CudnnTensor matmul(CudnnTensor a, CudnnTensor b, const CudnnLengths& lengths, CudnnTensor result);
  /// An operation on each element. `y` is null for modes with one operand.
  CudnnTensor pointwise(cudnnPointwiseMode_t mode, CudnnTensor x, CudnnTensor y, CudnnTensor result);
  /// x where `mask` is true, otherwise y.
  CudnnTensor select(CudnnTensor mask, CudnnTensor x, CudnnTensor y, CudnnTensor result);
  /// A tensor shaped like `like`: the index of each element along the axis, i32.
  CudnnTensor index(std::int64_t axis, CudnnTensor like);
  /// Reduces the axes in which `result` has extent 1.
  CudnnTensor reduce(cudnnReduceTensorOp_t operation, CudnnTensor x, CudnnTensor result);
  CudnnTensor reshape(CudnnTensor x, CudnnTensor result);

  /// Returns the finished graph. `handle` is null if there is no device.
  CudnnDescriptor finish(cudnnHandle_t handle) const;

 private:
  /// `kind`: an attribute to set to true, if any.
  CudnnTensor add(std::int64_t number, const CudnnForm& form, std::optional<cudnnBackendAttributeName_t> kind,
                  CudnnTensor starts);
  CudnnDescriptor& arithmetic(cudnnPointwiseMode_t mode, cudnnDataType_t type);
  CudnnTensor apply(const CudnnDescriptor& arithmetic, CudnnTensor x, CudnnTensor y, CudnnTensor mask,
                    CudnnTensor result);

  const CudnnLibrary& library_;
  std::deque<CudnnNode> tensors_;
  std::deque<CudnnDescriptor> arithmetics_, operations_;
};

}  // namespace babelring::cuda
