// Every op at the shapes of a Transformer: time and error in one row. The median of the repeats after one warm-up, the
// spread (largest minus smallest over the median), GFLOP/s or GB/s, the share of this machine's own peak measured in
// the same run (a 2048x2048x512 product of the same type, or a copy), and the largest error against the reference on up
// to 96 rows. The last line is JSON.   bench_ops [--threads N] [--repeats 10] [--tokens 2048] [--only TEXT]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "nmt/base/clock.h"
#include "nmt/base/json.h"
#include "tests/bench/bench_ops_cases.h"

namespace babelring {
namespace {

struct Options {
  int threads = 0, repeats = 10;
  std::int64_t tokens = 2048;
  std::string only;
};

struct Timing {
  double median_ms = 0, spread = 0;
};

Timing measure(const std::function<void()>& body, int repeats) {
  body();
  std::vector<double> ms;
  for (int i = 0; i < repeats; ++i) {
    const Stopwatch watch;
    body();
    ms.push_back(watch.elapsed_ms());
  }
  std::sort(ms.begin(), ms.end());
  const double median = ms[ms.size() / 2];
  return {median, (ms.back() - ms.front()) / median};
}

/// GFLOP/s of a large product.
double product_peak(Backend& backend, DType type, int repeats) {
  const Buffer x = backend.allocate(2048 * 512 * 4), w = backend.allocate(2048 * 512 * 4);
  const Buffer y = backend.allocate(2048 * 2048 * 4);
  const LinearForward op{
      .x = x.view({2048, 512}, type), .weight = w.view({2048, 512}, type), .bias = {}, .y = y.view({2048, 2048}, type)};
  return op.flops() / measure([&] { backend.run(op); }, repeats).median_ms / 1e6;
}

/// GB/s of adding one large array to another: two read, one written.
double memory_peak(Backend& backend, int repeats) {
  constexpr std::int64_t count = 16 << 20;
  const Buffer x = backend.allocate(count * 4), y = backend.allocate(count * 4);
  const Add op{.x = x.view({count}, DType::f32), .y = y.view({count}, DType::f32)};
  return 12.0 * count / measure([&] { backend.run(op); }, repeats).median_ms / 1e6;
}

struct Peaks {
  double f32_gflops, bf16_gflops, gigabytes;
};

json::object run_case(Backend& backend, const OpCase& one, const Peaks& peaks, int repeats) {
  const Timing timing = measure([&] { one.run(backend); }, repeats);
  const bool product = one.flops > 0;
  const double rate = (product ? one.flops : one.bytes) / timing.median_ms / 1e6;
  const double peak = !product ? peaks.gigabytes : one.type == DType::bf16 ? peaks.bf16_gflops : peaks.f32_gflops;
  const double error = one.error();
  fmt::print("{:<52} {:>9.3f} {:>7.0f}% {:>9.1f} {:<7} {:>5.0f}% {:>9.1e}\n", one.name, timing.median_ms,
             100 * timing.spread, rate, product ? "GFLOP/s" : "GB/s", 100 * rate / peak, error);
  return {{"op", one.name},
          {"ms", timing.median_ms},
          {"spread", timing.spread},
          {"rate", rate},
          {"unit", product ? "GFLOP/s" : "GB/s"},
          {"share_of_peak", rate / peak},
          {"error", error}};
}

int run(const Options& options) {
  const auto backend = make_cpu_backend(options.threads);
  const Peaks peaks{product_peak(*backend, DType::f32, options.repeats),
                    product_peak(*backend, DType::bf16, options.repeats), memory_peak(*backend, options.repeats)};
  fmt::print("{}; peaks: f32 {:.0f}, bf16 {:.0f} GFLOP/s, memory {:.1f} GB/s\n", backend->description(),
             peaks.f32_gflops, peaks.bf16_gflops, peaks.gigabytes);
  fmt::print("{:<52} {:>9} {:>8} {:>9} {:<7} {:>6} {:>9}\n", "op", "ms", "spread", "rate", "", "peak", "error");
  json::array rows;
  for (const OpCase& one : op_cases(options.tokens)) {
    if (one.name.find(options.only) == std::string::npos) continue;
    rows.push_back(run_case(*backend, one, peaks, options.repeats));
  }
  std::cout << to_text(json::object{{"backend", backend->description()},
                                    {"f32_gflops", peaks.f32_gflops},
                                    {"bf16_gflops", peaks.bf16_gflops},
                                    {"memory_gigabytes_per_second", peaks.gigabytes},
                                    {"tokens", options.tokens},
                                    {"rows", rows}})
            << std::endl;
  return 0;
}

}  // namespace
}  // namespace babelring

int main(int argc, char** argv) {
  CLI::App app("Time and error of every op");
  babelring::Options options;
  app.add_option("--threads", options.threads, "0: all")->check(CLI::NonNegativeNumber);
  app.add_option("--repeats", options.repeats, "timed runs a row")->check(CLI::Range(1, 1000));
  app.add_option("--tokens", options.tokens, "rows")->check(CLI::Range(64, 1000000));
  app.add_option("--only", options.only, "rows whose name has this text");
  CLI11_PARSE(app, argc, argv);
  try {
    return babelring::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_ops: {}\n", error.what());
    return 1;
  }
}
