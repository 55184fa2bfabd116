// The formats: Marian 1.12, src/models/transformer.h and src/data/{default,sentencepiece}_vocab.cpp.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/failure.h"
#include "base/files.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/protobuf.h"
#include "nmt/interop/marian.h"
#include "nmt/interop/marian_files.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view npz_suffix = ".npz";

/// The vocabulary of a side: pieces by their ids, and the SentencePiece model that cuts text.
struct Side {
  std::string file, model;
  std::vector<std::string> pieces;
  std::set<std::string> controls;  // pieces of the model that stand for no text
  std::vector<std::string> kept;   // files to keep for the way back
  bool is_given = false;           // the SentencePiece model, by --vocabulary
};

/// The pieces of a SentencePiece model in their order, and which of them are control pieces.
std::vector<std::string> pieces_of_model(std::string_view model, std::set<std::string>& controls,
                                         const std::string& file) try {
  constexpr int pieces_field = 1, text_field = 1, type_field = 3;
  constexpr std::uint64_t control = 3;
  std::vector<std::string> pieces;
  for (ProtobufReader fields(model); fields.next();) {
    if (fields.field() != pieces_field) continue;
    std::string& text = pieces.emplace_back();
    for (ProtobufReader piece(fields.bytes()); piece.next();) {
      if (piece.field() == text_field) text = piece.bytes();
      if (piece.field() == type_field && piece.integer() == control) controls.insert(text);
    }
  }
  return pieces;
} catch (const Failure&) {
  fail("{}: not a SentencePiece model", file);
}

/// Throws Failure unless nearly all pieces of the model are in the vocabulary.
void require_same_pieces(const Side& side, const std::vector<std::string>& of_model, const std::string& model_file) {
  const std::set<std::string> known(side.pieces.begin(), side.pieces.end());
  const auto absent = std::ranges::count_if(
      of_model, [&](const std::string& piece) { return !known.contains(piece) && !side.controls.contains(piece); });
  constexpr std::ptrdiff_t spare = 3, part = 100;  // a vocabulary in YAML may have lost pieces of white space
  if (absent <= spare + std::ssize(of_model) / part) return;
  fail("{}: {} of its {} pieces are not in {}, which belongs to another model", model_file, absent, of_model.size(),
       side.file);
}

Side read_side(const ModelFiles& files, const std::string& name, TextSide side, const fs::path& given) {
  Side result{.file = files.path(name), .model = {}, .pieces = {}, .controls = {}, .kept = {name}};
  if (name.ends_with(".spm") || name.ends_with(".model")) {
    result.model = files.text(name);
    result.pieces = pieces_of_model(result.model, result.controls, result.file);
    return result;
  }
  if (!name.ends_with(".yml") && !name.ends_with(".yaml") && !name.ends_with(".json")) {
    fail("{}: expected a vocabulary that ends in .spm, .yml, .yaml or .json", result.file);
  }
  const std::string segmenter = side == TextSide::source ? "source.spm" : "target.spm";
  const bool is_given = !given.empty() && !files.has(segmenter);
  if (!is_given && !files.has(segmenter)) {
    if (!files.ending_with(".bpe").empty()) fail("{}: Moses and BPE, not supported", files.path(segmenter));
    fail(
        "{}: is missing, expected the SentencePiece model that cuts text to the pieces of {} (--vocabulary FILE names "
        "one)",
        files.path(segmenter), name);
  }
  result.pieces = yaml_pieces(files.text(name), result.file);
  result.model = is_given ? read_file(given) : files.text(segmenter);
  const std::string model_file = is_given ? given.string() : files.path(segmenter);
  require_same_pieces(result, pieces_of_model(result.model, result.controls, model_file), model_file);
  result.is_given = is_given;
  if (!is_given) result.kept.push_back(segmenter);
  return result;
}

/// Gives the vocabulary as many ids as the model's tables have rows; some may have no piece.
void resize_to_table(Side& side, const YamlOptions& options, std::size_t index) {
  const std::vector<std::string>& sizes = options.list("dim-vocabs");
  if (sizes.size() != 2) fail("{}: dim-vocabs has {} numbers, expected 2", options.file(), sizes.size());
  const std::string& text = sizes[index];
  const bool is_number = text.size() < 9 && !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  const std::size_t rows = is_number ? std::stoul(text) : 0;
  const bool is_spm = side.kept.size() == 1;
  if (rows < side.pieces.size() || (is_spm && rows > side.pieces.size()) || rows > 2 * side.pieces.size() + 64) {
    fail("{}: found ids up to {}, expected {}, as dim-vocabs of {} says", side.file, side.pieces.size() - 1,
         printable(text), options.file());
  }
  side.pieces.resize(rows);
}

