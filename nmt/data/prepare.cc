#include "nmt/data/prepare.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/failure.h"
#include "base/files.h"
#include "base/text.h"
#include "base/version.h"
#include "base/work_folder.h"
#include "nmt/core/random.h"
#include "nmt/data/cleaning.h"
#include "nmt/data/corpus.h"
#include "nmt/data/line_reader.h"
#include "nmt/data/text.h"
#include "nmt/data/vocabulary.h"
#include "nmt/data/word_aligner.h"

namespace babelring {

namespace {

namespace fs = std::filesystem;
constexpr const char* vocabulary_name = "spm.model";
constexpr std::size_t lines_per_round = 1 << 15;  // lines encoded per round, in parallel

PrepareReport::Pieces count(const std::vector<std::int32_t>& ids) {
  return {.all = std::ssize(ids), .unknown = std::count(ids.begin(), ids.end(), unk_id)};
}

class Preparation {
 public:
  explicit Preparation(const PrepareOptions& options)
      : options_(options), work_(options.output, "work"), sets_(sets_of(options)) {}

  PrepareResult run() {
    Cleaning cleaning(options_);
    for (SetWork& set : sets_) clean(set, cleaning);
    std::rotate(sets_.begin(), sets_.end() - 1, sets_.end());
    for (const SetWork& set : sets_) require_pairs(set, "cleaning");
    const std::string model = make_vocabulary();
    const std::string origin = options_.use_vocabulary.empty() ? vocabulary_name : options_.use_vocabulary.string();
    const Vocabulary vocabulary = Vocabulary::from_bytes(model, origin);
    if (options_.suspects) options_.suspects->check(vocabulary);
    write(vocabulary_name, model);
    PrepareResult result;
    result.manifest.vocabulary = describe_file(work_.path(), vocabulary_name);
    result.manifest.vocabulary_size = vocabulary.size();
    for (SetWork& set : sets_) {
      result.manifest.sets.push_back(encode(set, vocabulary));
      require_pairs(set, "encoding");
    }
    json::array reports;
    for (const SetWork& set : sets_) reports.push_back(set.report().to_json());
    write("report.json", to_text(json::object{{"sets", std::move(reports)}}) + "\n");
    result.manifest.program = std::string("babelring ") + version;
    result.manifest.options = to_json(options_);
    publish_folder(options_.output, work_.path(), finished_, result.manifest);
    for (const SetWork& set : sets_) {
      for (const SetPart& part : set.parts) warn(part.report);
      result.reports.push_back(set.report());
    }
    return result;
  }

 private:
  fs::path work_file(const SetWork& set, const char* side) const { return work_ / (set.name + "." + side); }

  /// Throws Failure if no pair of a set remains after `step`.
  static void require_pairs(const SetWork& set, const char* step) {
    for (const SetPart& part : set.parts) require_pairs(set, part, step);
  }

  static void require_pairs(const SetWork& set, const SetPart& part, const char* step) {
    const PrepareReport& report = part.report;
    if (report.kept() > 0) return;
    std::vector<std::string> names;
    for (const TextFiles& files : part.inputs) names.push_back(files.source.string());
    if (report.read() == 0) {
      fail("prepare: {} has no lines; expected pairs {}", fmt::join(names, ", "),
           set.held_out ? "for " + set.name : "to train on");
    }
    const std::string options = report.options();
    fail("prepare: {}: none of {} pairs is left after {} ({}){}", report.name(), report.read(), step, report.summary(),
         options.empty() ? "" : ": see " + options);
  }

  static void warn(const PrepareReport& report) {
    for (const std::string& warning : report.warnings()) spdlog::warn("{}", warning);
  }

  /// Writes a file to be published.
  void write(const std::string& name, std::string_view content) {
    write_file_atomically(work_ / name, content);
    finished_.push_back(name);
  }

  void clean(SetWork& set, Cleaning& cleaning) {
    // Cleaned pairs for the second pass, with their source locations.
    LineWriter source(work_file(set, "source")), target(work_file(set, "target")), origin(work_file(set, "origin"));
    cleaning.clean(set, [&](const SetPart& part, const TextPair& pair, const std::string& file) {
      // Held-out text is stored unchanged, so scores are comparable with others on the same references.
      const std::string tag = part.tag.empty() ? "" : part.tag + " ";
      source.add(set.held_out ? pair.source : tag + normalize_spaces(pair.source));
      target.add(set.held_out ? pair.target : normalize_spaces(pair.target));
      origin.add(fmt::format("{}:{}", file, pair.line));
    });
    source.finish();
    target.finish();
    origin.finish();
  }

