#include "nmt/ops/cpu/matmul.h"

#include <list>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "base/failure.h"
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
                      64 * s.accumulate + 128 * static_cast<int>(s.varying);
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

/// Equal for all shapes that one primitive serves: the varying dimension has oneDNN's mark for "known at run time".
MatmulShape key_of(MatmulShape shape) {
  if (shape.varying == MatmulShape::Varying::m) shape.m = DNNL_RUNTIME_DIM_VAL;
  if (shape.varying == MatmulShape::Varying::k) shape.k = DNNL_RUNTIME_DIM_VAL;
  return shape;
}

class MatmulPrimitive {
 public:
  MatmulPrimitive(const MatmulShape& key, const dnnl::engine& engine) : engine_(engine) {
    dnnl::post_ops after;
    if (key.accumulate) after.append_sum(1.0f);
    if (key.relu) after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(after);
    const Operands of(key);
    const auto description =
        key.bias ? dnnl::matmul::desc(of.a, of.b, of.bias, of.c) : dnnl::matmul::desc(of.a, of.b, of.c);
    primitive_ = dnnl::matmul(dnnl::matmul::primitive_desc(description, attributes, engine));
  }

  void run(dnnl::stream& stream, const MatmulShape& shape, const void* a, const void* b, const float* bias,
           void* c) const {
    const Operands of(shape);
    std::unordered_map<int, dnnl::memory> arguments{{DNNL_ARG_SRC, {of.a, engine_, const_cast<void*>(a)}},
                                                    {DNNL_ARG_WEIGHTS, {of.b, engine_, const_cast<void*>(b)}},
                                                    {DNNL_ARG_DST, {of.c, engine_, c}}};
    if (shape.bias) arguments.emplace(DNNL_ARG_BIAS, dnnl::memory(of.bias, engine_, const_cast<float*>(bias)));
    primitive_.execute(stream, arguments);
  }

 private:
  dnnl::engine engine_;
  dnnl::matmul primitive_;
};

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
  std::int64_t created() const { return created_; }

 private:
  using Entries = std::list<std::pair<const MatmulShape, MatmulPrimitive>>;
  std::size_t capacity_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  Entries entries_;  // most recently used first
  std::unordered_map<MatmulShape, Entries::iterator, ShapeHash> places_;
  std::int64_t created_ = 0;
};

std::string matmul_description() {
  const dnnl::version_t* version = dnnl::version();
  std::string_view isa = "x86";
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      isa = "sse4.1";
      break;
    case dnnl::cpu_isa::avx:
      isa = "avx";
      break;
    case dnnl::cpu_isa::avx2:
      isa = "avx2";
      break;
    case dnnl::cpu_isa::avx512_core:
      isa = "avx512_core";
      break;
    case dnnl::cpu_isa::avx512_core_vnni:
      isa = "avx512_core_vnni";
      break;
    case dnnl::cpu_isa::avx512_core_bf16:
      isa = "avx512_core_bf16";
      break;
    case dnnl::cpu_isa::avx512_core_amx:
      isa = "avx512_core_amx";
      break;
    default:
      break;
  }
  return fmt::format("oneDNN {}.{}.{}, {}", version->major, version->minor, version->patch, isa);
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
    fail("oneDNN matmul [{}, {}] x [{}, {}] {} to {}: {}", shape.m, shape.k, shape.k, shape.n, name_of(shape.operands),
         name_of(shape.result), error.what());
  }
}

}  // namespace babelring::cpu