/// The pieces of a table that both sides have. Where one side's model has a control piece, the other's counts.
std::vector<std::string> shared_pieces(const Side& source, const Side& target) {
  std::vector<std::string> pieces = target.pieces;
  for (std::size_t id = 0; id < std::min(pieces.size(), source.pieces.size()); ++id) {
    const std::string& other = source.pieces[id];
    if (pieces[id] == other || source.controls.contains(other)) continue;
    if (!target.controls.contains(pieces[id])) {
      fail("{}: piece {} is {}, in {} {}, but both have one table", source.file, id, printable(other), target.file,
           printable(pieces[id]));
    }
    pieces[id] = other;
  }
  if (source.pieces.size() == pieces.size()) return pieces;
  fail("{}: found {} pieces, in {} {}, but both have one table", source.file, source.pieces.size(), target.file,
       pieces.size());
}

using Ids = std::map<std::string, std::int64_t, std::less<>>;

Ids ids_of(const std::vector<std::string>& pieces) {
  Ids ids;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (!pieces[id].empty()) ids.emplace(pieces[id], id);
  }
  return ids;
}

/// Our table: <unk>, <s>, </s>, then the pieces of the target in their order, then those of the source alone.
struct Table {
  std::vector<std::string> pieces;              // empty: an id of theirs without a piece
  std::vector<std::int64_t> rows, source_rows;  // of theirs; -1: none
};

constexpr const char* special_pieces[] = {"<unk>", "<s>", "</s>"};

void require_special_pieces(const Ids& ids, const std::string& file) {
  for (const char* piece : {special_pieces[0], special_pieces[2]}) {
    if (!ids.contains(piece)) fail("{}: {} is missing", file, piece);
  }
}

Table table_of(const std::vector<std::string>& source, const std::vector<std::string>& target) {
  const Ids source_ids = ids_of(source), target_ids = ids_of(target);
  const auto id_in = [](const Ids& ids, const std::string& piece) {
    const auto found = ids.find(piece);
    return found == ids.end() ? -1 : found->second;
  };
  Table table;
  const auto add = [&](const std::string& piece, std::int64_t row, std::int64_t source_row) {
    table.pieces.push_back(piece);
    table.rows.push_back(row);
    table.source_rows.push_back(source_row);
  };
  const auto is_special = [](const std::string& piece) {
    return std::ranges::find(special_pieces, piece) != std::end(special_pieces);
  };
  for (const char* piece : special_pieces) add(piece, id_in(target_ids, piece), id_in(source_ids, piece));
  for (std::int64_t id = 0; id < std::ssize(target); ++id) {
    const std::string& piece = target[static_cast<std::size_t>(id)];
    if (!is_special(piece)) add(piece, id, piece.empty() ? -1 : id_in(source_ids, piece));
  }
  if (source == target) return table;
  for (std::int64_t id = 0; id < std::ssize(source); ++id) {
    const std::string& piece = source[static_cast<std::size_t>(id)];
    if (!is_special(piece) && (piece.empty() || !target_ids.contains(piece))) add(piece, -1, id);
  }
  return table;
}

/// Removes the biases of attention if all are zeros. Returns whether they are there.
bool take_biases_of_attention(std::map<std::string, ImportedTensor>& tensors) {
  std::vector<std::string> zeros;
  for (const auto& [name, tensor] : tensors) {
    const std::string_view stem = std::string_view(name).substr(0, name.size() - std::min<std::size_t>(1, name.size()));
    if (!stem.ends_with("_self_b") && !stem.ends_with("_context_b")) continue;
    if (std::ranges::any_of(tensor.bytes, [](std::byte byte) { return byte != std::byte{0}; })) return true;
    zeros.push_back(name);
  }
  for (const std::string& name : zeros) tensors.erase(name);
  return false;
}

