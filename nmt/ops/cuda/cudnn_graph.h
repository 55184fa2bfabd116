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
/// Dense, the last extent contiguous.
CudnnForm dense_form(const std::array<std::int64_t, 4>& extents, cudnnDataType_t type = CUDNN_DATA_FLOAT);
/// The last two axes exchanged: of the same elements.
CudnnForm turned(CudnnForm form);

/// A tensor of a graph.
struct CudnnNode;
/// Lives as long as its graph.
using CudnnTensor = const CudnnNode*;
struct CudnnNode {
  CudnnDescriptor descriptor;
  CudnnForm form;
  CudnnTensor starts = nullptr;  // where its sentences begin
};

/// Lengths, one a sentence, that bound the rows, columns or inner extent of a product; null: its full extent.
struct CudnnLengths {
  CudnnTensor m = nullptr, n = nullptr, k = nullptr;
};

/// A graph of operations, collected one by one; each returns its result. Every sum and product is taken in f32.
class CudnnGraph {
 public:
  explicit CudnnGraph(const CudnnLibrary& library) : library_(library) {}

  /// A tensor in memory, under the number by which its place is given to each run. `starts`: [sentences + 1] i32,
  /// where each sentence begins, in elements.
  CudnnTensor in_memory(std::int64_t number, const CudnnForm& form, CudnnTensor starts = nullptr);
  /// One f32 in the host's memory, read by each run.
  CudnnTensor scalar(std::int64_t number);
  /// A result that no one outside sees. `starts`: as its elements are another tensor's that has them.
  CudnnTensor inside(const CudnnForm& form, CudnnTensor starts = nullptr);

  CudnnTensor product(CudnnTensor a, CudnnTensor b, const CudnnLengths& lengths, CudnnTensor result);
  /// `y`: null for modes with one operand.
  CudnnTensor pointwise(cudnnPointwiseMode_t mode, CudnnTensor x, CudnnTensor y, CudnnTensor result);
  /// Where `mask` is true x, elsewhere y.
  CudnnTensor select(CudnnTensor mask, CudnnTensor x, CudnnTensor y, CudnnTensor result);
  /// At each place of `like` its index along the axis, i32.
  CudnnTensor index(std::int64_t axis, CudnnTensor like);
  /// Over the axes that the result has only 1 of.
  CudnnTensor reduce(cudnnReduceTensorOp_t operation, CudnnTensor x, CudnnTensor result);
  CudnnTensor reshape(CudnnTensor x, CudnnTensor result);

  /// The whole. `handle`: null where there is no device.
  CudnnDescriptor finish(cudnnHandle_t handle) const;

 private:
  /// `kind`: an attribute that is true of the tensor.
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