  /// Reads the cleaned pairs of a set, up to lines_per_round at a time.
  class Rounds {
   public:
    Rounds(const Preparation& all, const SetWork& set)
        : source_(all.work_file(set, "source")),
          target_(all.work_file(set, "target")),
          origin_(all.work_file(set, "origin")) {}
    /// Returns false at the end.
    bool next() {
      source = read(source_);
      target = read(target_);
      origin = read(origin_);
      return !source.empty();
    }
    std::vector<std::string> source, target, origin;

   private:
    static std::vector<std::string> read(LineReader& reader) {
      std::vector<std::string> lines;
      RawLine line;
      while (lines.size() < lines_per_round && reader.next(line)) lines.push_back(line.text);
      return lines;
    }
    LineReader source_, target_, origin_;
  };

  /// Trains a vocabulary on at most `max_lines` lines of the training text, without pairs that are left out.
  std::string train_on(std::int64_t max_lines, const std::vector<bool>& left_out) const {
    const SetWork& train = sets_.front();
    LineReader source(work_file(train, "source")), target(work_file(train, "target"));
    const auto lines = 2 * std::count(left_out.begin(), left_out.end(), false);
    const double fraction = static_cast<double>(max_lines) / static_cast<double>(lines);
    std::int64_t at = 0;
    RawLine line;
    const auto next_line = [&](std::string& text) {
      while (true) {
        LineReader& reader = at % 2 == 0 ? source : target;
        if (!reader.next(line)) return false;
        const bool is_out = left_out[static_cast<std::size_t>(at / 2)];
        const double draw = Random(derive_seed(1, static_cast<std::uint64_t>(at++))).uniform();
        if (is_out || draw >= fraction) continue;
        text = line.text;
        return true;
      }
    };
    spdlog::info("training a {} vocabulary of {} subwords", options_.vocabulary.model, options_.vocabulary.size);
    return train_vocabulary(options_.vocabulary, next_line);
  }

  /// True if encoding may drop the line, since a subword has at least one byte.
  bool may_exceed(const std::string& line) const { return std::ssize(line) > options_.max_pieces; }

  /// Training pairs that no vocabulary encodes in few enough subwords: their lines are over 8 characters for each,
  /// where vocabularies of 32,000 subwords have 3 to 5. Such lines, of binary data or whole documents, would fill a
  /// vocabulary. Counts in `doubtful` the other pairs that may_exceed().
  std::vector<bool> pairs_over_long(std::int64_t& doubtful) const {
    const auto is_long = [&](const std::string& line) {
      const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
      return may_exceed(line) &&
             std::ssize(line) - std::count_if(line.begin(), line.end(), continues) > 8 * options_.max_pieces;
    };
    std::vector<bool> out;
    for (Rounds round(*this, sets_.front()); round.next();) {
      for (std::size_t i = 0; i < round.source.size(); ++i) {
        out.push_back(is_long(round.source[i]) || is_long(round.target[i]));
        doubtful += !out.back() && (may_exceed(round.source[i]) || may_exceed(round.target[i])) ? 1 : 0;
      }
    }
    return out;
  }

  /// Adds the training pairs that encoding with this vocabulary drops. Encodes only lines that may be dropped: a
  /// subword has at least one byte. Returns the number of added pairs.
  std::int64_t leave_out_dropped(const Vocabulary& vocabulary, bool judge_unknown, std::vector<bool>& left_out) const {
    std::int64_t added = 0;
    std::size_t first = 0;
    for (Rounds round(*this, sets_.front()); round.next(); first += round.source.size()) {
      std::vector<std::string> source, target;
      std::vector<std::size_t> pairs;
      for (std::size_t i = 0; i < round.source.size(); ++i) {
        const bool doubtful = judge_unknown || may_exceed(round.source[i]) || may_exceed(round.target[i]);
        if (left_out[first + i] || !doubtful) continue;
        source.push_back(std::move(round.source[i]));
        target.push_back(std::move(round.target[i]));
        pairs.push_back(first + i);
      }
      const auto source_ids = encode_lines(source, TextSide::source, vocabulary, options_.threads);
      const auto target_ids = encode_lines(target, TextSide::target, vocabulary, options_.threads);
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const auto finding = judge(count(source_ids[i]), count(target_ids[i]));
        if (!finding || (finding != Finding::too_many_pieces && !judge_unknown)) continue;
        left_out[pairs[i]] = true;
        ++added;
      }
    }
    return added;
  }