/// Decides whether our model has an output bias: it needs one if theirs is not zeros or a row of ours is none of
/// theirs. `zeros`: what a model without one is given, of their rows.
void take_bias_of_output(ImportedModel& imported, const std::vector<float>& zeros) {
  const std::string name(output_bias_name);
  const bool has_absent = std::ranges::find(imported.rows, -1) != imported.rows.end();
  const auto found = imported.tensors.find(name);
  if (found == imported.tensors.end()) {
    imported.model.output_bias = has_absent;
    if (has_absent) {
      imported.tensors[name] = {
          .shape = {1, std::ssize(zeros)}, .bytes = std::as_bytes(std::span(zeros)), .is_mapped = false};
    }
    return;
  }
  const bool is_zero = std::ranges::all_of(found->second.bytes, [](std::byte byte) { return byte == std::byte{0}; });
  imported.model.output_bias = has_absent || !is_zero;
  if (!imported.model.output_bias) imported.tensors.erase(found);
}

/// The file that the tensors of a model view.
struct NpzModel {
  NpzModel(const ModelFiles& files, const std::string& name, const fs::path& scratch)
      : content(files.content(name, scratch)), file(content.bytes, files.path(name), true) {}

  ModelFiles::Content content;
  NpzReader file;
  std::vector<float> zeros;
};

/// The arrays of the file but its options.
std::map<std::string, ImportedTensor> tensors_in(const NpzReader& file, const std::string& name) {
  std::map<std::string, ImportedTensor> tensors;
  for (const NpzArray& array : file.arrays()) {
    if (array.name == options_name) continue;
    if (array.type != "<f4" && array.type != "<f2") {
      fail("{}: {} has the type {}, expected <f4 or <f2: integers are quantized, which loses quality", name,
           printable(array.name), array.type);
    }
    tensors[array.name] = {.shape = array.shape,
                           .type = array.type == "<f4" ? ImportedTensor::Type::f32 : ImportedTensor::Type::f16,
                           .bytes = array.bytes,
                           .is_mapped = array.is_in_place};
  }
  return tensors;
}

std::string options_in(const NpzReader& file, const std::string& name) {
  const auto found = std::ranges::find(file.arrays(), options_name, &NpzArray::name);
  if (found == file.arrays().end())
    fail("{}: {} is missing, expected the options of a model of Marian", name, options_name);
  if (found->bytes.size() > 1 << 20 || found->type.size() != 3 || found->type[2] != '1') {
    fail("{}: {} is {} numbers of type {}, expected at most 1 MiB of <i1", name, options_name, found->bytes.size(),
         found->type);
  }
  return {reinterpret_cast<const char*>(found->bytes.data()), found->bytes.size()};
}

/// One table for source and target, but another for the output, is two of ours.
bool split_table_of_embeddings(ImportedModel& imported, const YamlOptions& options) {
  const auto table = imported.tensors.find("Wemb");
  const bool is_of_both =
      imported.model.tied_embeddings == TiedEmbeddings::none && options.scalar("tied-embeddings-src", "") == "true";
  if (!is_of_both || table == imported.tensors.end()) return false;
  ImportedTensor tensor = table->second;
  imported.tensors.erase(table);
  tensor.is_mapped = false;  // is read twice
  imported.tensors["encoder_Wemb"] = imported.tensors["decoder_Wemb"] = tensor;
  return true;
}

/// The vocabulary's file: the table's pieces, the sides' models, and replacements of the release's preprocess.sh.
std::string vocabulary_file(const ModelFiles& files, const Side& source, const Side& target,
                            const std::vector<std::string>& table, const ImportedModel& imported,
                            const std::string& origin) {
  const std::string script = "preprocess.sh";
  const bool has_script = files.has(script);
  const Replacements rules =
      has_script ? replacements_of_script(files.text(script), files.path(script)) : Replacements();
  const bool is_one_table = imported.source_rows.empty();
  const auto model = [&](const Side& side, const std::vector<std::int64_t>& rows) {
    std::string result = with_pieces_of_table(side.model, table, rows);
    if (!rules.empty()) result = with_replacements(result, rules);
    Vocabulary::from_bytes(result, side.file);
    return result;
  };
  VocabularyModels models{
      .source = model(source, is_one_table ? imported.rows : imported.source_rows), .target = {}, .origin = origin};
  if (source.model != target.model || !is_one_table) models.target = model(target, imported.rows);
  return join_models(models);
}

/// Gives the imported model its table, and returns the pieces.
std::vector<std::string> set_rows(ImportedModel& imported, const Side& source, const Side& target, bool is_one_table) {
  std::vector<std::string> source_pieces = source.pieces, target_pieces = target.pieces;
  if (is_one_table) source_pieces = target_pieces = shared_pieces(source, target);
  require_special_pieces(ids_of(source_pieces), source.file);
  require_special_pieces(ids_of(target_pieces), target.file);
  Table table = table_of(source_pieces, target_pieces);
  imported.their_rows = std::ssize(target_pieces);
  if (!is_one_table) {
    imported.source_rows = table.source_rows;
    imported.their_source_rows = std::ssize(source_pieces);
  }
  imported.rows = std::move(table.rows);
  return std::move(table.pieces);
}

