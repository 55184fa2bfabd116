#include "nmt/data/vocabulary.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <future>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/digest.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/log.h"
#include "base/protobuf.h"
#include "base/result.h"
#include "nmt/core/machine.h"

namespace babelring {
namespace {

/// Adapts `next_line` to SentencePiece's trainer.
class LineIterator : public sentencepiece::SentenceIterator {
 public:
  explicit LineIterator(const std::function<bool(std::string&)>& next_line) : next_line_(next_line) {
    done_ = !next_line_(line_);
  }
  bool done() const override { return done_; }
  void Next() override { done_ = !next_line_(line_); }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::function<bool(std::string&)>& next_line_;
  std::string line_;
  bool done_ = false;
};

/// Throws Failure with SentencePiece's reason, with the options of `nmt prepare`, but without its source location:
/// "Internal: ./src/x.cc(660) [condition] reason".
void require(const sentencepiece::util::Status& status, std::string_view operation) {
  if (status.ok()) return;
  std::string reason = status.ToString();
  if (const std::size_t bracket = reason.rfind("] "); bracket != std::string::npos) reason.erase(0, bracket + 2);
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  for (const auto& [theirs, ours] : {std::pair<std::string_view, std::string_view>{"vocab_size", "--vocabulary-size"},
                                     {"character_coverage with --character_coverage option", "--character-coverage"}}) {
    if (const std::size_t at = reason.find(theirs); at != std::string::npos) reason.replace(at, theirs.size(), ours);
  }
  fail("{}: {}", operation, reason);
}

}  // namespace

struct Vocabulary::Model {
  using Processor = sentencepiece::SentencePieceProcessor;
  std::string bytes, digest;
  Processor source;
  std::optional<Processor> target;

  void check(std::int32_t id) const {
    if (id < 0 || id >= source.GetPieceSize()) {
      fail("vocabulary: id {}, expected 0 to {}", id, source.GetPieceSize() - 1);
    }
  }
  bool is_control(std::int32_t id) const { return source.IsControl(id) && (!target || target->IsControl(id)); }
  const std::string& piece(std::int32_t id) const {
    return target && source.IsControl(id) ? target->IdToPiece(id) : source.IdToPiece(id);
  }
  /// Gives a text that one model does not know the id that it has in the other, as programs do that cut text to pieces
  /// by the model of a side and then look these up in one vocabulary of both.
  static void find_unknown(std::string_view text, const Processor& model, const Processor& other,
                           std::vector<int>& ids) {
    std::vector<std::string> pieces;
    require(model.Encode({text.data(), text.size()}, &pieces), "vocabulary: encode");
    for (std::size_t i = 0; i < ids.size() && pieces.size() == ids.size(); ++i) {
      if (ids[i] != unk_id) continue;
      const int id = other.PieceToId(pieces[i]);
      if (!other.IsControl(id) && !model.IdToPiece(id).starts_with(absent_piece)) ids[i] = id;
    }
  }
  /// Throws Failure unless both models have the same pieces.
  void check_pieces(const std::string& name) const {
    if (target->GetPieceSize() != source.GetPieceSize()) {
      fail("{}: the model of the source has {} pieces, that of the target {}", name, source.GetPieceSize(),
           target->GetPieceSize());
    }
    for (std::int32_t id = 0; id < source.GetPieceSize(); ++id) {
      const bool is_of_one = source.IsControl(id) || target->IsControl(id);
      if (is_of_one || source.IdToPiece(id) == target->IdToPiece(id)) continue;
      fail("{}: piece {} is '{}' in the model of the source, '{}' in that of the target", name, id,
           printable(source.IdToPiece(id)), printable(target->IdToPiece(id)));
    }
  }
};

namespace {

/// Throws Failure naming the file if it is no model with our control ids.
void load_model(std::string_view bytes, const std::string& name, sentencepiece::SentencePieceProcessor& processor) {
  if (bytes.empty() || !processor.LoadFromSerializedProto({bytes.data(), bytes.size()}).ok()) {
    fail("{}: not a SentencePiece model", name);
  }
  if (processor.unk_id() == unk_id && processor.bos_id() == bos_id && processor.eos_id() == eos_id &&
      processor.pad_id() < 0) {
    return;
  }
  fail("{}: control ids are unk={}, bos={}, eos={}, pad={}; expected unk={}, bos={}, eos={} and no pad (-1)", name,
       processor.unk_id(), processor.bos_id(), processor.eos_id(), processor.pad_id(), unk_id, bos_id, eos_id);
}

// Fields that SentencePiece ignores: its messages leave the numbers from 200 to others.
constexpr int target_model_field = 1000, origin_field = 1001;

}  // namespace

VocabularyModels split_models(std::string_view file) {
  VocabularyModels models;
  for (ProtobufReader fields(file); fields.next();) {
    if (fields.field() == target_model_field) {
      models.target = fields.bytes();
    } else if (fields.field() == origin_field) {
      models.origin = fields.bytes();
    } else {
      models.source += fields.whole();
    }
  }
  return models;
}

std::string join_models(const VocabularyModels& models) {
  ProtobufMessage more;
  if (!models.target.empty()) more.bytes(target_model_field, models.target);
  if (!models.origin.empty()) more.bytes(origin_field, models.origin);
  return models.source + more.text();
}

Vocabulary Vocabulary::load(const std::filesystem::path& file) {
  return from_bytes(read_file(file), file.string());
}

Vocabulary Vocabulary::from_bytes(std::string_view bytes, const std::string& name) {
  auto model = std::make_shared<Model>();
  model->bytes = bytes;
  model->digest = sha256_hex(bytes);
  load_model(bytes, name, model->source);
  if (const std::string target = split_models(bytes).target; !target.empty()) {
    load_model(target, name + " (target)", model->target.emplace());
    model->check_pieces(name);
  }
  return Vocabulary(std::move(model));
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view text, TextSide side) const {
  std::vector<int> ids;
  const bool by_target = side == TextSide::target && model_->target;
  const Model::Processor& processor = by_target ? *model_->target : model_->source;
  require(processor.Encode({text.data(), text.size()}, &ids), "vocabulary: encode");
  if (model_->target && std::ranges::find(ids, unk_id) != ids.end()) {
    model_->find_unknown(text, processor, by_target ? model_->source : *model_->target, ids);
  }
  return {ids.begin(), ids.end()};
}

std::vector<std::size_t> Vocabulary::piece_ends(std::string_view text, TextSide side) const {
  const bool by_target = side == TextSide::target && model_->target;
  const Model::Processor& processor = by_target ? *model_->target : model_->source;
  sentencepiece::ImmutableSentencePieceText pieces;
  require(processor.Encode({text.data(), text.size()}, pieces.mutable_proto()), "vocabulary: encode");
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < pieces.pieces_size(); ++i) ends.push_back(pieces.pieces(static_cast<int>(i)).end());
  return ends;
}

