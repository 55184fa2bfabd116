// The options: Marian 1.12, src/common/config_parser.cpp and src/models/{encoder_decoder,transformer}.
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "base/failure.h"
#include "base/log.h"
#include "base/protobuf.h"
#include "nmt/interop/marian.h"

namespace babelring {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view spaces = " \t\r";
  text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
  return text.substr(0, text.find_last_not_of(spaces) + 1);
}

std::string unquoted(std::string_view text) {
  text = trimmed(text);
  const bool is_quoted = text.size() > 1 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0];
  return std::string(is_quoted ? text.substr(1, text.size() - 2) : text);
}

/// The items of "[a, b]"; one item if it is no list.
std::vector<std::string> items_of(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with('[') || !text.ends_with(']') || text.size() < 2) return {unquoted(text)};
  std::vector<std::string> items;
  text = trimmed(text.substr(1, text.size() - 2));
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    items.push_back(unquoted(text.substr(0, comma)));
    text = trimmed(text.substr(std::min(comma + 1, text.size())));
  }
  return items;
}

}  // namespace

YamlOptions::YamlOptions(std::string_view yaml, std::string file) : file_(std::move(file)) {
  yaml = yaml.substr(0, yaml.find('\0'));    // Marian fills its options up with zeros
  std::vector<std::string>* open = nullptr;  // the values of the newest key that had none in its line
  for (std::int64_t number = 1; !yaml.empty(); ++number) {
    const std::size_t end = std::min(yaml.find('\n'), yaml.size());
    const std::string_view line = yaml.substr(0, end), text = trimmed(line);
    yaml.remove_prefix(std::min(end + 1, yaml.size()));
    if (text.empty() || text.front() == '#' || text == "---" || text == "...") continue;
    if (text.starts_with('-') && open != nullptr) {
      open->push_back(unquoted(text.substr(1)));
    } else if (text.starts_with('[') && open != nullptr) {
      *open = items_of(text);
    } else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos && line.front() != ' ') {
      std::vector<std::string>& values = values_[unquoted(text.substr(0, colon))];
      const std::string_view rest = trimmed(text.substr(colon + 1));
      open = rest.empty() ? &values : nullptr;
      values = rest.empty() ? std::vector<std::string>() : items_of(rest);
    } else {
      fail("{}:{}: found {}, expected option: value", file_, number, printable(text.substr(0, 100)));
    }
  }
}

const std::vector<std::string>& YamlOptions::list(std::string_view name) const {
  static const std::vector<std::string> none;
  const auto found = values_.find(name);
  return found == values_.end() ? none : found->second;
}

const std::string& YamlOptions::scalar(std::string_view name, const std::string& absent) const {
  const std::vector<std::string>& values = list(name);
  return values.size() == 1 ? values.front() : absent;
}

namespace {

/// Checks and reads options, which it names in messages.
class ModelOptions {
 public:
  explicit ModelOptions(const YamlOptions& options) : options_(options) {}

  std::string text(const std::string& name, const std::string& absent = "") {
    known_.insert(name);
    return options_.scalar(name, absent);
  }
  [[noreturn]] void refuse(const std::string& name, std::string_view expected) const {
    fail("{}: {} is {}, expected {}", options_.file(), name,
         printable(fmt::format("{}", fmt::join(options_.list(name), ", "))), expected);
  }
  /// For an option that does not matter, unless it has another value.
  void require(const std::string& name, const std::set<std::string>& allowed, std::string_view reason) {
    const std::vector<std::string>& values = options_.list(name);
    known_.insert(name);
    if (values.empty() || (values.size() == 1 && allowed.contains(values.front()))) return;
    refuse(name, fmt::format("{}: {}", allowed.empty() ? "nothing" : *allowed.rbegin(), reason));
  }
  int integer(const std::string& name) {
    const std::string value = text(name);
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool is_integer = !value.empty() && error == std::errc() && end == value.data() + value.size();
    if (!is_integer || number < 1) refuse(name, "an integer of at least 1");
    return number;
  }
  bool flag(const std::string& name) {
    const std::string value = text(name, "false");
    if (value != "true" && value != "false") refuse(name, "true or false");
    return value == "true";
  }
  /// The letters of a list of operations but d, dropout, which only training has.
  std::string operations(const std::string& name, const std::string& absent = "") {
    std::string letters = text(name, absent);
    std::erase(letters, 'd');
    return letters;
  }
  /// Options of other models, of training, or without a meaning for one that is read.
  void ignore(std::initializer_list<std::string_view> prefixes) {
    for (const auto& [name, values] : options_.all()) {
      if (std::ranges::any_of(prefixes,
                              [&, &key = name](std::string_view prefix) { return key.starts_with(prefix); })) {
        known_.insert(name);
      }
    }
  }
  void require_none_left() {
    static const std::set<std::string> off = {"", "false", "0", "~", "null"};
    for (const auto& [name, values] : options_.all()) require_off(name, off);
  }