MarianOrigin origin_of(const ModelFiles& files, const ModelParts& parts, const NpzModel& npz,
                       const ImportedModel& imported, const std::set<std::string>& kept) {
  MarianOrigin origin{.options = options_in(npz.file, parts.model),
                      .arrays = {},
                      .model = parts.model,
                      .vocabularies = parts.vocabularies,
                      .files = {},
                      .rows = imported.rows,
                      .source_rows = imported.source_rows};
  for (const NpzArray& array : npz.file.arrays()) origin.arrays.push_back(array.name);
  for (const std::string& name : kept) origin.files[name] = files.text(name);
  for (const char* name : {"LICENSE", "preprocess.sh", "postprocess.sh"}) {
    if (files.has(name)) origin.files[name] = files.text(name);
  }
  return origin;
}

bool has_zip_signature(const fs::path& file) {
  FileDescriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  char begin[4] = {};
  return opened && ::read(opened.get(), begin, sizeof begin) == sizeof begin && std::string_view(begin, 2) == "PK";
}

}  // namespace

bool is_marian(const fs::path& input) {
  if (fs::is_regular_file(input)) return input.extension() == npz_suffix || has_zip_signature(input);
  if (!fs::is_directory(input) || fs::exists(input / "model.safetensors")) return false;
  return fs::exists(input / "decoder.yml") || !ModelFiles(input).ending_with(npz_suffix).empty();
}

ImportedModel read_marian(const fs::path& input, const fs::path& vocabulary, const fs::path& scratch) {
  const bool is_archive = fs::is_regular_file(input) && input.extension() != npz_suffix;
  const bool is_file = fs::is_regular_file(input) && !is_archive;
  const ModelFiles files = is_archive ? ModelFiles(input, std::make_shared<MappedFile>(input))
                                      : ModelFiles(is_file ? fs::absolute(input).parent_path() : input);
  const ModelParts parts = parts_of(files, is_file ? input.filename().string() : "");
  const auto npz = std::make_shared<NpzModel>(files, parts.model, scratch);
  const std::string name = files.path(parts.model);
  const YamlOptions options(options_in(npz->file, name), fmt::format("{}: {}", name, options_name));
  ImportedModel imported;
  imported.model = model_of_options(options);
  Side source = read_side(files, parts.vocabularies[0], TextSide::source, vocabulary);
  Side target = read_side(files, parts.vocabularies[1], TextSide::target, vocabulary);
  if (!vocabulary.empty() && !source.is_given && !target.is_given) {
    throw UsageFailure(fmt::format(
        "--vocabulary: found {} in the model, expected a model without a SentencePiece model", source.kept.back()));
  }
  resize_to_table(source, options, 0);
  resize_to_table(target, options, 1);
  imported.names = npz_names;
  imported.sines_first = imported.is_transposed = true;
  imported.tensors = tensors_in(npz->file, name);
  const bool is_one_table = imported.model.tied_embeddings == TiedEmbeddings::all || source.pieces == target.pieces;
  const bool is_split = split_table_of_embeddings(imported, options);
  const std::vector<std::string> table = set_rows(imported, source, target, is_one_table || is_split);
  npz->zeros.resize(static_cast<std::size_t>(imported.their_rows));
  imported.model.attention_bias = take_biases_of_attention(imported.tensors);
  const bool has_bias = imported.tensors.contains(std::string(output_bias_name));
  take_bias_of_output(imported, npz->zeros);
  std::set<std::string> kept(source.kept.begin(), source.kept.end());
  kept.insert(target.kept.begin(), target.kept.end());
  const bool can_go_back = has_bias && !is_split;
  const std::string origin = can_go_back ? origin_of(files, parts, *npz, imported, kept).packed() : "";
  imported.vocabulary = vocabulary_file(files, source, target, table, imported, origin);
  imported.file = npz;
  imported.file_name = name;
  imported.release = {{"file", input.filename().string()}, {"model", parts.model}};
  if (is_archive) imported.release["files"] = json::array(files.names().begin(), files.names().end());
  return imported;
}

}  // namespace babelring
