#include "nmt/ops/embedding.h"

#include <array>
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/launch.h"
#include "nmt/ops/cuda/pieces.cuh"

namespace babelring::cuda {

namespace {

constexpr int embedding_rows = 4;
constexpr int table_positions = 1024;  // beyond, sinusoids are computed for each row

/// sin or cos of position / 10000^(2 i / divisor) for the columns 2 i and 2 i + 1. In turns and double, so that nothing
/// is lost to a large angle.
__device__ float sinusoid(int position, int column, int divisor) {
  constexpr double log2_of_10000 = 13.287712379549449, turns_per_radian = 0.15915494309189535;
  const double exponent = -static_cast<double>(column / 2 * 2) / divisor * log2_of_10000;
  const double turns = position * exp2(exponent) * turns_per_radian;
  const auto half_turns = static_cast<float>(2 * (turns - rint(turns)));
  return column % 2 == 0 ? sinpif(half_turns) : cospif(half_turns);
}

/// Writes the sinusoids of all positions below table_positions: [table_positions, width].
__global__ void sinusoids_kernel(float* sinusoids, int width, int divisor) {
  await_earlier_kernels();
  for (std::int64_t i = first_element(); i < table_positions * width; i += element_step()) {
    sinusoids[i] = sinusoid(static_cast<int>(i / width), static_cast<int>(i % width), divisor);
  }
}

/// Positions as EmbeddingForward adds them.
struct PositionVectors {
  const float* first;  // [table_positions, width]; null: none are added
  int divisor;         // EmbeddingForward::position_divisor()
  bool zero_start;
};

/// Each warp takes a row.
template <int n, class T>
__global__ void embedding_forward_kernel(const int* ids, const int* positions, const T* table, int vocabulary, T* y,
                                         std::int64_t rows, int width, PositionVectors vectors, float factor,
                                         DropoutKey key, IndexError* error) {
  await_earlier_kernels();
  const std::int64_t row = row_of_warp<embedding_rows>();
  if (row >= rows) return;
  const int id = ids[row], position = positions[row];
  if (!index_in_range(id, vocabulary, row, BadIndex::forward_ids, error)) return;
  if (!index_in_range(position, 0x7fffffff, row, BadIndex::forward_positions, error)) return;
  const float scale = vectors.zero_start && position == 0 ? 0 : factor;
  const DeviceDropoutRow mask(key, row);
  const T* entry = table + static_cast<std::int64_t>(id) * width;
  const auto put = [&](float(&values)[n], int column) {
    const Elements<T, n> embedding(entry + column);
#pragma unroll
    for (int e = 0; e < n; ++e) values[e] = embedding[e] * scale + values[e];
    mask.apply(values, column);
    put_elements(y + row * width + column, Elements<T, n>(values));
  };
  if (vectors.first == nullptr) {
    for_lane_pieces<n, 0>(width, [&](int, int column) {
      float none[n] = {};
      put(none, column);
    });
  } else if (position < table_positions) {
    for_lane_pieces<n, 0>(width, [&](int, int column) {
      auto known = piece_at<n>(vectors.first + static_cast<std::int64_t>(position) * width + column);
      put(known.of, column);
    });
  } else {
    for_lane_pieces<n, 0>(width, [&](int, int column) {
      float computed[n];
      for (int e = 0; e < n; ++e) computed[e] = sinusoid(position, column + e, vectors.divisor);
      put(computed, column);
    });
  }
}

template <class T>
struct RotaryOperands {
  const T* x;
  T* y;
  std::int64_t x_stride, y_stride;
  const int* positions;
  const float* sinusoids;  // [table_positions, head]
  int head;                // features of a head
  float sign;              // -1: turned back
};

/// Each warp takes a row, a lane n planes at a time.
template <int n, class T>
__global__ void rotary_kernel(RotaryOperands<T> operands, std::int64_t rows, int planes, IndexError* error) {
  await_earlier_kernels();
  const std::int64_t row = row_of_warp<embedding_rows>();
  if (row >= rows) return;
  const int position = operands.positions[row];
  if (!index_in_range(position, 0x7fffffff, row, BadIndex::rotary_positions, error)) return;
  const int half = operands.head / 2;
  for_lane_pieces<n, 0>(planes, [&](int, int plane) {
    const int within = plane % half, column = plane / half * operands.head + within;
    Piece<float, 2 * n> angles;
    if (position < table_positions) {
      angles = piece_at<2 * n>(operands.sinusoids + static_cast<std::int64_t>(position) * operands.head + 2 * within);
    } else {
      for (int e = 0; e < 2 * n; ++e) angles.of[e] = sinusoid(position, 2 * within + e, operands.head);
    }
    const T* x = operands.x + row * operands.x_stride + column;
    const Elements<T, n> first(x), second(x + half);
    float turned[n], turned_second[n];
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const float sine = operands.sign * angles.of[2 * e], cosine = angles.of[2 * e + 1];
      turned[e] = first[e] * cosine - second[e] * sine;
      turned_second[e] = second[e] * cosine + first[e] * sine;
    }
    T* y = operands.y + row * operands.y_stride + column;
    put_elements(y, Elements<T, n>(turned));
    put_elements(y + half, Elements<T, n>(turned_second));
  });
}

__global__ void number_rows_kernel(int* rows, int count) {
  await_earlier_kernels();
  for (std::int64_t i = first_element(); i < count; i += element_step()) rows[i] = static_cast<int>(i);
}

/// Sums of rows of dy with the same id. `ids` is sorted, and `rows` says which row of dy stands at each place; places
/// are cut into segments, so that an id with a thousand rows (a comma) keeps many blocks busy. A run is all places of
/// one id in one segment. The order of every sum depends on the ids alone.
struct EmbeddingSums {
  const unsigned* ids;   // [count]
  const int* rows;       // [count]
  const int* positions;  // [count] by row: rows at position 0 add nothing; null: all rows add
  int count;
  int vocabulary, width;
  float factor;
  DropoutKey key;
  float* table;   // [vocabulary, width], added to
  float* pieces;  // [2 segments, width]: sums of runs whose id goes on in a neighbouring segment
  IndexError* error;
};

constexpr int segment = 256;      // places
constexpr int row_lanes = 8;      // rows summed side by side by a block
constexpr int lane_threads = 32;  // of a row
constexpr int short_run = 16;     // places; one row lane sums such a run alone

struct Run {
  int first, count;   // places; no places: no run begins here
  bool begins, ends;  // whether the id has no places before, behind
};

/// The run that begins at a place.
__device__ inline Run run_at(const EmbeddingSums& sums, int place) {
  if (place >= sums.count) return {place, 0, false, false};
  const unsigned id = sums.ids[place];
  const bool begins = place == 0 || sums.ids[place - 1] != id;
  if (!begins && place % segment != 0) return {place, 0, false, false};
  int low = place + 1, high = min((place / segment + 1) * segment, sums.count);
  while (low < high) {
    const int middle = (low + high) / 2;
    if (sums.ids[middle] == id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return {place, low - place, begins, low == sums.count || sums.ids[low] != id};
}

/// Where a run's sum goes: to the table, or to a piece, of which a segment has two: that of an id which goes on from
/// the segment before, and that of one which goes on in the segment behind.
__device__ inline float* destination(const EmbeddingSums& sums, const Run& run) {
  if (run.begins && run.ends) return sums.table + static_cast<std::int64_t>(sums.ids[run.first]) * sums.width;
  return sums.pieces + static_cast<std::int64_t>(run.first / segment * 2 + (run.begins ? 1 : 0)) * sums.width;
}

template <int n>
__device__ inline void put_sum(const EmbeddingSums& sums, const Run& run, int column, Piece<float, n> sum) {
  float* place = destination(sums, run) + column;
  if (run.begins && run.ends) {
    const auto before = piece_at<n>(place);
    for (int i = 0; i < n; ++i) sum.of[i] += before.of[i];
  }
  put_piece<n>(place, sum);
}

/// The sums of n columns over every `step`th place of a run, from `first` on. Reads four rows at a time.
template <class T, int n>
__device__ inline Piece<float, n> sum_rows(const EmbeddingSums& sums, const T* dy, const Run& run, int first, int step,
                                           int column) {
  constexpr int together = 4;
  Piece<float, n> sum{};
  for (int place = first; place < run.count; place += together * step) {
    int rows[together];
    Piece<T, n> values[together];
    for (int k = 0; k < together; ++k) {
      const int at = place + k * step;
      rows[k] = at < run.count ? sums.rows[run.first + at] : -1;
      if (rows[k] >= 0) values[k] = piece_at<n>(dy + static_cast<std::int64_t>(rows[k]) * sums.width + column);
    }
    for (int k = 0; k < together; ++k) {
      if (rows[k] < 0) break;
      if (sums.positions != nullptr && sums.positions[rows[k]] == 0) continue;
      const DeviceDropoutRow mask(sums.key, rows[k]);
      for (int i = 0; i < n; ++i) {
        if (mask.keeps(column + i)) sum.of[i] += widen(values[k].of[i]) * sums.factor;
      }
    }
  }
  return sum;
}

/// One block for as many places as it has row lanes. Each lane sums the run that begins at its place if that is short;
/// all lanes together sum each long one, a lane every eighth row, and their sums are added in the lanes' order.
template <class T, int n>
__global__ void __launch_bounds__(row_lanes* lane_threads) embedding_backward_kernel(EmbeddingSums sums, const T* dy) {
  await_earlier_kernels();
  __shared__ Run runs[row_lanes];
  __shared__ float of_lanes[row_lanes][lane_threads * n];
  const int lane = static_cast<int>(threadIdx.x) / lane_threads, thread = static_cast<int>(threadIdx.x) % lane_threads;
  Run own = run_at(sums, static_cast<int>(blockIdx.x) * row_lanes + lane);
  if (own.count > 0 && !index_in_range(static_cast<int>(sums.ids[own.first]), sums.vocabulary, sums.rows[own.first],
                                       BadIndex::backward_ids, sums.error)) {
    own.count = 0;
  }
  if (thread == 0) runs[lane] = own;
  if (own.count <= short_run) {
    for (int column = thread * n; own.count > 0 && column < sums.width; column += lane_threads * n) {
      put_sum<n>(sums, own, column, sum_rows<T, n>(sums, dy, own, 0, 1, column));
    }
  }
  __syncthreads();
  for (const Run& run : runs) {
    if (run.count <= short_run) continue;
    for (int begin = 0; begin < sums.width; begin += lane_threads * n) {
      const int column = begin + thread * n;
      if (column < sums.width) {
        put_piece<n>(&of_lanes[lane][thread * n], sum_rows<T, n>(sums, dy, run, lane, row_lanes, column));
      }
      __syncthreads();
      if (lane == 0 && column < sums.width) {
        auto sum = piece_at<n>(&of_lanes[0][thread * n]);
        for (int other = 1; other < row_lanes; ++other) {
          for (int i = 0; i < n; ++i) sum.of[i] += of_lanes[other][thread * n + i];
        }
        put_sum<n>(sums, run, column, sum);
      }
      __syncthreads();  // before the next columns' sums
    }
  }
}

/// One block a segment: where an id begins in it and goes on behind it, adds the id's pieces in their order.
__global__ void embedding_pieces_kernel(EmbeddingSums sums) {
  await_earlier_kernels();
  const int begin = static_cast<int>(blockIdx.x) * segment, end = begin + segment;
  if (end >= sums.count) return;
  const unsigned id = sums.ids[end];
  if (sums.ids[end - 1] != id || id >= static_cast<unsigned>(sums.vocabulary)) return;
  if (begin > 0 && sums.ids[begin] == id && sums.ids[begin - 1] == id) return;
  float* entry = sums.table + static_cast<std::int64_t>(id) * sums.width;
  for (int i = static_cast<int>(threadIdx.x); i < sums.width; i += static_cast<int>(blockDim.x)) {
    const auto piece = [&](int number) { return sums.pieces[static_cast<std::int64_t>(number) * sums.width + i]; };
    float sum = piece(static_cast<int>(blockIdx.x) * 2 + 1);
    for (int place = end; place < sums.count && sums.ids[place] == id; place += segment)
      sum += piece(place / segment * 2);
    entry[i] += sum;
  }
}

/// Row numbers sorted by id, equal ids in the rows' order.
struct SortedRows {
  const unsigned* ids;
  const int* rows;
};

SortedRows sort_rows(const ConstTensor& ids, std::int64_t vocabulary, CudaContext& context) {
  const auto count = static_cast<int>(ids.shape[0]);
  const auto list = [&] { return context.scratch().make(ids.shape, DType::i32).as<int>(); };
  int *numbers = list(), *rows = list(), *sorted = list();
  launch("embedding_backward", {elementwise_blocks(count), elementwise_threads, context.stream()}, number_rows_kernel,
         numbers, count);
  // An id that is out of range has bits above these: it ends up among others, and is found there.
  const int bits = std::bit_width(static_cast<std::uint64_t>(vocabulary));
  const auto* keys = ids.as<unsigned>();
  auto* sorted_keys = reinterpret_cast<unsigned*>(sorted);
  const WorkStream stream = context.stream();
  std::size_t bytes = 0;
  require(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, sorted_keys, numbers, rows, count, 0, bits,
                                          stream.handle()),
          "embedding_backward");
  void* room = context.scratch().make(Shape{static_cast<std::int64_t>(bytes / 4 + 1)}, DType::i32).data;
  if (WorkLog* log = stream.log()) {
    log->add(std::array<const void*, 5>{room, keys, sorted_keys, numbers, rows});
    log->add(std::array<int, 2>{count, bits});
    return {sorted_keys, rows};
  }
  require(
      cub::DeviceRadixSort::SortPairs(room, bytes, keys, sorted_keys, numbers, rows, count, 0, bits, stream.handle()),
      "embedding_backward");
  return {sorted_keys, rows};
}

/// The context's table, made when width and divisor are new.
const float* sinusoids_of(int width, int divisor, CudaContext& context) {
  Buffer& table = context.sinusoids(width, divisor);
  if (table.data() == nullptr) {
    const std::int64_t elements = static_cast<std::int64_t>(table_positions) * width;
    table = allocate_device(static_cast<std::size_t>(elements) * sizeof(float));
    const WorkStream now(context.stream().handle());  // not only for the log: it is there from now on
    launch(EmbeddingForward::name, {elementwise_blocks(elements), elementwise_threads, now}, sinusoids_kernel,
           static_cast<float*>(table.data()), width, divisor);
  }
  return static_cast<const float*>(table.data());
}

}  // namespace

void run(const EmbeddingForward& op, CudaContext& context) {
  const std::int64_t rows = op.ids.shape[0];
  if (op.quantized) refuse_quantized(op.name);
  if (op.y.shape.elements() == 0) return;
  const auto width = static_cast<int>(op.y.shape[1]);
  const auto divisor = static_cast<int>(op.position_divisor());
  const PositionVectors vectors{.first = op.sinusoids ? sinusoids_of(width, divisor, context) : nullptr,
                                .divisor = divisor,
                                .zero_start = op.zero_start};
  with_device_type(op.table.dtype, [&](auto tag) {
    using T = decltype(tag);
    with_pieces<T>({width}, {op.table.data, op.y.data}, [&](auto n) {
      launch(op.name, {row_blocks<embedding_rows>(rows), embedding_rows * warp_lanes, context.stream()},
             embedding_forward_kernel<n, T>, op.ids.as<int>(), op.positions.as<int>(), op.table.as<T>(),
             static_cast<int>(op.table.shape[0]), op.y.as<T>(), rows, width, vectors, op.scale, op.key,
             context.index_error());
    });
  });
}

void run(const RotaryPositions& op, CudaContext& context) {
  if (op.x.shape.elements() == 0) return;
  const std::int64_t rows = op.x.shape[0];
  const auto width = static_cast<int>(op.x.shape[1]);
  const int head = width / op.heads;
  const float* sinusoids = sinusoids_of(head, head, context);
  with_device_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    const RotaryOperands<T> operands{.x = op.x.as<T>(),
                                     .y = op.y.as<T>(),
                                     .x_stride = op.x.row_stride,
                                     .y_stride = op.y.row_stride,
                                     .positions = op.positions.as<int>(),
                                     .sinusoids = sinusoids,
                                     .head = head,
                                     .sign = op.inverse ? -1.0f : 1.0f};
    with_pieces<T>({head / 2, op.x.row_stride, op.y.row_stride}, {op.x.data, op.y.data}, [&](auto n) {
      launch(op.name, {row_blocks<embedding_rows>(rows), embedding_rows * warp_lanes, context.stream()},
             rotary_kernel<n, T>, operands, rows, width / 2, context.index_error());
    });
  });
}

