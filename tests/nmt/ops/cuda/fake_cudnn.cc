#include <cudnn_graph.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "nmt/core/dtype.h"

/// A libcudnn.so.9 that takes graphs as the real one does and computes them one operation after another in doubles, in
/// the host's memory, so that a graph's meaning can be compared with the reference, which no plan shows. It knows the
/// operations of attention only.
namespace {

/// A descriptor: what was set, by attribute.
struct Node {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<std::int64_t>> numbers;
  std::map<int, std::vector<void*>> places;
  std::map<int, std::vector<std::shared_ptr<Node>>> nodes;

  std::int64_t number(int name, std::int64_t otherwise = 0) const {
    const auto found = numbers.find(name);
    return found == numbers.end() ? otherwise : found->second.front();
  }
  std::shared_ptr<Node> node(int name) const {
    const auto found = nodes.find(name);
    return found == nodes.end() ? nullptr : found->second.front();
  }
};
/// What handles point to: real descriptors, too, outlive their handles where others hold them.
using Held = std::shared_ptr<Node>;

Held& held(cudnnBackendDescriptor_t handle) {
  return *static_cast<Held*>(handle);
}

using Index = std::array<std::int64_t, 4>;

/// Elements of a tensor: in memory, or, for those that no one outside sees, in doubles.
struct View {
  Index extents{}, strides{};
  cudnnDataType_t type{};
  char* memory = nullptr;
  const std::int32_t* starts = nullptr;
  const std::int32_t* lengths = nullptr;  // rows of each sentence that are there, for tensors with starts
  std::shared_ptr<std::vector<double>> values;

  /// What is 1 wide is the same everywhere.
  std::int64_t place(const Index& at) const {
    std::int64_t place = starts != nullptr ? starts[at[0]] : extents[0] > 1 ? at[0] * strides[0] : 0;
    for (std::size_t axis = 1; axis < 4; ++axis) place += extents[axis] > 1 ? at[axis] * strides[axis] : 0;
    return place;
  }
  /// Rows run along the axis with the larger stride of the last two.
  bool there(const Index& at) const {
    if (lengths == nullptr) return true;
    return at[strides[2] >= strides[3] ? 2 : 3] < lengths[at[0]];
  }
  double load(const Index& at) const {
    if (!there(at)) return 0;
    const std::int64_t i = place(at);
    if (values != nullptr) return (*values)[static_cast<std::size_t>(i)];
    if (type == CUDNN_DATA_BFLOAT16) return float{reinterpret_cast<babelring::BFloat16*>(memory)[i]};
    if (type == CUDNN_DATA_INT32) return reinterpret_cast<std::int32_t*>(memory)[i];
    return reinterpret_cast<float*>(memory)[i];
  }
  void store(const Index& at, double value) const {
    if (!there(at)) return;
    const std::int64_t i = place(at);
    const babelring::BFloat16 rounded(static_cast<float>(value));
    if (values != nullptr) {
      const bool rounds = type == CUDNN_DATA_BFLOAT16;
      (*values)[static_cast<std::size_t>(i)] = rounds ? static_cast<double>(float{rounded}) : value;
    } else if (type == CUDNN_DATA_BFLOAT16) {
      reinterpret_cast<babelring::BFloat16*>(memory)[i] = rounded;
    } else {
      reinterpret_cast<float*>(memory)[i] = static_cast<float>(value);
    }
  }
  template <class Body>
  void each(const Body& body) const {
    Index at{};
    for (at[0] = 0; at[0] < extents[0]; ++at[0])
      for (at[1] = 0; at[1] < extents[1]; ++at[1])
        for (at[2] = 0; at[2] < extents[2]; ++at[2])
          for (at[3] = 0; at[3] < extents[3]; ++at[3]) body(at);
  }
};

Index four(const std::vector<std::int64_t>& numbers) {
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

double pointwise(std::int64_t mode, double x, double y, double mask) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return x + y;
    case CUDNN_POINTWISE_SUB:
      return x - y;
    case CUDNN_POINTWISE_MUL:
      return x * y;
    case CUDNN_POINTWISE_DIV:
      return x / y;
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_CMP_LT:
      return x < y ? 1 : 0;
    case CUDNN_POINTWISE_CMP_GE:
      return x >= y ? 1 : 0;
    case CUDNN_POINTWISE_LOGICAL_AND:
      return x != 0 && y != 0 ? 1 : 0;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return mask != 0 ? x : y;
    default:
      return std::nan("");
  }
}