  /// Trains the vocabulary on pairs that training will see: what a trial vocabulary drops is left out. Of much text the
  /// trial sees a part only; else it is repeated until it drops nothing more, at most 3 times.
  std::string make_vocabulary() const {
    if (const std::filesystem::path& file = options_.use_vocabulary; !file.empty()) {
      return with_symbols(Vocabulary::from_bytes(read_file(file), file.string()).bytes(), options_.vocabulary.symbols);
    }
    constexpr std::int64_t much_text = 200'000, trial_lines = 50'000;  // about 10 and 3 seconds to train on
    const VocabularyOptions& wanted = options_.vocabulary;
    std::int64_t doubtful = 0;
    std::vector<bool> left_out = pairs_over_long(doubtful);
    const auto none_left = [&] { return std::count(left_out.begin(), left_out.end(), false) == 0; };
    if (none_left()) left_out.assign(left_out.size(), false);
    const bool whole = std::min(options_.vocabulary_lines, 2 * std::ssize(left_out)) <= much_text;
    const bool judge_unknown =
        whole && wanted.character_coverage < 1 && !wanted.byte_fallback && options_.max_unknown < 1;
    const int max_trials = doubtful == 0 && !judge_unknown ? 0 : whole ? 3 : 1;
    for (int trial = 0; trial < max_trials; ++trial) {
      const auto vocabulary = try_on(whole ? options_.vocabulary_lines : trial_lines, left_out, whole);
      if (!vocabulary) break;
      const std::int64_t dropped = leave_out_dropped(*vocabulary, judge_unknown, left_out);
      if (none_left() || (dropped == 0 && whole)) return vocabulary->bytes();
      if (dropped == 0) break;
      spdlog::info("left out of the vocabulary's text, since encoding would drop them: {}",
                   counted(static_cast<double>(dropped), "pair"));
    }
    return train_on(options_.vocabulary_lines, left_out);
  }