namespace {

/// The text of pieces of which the model does not have all.
std::string joined_text(const sentencepiece::SentencePieceProcessor& model, const std::vector<std::string>& pieces) {
  constexpr std::string_view space = "\u2581";
  std::string text;
  require(model.Decode(pieces, &text), "vocabulary: decode");
  // SentencePiece leaves the space in pieces that it does not know.
  for (std::size_t at = 0; (at = text.find(space, at)) != std::string::npos; ++at) text.replace(at, space.size(), " ");
  return text.starts_with(' ') ? text.substr(1) : text;
}

}  // namespace

std::string Vocabulary::decode(std::span<const std::int32_t> ids) const {
  std::vector<int> kept;
  std::vector<std::string> pieces;
  for (const std::int32_t id : ids) {
    model_->check(id);
    if (model_->is_control(id)) continue;
    kept.push_back(id);
    if (model_->target) pieces.push_back(model_->piece(id));
  }
  if (model_->target) return joined_text(*model_->target, pieces);
  std::string text;
  require(model_->source.Decode(kept, &text), "vocabulary: decode");
  return text;
}

const std::string& Vocabulary::piece(std::int32_t id) const {
  model_->check(id);
  return model_->piece(id);
}

std::int32_t Vocabulary::size() const {
  return model_->source.GetPieceSize();
}
const std::string& Vocabulary::bytes() const {
  return model_->bytes;
}
const std::string& Vocabulary::digest() const {
  return model_->digest;
}

std::string train_vocabulary(const VocabularyOptions& options, const std::function<bool(std::string&)>& next_line) {
  // The number of threads is fixed, because the unigram model's sums depend on it.
  const std::unordered_map<std::string, std::string> arguments = {
      {"model_type", options.model},
      {"vocab_size", std::to_string(options.size)},
      {"user_defined_symbols", fmt::format("{}", fmt::join(options.symbols, ","))},
      {"character_coverage", fmt::format("{}", options.character_coverage)},
      {"byte_fallback", options.byte_fallback ? "true" : "false"},
      {"normalization_rule_name", options.normalization},
      {"unk_id", std::to_string(unk_id)},
      {"bos_id", std::to_string(bos_id)},
      {"eos_id", std::to_string(eos_id)},
      {"pad_id", "-1"},
      {"num_threads", "4"},
      {"max_sentence_length", "16384"},
      {"shuffle_input_sentence", "false"},
      {"minloglevel", "2"}};
  LineIterator lines(next_line);
  if (lines.done()) fail("vocabulary: no text to train on");
  std::string model;
  require(sentencepiece::SentencePieceTrainer::Train(arguments, &lines, &model),
          fmt::format("vocabulary: training {} of {} pieces", options.model, options.size));
  return model;
}

std::string sentencepiece_version() {
  return BABELRING_SENTENCEPIECE_VERSION;
}

void for_each_line(std::size_t lines, int threads, const std::function<void(std::size_t)>& action) {
  const std::size_t workers =
      threads > 0 ? static_cast<std::size_t>(threads) : static_cast<std::size_t>(own_processors().count());
  const std::size_t lines_per_thread = lines / workers + 1;
  std::vector<std::future<void>> parts;
  for (std::size_t first = 0; first < lines; first += lines_per_thread) {
    const std::size_t last = std::min(lines, first + lines_per_thread);
    parts.push_back(std::async(std::launch::async, [&, first, last] {
      for (std::size_t i = first; i < last; ++i) action(i);
    }));
  }
  for (std::future<void>& part : parts) part.get();
}

std::vector<std::vector<std::int32_t>> encode_lines(const std::vector<std::string>& lines, TextSide side,
                                                    const Vocabulary& vocabulary, int threads) {
  std::vector<std::vector<std::int32_t>> ids(lines.size());
  for_each_line(lines.size(), threads, [&](std::size_t i) { ids[i] = vocabulary.encode(lines[i], side); });
  return ids;
}

std::vector<std::string> decode_lines(const std::vector<std::vector<std::int32_t>>& ids, const Vocabulary& vocabulary,
                                      int threads) {
  std::vector<std::string> lines(ids.size());
  for_each_line(ids.size(), threads, [&](std::size_t i) { lines[i] = vocabulary.decode(ids[i]); });
  return lines;
}

}  // namespace babelring
