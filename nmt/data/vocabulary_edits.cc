// Numbers of fields and values: sentencepiece_model.proto. precompiled_charsmap: Normalizer and Builder of
// SentencePiece; its trie: darts-clone.
#include <sentencepiece_trainer.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <unordered_map>

#include "base/failure.h"
#include "base/files.h"
#include "base/log.h"
#include "base/protobuf.h"
#include "nmt/data/text.h"
#include "nmt/data/vocabulary.h"

namespace babelring {
namespace {

constexpr int pieces_field = 1, normalizer_field = 3;
constexpr int character_map_field = 2, remove_spaces_field = 4;  // of the normalizer

}  // namespace

SubwordModel::SubwordModel(std::string_view bytes) {
  for (ProtobufReader model(bytes); model.next();) {
    if (model.field() == pieces_field) read_piece(model.bytes());
    if (model.field() == 2) read_trainer(model.bytes());
    if (model.field() == normalizer_field) read_normalizer(model.bytes());
  }
}

std::vector<std::int32_t> SubwordModel::ids_of(PieceType wanted) const {
  std::vector<std::int32_t> ids;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type == wanted) ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

void SubwordModel::read_piece(std::string_view bytes) {
  Piece& piece = pieces.emplace_back();
  for (ProtobufReader reader(bytes); reader.next();) {
    if (reader.field() == 1) piece.text = reader.bytes();
    if (reader.field() == 2) piece.score = reader.number();
    if (reader.field() == 3) piece.type = static_cast<PieceType>(reader.integer());
  }
}

void SubwordModel::read_trainer(std::string_view bytes) {
  for (ProtobufReader reader(bytes); reader.next();) {
    if (reader.field() == 3) type = static_cast<ModelType>(reader.integer());
    if (reader.field() == 35) byte_fallback = reader.integer() != 0;
  }
}

void SubwordModel::read_normalizer(std::string_view bytes) {
  for (ProtobufReader reader(bytes); reader.next();) {
    if (reader.field() == 1) normalization = reader.bytes();
    if (reader.field() == character_map_field) character_map = reader.bytes();
    if (reader.field() == 3) starts_with_space = reader.integer() != 0;
    if (reader.field() == remove_spaces_field) removes_spaces = reader.integer() != 0;
  }
}

void check_symbols(const std::vector<std::string>& symbols, std::string_view option) {
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const std::string& symbol = symbols[i];
    const bool is_text = find_invalid_utf8(symbol) == std::string::npos && find_control(symbol) == std::string::npos;
    if (symbol.empty() || !is_text || symbol.find_first_of(" \t,\"") != std::string::npos ||
        symbol.find("\u2581") != std::string::npos) {
      throw UsageFailure(fmt::format("{}: found '{}', expected text without space, comma and quotation mark", option,
                                     printable(symbol)));
    }
    if (std::find(symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(i), symbol) !=
        symbols.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw UsageFailure(fmt::format("{}: found {} twice", option, symbol));
    }
  }
}

std::string with_symbols(const std::string& model, const std::vector<std::string>& symbols) {
  if (const VocabularyModels models = split_models(model); !models.target.empty()) {
    return join_models({.source = with_symbols(models.source, symbols),
                        .target = with_symbols(models.target, symbols),
                        .origin = models.origin});
  }
  constexpr int text_field = 1, score_field = 2, type_field = 3;
  constexpr auto user_defined = SubwordModel::PieceType::user_defined;
  const SubwordModel known_pieces(model);
  std::map<std::string_view, SubwordModel::PieceType> types;  // by piece
  for (const SubwordModel::Piece& piece : known_pieces.pieces) types[piece.text] = piece.type;
  ProtobufMessage more;  // a repeated field may go on at the end
  for (const std::string& symbol : symbols) {
    const auto known = types.find(symbol);
    if (known == types.end()) {
      const ProtobufMessage piece = ProtobufMessage()
                                        .bytes(text_field, symbol)
                                        .number(score_field, 0)
                                        .integer(type_field, static_cast<std::int64_t>(user_defined));
      more.message(pieces_field, piece);
    } else if (known->second != user_defined) {
      throw UsageFailure(fmt::format(
          "--symbols: {} is a piece of the vocabulary, and not as a symbol; a --tag is one of the symbols, too",
          symbol));
    }
  }
  return model + more.text();
}

namespace {

/// Reads a trie in the form of darts-clone: units of 32 bits, of which a node's child for a byte lies at the exclusive
/// or of the node's place, its offset and the byte.
class CharacterMap {
 public:
  /// The number of the trie's bytes, the trie, and replacements that end with a zero. Throws Failure if it is damaged.
  explicit CharacterMap(std::string_view bytes) {
    std::uint32_t size = 0;
    if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
    if (size == 0 || size % sizeof(std::uint32_t) != 0 || size > bytes.size() - sizeof size) fail_damaged();
    units_.resize(size / sizeof(std::uint32_t));
    std::memcpy(units_.data(), bytes.data() + sizeof size, size);
    texts_ = bytes.substr(sizeof size + size);
  }
  Replacements replacements() const {
    Replacements found;
    collect(0, "", found);
    return found;
  }

