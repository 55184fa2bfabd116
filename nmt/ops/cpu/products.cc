#include "nmt/ops/cpu/products.h"

#include <list>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "nmt/base/failure.h"
#include "nmt/core/random.h"

namespace babelring::cpu {

namespace {

struct ShapeHash {
  std::size_t operator()(const ProductShape& s) const {
    std::uint64_t hash = 0;
    for (const std::int64_t value : {s.m, s.n, s.k, s.a_row, s.a_column, s.b_row, s.b_column, s.c_row}) {
      hash = mix64(hash + static_cast<std::uint64_t>(value));
    }
    const int flags =
        static_cast<int>(s.operands) + 4 * static_cast<int>(s.result) + 16 * s.bias + 32 * s.relu + 64 * s.accumulate;
    return mix64(hash + static_cast<std::uint64_t>(flags));
  }
};

dnnl::memory::data_type type_of(DType type) {
  return type == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// A primitive and the memory objects it runs on; only their addresses change from call to call.
class Product {
 public:
  Product(const ProductShape& s, const dnnl::engine& engine)
      : a_({{s.m, s.k}, type_of(s.operands), {s.a_row, s.a_column}}, engine, nullptr),
        b_({{s.k, s.n}, type_of(s.operands), {s.b_row, s.b_column}}, engine, nullptr),
        c_({{s.m, s.n}, type_of(s.result), {s.c_row, 1}}, engine, nullptr),
        bias_({{1, s.n}, dnnl::memory::data_type::f32, {s.n, 1}}, engine, nullptr) {
    dnnl::post_ops after;
    if (s.accumulate) after.append_sum(1.0f);
    if (s.relu) after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(after);
    const auto description = s.bias ? dnnl::matmul::desc(a_.get_desc(), b_.get_desc(), bias_.get_desc(), c_.get_desc())
                                    : dnnl::matmul::desc(a_.get_desc(), b_.get_desc(), c_.get_desc());
    primitive_ = dnnl::matmul(dnnl::matmul::primitive_desc(description, attributes, engine));
    arguments_ = {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}};
    if (s.bias) arguments_.emplace(DNNL_ARG_BIAS, bias_);
  }

  void run(dnnl::stream& stream, const void* a, const void* b, const float* bias, void* c) {
    a_.set_data_handle(const_cast<void*>(a));
    b_.set_data_handle(const_cast<void*>(b));
    c_.set_data_handle(c);
    bias_.set_data_handle(const_cast<float*>(bias));
    primitive_.execute(stream, arguments_);
  }

 private:
  dnnl::memory a_, b_, c_, bias_;
  dnnl::matmul primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

}  // namespace

class Products::Cache {
 public:
  explicit Cache(std::size_t capacity) : capacity_(capacity) {}

  Product& of(const ProductShape& shape) {
    if (const auto found = places_.find(shape); found != places_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->second;
    }
    entries_.emplace_front(std::piecewise_construct, std::forward_as_tuple(shape),
                           std::forward_as_tuple(shape, engine_));
    places_.emplace(shape, entries_.begin());
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
  using Entries = std::list<std::pair<const ProductShape, Product>>;
  std::size_t capacity_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  Entries entries_;  // most recently used first
  std::unordered_map<ProductShape, Entries::iterator, ShapeHash> places_;
  std::int64_t created_ = 0;
};

std::string products_description() {
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

Products::Products(std::size_t capacity) : cache_(std::make_unique<Cache>(capacity)) {}
Products::~Products() = default;
Products::Products(Products&&) noexcept = default;
Products& Products::operator=(Products&&) noexcept = default;

std::int64_t Products::created() const {
  return cache_->created();
}

void Products::run(const ProductShape& shape, const void* a, const void* b, const float* bias, void* c) {
  if (shape.m == 0 || shape.n == 0 || shape.k == 0) return;
  try {
    cache_->of(shape).run(cache_->stream(), a, b, bias, c);
    cache_->stream().wait();
  } catch (const dnnl::error& error) {
    fail("oneDNN product [{}, {}] x [{}, {}] {} to {}: {}", shape.m, shape.k, shape.k, shape.n, name_of(shape.operands),
         name_of(shape.result), error.what());
  }
}

}  // namespace babelring::cpu