 private:
  void require_off(const std::string& name, const std::set<std::string>& off) {
    if (!known_.contains(name)) require(name, off, "ours has no such option");
  }

  const YamlOptions& options_;
  std::set<std::string> known_;
};

void require_same_arithmetic(ModelOptions& options) {
  constexpr std::string_view none = "ours has no such option";
  options.require("type", {"transformer"}, none);
  for (const char* flag :
       {"transformer-no-projection", "transformer-pool", "transformer-no-bias", "transformer-no-affine", "right-left",
        "transformer-disable-position-embeddings", "transformer-alibi-shift", "ulr"}) {
    options.require(flag, {"false"}, none);
  }
  for (const char* flag : {"transformer-train-position-embeddings", "transformer-train-positions"}) {
    options.require(flag, {"false"}, "ours computes positions");
  }
  options.require("transformer-attention-mask", {"", "default"}, none);
  options.require("transformer-tied-layers", {}, "ours has tensors for each layer");
  options.require("transformer-decoder-autoreg", {"self-attention"}, none);
  options.require("transformer-ffn-depth", {"2"}, none);
  options.require("transformer-decoder-ffn-depth", {"0", "2"}, none);
  options.require("lemma-dim-emb", {"0"}, none);
  options.require("factors-dim-emb", {"0"}, none);
  options.require("input-types", {"sequence"}, none);
  if (options.operations("transformer-preprocess").find('n') != std::string::npos) {
    options.refuse(
        "transformer-preprocess",
        "no n: Marian's attention reads keys and values without the norm that its queries have, ours with it");
  }
  if (!options.operations("transformer-preprocess").empty()) options.refuse("transformer-preprocess", "nothing or d");
  if (options.operations("transformer-postprocess", "dan") != "an") options.refuse("transformer-postprocess", "dan");
  for (const char* name : {"transformer-postprocess-emb", "transformer-postprocess-top"}) {
    if (!options.operations(name).empty()) options.refuse(name, "nothing or d: ours has no such norm");
  }
}

}  // namespace

ModelConfig model_of_options(const YamlOptions& yaml) {
  ModelOptions options(yaml);
  require_same_arithmetic(options);
  options.ignore({"bert-",
                  "char-",
                  "comet-",
                  "dec-cell",
                  "dim-rnn",
                  "dim-vocabs",
                  "enc-cell",
                  "enc-type",
                  "factors-combine",
                  "layer-normalization",
                  "lemma-dependency",
                  "output-omit-bias",
                  "separator-symbol",
                  "skip",
                  "special-vocab",
                  "transformer-aan-",
                  "transformer-alibi-trainable",
                  "transformer-depth-scaling",
                  "transformer-dim-aan",
                  "transformer-guided-alignment-layer",
                  "transformer-rnn-projection",
                  "ulr-",
                  "version"});
  ModelConfig model;
  model.encoder_layers = options.integer("enc-depth");
  model.decoder_layers = options.integer("dec-depth");
  model.width = options.integer("dim-emb");
  model.heads = options.integer("transformer-heads");
  model.inner = options.integer("transformer-dim-ffn");
  const std::string decoder_inner = options.text("transformer-decoder-dim-ffn", "0");
  if (decoder_inner != "0" && decoder_inner != std::to_string(model.inner)) {
    options.refuse("transformer-decoder-dim-ffn", fmt::format("0 or {}: ours has the same for both", model.inner));
  }
  const std::string activation = options.text("transformer-ffn-activation", "swish");
  if (activation != "swish" && activation != "relu") {
    options.refuse("transformer-ffn-activation",
                   "swish or relu (Marian's gelu is x sigmoid(1.702 x), which ours has not)");
  }
  model.activation = activation == "relu" ? Activation::relu : Activation::swish;
  model.norm = NormPosition::post;
  model.norm_epsilon = 1e-6;
  model.positions = Positions::marian;
  model.decoder_start = DecoderStart::zero;
  const bool all = options.flag("tied-embeddings-all"), output = options.flag("tied-embeddings"),
             source = options.flag("tied-embeddings-src");
  model.tied_embeddings = all || (output && source) ? TiedEmbeddings::all
                          : output                  ? TiedEmbeddings::decoder
                                                    : TiedEmbeddings::none;
  options.require_none_left();
  return model;
}

