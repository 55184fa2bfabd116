#include "nmt/data/prepare.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/version.h"
#include "nmt/core/random.h"
#include "nmt/data/encode_lines.h"
#include "nmt/data/id_file.h"
#include "nmt/data/text.h"
#include "nmt/data/work_folder.h"

namespace babelring {

namespace {

namespace fs = std::filesystem;
constexpr const char* vocabulary_name = "spm.model";
constexpr std::size_t lines_per_round = 1 << 15;  // lines encoded per round, in parallel

/// A set's inputs and report.
struct SetWork {
  std::string name;
  std::vector<TextFiles> inputs;
  bool held_out = false;
  PrepareReport report{name};
};

PrepareReport::Pieces count(const std::vector<std::int32_t>& ids) {
  return {.all = std::ssize(ids), .unknown = std::count(ids.begin(), ids.end(), unk_id)};
}

class Preparation {
 public:
  explicit Preparation(const PrepareOptions& options)
      : options_(options), work_(options.output / "work.tmp"), filter_(options.filter) {
    if (options.valid) sets_.push_back({.name = "valid", .inputs = {*options.valid}, .held_out = true});
    if (options.test) sets_.push_back({.name = "test", .inputs = {*options.test}, .held_out = true});
    sets_.push_back({.name = "train", .inputs = options.train});
  }

  PrepareResult run() {
    for (SetWork& set : sets_) clean(set);  // held-out sets first, because training excludes their text
    std::rotate(sets_.begin(), sets_.end() - 1, sets_.end());
    for (const SetWork& set : sets_) require_pairs(set, "cleaning");
    const std::string model = make_vocabulary();
    const std::string origin = options_.use_vocabulary.empty() ? vocabulary_name : options_.use_vocabulary.string();
    const Vocabulary vocabulary = Vocabulary::from_bytes(model, origin);
    write(vocabulary_name, model);
    PrepareResult result;
    result.manifest.vocabulary = describe_file(work_.path(), vocabulary_name);
    result.manifest.vocabulary_size = vocabulary.size();
    for (SetWork& set : sets_) {
      result.manifest.sets.push_back(encode(set, vocabulary));
      require_pairs(set, "encoding");
    }
    json::array reports;
    for (const SetWork& set : sets_) reports.push_back(set.report.to_json());
    write("report.json", to_text(json::object{{"sets", std::move(reports)}}) + "\n");
    result.manifest.program = std::string("babelring ") + version;
    result.manifest.options = to_json(options_);
    publish(result.manifest);
    for (SetWork& set : sets_) result.reports.push_back(std::move(set.report));
    return result;
  }

 private:
  fs::path work_file(const SetWork& set, const char* side) const { return work_ / (set.name + "." + side); }

  /// Throws Failure if no pair of a set remains after `step`.
  static void require_pairs(const SetWork& set, const char* step) {
    const PrepareReport& report = set.report;
    if (report.kept() > 0) return;
    std::vector<std::string> names;
    for (const TextFiles& files : set.inputs) names.push_back(files.source.string());
    if (report.read() == 0) {
      fail("prepare: {} has no lines; expected pairs {}", fmt::join(names, ", "),
           set.held_out ? "for " + set.name : "to train on");
    }
    fail("prepare: {}: none of {} pairs is left after {} ({})", set.name, report.read(), step, report.summary());
  }

  /// Writes a file to be moved by publish().
  void write(const std::string& name, std::string_view content) {
    write_file_atomically(work_ / name, content);
    finished_.push_back(name);
  }

  /// Moves the finished files into the output folder; writes the manifest last.
  void publish(const Manifest& manifest) {
    std::error_code error;
    fs::remove(options_.output / Manifest::file_name, error);
    if (error) fail("cannot remove the old {}: {}", Manifest::file_name, error.message());
    for (const std::string& name : finished_) {
      fs::rename(work_ / name, options_.output / name, error);
      if (error) fail("cannot move {} to {}: {}", name, options_.output.string(), error.message());
    }
    save_manifest(options_.output, manifest);
  }

  void clean(SetWork& set) {
    // Cleaned pairs for the second pass, with their source locations.
    LineWriter source(work_file(set, "source")), target(work_file(set, "target")), origin(work_file(set, "origin"));
    TextPair pair;
    for (const TextFiles& files : set.inputs) {
      PairReader reader(files, options_.unequal, set.report);
      while (reader.next(pair)) {
        const std::string clean_source = normalize_spaces(pair.source), clean_target = normalize_spaces(pair.target);
        if (set.held_out) {
          filter_.hold_out(clean_source, clean_target);
        } else if (const auto finding = filter_.judge(clean_source, clean_target)) {
          set.report.add(*finding, files.source.string(), pair.line, pair.source);
          continue;
        }
        // Held-out text is stored unchanged, so scores are comparable with others on the same references.
        source.add(set.held_out ? pair.source : clean_source);
        target.add(set.held_out ? pair.target : clean_target);
        origin.add(fmt::format("{}:{}", files.source.string(), pair.line));
        set.report.add_kept();
      }
    }
    source.finish();
    target.finish();
    origin.finish();
    spdlog::info("{}: cleaning kept {} of {} pairs", set.name, set.report.kept(), set.report.read());
  }