  /// A trial vocabulary; none if a part of the text, which is not `whole`, is too small for its size.
  std::optional<Vocabulary> try_on(std::int64_t max_lines, const std::vector<bool>& left_out, bool whole) const try {
    return Vocabulary::from_bytes(train_on(max_lines, left_out), vocabulary_name);
  } catch (const Failure&) {
    if (whole) throw;
    return std::nullopt;
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

  /// The files of an encoded set.
  struct Encoded {
    std::string source_ids, target_ids, source_text, target_text;
    IdFileWriter source, target;
    std::optional<AtomicFile> source_lines, target_lines;  // of held-out sets

    Encoded(const WorkFolder& work, const SetWork& set)
        : source_ids(set.name + ".source.ids"),
          target_ids(set.name + ".target.ids"),
          source_text(set.name + ".source.txt"),
          target_text(set.name + ".target.txt"),
          source(work / source_ids),
          target(work / target_ids) {
      if (!set.held_out) return;
      source_lines.emplace(work / source_text);
      target_lines.emplace(work / target_text);
    }
  };

  ManifestSet encode(SetWork& set, const Vocabulary& vocabulary) {
    Encoded files(work_, set);
    PartOfPair parts(set);
    for (Rounds round(*this, set); round.next();) encode(round, set, parts, vocabulary, files);
    files.source.finish();
    files.target.finish();
    ManifestSet entry{.name = set.name,
                      .sentences = files.source.sentences(),
                      .source_tokens = files.source.tokens(),
                      .target_tokens = files.target.tokens(),
                      .source_ids = finish(files.source_ids),
                      .target_ids = finish(files.target_ids)};
    for (const SetPart& part : set.parts) {
      if (part.corpus.empty()) continue;
      entry.corpora.push_back({.name = part.corpus,
                               .tag = part.tag,
                               .sentences = part.report.kept(),
                               .source_tokens = part.report.source_pieces().all,
                               .target_tokens = part.report.target_pieces().all});
    }
    if (options_.align && !set.held_out) entry.links = align(set, vocabulary);
    if (set.held_out) {
      files.source_lines->commit();
      files.target_lines->commit();
      entry.source_text = finish(files.source_text);
      entry.target_text = finish(files.target_text);
    }
    return entry;
  }

  void encode(const Rounds& round, const SetWork& set, PartOfPair& parts, const Vocabulary& vocabulary,
              Encoded& files) const {
    const auto source = encode_lines(round.source, TextSide::source, vocabulary, options_.threads);
    const auto target = encode_lines(round.target, TextSide::target, vocabulary, options_.threads);
    const std::vector<std::string> decoded = decode_lines(target, vocabulary, options_.threads);
    const Suspects* suspects = set.held_out ? nullptr : options_.suspects.get();
    for (std::size_t i = 0; i < source.size(); ++i) {
      PrepareReport& report = parts.next().report;
      const auto source_pieces = count(source[i]), target_pieces = count(target[i]);
      std::optional<Finding> finding;
      if (source[i].empty() || target[i].empty()) {
        finding = Finding::empty;
      } else if (!set.held_out) {
        finding = judge(source_pieces, target_pieces);
      }
      if (finding) {
        report.add(*finding, round.origin[i], round.source[i]);
        report.remove_kept();
        continue;
      }
      if (const auto kept = suspects != nullptr ? suspects->find(source[i], target[i]) : std::nullopt) {
        report.add_pair(Finding::suspect, fmt::format("{}: keeps {:.0f} % of its loss", round.origin[i], 100 * *kept),
                        round.source[i], round.target[i]);
        report.remove_kept();
        continue;
      }
      report.add_pieces(source_pieces, target_pieces);
      const std::string expected = set.held_out ? normalize_spaces(round.target[i]) : round.target[i];
      if (decoded[i] != expected) report.add_changed(round.origin[i], expected, decoded[i]);
      files.source.add(source[i]);
      files.target.add(target[i]);
      if (!set.held_out) continue;
      files.source_lines->write(round.source[i] + "\n");
      files.target_lines->write(round.target[i] + "\n");
    }
  }

  /// Aligns the encoded pairs of a set and writes their links.
  ManifestFile align(const SetWork& set, const Vocabulary& vocabulary) {
    const IdSequences source(work_ / (set.name + ".source.ids"), vocabulary.size());
    const IdSequences target(work_ / (set.name + ".target.ids"), vocabulary.size());
    spdlog::info("{}: aligning {}", set.name, counted(static_cast<double>(source.sentences()), "pair"));
    const WordAligner aligner(source, target);
    const std::string name = set.name + ".links";
    IdFileWriter file(work_ / name);
    std::vector<std::vector<std::int32_t>> round;
    for (std::int64_t first = 0; first < source.sentences(); first += std::ssize(round)) {
      round.resize(std::min(lines_per_round, static_cast<std::size_t>(source.sentences() - first)));
      for_each_line(round.size(), options_.threads, [&](std::size_t i) {
        const std::int64_t pair = first + static_cast<std::int64_t>(i);
        round[i].clear();
        for (const AlignedPair& link : aligner.align(source[pair], target[pair])) {
          round[i].insert(round[i].end(), {link.source, link.target});
        }
      });
      for (const std::vector<std::int32_t>& links : round) file.add(links);
    }
    file.finish();
    return finish(name);
  }

  /// Takes a complete file of work_ among those to be published.
  ManifestFile finish(const std::string& name) {
    finished_.push_back(name);
    return describe_file(work_.path(), name);
  }

  const PrepareOptions& options_;
  WorkFolder work_;
  std::vector<SetWork> sets_;
  std::vector<std::string> finished_;  // files in work_ to be published
};

}  // namespace

PrepareResult prepare(const PrepareOptions& options) {
  if (options.train.empty() && options.corpora.empty()) throw UsageFailure("prepare: no training text");
  if (options.output.empty()) throw UsageFailure("prepare: no output folder");
  check_symbols(options.vocabulary.symbols);
  PrepareOptions tagged = options;
  std::vector<std::string>& symbols = tagged.vocabulary.symbols;
  for (const NamedText& corpus : options.corpora) {
    const bool is_new = std::find(symbols.begin(), symbols.end(), corpus.tag) == symbols.end();
    if (is_new && !corpus.tag.empty()) symbols.push_back(corpus.tag);
  }
  return Preparation(tagged).run();
}

}  // namespace babelring