namespace {

constexpr std::int64_t origin_version = 1;
enum OriginField {
  version_field = 1,
  options_field,
  array_field,
  model_field,
  vocabulary_field,
  file_field,
  rows_field,
  source_rows_field
};
constexpr int name_field = 1, content_field = 2;  // of a file

std::string bytes_of(const std::vector<std::int64_t>& rows) {
  const std::vector<std::int32_t> narrow(rows.begin(), rows.end());
  return {reinterpret_cast<const char*>(narrow.data()), narrow.size() * sizeof(std::int32_t)};
}

std::vector<std::int64_t> rows_in(std::string_view bytes) {
  std::vector<std::int32_t> narrow(bytes.size() / sizeof(std::int32_t));
  std::memcpy(narrow.data(), bytes.data(), narrow.size() * sizeof(std::int32_t));
  return {narrow.begin(), narrow.end()};
}

/// True for the name of a file in the export's own folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

}  // namespace

std::string MarianOrigin::packed() const {
  ProtobufMessage message;
  message.integer(version_field, origin_version).bytes(options_field, options).bytes(model_field, model);
  for (const std::string& name : arrays) message.bytes(array_field, name);
  for (const std::string& name : vocabularies) message.bytes(vocabulary_field, name);
  for (const auto& [name, content] : files) {
    message.message(file_field, ProtobufMessage().bytes(name_field, name).bytes(content_field, content));
  }
  return message.bytes(rows_field, bytes_of(rows)).bytes(source_rows_field, bytes_of(source_rows)).text();
}

std::optional<MarianOrigin> MarianOrigin::unpack(std::string_view content) try {
  MarianOrigin origin;
  std::uint64_t version = 0;
  for (ProtobufReader fields(content); fields.next();) {
    const std::string bytes(fields.bytes());
    if (fields.field() == version_field) version = fields.integer();
    if (fields.field() == options_field) origin.options = bytes;
    if (fields.field() == model_field) origin.model = bytes;
    if (fields.field() == array_field) origin.arrays.push_back(bytes);
    if (fields.field() == vocabulary_field) origin.vocabularies.push_back(bytes);
    if (fields.field() == rows_field) origin.rows = rows_in(bytes);
    if (fields.field() == source_rows_field) origin.source_rows = rows_in(bytes);
    if (fields.field() != file_field) continue;
    std::string name, text;
    for (ProtobufReader file(bytes); file.next();) (file.field() == name_field ? name : text) = file.bytes();
    origin.files[name] = text;
  }
  bool is_ours = version == origin_version && is_plain_name(origin.model);
  for (const auto& [name, text] : origin.files) is_ours = is_ours && is_plain_name(name);
  return is_ours ? std::optional(origin) : std::nullopt;
} catch (const Failure&) {
  return std::nullopt;
}

namespace {

std::string_view program_of(ExportFormat format) {
  switch (format) {
    case ExportFormat::ctranslate2:
      return "CTranslate2";
    case ExportFormat::argos:
      return "Argos Translate";
    case ExportFormat::huggingface:
      return "Hugging Face's MarianMTModel";
    case ExportFormat::marian:
      return "Marian";
    case ExportFormat::bergamot:
      return "Bergamot";
  }
  return "?";
}

/// Collects the options that a program lacks.
struct Needs {
  void require(bool holds, std::string_view needed, const auto& found) {
    if (!holds) changes.push_back(fmt::format("model.{} (found {})", needed, found));
  }
  std::vector<std::string> changes;
};

/// Marian's attention reads keys and values before the norm of a pre-norm layer; its GELU is another function.
void require_marian(const ModelConfig& model, std::int64_t multiple, Needs& needs) {
  constexpr double epsilon = 1e-6;
  needs.require(model.norm == NormPosition::post, "norm: post", "pre");
  needs.require(model.norm_epsilon == epsilon, "norm_epsilon: 1e-6", model.norm_epsilon);
  needs.require(model.positions == Positions::marian, "positions: marian",
                model.positions == Positions::rotary ? "rotary" : "sinusoid");
  needs.require(model.decoder_start == DecoderStart::zero, "decoder_start: zero", "bos");
  needs.require(model.activation <= Activation::swish, "activation: relu or swish", name_of(model.activation));
  needs.require(model.width % multiple == 0, fmt::format("width: a multiple of {}", multiple), model.width);
  needs.require(model.inner % multiple == 0, fmt::format("inner: a multiple of {}", multiple), model.inner);
}

}  // namespace

void require_arithmetic(const ModelConfig& model, ExportFormat format) {
  Needs needs;
  if (format == ExportFormat::marian || format == ExportFormat::bergamot) {
    require_marian(model, format == ExportFormat::marian ? 1 : 64, needs);  // 64: columns of intgemm's tiles
  } else {
    needs.require(model.positions != Positions::rotary, "positions: sinusoid or marian", "rotary");
    needs.require(model.activation != Activation::swiglu, "activation: relu, swish or gelu", "swiglu");
  }
  needs.require(model.norm_kind == NormKind::layer, "norm_kind: layer", "rms");
  if (needs.changes.empty()) return;
  throw UsageFailure(
      fmt::format("export: {} needs a model with {}", program_of(format), fmt::join(needs.changes, ", ")));
}

}  // namespace babelring
