// Every op at the shapes of a Transformer: time and error in one row. The median of the repeats after one warm-up, the
// spread (largest minus smallest over the median), GFLOP/s or GB/s, the share of this machine's own peak measured in
// the same run (multiply-adds in registers, or the triad; operands in a cache may beat the latter), and the largest
// error against the reference on up to 96 rows. The last line is JSON.
//   bench_ops [--threads 2] [--repeats 10] [--tokens 2048] [--only TEXT]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "nmt/base/clock.h"
#include "nmt/base/json.h"
#include "tests/bench/bench_ops_cases.h"
#include "tests/bench/machine_peaks.h"

namespace babelring {
namespace {

struct Options {
  int threads = 2, repeats = 10;
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

json::object run_case(Backend& backend, const OpCase& one, const MachinePeaks& peaks, int repeats) {
  const Timing timing = measure([&] { one.run(backend); }, repeats);
  const bool product = one.flops > 0;
  const double rate = (product ? one.flops : one.bytes) / timing.median_ms / 1e6;
  const double flops_peak = one.type == DType::bf16 ? peaks.bf16_flops : peaks.f32_flops;
  const double peak = (product ? flops_peak : peaks.triad_bytes) / 1e9;
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
  const MachinePeaks peaks = measure_machine_peaks(options.threads);
  print_peaks(peaks);
  fmt::print("{:<52} {:>9} {:>8} {:>9} {:<7} {:>6} {:>9}\n", "op", "ms", "spread", "rate", "", "peak", "error");
  json::array rows;
  for (const OpCase& one : op_cases(options.tokens)) {
    if (one.name.find(options.only) == std::string::npos) continue;
    rows.push_back(run_case(*backend, one, peaks, options.repeats));
  }
  std::cout << to_text(json::object{{"backend", backend->description()},
                                    {"peaks", to_json(peaks)},
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
  app.add_option("--threads", options.threads, "of the backend")->check(CLI::PositiveNumber);
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
