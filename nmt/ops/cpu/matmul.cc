#include "nmt/ops/cpu/matmul.h"

#include <omp.h>

#include <algorithm>
#include <exception>
#include <list>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "nmt/core/buffer.h"
#include "nmt/core/random.h"

namespace babelring::cpu {

namespace {

struct ShapeHash {
  std::size_t operator()(const MatmulShape& s) const {
    std::uint64_t hash = 0;
    for (const std::int64_t value : {s.m, s.n, s.k, s.a_row, s.a_column, s.b_row, s.b_column, s.c_row}) {
      hash = mix64(hash + static_cast<std::uint64_t>(value));
    }
    const int flags = static_cast<int>(s.operands) + 4 * static_cast<int>(s.result) + 16 * s.bias + 32 * s.relu +
                      64 * s.accumulate + 128 * static_cast<int>(s.varying) + 512 * s.one_thread;
    return mix64(hash + static_cast<std::uint64_t>(flags));
  }
};

dnnl::memory::data_type type_of(DType type) {
  return type == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// The operands of one matmul, for oneDNN.
struct Operands {
  dnnl::memory::desc a, b, c, bias;

  explicit Operands(const MatmulShape& s)
      : a({s.m, s.k}, type_of(s.operands), {s.a_row, s.a_column}),
        b({s.k, s.n}, type_of(s.operands), {s.b_row, s.b_column}),
        c({s.m, s.n}, type_of(s.result), {s.c_row, 1}),
        bias({1, s.n}, dnnl::memory::data_type::f32, {s.n, 1}) {}
};

/// oneDNN 3.7 multiplies bf16 wrongly (relative error 1.5) where the number of rows is known only at run time and the
/// rows of A are farther apart than they are long; 2.6 does not.
bool needs_row_count(const MatmulShape& shape) {
  return DNNL_VERSION_MAJOR >= 3 && shape.varying == MatmulShape::Varying::m && shape.operands == DType::bf16 &&
         shape.a_column == 1 && shape.a_row != shape.k;
}

/// Equal for all shapes that one primitive serves: the varying dimension has oneDNN's mark for "known at run time".
MatmulShape key_of(MatmulShape shape) {
  if (needs_row_count(shape)) shape.varying = MatmulShape::Varying::none;
  if (shape.varying == MatmulShape::Varying::m) shape.m = DNNL_RUNTIME_DIM_VAL;
  if (shape.varying == MatmulShape::Varying::k) shape.k = DNNL_RUNTIME_DIM_VAL;
  return shape;
}

#if DNNL_VERSION_MAJOR >= 3
void append_relu(dnnl::post_ops& after) {
  after.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
}

dnnl::matmul::primitive_desc describe(const MatmulShape& key, const dnnl::primitive_attr& attributes,
                                      const dnnl::engine& engine) {
  const Operands operands(key);
  return key.bias ? dnnl::matmul::primitive_desc(engine, operands.a, operands.b, operands.bias, operands.c, attributes)
                  : dnnl::matmul::primitive_desc(engine, operands.a, operands.b, operands.c, attributes);
}
#else
void append_relu(dnnl::post_ops& after) {
  after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
}

dnnl::matmul::primitive_desc describe(const MatmulShape& key, const dnnl::primitive_attr& attributes,
                                      const dnnl::engine& engine) {
  const Operands operands(key);
  const auto operation = key.bias ? dnnl::matmul::desc(operands.a, operands.b, operands.bias, operands.c)
                                  : dnnl::matmul::desc(operands.a, operands.b, operands.c);
  return {operation, attributes, engine};
}
#endif

class MatmulPrimitive {
 public:
  MatmulPrimitive(const MatmulShape& key, const dnnl::engine& engine) : engine_(engine) {
    dnnl::post_ops after;
    if (key.accumulate) after.append_sum(1.0f);
    if (key.relu) append_relu(after);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(after);
    // The library's scratch memory belongs to the thread that made the primitive.
    if (key.one_thread) attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto chosen = describe(key, attributes, engine);
    scratch_ = chosen.scratchpad_desc();
    primitive_ = dnnl::matmul(chosen);
  }

  /// Bytes of scratch memory that a primitive for one thread needs.
  std::size_t scratch_bytes() const { return scratch_.get_size(); }

  void run(dnnl::stream& stream, const MatmulShape& shape, const void* a, const void* b, const float* bias, void* c,
           void* scratch = nullptr) const {
    const Operands operands(shape);
    std::unordered_map<int, dnnl::memory> arguments{{DNNL_ARG_SRC, {operands.a, engine_, const_cast<void*>(a)}},
                                                    {DNNL_ARG_WEIGHTS, {operands.b, engine_, const_cast<void*>(b)}},
                                                    {DNNL_ARG_DST, {operands.c, engine_, c}}};
    if (shape.bias) arguments.emplace(DNNL_ARG_BIAS, dnnl::memory(operands.bias, engine_, const_cast<float*>(bias)));
    if (scratch != nullptr) arguments.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratch_, engine_, scratch));
    primitive_.execute(stream, arguments);
  }