 private:
  [[noreturn]] static void fail_damaged() { fail("vocabulary: the replacements of its normalizer are damaged"); }
  static std::uint32_t offset(std::uint32_t unit) { return unit >> 10 << ((unit & 1U << 9) >> 6); }
  static bool has_value(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
  static std::uint32_t label(std::uint32_t unit) { return unit & (1U << 31 | 0xffU); }

  std::uint32_t unit(std::uint32_t at) const {
    if (at >= units_.size()) fail_damaged();
    return units_[at];
  }
  void collect(std::uint32_t node, const std::string& key, Replacements& found) const {
    // Bytes of a key, and keys, of which nmt_nfkc has 224,725: nodes are shared, so that few may have very many.
    constexpr std::size_t longest = 256, max_keys = 4'000'000;
    if (key.size() > longest || found.size() > max_keys) fail_damaged();
    const std::uint32_t here = unit(node), children = node ^ offset(here);
    if (has_value(here)) {
      const std::size_t begin = unit(children) & ~(1U << 31);
      const std::size_t end = texts_.find('\0', begin);
      if (begin >= texts_.size() || end == std::string_view::npos) fail_damaged();
      found[key] = texts_.substr(begin, end - begin);
    }
    for (std::uint32_t byte = 1; byte < 256; ++byte) {
      const std::uint32_t child = children ^ byte;
      if (child >= units_.size() || label(units_[child]) != byte) continue;
      collect(child, key + static_cast<char>(byte), found);
    }
  }

  std::vector<std::uint32_t> units_;
  std::string_view texts_;
};

std::string_view field_of(std::string_view message, int field) {
  std::string_view found;
  for (ProtobufReader fields(message); fields.next();) {
    if (fields.field() == field) found = fields.bytes();
  }
  return found;
}

/// The code points of a text, in hexadecimal.
std::string code_points(std::string_view text) {
  std::string hex;
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    std::uint32_t code = size == 1 ? first : first & (0x7fU >> size);
    for (std::size_t i = 1; i < size && at + i < text.size(); ++i) {
      code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3fU);
    }
    hex += fmt::format("{}{:X}", hex.empty() ? "" : " ", code);
    at += size;
  }
  return hex;
}

class OneLine : public sentencepiece::SentenceIterator {
 public:
  bool done() const override { return done_; }
  void Next() override { done_ = true; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::string line_ = "aa";
  bool done_ = false;
};

/// The precompiled form of replacements, which SentencePiece makes only when it trains, of the rules in a file.
std::string compiled(const Replacements& replacements) {
  std::string rules;
  for (const auto& [from, to] : replacements) rules += fmt::format("{}\t{}\n", code_points(from), code_points(to));
  const FileDescriptor memory(::memfd_create("rules", MFD_CLOEXEC));
  if (!memory) fail("vocabulary: cannot make a file in memory: {}", std::strerror(errno));
  const std::string path = fmt::format("/proc/self/fd/{}", memory.get());
  for (std::string_view rest = rules; !rest.empty();) {
    const ::ssize_t written = ::write(memory.get(), rest.data(), rest.size());
    if (written < 0) fail("vocabulary: {}: {}", path, std::strerror(errno));
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  OneLine line;
  std::string trained;
  const std::unordered_map<std::string, std::string> arguments = {
      {"model_type", "char"}, {"vocab_size", "5"}, {"normalization_rule_tsv", path}, {"minloglevel", "2"}};
  const sentencepiece::util::Status status = sentencepiece::SentencePieceTrainer::Train(arguments, &line, &trained);
  if (!status.ok()) fail("vocabulary: replacements: {}", printable(status.ToString()));
  return std::string(field_of(field_of(trained, normalizer_field), character_map_field));
}

}  // namespace

Replacements replacements_of(std::string_view model) {
  const std::string_view map = field_of(field_of(model, normalizer_field), character_map_field);
  return map.empty() ? Replacements() : CharacterMap(map).replacements();
}

std::string with_replacements(std::string_view model, const Replacements& replacements) {
  Replacements all = replacements;
  all.merge(replacements_of(model));
  ProtobufMessage normalizer;
  for (ProtobufReader fields(field_of(model, normalizer_field)); fields.next();) {
    if (fields.field() == character_map_field || fields.field() == remove_spaces_field) continue;
    normalizer.whole(fields.whole());
  }
  normalizer.bytes(character_map_field, compiled(all)).integer(remove_spaces_field, 1);
  ProtobufMessage result;
  for (ProtobufReader fields(model); fields.next();) {
    if (fields.field() != normalizer_field) result.whole(fields.whole());
  }
  return result.message(normalizer_field, normalizer).text();
}

}  // namespace babelring
