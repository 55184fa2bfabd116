#include "nmt/data/gssm/likelihood.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/gssm/difficulty_grid.h"
#include "cli/gssm/gssm_commands.h"

namespace babelring {
namespace {

/// The parsed command line.
struct DifficultyArguments {
  GssmChoice choice;
  std::string alphas_x, alphas_z, json_lines, plot;
  std::int64_t kernel_seeds = 1, sequences = 1024, length = 0, task = 1, tasks = 1, entropy_sequences = 32;
  bool entropy = false;
};

/// Appends lines to a file of results, which other tasks may share.
class ResultsFile {
 public:
  explicit ResultsFile(const std::string& path) : path_(path) {
    const std::string before = std::filesystem::exists(path) ? read_file(path) : "";
    finished_ = finished_lines(before);
    file_.reset(std::fopen(path.c_str(), "ae"));
    if (!file_) throw UsageFailure(fmt::format("--json-lines: {} cannot be written", path));
    if (!before.empty() && before.back() != '\n') write("\n");  // ends a line that was cut off
  }
  /// The line of a cell that the file held before; null if it did not.
  const json::object* find(const std::string& key) const {
    const auto found = finished_.find(key);
    return found == finished_.end() ? nullptr : &found->second;
  }
  /// Writes a line with one system call, so that lines of tasks do not mix.
  void write(const std::string& line) {
    if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() || std::fflush(file_.get()) != 0) {
      fail("{}: cannot be written", path_);
    }
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::map<std::string, json::object> finished_;
  std::unique_ptr<std::FILE, Close> file_;
};

/// Mean and standard deviation of the figures of one cell's kernel seeds.
struct Spread {
  double sum = 0, squares = 0;
  std::int64_t count = 0;

  void add(double figure) {
    sum += figure;
    squares += figure * figure;
    ++count;
  }
  double mean() const { return sum / static_cast<double>(count); }
  double deviation() const {
    const auto n = static_cast<double>(count);
    return count > 1 ? std::sqrt(std::max(0.0, (squares - n * mean() * mean()) / (n - 1))) : 0;
  }
};

class DifficultyReport {
 public:
  explicit DifficultyReport(bool as_json) : as_json_(as_json) {
    if (as_json_) return;
    fmt::print("difficulty in bytes of zlib {}, level 9, a token\n", zlib_library());
    fmt::print("{:>10} {:>10} {:>12} {:>10} {:>10} {:>16}\n", "alpha_X", "alpha_Z", "kernel_seed", "difficulty",
               "of noise", "entropy, nats");
  }
  /// `line`: see difficulty_line().
  void add(const json::object& line) {
    const auto number = [&line](const char* name) { return get_number(line, name).value_or(std::nan("")); };
    difficulty_.add(number("difficulty"));
    if (line.contains("entropy_nats")) entropy_.add(number("entropy_nats"));
    cells_.emplace_back(line);
    if (as_json_) return;
    fmt::print(
        "{:>10.4g} {:>10.4g} {:>12} {:>10.4f} {:>10.4f} {:>16}\n", number("alpha_X"), number("alpha_Z"),
        get_integer(line, "kernel_seed"), number("difficulty"), number("difficulty_normalised"),
        line.contains("entropy_nats") ? entropy_text(number("entropy_nats"), number("entropy_standard_error")) : "-");
    std::fflush(stdout);
  }
  void finish(std::int64_t skipped, std::size_t kernel_seeds, std::size_t cells) {
    if (as_json_)
      return fmt::print("{}\n", to_text(json::object{{"finished_before", skipped},
                                                     {"cells", json::array(cells_.begin(), cells_.end())}}));
    if (skipped > 0) fmt::print("{} finished before, from --json-lines\n", counted(skipped, "cell"));
    if (difficulty_.count > 1 && kernel_seeds == cells) {
      fmt::print("mean of {} kernel seeds: difficulty {:.4f} (standard deviation {:.4f})", difficulty_.count,
                 difficulty_.mean(), difficulty_.deviation());
      if (entropy_.count == difficulty_.count)
        fmt::print(", entropy {:.4f} nats ({:.4f})", entropy_.mean(), entropy_.deviation());
      fmt::print("\n");
    }
  }

  const std::vector<json::object>& cells() const { return cells_; }