void run(const EmbeddingBackward& op, CudaContext& context) {
  if (op.dy.shape.elements() == 0) return;
  const Arena::Scope scope(context.scratch());
  const SortedRows sorted = sort_rows(op.ids, op.dtable.shape[0], context);
  const auto count = static_cast<int>(op.dy.shape[0]), width = static_cast<int>(op.dy.shape[1]);
  const int segments = (count + segment - 1) / segment, blocks = (count + row_lanes - 1) / row_lanes;
  const Tensor pieces = context.scratch().make({2 * segments, width}, DType::f32);
  const EmbeddingSums sums{.ids = sorted.ids,
                           .rows = sorted.rows,
                           .positions = op.positions ? op.positions.as<int>() : nullptr,
                           .count = count,
                           .vocabulary = static_cast<int>(op.dtable.shape[0]),
                           .width = width,
                           .factor = op.scale * op.key.scale(),
                           .key = op.key,
                           .table = op.dtable.as<float>(),
                           .pieces = pieces.as<float>(),
                           .error = context.index_error()};
  with_device_type(op.dy.dtype, [&](auto tag) {
    using T = decltype(tag);
    with_pieces<T>({width}, {op.dy.data, op.dtable.data, pieces.data}, [&](auto elements) {
      launch(op.name, {static_cast<unsigned>(blocks), row_lanes * lane_threads, context.stream()},
             embedding_backward_kernel<T, elements()>, sums, op.dy.as<T>());
    });
  });
  launch(op.name, {static_cast<unsigned>(segments), elementwise_threads, context.stream()}, embedding_pieces_kernel,
         sums);
}

}  // namespace babelring::cuda