 private:
  dnnl::engine engine_;
  dnnl::memory::desc scratch_;
  dnnl::matmul primitive_;
};

/// While it lives, oneDNN makes primitives for one thread, and runs them on one.
class OneThread {
 public:
  OneThread() : threads_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(threads_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int threads_;
};

/// The pieces of a matmul: equal runs of C's rows or columns, whichever are more, and a shorter last one.
class Pieces {
 public:
  explicit Pieces(const MatmulShape& shape) : shape_(shape), by_rows_(shape.m >= shape.n) {
    // A thread packs the other operand again for each piece, so a piece is long; 16 are enough for many threads.
    constexpr std::int64_t long_piece = 512, max_pieces = 16, grain = 64;
    const std::int64_t pieces = std::clamp<std::int64_t>(extent() / long_piece, 1, max_pieces);
    step_ = ((extent() + pieces - 1) / pieces + grain - 1) / grain * grain;
  }
  std::int64_t count() const { return (extent() + step_ - 1) / step_; }
  std::int64_t first(std::int64_t piece) const { return piece * step_; }
  bool by_rows() const { return by_rows_; }
  MatmulShape shape(std::int64_t piece) const {
    MatmulShape part = shape_;
    (by_rows_ ? part.m : part.n) = std::min(step_, extent() - first(piece));
    part.one_thread = true;
    return part;
  }

 private:
  std::int64_t extent() const { return by_rows_ ? shape_.m : shape_.n; }

  MatmulShape shape_;
  bool by_rows_;
  std::int64_t step_ = 1;
};

const void* element(const void* base, std::int64_t index, DType type) {
  return static_cast<const char*>(base) + index * static_cast<std::int64_t>(size_of(type));
}

[[noreturn]] void fail_matmul(const MatmulShape& shape, const dnnl::error& error) {
  fail("oneDNN matmul [{}, {}] x [{}, {}] {} to {}: {}", shape.m, shape.k, shape.k, shape.n, name_of(shape.operands),
       name_of(shape.result), error.what());
}

}  // namespace

class Matmul::Cache {
 public:
  explicit Cache(std::size_t capacity) : capacity_(capacity) { dnnl::set_primitive_cache_capacity(0); }

  const MatmulPrimitive& of(const MatmulShape& shape) {
    const MatmulShape key = key_of(shape);
    if (const auto found = places_.find(key); found != places_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->second;
    }
    entries_.emplace_front(std::piecewise_construct, std::forward_as_tuple(key), std::forward_as_tuple(key, engine_));
    places_.emplace(key, entries_.begin());
    ++created_;
    if (entries_.size() > capacity_) {
      places_.erase(entries_.back().first);
      entries_.pop_back();
    }
    return entries_.front().second;
  }

  dnnl::stream& stream() { return stream_; }
  /// Memory of `bytes` bytes for each thread, scratch_stride() apart. Valid until the next call.
  char* scratch(std::size_t bytes, int threads) {
    scratch_stride_ = static_cast<std::int64_t>(std::max<std::size_t>(bytes, 1) + 4095) / 4096 * 4096;
    const auto needed = static_cast<std::size_t>(scratch_stride_ * threads);
    if (scratch_.bytes() < needed) scratch_ = allocate_host(needed);
    return static_cast<char*>(scratch_.data());
  }
  std::int64_t scratch_stride() const { return scratch_stride_; }
  std::int64_t created() const { return created_; }

 private:
  using Entries = std::list<std::pair<const MatmulShape, MatmulPrimitive>>;
  std::size_t capacity_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  Entries entries_;  // most recently used first
  std::unordered_map<MatmulShape, Entries::iterator, ShapeHash> places_;
  std::int64_t created_ = 0;
  Buffer scratch_;
  std::int64_t scratch_stride_ = 0;
};

std::string matmul_library_version() {
  const dnnl::version_t* version = dnnl::version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::string matmul_description() {
  return fmt::format("oneDNN {}, {}", matmul_library_version(), matmul_instruction_set());
}

std::string_view matmul_instruction_set() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse4.1";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "x86";
  }
}

Matmul::Matmul(std::size_t capacity) : cache_(std::make_unique<Cache>(capacity)) {}
Matmul::~Matmul() = default;
Matmul::Matmul(Matmul&&) noexcept = default;
Matmul& Matmul::operator=(Matmul&&) noexcept = default;

std::int64_t Matmul::created() const {
  return cache_->created();
}

void Matmul::run(const MatmulShape& shape, const void* a, const void* b, const float* bias, void* c) {
  if (shape.m == 0 || shape.n == 0 || shape.k == 0) return;
  try {
    cache_->of(shape).run(cache_->stream(), shape, a, b, bias, c);
    cache_->stream().wait();
  } catch (const dnnl::error& error) {
    fail_matmul(shape, error);
  }
}

void Matmul::run_in_pieces(const MatmulShape& shape, const void* a, const void* b, const float* bias, void* c,
                           int threads) {
  if (shape.m == 0 || shape.n == 0 || shape.k == 0) return;
  const OneThread one;
  const Pieces pieces(shape);
  const std::int64_t last = pieces.count() - 1;
  try {
    // Both stay in the cache, which has room for more than one.
    const MatmulPrimitive &whole = cache_->of(pieces.shape(0)), &rest = cache_->of(pieces.shape(last));
    char* const scratch = cache_->scratch(std::max(whole.scratch_bytes(), rest.scratch_bytes()), threads);
    const std::int64_t scratch_stride = cache_->scratch_stride();
    std::exception_ptr failure;
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(std::min<std::int64_t>(threads, last + 1)))
    for (std::int64_t piece = 0; piece <= last; ++piece) {
      const std::int64_t first = pieces.first(piece), row = pieces.by_rows() ? first : 0, column = first - row;
      const auto* to = element(c, row * shape.c_row + column, shape.result);
      try {
        (piece == last ? rest : whole)
            .run(cache_->stream(), pieces.shape(piece), element(a, row * shape.a_row, shape.operands),
                 element(b, column * shape.b_column, shape.operands), bias == nullptr ? nullptr : bias + column,
                 const_cast<void*>(to), scratch + omp_get_thread_num() * scratch_stride);
      } catch (...) {
#pragma omp critical
        failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  } catch (const dnnl::error& error) {
    fail_matmul(shape, error);
  }
}

}  // namespace babelring::cpu