/// One run of a graph.
class Run {
 public:
  Run(const Node& graph, const Node& pack) {
    const auto& numbers = pack.numbers.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const auto& places = pack.places.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (std::size_t i = 0; i < numbers.size(); ++i) memory_[numbers[i]] = static_cast<char*>(places[i]);
    const auto& operations = graph.nodes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
    for (const Held& operation : operations) find_lengths(*operation);
    for (const Held& operation : operations) run(*operation);
  }

 private:
  /// The sentences' lengths of a tensor with starts are those that bound a matmul along its rows.
  void find_lengths(const Node& operation) {
    if (operation.type != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) return;
    const auto m = operation.node(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC);
    const auto n = operation.node(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC);
    const auto k = operation.node(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC);
    note_lengths(operation.node(CUDNN_ATTR_OPERATION_MATMUL_ADESC), m);
    note_lengths(operation.node(CUDNN_ATTR_OPERATION_MATMUL_BDESC), n != nullptr ? n : k);
    note_lengths(operation.node(CUDNN_ATTR_OPERATION_MATMUL_CDESC), m);
    if (queries_ == nullptr) queries_ = m;
  }
  void note_lengths(const Held& tensor, const Held& lengths) {
    if (tensor->node(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC) != nullptr) {
      lengths_[tensor->number(CUDNN_ATTR_TENSOR_UNIQUE_ID)] = lengths;
    }
  }

