// Every op at the shapes of a Transformer: time and error in one row. The median of the repeats after one warm-up, the
// spread (largest minus smallest over the median), GFLOP/s or GB/s, the share of this machine's own peak measured in
// the same run (on the processor multiply-adds in registers, or the triad; on a GPU a large matmul, or y += x;
// operands in a cache may beat the latter), and the largest error against the reference on some rows. On a GPU a repeat
// is many calls on several sets of operands, too large together for its cache. An op that throws is a row with
// `failure`. The last line is JSON; --rows writes each row to a file as soon as it is measured.
// With --products, instead: each matmul of a model's update once, with the algorithm that was chosen for it by
// time, whether the library has its epilogue, and the times of the library's first proposal and of the choice.
//   bench_ops [--device cpu|cuda] [--preset tiny base] [--threads 2] [--repeats 10] [--tokens 2048] [--only TEXT ...]
//             [--seconds N] [--rows FILE] [--products]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>

#include "base/clock.h"
#include "base/json.h"
#include "nmt/ops/cuda_module.h"
#include "nmt/ops/staging.h"
#include "tests/bench/bench_ops_cases.h"
#include "tests/bench/device_peaks.h"
#include "tests/bench/matmul_table.h"

namespace babelring {
namespace {

struct Options {
  int threads = 2, repeats = 10;
  std::int64_t tokens = 2048;
  double seconds = 1e9;
  bool matmuls = false;
  std::string device = "cpu", rows_file;
  std::vector<std::string> only;
  std::vector<std::string> presets = {"tiny", "base"};
};

struct Timing {
  double median_ms = 0, spread = 0;
};

Timing measure(Backend& backend, const std::function<void()>& body, int calls, int repeats) {
  ms_per_call(backend, body, calls);
  std::vector<double> ms;
  for (int i = 0; i < repeats; ++i) ms.push_back(ms_per_call(backend, body, calls));
  std::sort(ms.begin(), ms.end());
  const double median = ms[ms.size() / 2];
  return {median, (ms.back() - ms.front()) / median};
}

/// A GPU's caches hold tens of MB, and starting a kernel takes as long as a small one runs: several sets of operands in
/// turn there, called one after another.
Timing measure(Backend& backend, const OpCase& one, const PreparedOp& first, int repeats) {
  if (backend.host_memory()) return measure(backend, first.run, 1, repeats);
  constexpr double past_caches = 256e6, all_operands = 16e9;
  const double most = std::min(16.0, std::max(1.0, all_operands / first.bytes));
  std::vector<PreparedOp> sets = {first};
  while (static_cast<double>(sets.size()) < std::min(most, past_caches / first.bytes)) {
    sets.push_back(one.prepare(backend));
  }
  std::size_t next = 0;
  return measure(backend, [&] { sets[next++ % sets.size()].run(); }, 32, repeats);
}

/// Where an op runs, and where its small twin on the host's tensors does.
struct Devices {
  std::unique_ptr<Backend> measured, checked;
};

Devices make_devices(const Options& options) {
  if (options.device == "cpu") return {make_cpu_backend(options.threads), make_cpu_backend(options.threads)};
  return {make_cuda_backend(0), make_staged_backend(make_cuda_backend(0))};
}

json::object run_case(const Devices& devices, const OpCase& one, const MachinePeaks& peaks, int repeats) {
  const PreparedOp op = one.prepare(*devices.measured);
  const Timing timing = measure(*devices.measured, one, op, repeats);
  const bool matmul = op.flops > 0;
  const double rate = (matmul ? op.flops : op.bytes) / timing.median_ms / 1e6;
  const double flops_peak = peaks.flops(one.type);
  const double peak = (matmul ? flops_peak : peaks.triad_bytes) / 1e9;
  const double error = one.error(*devices.checked);
  fmt::print("{:<52} {:>9.3f} {:>7.0f}% {:>9.1f} {:<7} {:>5.0f}% {:>9.1e}\n", one.name, timing.median_ms,
             100 * timing.spread, rate, matmul ? "GFLOP/s" : "GB/s", 100 * rate / peak, error);
  return {{"op", one.name},
          {"ms", timing.median_ms},
          {"spread", timing.spread},
          {"rate", rate},
          {"unit", matmul ? "GFLOP/s" : "GB/s"},
          {"share_of_peak", rate / peak},
          {"type", name_of(one.type)},
          {"error", error}};
}

bool is_wanted(const OpCase& one, const std::vector<std::string>& only) {
  const auto names_it = [&](const std::string& text) { return one.name.find(text) != std::string::npos; };
  return only.empty() || std::any_of(only.begin(), only.end(), names_it);
}

/// An illegal access on a device fails every later case too; their rows say so.
json::object try_case(const Devices& devices, const OpCase& one, const MachinePeaks& peaks, int repeats) {
  try {
    return run_case(devices, one, peaks, repeats);
  } catch (const std::exception& failure) {
    fmt::print("{:<52} failed: {}\n", one.name, failure.what());
    return {{"op", one.name}, {"type", name_of(one.type)}, {"failure", failure.what()}};
  }
}

void print_matmul(const json::object& row) {
  const auto text = [&](const char* key) { return std::string(row.at(key).as_string()); };
  if (row.contains("failure")) return fmt::print("{} failed: {}\n", text("layer"), text("failure"));
  const auto number = [&](const char* key) { return row.at(key).to_number<double>(); };
  fmt::print("{:<34} {:<26} {:<4} {:>2} {:>6.2f} {:>9.1f} {:>9.1f}  {}\n", text("product"), text("epilogue"),
             row.at("found").as_bool() ? "yes" : "no", number("candidates"), number("waves"), 1e3 * number("first_ms"),
             1e3 * number("chosen_ms"), text("algorithm"));
}

int run_matmuls(const Options& options) {
  const Devices devices = make_devices(options);
  devices.measured->tune_matmuls({}).value();
  fmt::print("{}\n{:<34} {:<26} {:<4} {:>2} {:>6} {:>9} {:>9}  algorithm\n", devices.measured->description(), "product",
             "epilogue", "has", "of", "waves", "first, us", "best, us");
  std::ofstream rows_file(options.rows_file, std::ios::app);
  json::array rows;
  for (const std::string& preset : options.presets) {
    for (json::value& row : matmul_table(*devices.measured, preset, options.tokens, [&](const json::object& one) {
           print_matmul(one);
           rows_file << to_text(one) << std::endl;
           std::fflush(stdout);
         })) {
      rows.push_back(std::move(row));
    }
  }
  std::cout << to_text(json::object{
                   {"backend", devices.measured->description()}, {"tokens", options.tokens}, {"rows", rows}})
            << std::endl;
  return 0;
}

int run(const Options& options) {
  if (options.matmuls) return run_matmuls(options);
  const Stopwatch watch;
  const Devices devices = make_devices(options);
  const MachinePeaks peaks = measure_peaks(*devices.measured, options.threads);
  fmt::print("{}\n", devices.measured->description());
  print_peaks(peaks);
  fmt::print("{:<52} {:>9} {:>8} {:>9} {:<7} {:>6} {:>9}\n", "op", "ms", "spread", "rate", "", "peak", "error");
  std::ofstream rows_file(options.rows_file, std::ios::app);
  json::array rows;
  std::int64_t left_out = 0;
  for (const std::string& preset : options.presets) {
    for (const OpCase& one : op_cases(preset, options.tokens)) {
      if (!is_wanted(one, options.only)) continue;
      if (watch.elapsed_ms() > 1000 * options.seconds) {
        ++left_out;
        continue;
      }
      rows.push_back(try_case(devices, one, peaks, options.repeats));
      rows_file << to_text(rows.back()) << std::endl;
      std::fflush(stdout);
    }
  }
  std::cout << to_text(json::object{{"backend", devices.measured->description()},
                                    {"peaks", to_json(peaks)},
                                    {"tokens", options.tokens},
                                    {"left_out", left_out},
                                    {"rows", rows}})
            << std::endl;
  return 0;
}

}  // namespace
}  // namespace babelring

int main(int argc, char** argv) {
  CLI::App app("Time and error of every op");
  babelring::Options options;
  app.add_option("--device", options.device)->check(CLI::IsMember({"cpu", "cuda"}))->capture_default_str();
  app.add_option("--preset", options.presets, "whose shapes")->check(CLI::IsMember({"tiny", "base", "big"}));
  app.add_option("--threads", options.threads, "of the backend")->check(CLI::PositiveNumber);
  app.add_option("--repeats", options.repeats, "timed runs a row")->check(CLI::Range(1, 1000));
  app.add_option("--tokens", options.tokens, "rows")->check(CLI::Range(64, 1000000));
  app.add_option("--only", options.only, "ops whose name has one of these texts");
  app.add_option("--seconds", options.seconds, "ops not begun by then are left out and counted");
  app.add_flag("--products", options.matmuls, "a table of the models' matrix products and of their algorithms");
  app.add_option("--rows", options.rows_file,
                 "file to append each row to, as a line of JSON, as soon as it is measured");
  CLI11_PARSE(app, argc, argv);
  try {
    return babelring::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_ops: {}\n", error.what());
    return 1;
  }
}