 private:
  static std::string entropy_text(double nats, double standard_error) {
    if (std::isnan(standard_error)) return fmt::format("{:.4f}", nats);
    return fmt::format("{:.4f} ± {:.4f}", nats, standard_error);
  }
  bool as_json_;
  std::vector<json::object> cells_;
  Spread difficulty_, entropy_;
};

DifficultyResult measure(const DifficultyCell& cell, double noise) {
  const GssmGenerator generator(make_gssm_graph(cell.options));
  const SequenceId place{.seed = static_cast<std::uint64_t>(cell.seed)};
  DifficultyResult result;
  result.difficulty = measure_difficulty(generator, place, cell.sequences, cell.length);
  result.difficulty_normalised = result.difficulty / noise;
  if (cell.entropy_sequences > 0) {
    result.entropy = estimate_entropy(generator, place, cell.entropy_sequences, cell.length, 1);
  }
  return result;
}

void run_difficulty(const DifficultyArguments& arguments) {
  const GssmConfig config = arguments.choice.read_generator();
  if (arguments.task > arguments.tasks) {
    throw UsageFailure(fmt::format("--task: found {}, expected at most --tasks, {}", arguments.task, arguments.tasks));
  }
  DifficultyGrid grid{.kernel_seeds = arguments.kernel_seeds};
  if (!arguments.alphas_x.empty()) grid.alphas_x = parse_alphas(arguments.alphas_x, "--alphas-x");
  if (!arguments.alphas_z.empty()) grid.alphas_z = parse_alphas(arguments.alphas_z, "--alphas-z");
  const std::int64_t length = arguments.length > 0 ? arguments.length : config.sequence_length;
  const std::int64_t entropy_sequences =
      arguments.entropy ? std::min(arguments.sequences, arguments.entropy_sequences) : 0;
  const std::vector<GssmOptions> cells = difficulty_cells(config.gssm, grid);
  std::optional<ResultsFile> file;
  if (!arguments.json_lines.empty()) file.emplace(arguments.json_lines);
  DifficultyReport report(arguments.choice.json);
  std::int64_t skipped = 0;
  double noise = 0;
  for (std::size_t i = static_cast<std::size_t>(arguments.task - 1); i < cells.size();
       i += static_cast<std::size_t>(arguments.tasks)) {
    const DifficultyCell cell{cells[i], config.seed, arguments.sequences, length, entropy_sequences};
    if (const json::object* line = file ? file->find(difficulty_key(cell)) : nullptr) {
      ++skipped;
      report.add(*line);
      continue;
    }
    if (noise == 0) noise = noise_difficulty(make_gssm_graph(cell.options).vocabulary(), cell.sequences * length);
    const json::object line = difficulty_line(cell, measure(cell, noise));
    if (file) file->write(to_text(line) + '\n');
    report.add(line);
  }
  if (!arguments.plot.empty() && !report.cells().empty()) {
    write_file_atomically(arguments.plot, difficulty_map(report.cells()));
  }
  report.finish(skipped, static_cast<std::size_t>(arguments.kernel_seeds), cells.size());
}

}  // namespace

void add_gssm_difficulty(CLI::App& gssm) {
  CLI::App* command =
      gssm.add_subcommand("difficulty", "Measures how well zlib compresses sequences, and their entropy");
  const auto arguments = std::make_shared<DifficultyArguments>();
  DifficultyArguments& a = *arguments;
  a.choice.declare(*command);
  const auto number = [&](const char* name, std::int64_t& member, std::int64_t high, const char* help) {
    return command->add_option(name, member, help)->check(CLI::Range(std::int64_t{1}, high))->capture_default_str();
  };
  command
      ->add_option("--alphas-x", a.alphas_x,
                   "values of gssm.alpha_X: one, or LOW:HIGH:COUNT in equal ratios; default: as configured")
      ->type_name("RANGE");
  command
      ->add_option("--alphas-z", a.alphas_z,
                   "values of gssm.alpha_Z: one, or LOW:HIGH:COUNT in equal ratios; default: as configured")
      ->type_name("RANGE");
  number("--kernel-seeds", a.kernel_seeds, 100000,
         "graphs drawn for each pair of alphas, with seeds from gssm.kernel_seed on");
  number("--sequences", a.sequences, 1 << 24, "sequences of each graph");
  command->add_option("--length", a.length, "tokens of a sequence; default: data.sequence_length")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 24));
  command->add_flag("--entropy", a.entropy, "also compute the exact entropy");
  number("--entropy-sequences", a.entropy_sequences, 1 << 24, "max sequences whose likelihood is computed");
  command
      ->add_option("--json-lines", a.json_lines,
                   "append each result to this file; cells that it holds are not measured again")
      ->type_name("FILE");
  command->add_option("--plot", a.plot, "write a map of the grid's difficulties, means over kernel seeds, as SVG")
      ->type_name("FILE");
  number("--task", a.task, 1 << 20, "measure cells I, I + N, … of the grid");
  number("--tasks", a.tasks, 1 << 20, "the N of --task");
  command->callback([arguments] { run_difficulty(*arguments); });
}

}  // namespace babelring