  View view(const Held& tensor) {
    const std::int64_t number = tensor->number(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    const auto known = views_.find(number);
    if (known != views_.end()) return known->second;
    View made{.extents = four(tensor->numbers.at(CUDNN_ATTR_TENSOR_DIMENSIONS)),
              .strides = four(tensor->numbers.at(CUDNN_ATTR_TENSOR_STRIDES)),
              .type = static_cast<cudnnDataType_t>(tensor->number(CUDNN_ATTR_TENSOR_DATA_TYPE))};
    if (tensor->number(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0) {
      const auto elements = made.extents[0] * made.extents[1] * made.extents[2] * made.extents[3];
      made.values = std::make_shared<std::vector<double>>(static_cast<std::size_t>(elements));
    } else {
      made.memory = memory_.at(number);
    }
    if (const Held starts = tensor->node(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC)) {
      made.starts = reinterpret_cast<const std::int32_t*>(memory_.at(starts->number(CUDNN_ATTR_TENSOR_UNIQUE_ID)));
      const Held lengths = lengths_.contains(number) ? lengths_.at(number) : queries_;
      made.lengths = reinterpret_cast<const std::int32_t*>(memory_.at(lengths->number(CUDNN_ATTR_TENSOR_UNIQUE_ID)));
    }
    return views_.emplace(number, made).first->second;
  }

  void run(const Node& operation) {
    if (operation.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) multiply(operation);
    if (operation.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) apply(operation);
    if (operation.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) reduce(operation);
    if (operation.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) reshape(operation);
  }

  void multiply(const Node& operation) {
    const View a = view(operation.node(CUDNN_ATTR_OPERATION_MATMUL_ADESC));
    const View b = view(operation.node(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    const View c = view(operation.node(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    const Held k = operation.node(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC);
    c.each([&](const Index& at) {
      const std::int64_t inner =
          k != nullptr ? static_cast<std::int64_t>(view(k).load({at[0], 0, 0, 0})) : a.extents[3];
      double sum = 0;
      for (std::int64_t i = 0; i < inner; ++i) {
        sum += a.load({at[0], at[1], at[2], i}) * b.load({at[0], at[1], i, at[3]});
      }
      c.store(at, sum);
    });
  }
  void apply(const Node& operation) {
    const Held arithmetic = operation.node(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const std::int64_t mode = arithmetic->number(CUDNN_ATTR_POINTWISE_MODE);
    const View x = view(operation.node(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    const Held second = operation.node(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const Held mask = operation.node(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    const View y = second != nullptr ? view(second) : x, t = mask != nullptr ? view(mask) : x;
    const View result = view(operation.node(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    const auto axis = static_cast<std::size_t>(arithmetic->number(CUDNN_ATTR_POINTWISE_AXIS));
    result.each([&](const Index& at) {
      const bool index = mode == CUDNN_POINTWISE_GEN_INDEX;
      result.store(at, index ? static_cast<double>(at[axis]) : pointwise(mode, x.load(at), y.load(at), t.load(at)));
    });
  }
  void reduce(const Node& operation) {
    const std::int64_t kind =
        operation.node(CUDNN_ATTR_OPERATION_REDUCTION_DESC)->number(CUDNN_ATTR_REDUCTION_OPERATOR);
    const View x = view(operation.node(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    const View result = view(operation.node(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
    result.each([&](const Index& at) {
      double all = kind == CUDNN_REDUCE_TENSOR_MAX ? -INFINITY : 0;
      for (std::int64_t i = 0; i < x.extents[3]; ++i) {
        const double one = x.load({at[0], at[1], at[2], i});
        all = kind == CUDNN_REDUCE_TENSOR_MAX ? std::max(all, one) : all + one;
      }
      result.store(at, all);
    });
  }
  /// The same elements in their places, with other extents and strides.
  void reshape(const Node& operation) {
    const View x = view(operation.node(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
    const Held result = operation.node(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    View other = x;
    other.extents = four(result->numbers.at(CUDNN_ATTR_TENSOR_DIMENSIONS));
    other.strides = four(result->numbers.at(CUDNN_ATTR_TENSOR_STRIDES));
    views_[result->number(CUDNN_ATTR_TENSOR_UNIQUE_ID)] = other;
  }

  std::map<std::int64_t, char*> memory_;
  std::map<std::int64_t, Held> lengths_;
  Held queries_;
  std::map<std::int64_t, View> views_;
};

std::vector<std::int64_t> numbers_of(cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    if (type == CUDNN_TYPE_INT64) {
      numbers.push_back(static_cast<const std::int64_t*>(values)[i]);
    } else if (type == CUDNN_TYPE_BOOLEAN) {
      numbers.push_back(static_cast<const bool*>(values)[i] ? 1 : 0);
    } else {
      numbers.push_back(static_cast<const int*>(values)[i]);
    }
  }
  return numbers;
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() {
  return 91900;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "success" : "refused by the stand-in";
}
void cudnnGetLastErrorString(char* message, size_t size) {
  if (size > 0) *message = '\0';
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  static char something;
  *handle = reinterpret_cast<cudnnHandle_t>(&something);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Held(std::make_shared<Node>(Node{.type = type}));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete &held(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  Node& node = *held(descriptor);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* handles = static_cast<const cudnnBackendDescriptor_t*>(values);
    for (std::int64_t i = 0; i < count; ++i) node.nodes[name].push_back(held(handles[i]));
  } else if (type == CUDNN_TYPE_VOID_PTR) {
    const auto* places = static_cast<void* const*>(values);
    node.places[name].assign(places, places + count);
  } else if (type != CUDNN_TYPE_HANDLE && type != CUDNN_TYPE_CHAR && type != CUDNN_TYPE_DOUBLE) {
    node.numbers[name] = numbers_of(type, count, values);
  }
  return CUDNN_STATUS_SUCCESS;
}
/// One configuration a graph, and plans that ask for 512 bytes.
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t, int64_t* count, void* values) {
  *count = 1;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    held(*static_cast<cudnnBackendDescriptor_t*>(values))->nodes[CUDNN_ATTR_ENGINECFG_ENGINE] = {
        held(descriptor)->node(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)};
    return CUDNN_STATUS_SUCCESS;
  }
  if (name != CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) return CUDNN_STATUS_NOT_SUPPORTED;
  *static_cast<std::int64_t*>(values) = 512;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const Held configuration = held(plan)->node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  Run(*configuration->node(CUDNN_ATTR_ENGINECFG_ENGINE), *held(pack));
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
