#include "nmt/ops/embedding.h"

#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/launch.cuh"

namespace babelring::cuda {

namespace {

constexpr int embedding_threads = 128;

/// sin or cos of position / 10000^(2 i / width) for the columns 2 i and 2 i + 1. In turns and double, so that nothing
/// is lost to a large angle.
__device__ float sinusoid(int position, int column, int width) {
  constexpr double log2_of_10000 = 13.287712379549449, turns_per_radian = 0.15915494309189535;
  const double exponent = -static_cast<double>(column / 2 * 2) / width * log2_of_10000;
  const double turns = position * exp2(exponent) * turns_per_radian;
  const auto half_turns = static_cast<float>(2 * (turns - rint(turns)));
  return column % 2 == 0 ? sinpif(half_turns) : cospif(half_turns);
}

/// One block a row.
template <class T>
__global__ void embedding_forward_kernel(const int* ids, const int* positions, const T* table, int vocabulary, T* y,
                                         int width, float scale, DropoutKey key, IndexError* error) {
  const std::int64_t row = blockIdx.x;
  const int id = ids[row], position = positions[row];
  if (!index_in_range(id, vocabulary, row, BadIndex::forward_ids, error)) return;
  if (!index_in_range(position, 0x7fffffff, row, BadIndex::forward_positions, error)) return;
  const DeviceDropoutRow mask(key, row);
  const T* entry = table + static_cast<std::int64_t>(id) * width;
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    const float sum = widen(entry[i]) * scale + sinusoid(position, i, width);
    y[row * width + i] = narrow<T>(mask.apply(sum, i));
  }
}

__global__ void number_rows_kernel(int* rows, int count) {
  for (std::int64_t i = first_element(); i < count; i += element_step()) rows[i] = static_cast<int>(i);
}

/// One block for each row of dy in the order of `rows`, which sorts them by id and keeps equal ids in order. The block
/// at the first row of an id adds all that have it, one after another; the others have nothing to do.
template <class T>
__global__ void embedding_backward_kernel(const unsigned* sorted_ids, const int* rows, int count, const T* dy,
                                          float* dtable, int vocabulary, int width, float scale, DropoutKey key,
                                          IndexError* error) {
  const int first = blockIdx.x;
  const unsigned id = sorted_ids[first];
  if (first > 0 && sorted_ids[first - 1] == id) return;
  if (!index_in_range(static_cast<int>(id), vocabulary, rows[first], BadIndex::backward_ids, error)) return;
  const float factor = scale * key.scale();
  float* entry = dtable + static_cast<std::int64_t>(id) * width;
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    float sum = entry[i];
    for (int place = first; place < count && sorted_ids[place] == id; ++place) {
      const int row = rows[place];
      const DeviceDropoutRow mask(key, row);
      if (mask.keeps(i)) sum += widen(dy[static_cast<std::int64_t>(row) * width + i]) * factor;
    }
    entry[i] = sum;
  }
}

/// Row numbers sorted by id, equal ids in the rows' order.
struct SortedRows {
  const unsigned* ids;
  const int* rows;
};

SortedRows sort_rows(const ConstTensor& ids, std::int64_t vocabulary, Workspace& workspace) {
  const auto count = static_cast<int>(ids.shape[0]);
  const auto list = [&] { return workspace.scratch().make(ids.shape, DType::i32).as<int>(); };
  int *numbers = list(), *rows = list(), *sorted = list();
  launch("embedding_backward", {elementwise_blocks(count), elementwise_threads, workspace.stream()}, number_rows_kernel,
         numbers, count);
  // An id that is out of range has bits above these: it ends up among others, and is found there.
  const int bits = std::bit_width(static_cast<std::uint64_t>(vocabulary));
  const auto* keys = ids.as<unsigned>();
  auto* sorted_keys = reinterpret_cast<unsigned*>(sorted);
  std::size_t bytes = 0;
  require(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, sorted_keys, numbers, rows, count, 0, bits,
                                          workspace.stream()),
          "embedding_backward");
  void* room = workspace.scratch().make(Shape{static_cast<std::int64_t>(bytes / 4 + 1)}, DType::i32).data;
  require(cub::DeviceRadixSort::SortPairs(room, bytes, keys, sorted_keys, numbers, rows, count, 0, bits,
                                          workspace.stream()),
          "embedding_backward");
  return {sorted_keys, rows};
}

}  // namespace

void run(const EmbeddingForward& op, Workspace& workspace) {
  const std::int64_t rows = op.ids.shape[0];
  if (op.y.shape.elements() == 0) return;
  with_device_type(op.table.dtype, [&](auto tag) {
    using T = decltype(tag);
    launch(op.name, {static_cast<unsigned>(rows), embedding_threads, workspace.stream()}, embedding_forward_kernel<T>,
           op.ids.as<int>(), op.positions.as<int>(), op.table.as<T>(), static_cast<int>(op.table.shape[0]),
           op.y.as<T>(), static_cast<int>(op.y.shape[1]), op.scale, op.key, workspace.index_error());
  });
}

void run(const EmbeddingBackward& op, Workspace& workspace) {
  if (op.dy.shape.elements() == 0) return;
  const Arena::Scope scope(workspace.scratch());
  const SortedRows sorted = sort_rows(op.ids, op.dtable.shape[0], workspace);
  with_device_type(op.dy.dtype, [&](auto tag) {
    using T = decltype(tag);
    launch(op.name, {static_cast<unsigned>(op.dy.shape[0]), embedding_threads, workspace.stream()},
           embedding_backward_kernel<T>, sorted.ids, sorted.rows, static_cast<int>(op.dy.shape[0]), op.dy.as<T>(),
           op.dtable.as<float>(), static_cast<int>(op.dtable.shape[0]), static_cast<int>(op.dy.shape[1]), op.scale,
           op.key, workspace.index_error());
  });
}

}  // namespace babelring::cuda
