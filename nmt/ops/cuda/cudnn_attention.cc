#include "nmt/ops/cuda/cudnn_attention.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "nmt/ops/cuda/cudnn_batches.h"

namespace babelring::cuda {

namespace {

constexpr std::uintptr_t cudnn_alignment = 16;

/// An op as cuDNN's plans know it; what differs between batches is filled in later.
struct CudnnCall {
  CudnnShape shape;
  CudnnOperands operands;

  void bind(Packed tensor, const ConstTensor& rows) {
    shape.strides.of(tensor) = rows.row_stride;
    operands.rows.of(tensor) = const_cast<void*>(rows.data);
  }
  bool aligned() const {
    return std::all_of(operands.rows.begin(), operands.rows.end(),
                       [](const void* rows) { return reinterpret_cast<std::uintptr_t>(rows) % cudnn_alignment == 0; });
  }
};

template <class Op>
CudnnCall bind_inputs(const Op& op) {
  CudnnCall call;
  call.shape.causal = op.causal;
  call.shape.heads = op.heads;
  call.shape.head_width = op.q.shape[1] / op.heads;
  call.operands.scale = op.scale;
  call.bind(Packed::q, op.q);
  call.bind(Packed::k, op.k);
  call.bind(Packed::v, op.v);
  call.bind(Packed::out, op.out);
  call.bind(Packed::log_sum_exp, op.log_sum_exp);
  return call;
}

/// Places in tensors are counted in 32 bits.
bool places_fit(const CudnnShape& shape, std::int64_t tokens) {
  const std::int64_t widest = *std::max_element(shape.strides.begin(), shape.strides.end());
  return tokens * widest <= std::numeric_limits<std::int32_t>::max();
}

void launch_batch(const CudnnShape& shape, CudnnOperands operands, const std::vector<std::int32_t>& lists,
                  CudaContext& context) {
  const std::int32_t* list = context.lists().on_device(lists);
  const std::int64_t pitch = cudnn_list_length(shape.sentences);
  for (const std::int32_t*& starts : operands.starts) {
    starts = list;
    list += pitch;
  }
  operands.query_lengths = list;
  operands.key_lengths = list + pitch;
  const Arena::Scope scope(context.scratch());
  const std::int64_t bytes = context.cudnn().workspace_bytes(shape).value();
  operands.workspace = context.scratch().make({bytes / 4 + 1}, DType::f32).data;
  const WorkStream stream = context.stream();
  if (WorkLog* log = stream.log()) {
    log->add(shape);
    log->add(operands);
    return;
  }
  context.cudnn().run(shape, operands, stream.handle());
}

template <class Op>
bool run_call(const Op& op, CudnnCall call, std::span<const std::int32_t> sentences, CudaContext& context) {
  const auto q_offsets = host_list(op.q_offsets), k_offsets = host_list(op.k_offsets);
  if (op.q.dtype != DType::bf16 || op.key.threshold() > 0 || !call.aligned() ||
      !places_fit(call.shape, std::max(op.q.shape[0], op.k.shape[0])) ||
      one_side_is_empty(q_offsets, k_offsets, sentences)) {
    return false;
  }
  const std::vector<CudnnBatch> batches = cudnn_batches(q_offsets, k_offsets, sentences, op.heads);
  const auto shape_of = [&](const CudnnBatch& batch) {
    CudnnShape shape = call.shape;
    shape.sentences = batch.sentences;
    shape.length = batch.length;
    return shape;
  };
  for (const CudnnBatch& batch : batches) {
    if (!context.cudnn().workspace_bytes(shape_of(batch))) return false;
  }
  for (const CudnnBatch& batch : batches) {
    const CudnnShape shape = shape_of(batch);
    launch_batch(shape, call.operands, cudnn_lists(shape, batch.members, q_offsets, k_offsets), context);
  }
  return true;
}

}  // namespace

bool run_by_cudnn(const AttentionForward& op, std::span<const std::int32_t> sentences, CudaContext& context) {
  return run_call(op, bind_inputs(op), sentences, context);
}

bool run_by_cudnn(const AttentionBackward& op, std::span<const std::int32_t> sentences, CudaContext& context) {
  CudnnCall call = bind_inputs(op);
  call.shape.backward = true;
  call.bind(Packed::dout, op.dout);
  call.bind(Packed::dq, op.dq);
  call.bind(Packed::dk, op.dk);
  call.bind(Packed::dv, op.dv);
  return run_call(op, call, sentences, context);
}

CudnnDevice current_cudnn_device() {
  int device = 0;
  cudaDeviceProp properties{};
  require(cudaGetDevice(&device), "asking for the device");
  require(cudaGetDeviceProperties(&properties, device), "asking for the device's properties");
  return {.capability = 10 * properties.major + properties.minor};
}

}  // namespace babelring::cuda