  std::string make_vocabulary() const {
    if (!options_.use_vocabulary.empty()) return read_file(options_.use_vocabulary);
    const SetWork& train = sets_.front();
    LineReader source(work_file(train, "source")), target(work_file(train, "target"));
    const std::int64_t lines = 2 * train.report.kept();
    const double fraction = static_cast<double>(options_.vocabulary_lines) / static_cast<double>(lines);
    std::int64_t at = 0;
    RawLine line;
    const auto next_line = [&](std::string& text) {
      while (true) {
        LineReader& reader = at % 2 == 0 ? source : target;
        if (!reader.next(line)) return false;
        const double draw = Random(derive_seed(1, static_cast<std::uint64_t>(at++))).uniform();
        if (draw >= fraction) continue;
        text = line.text;
        return true;
      }
    };
    spdlog::info("training a {} vocabulary of {} subwords", options_.vocabulary.model, options_.vocabulary.size);
    return train_vocabulary(options_.vocabulary, next_line);
  }

  /// Reads up to lines_per_round lines.
  static std::vector<std::string> read_round(LineReader& reader) {
    std::vector<std::string> lines;
    RawLine line;
    while (lines.size() < lines_per_round && reader.next(line)) lines.push_back(line.text);
    return lines;
  }

  /// The reason to drop an encoded training pair; none if it is kept.
  std::optional<Finding> judge(const PrepareReport::Pieces& source, const PrepareReport::Pieces& target) const {
    if (std::max(source.all, target.all) > options_.max_pieces) return Finding::too_many_pieces;
    const auto too_many_unknown = [&](const PrepareReport::Pieces& side) {
      return static_cast<double>(side.unknown) > options_.max_unknown * static_cast<double>(side.all);
    };
    if (too_many_unknown(source) || too_many_unknown(target)) return Finding::too_many_unknown;
    return std::nullopt;
  }

  ManifestSet encode(SetWork& set, const Vocabulary& vocabulary) {
    const fs::path source_path = work_file(set, "source"), target_path = work_file(set, "target");
    const std::string source_ids = set.name + ".source.ids", target_ids = set.name + ".target.ids";
    IdFileWriter source_file(work_ / source_ids), target_file(work_ / target_ids);
    LineReader source(source_path), target(target_path), origin(work_file(set, "origin"));
    while (true) {
      const std::vector<std::string> source_lines = read_round(source), target_lines = read_round(target);
      const std::vector<std::string> origins = read_round(origin);
      if (source_lines.empty()) break;
      const auto encoded_source = encode_lines(source_lines, vocabulary, options_.threads);
      const auto encoded_target = encode_lines(target_lines, vocabulary, options_.threads);
      for (std::size_t i = 0; i < source_lines.size(); ++i) {
        const auto source_pieces = count(encoded_source[i]), target_pieces = count(encoded_target[i]);
        if (const auto finding = set.held_out ? std::nullopt : judge(source_pieces, target_pieces)) {
          set.report.add(*finding, origins[i], source_lines[i]);
          set.report.remove_kept();
          continue;
        }
        set.report.add_pieces(source_pieces, target_pieces);
        source_file.add(encoded_source[i]);
        target_file.add(encoded_target[i]);
      }
    }
    source_file.finish();
    target_file.finish();
    ManifestSet entry{.name = set.name,
                      .sentences = source_file.sentences(),
                      .source_tokens = source_file.tokens(),
                      .target_tokens = target_file.tokens(),
                      .source_ids = describe_file(work_.path(), source_ids),
                      .target_ids = describe_file(work_.path(), target_ids)};
    finished_.insert(finished_.end(), {source_ids, target_ids});
    if (set.held_out) {
      entry.source_text = keep_text(source_path, set.name + ".source.txt");
      entry.target_text = keep_text(target_path, set.name + ".target.txt");
    }
    return entry;
  }

  ManifestFile keep_text(const fs::path& from, const std::string& name) {
    write(name, read_file(from));
    return describe_file(work_.path(), name);
  }

  const PrepareOptions& options_;
  WorkFolder work_;
  PairFilter filter_;
  std::vector<SetWork> sets_;
  std::vector<std::string> finished_;  // files in work_ that publish() moves
};

}  // namespace

PrepareResult prepare(const PrepareOptions& options) {
  if (options.train.empty()) throw UsageFailure("prepare: no training text");
  if (options.output.empty()) throw UsageFailure("prepare: no output folder");
  return Preparation(options).run();
}

}  // namespace babelring
