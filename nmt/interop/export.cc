#include "nmt/interop/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/digest.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/names.h"
#include "nmt/checkpoint/store.h"
#include "nmt/data/corpus.h"
#include "nmt/decode/sentence_beam.h"
#include "nmt/ops/embedding.h"
#include "nmt/train/checkpointing/training_state.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// The name of a tensor in a checkpoint, in parts: "encoder.3.attention_norm.gain" is the module
/// "encoder.*.attention_norm", the layer "3" and the suffix "gain". A table has no suffix.
struct OurName {
  std::string module, layer, suffix;
};

OurName split_name(const std::string& name) {
  OurName split{.module = name, .layer = {}, .suffix = {}};
  const std::size_t dot = name.rfind('.');
  for (const std::string_view suffix : {"weight", "bias", "gain"}) {
    if (dot == std::string::npos || std::string_view(name).substr(dot + 1) != suffix) continue;
    split.suffix = suffix;
    split.module.resize(dot);
  }
  const std::size_t first = split.module.find('.');
  const std::size_t second = first == std::string::npos ? first : split.module.find('.', first + 1);
  if (second == std::string::npos) return split;
  split.layer = split.module.substr(first + 1, second - first - 1);
  if (split.layer.find_first_not_of("0123456789") != std::string::npos) {
    split.layer.clear();
  } else {
    split.module.replace(first + 1, split.layer.size(), "*");
  }
  return split;
}

std::string_view foreign_kind(const OurName& name, const FormatNames& names) {
  if (name.suffix == "gain") return names.norm_gain;
  if (name.suffix == "bias") return name.module.ends_with("norm") ? names.norm_bias : names.bias;
  return names.weight;
}

std::string foreign_name(std::string_view pattern, const OurName& ours, const FormatNames& names) {
  std::string name(pattern);
  if (const std::size_t star = name.find('*'); star != std::string::npos) {
    name.replace(star, 1, std::to_string(std::stoi(ours.layer) + names.first_layer));
  }
  const std::string_view kind = foreign_kind(ours, names);
  const std::size_t place = name.find('?');
  if (place == std::string::npos) return name.append(names.separator).append(kind);
  return name.replace(place, 1, kind);
}

constexpr std::string_view ctranslate2_usage = R"(With CTranslate2 and SentencePiece:

```python
import ctranslate2, sentencepiece
pieces = sentencepiece.SentencePieceProcessor('FOLDER/sentencepiece.model')
model = ctranslate2.Translator('FOLDER')
result = model.translate_batch([pieces.encode('Hello.', out_type=str)], beam_size=4)
print(pieces.decode(result[0].hypotheses[0]))
```
)";

constexpr std::string_view huggingface_usage = R"(With transformers.js (greedy, as it has no beam search):

```js
import { env, pipeline } from '@huggingface/transformers';
env.localModelPath = '.'; // where this folder is
env.allowRemoteModels = false;
const translate = await pipeline('translation', 'FOLDER', { dtype: 'fp32' });
console.log(await translate('Hello.'));
```

Any ONNX Runtime computes `onnx/`: `input_ids` of the encoder are the ids of the source and `</s>` (2); the decoder
begins with `<s>` (1) and caches of length 0, and each step takes the newest token and the `present.*` of the step
before as `past_key_values.*`. `<pad>`, the last id, fills shorter sources, with 0 in `attention_mask`.
`tokenizer.json` gives the ids of SentencePiece.
)";

constexpr std::string_view argos_usage = R"(With Argos Translate, and LibreTranslate, which uses its packages:

```
argospm install FOLDER
argos-translate --from FROM --to INTO 'Hello.'
```

Argos Translate finds the sentences of a text with Stanza, whose data for the language belongs in the folder `stanza` of the
package, or with a separate package that finds sentence boundaries.
)";

constexpr std::string_view marian_usage = R"(With Marian 1.12, one sentence a line:

```
marian-decoder -c FOLDER/decoder.yml < source.txt > translation.txt
```

The model has its options inside. With a vocabulary in YAML Marian reads pieces: cut text by `source.spm` before.
)";

constexpr std::string_view bergamot_usage =
    R"(With Bergamot: `config.yml` and the files that it names are what its native
programs load; in browsers and Node pass the bytes of `model.bin` and `vocab.spm` (for both languages), no shortlist,
and the options of `config.yml` to `loadTranslationModel` of the package `@browsermt/bergamot-translator`. Matrices are in
8 bits, and the range of their inputs is measured for each batch (`int8shiftAll`), which is more exact than the factors of
`model.bin`, used without these options (`int8shiftAlphaAll`); without `conformance.jsonl` there are no factors.

The translations of `conformance.jsonl` are those of f32, from which 8 bits differ.
)";

/// `text` with each `placeholder` replaced.
std::string filled(std::string text, std::string_view placeholder, std::string_view value) {
  for (std::size_t at = 0; (at = text.find(placeholder, at)) != std::string::npos; at += value.size()) {
    text.replace(at, placeholder.size(), value);
  }
  return text;
}

/// How the other program is started with the folder or file of this name.
std::string usage_of(const ExportOptions& options, const std::string& name) {
  switch (options.format) {
    case ExportFormat::ctranslate2:
      return filled(std::string(ctranslate2_usage), "FOLDER", name);
    case ExportFormat::argos:
      return filled(filled(filled(std::string(argos_usage), "FOLDER", name), "FROM", options.from), "INTO",
                    options.into);
    case ExportFormat::huggingface:
      return filled(std::string(huggingface_usage), "FOLDER", name);
    case ExportFormat::marian:
      return filled(std::string(marian_usage), "FOLDER", name);
    case ExportFormat::bergamot:
      return std::string(bergamot_usage);
  }
  return "";
}

/// How text is made of a translation where the target has another SentencePiece model; empty if it has the same.
std::string target_model_text(const Vocabulary& vocabulary) {
  if (split_models(vocabulary.bytes()).target.empty()) return "";
  return "\nSource and target have SentencePiece models with the same ids: that of the target, `target.spm`, makes "
         "text\n"
         "of a translation's pieces.\n";
}

std::string score_text(const Checkpoint& checkpoint) {
  const json::object* scoring = get_object(checkpoint.state, "scoring");
  std::string text;
  if (std::isfinite(checkpoint.sacrebleu)) text += fmt::format("BLEU {:.2f}", checkpoint.sacrebleu);
  if (std::isfinite(checkpoint.loss)) {
    text += fmt::format("{}loss {:.4f} nats a target token", text.empty() ? "" : ", ", checkpoint.loss);
  }
  if (text.empty()) return "not evaluated";
  if (scoring != nullptr) text += fmt::format("; measured by `{}`", to_text(*scoring));
  return text;
}

std::string model_card(const ExportedModel& model, const ExportOptions& options, const std::string& name_of_output) {
  const ModelConfig& shape = model.config.model;
  const std::string name = model.config.name.empty() ? "A translation model" : model.config.name;
  std::string card = fmt::format(
      "# {}\n\nTrained and exported by Babelring. Update {} of its training.\n\n"
      "| what | value |\n| --- | --- |\n"
      "| encoder and decoder layers | {} and {} |\n| width, heads, inner width | {}, {}, {} |\n| norm | {} |\n"
      "| vocabulary | {} pieces, SHA-256 `{}` |\n| training data, SHA-256 | `{}` |\n| weights, digest | `{}` |\n"
      "| validation | {} |\n",
      name, model.checkpoint.update, shape.encoder_layers, shape.decoder_layers, shape.width, shape.heads, shape.inner,
      shape.norm == NormPosition::pre ? "before each sub-layer" : "after each sub-layer", model.vocabulary.size(),
      model.vocabulary.digest(), get_text(model.checkpoint.state, "corpus_digest"),
      model.checkpoint.weights_digest.root, score_text(model.checkpoint));
  if (!options.command.empty()) card += fmt::format("\nMade by\n\n```\n{}\n```\n", options.command);
  card += fmt::format("\n## Use\n\n{}", usage_of(options, name_of_output));
  if (options.format == ExportFormat::ctranslate2) card += target_model_text(model.vocabulary);
  const std::string omission = options.format == ExportFormat::huggingface ? huggingface_omission(shape) : "";
  if (!omission.empty()) card += "\n" + omission + "\n";
  if (options.sources.empty()) return card;
  card += "\n## Check\n\n";
  card += fmt::format(
      "Each line of `conformance.jsonl` has a source, its subword ids (the other program adds `</s>`), and the ids, "
      "text\n"
      "and log-probability of the translations of Babelring in f32: `greedy`, and `best` of a beam of {} without a "
      "length penalty;\n`complete` is false of one that was cut at {} tokens and {} for each of the source.\n",
      conformance_beam, BeamOptions().max_length_extra, BeamOptions().max_length_factor);
  return card;
}

void write_format(const ExportedModel& model, const ExportOptions& options, const fs::path& folder) {
  switch (options.format) {
    case ExportFormat::ctranslate2:
      return write_ctranslate2(model, options.quantization, folder);
    case ExportFormat::argos:
      return write_argos(model, options, folder);
    case ExportFormat::huggingface:
      return write_huggingface(model, folder);
    case ExportFormat::marian:
      return write_marian(model, folder);
    case ExportFormat::bergamot:
      return write_bergamot(model, folder);
  }
}

}  // namespace

ExportedModel ExportedModel::load(const std::filesystem::path& folder) {
  Checkpoint checkpoint = load_checkpoint(folder, Verify::model).value();
  const std::filesystem::path file = checkpoint.folder / "config.yaml";
  TrainConfig config = read_config(read_file(file), file.string(), {});
  if (config.task != Task::translation) {
    throw UsageFailure(
        fmt::format("{}: found a language model, expected a translation model", checkpoint.folder.string()));
  }
  TensorFiles weights = checkpoint.weights();
  require_finite(weights);
  Vocabulary vocabulary = Vocabulary::load(checkpoint.folder / "spm.model");
  return {.checkpoint = std::move(checkpoint),
          .config = std::move(config),
          .vocabulary = std::move(vocabulary),
          .weights = std::move(weights)};
}

std::vector<ForeignName> foreign_names(const std::string& ours, const FormatNames& names) {
  const OurName name = split_name(ours);
  std::vector<ForeignName> found;
  for (const ModuleRule& rule : names.modules) {
    if (rule.ours != name.module) continue;
    found.push_back({.name = foreign_name(rule.theirs, name, names), .rule = &rule});
  }
  if (found.empty()) fail("the format has no name for the tensor {}", ours);
  return found;
}

std::vector<ForeignTensor> foreign_tensors(const TensorFiles& weights, const FormatNames& names) {
  std::vector<ForeignTensor> tensors;
  for (const std::string& ours : weights.names()) {
    const ConstTensor whole = weights.tensor(ours);
    for (const ForeignName& foreign : foreign_names(ours, names)) {
      const std::int64_t rows = whole.shape[0] / foreign.rule->parts;
      tensors.push_back({.name = foreign.name,
                         .ours = ours,
                         .tensor = whole.row_slice(rows * foreign.rule->part, rows),
                         .rule = foreign.rule});
    }
  }
  return tensors;
}

std::vector<float> reordered(std::span<const float> values, std::int64_t columns, StreamAxis stream, FeatureOrder to) {
  const std::int64_t rows = std::ssize(values) / columns;
  const bool by_rows = stream == StreamAxis::rows, by_columns = !by_rows && columns > 1;
  const std::int64_t half = (by_rows ? rows : columns) / 2;
  const auto before = [&](std::int64_t feature) {
    if (to == FeatureOrder::sines_first) return feature < half ? 2 * feature : 2 * (feature - half) + 1;
    return feature / 2 + feature % 2 * half;
  };
  std::vector<float> result;
  result.reserve(values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t begin = (by_rows ? before(row) : row) * columns;
    for (std::int64_t column = 0; column < columns; ++column) {
      result.push_back(values[static_cast<std::size_t>(begin + (by_columns ? before(column) : column))]);
    }
  }
  return result;
}

std::vector<float> reordered(const ConstTensor& tensor, StreamAxis stream) {
  const std::span<const float> values(tensor.as<float>(), static_cast<std::size_t>(tensor.shape.elements()));
  std::vector<float> result =
      reordered(values, tensor.shape.rank() == 2 ? tensor.columns() : 1, stream, FeatureOrder::sines_first);
  release_pages(tensor);
  return result;
}

std::vector<float> sinusoids(std::int64_t width, std::int64_t divisor) {
  std::vector<float> table(static_cast<std::size_t>(exported_positions * width));
  for (std::int64_t column = 0; column < width; ++column) {
    write_sinusoid_column(column, exported_positions, width, divisor, table.data());
  }
  return table;
}

const Choices<ExportFormat>& export_formats() {
  static const Choices<ExportFormat> all = {{"ctranslate2", ExportFormat::ctranslate2},
                                            {"argos", ExportFormat::argos},
                                            {"huggingface", ExportFormat::huggingface},
                                            {"marian", ExportFormat::marian},
                                            {"bergamot", ExportFormat::bergamot}};
  return all;
}

std::string export_checkpoint(const fs::path& checkpoint, const ExportOptions& options, const fs::path& output) {
  const fs::path target = named_folder(output);
  if (fs::exists(fs::symlink_status(target))) {
    throw UsageFailure(fmt::format("export: {} exists already", output.string()));
  }
  ExportedModel model = ExportedModel::load(checkpoint);
  require_arithmetic(model.config.model, options.format);
  const bool may_omit = options.format == ExportFormat::huggingface;
  const std::string omission = may_omit ? huggingface_omission(model.config.model) : "";
  try {
    fs::create_directories(target.parent_path());
    const ScratchFolder scratch(target.parent_path() / fmt::format(".tmp-{}", make_id('x')));
    const bool is_archive = options.format == ExportFormat::argos;
    const fs::path folder = scratch.path() / (is_archive ? argos_folder(options) : "complete");
    fs::create_directory(folder);
    if (!options.sources.empty()) write_conformance(model, options.sources, folder / "conformance.jsonl");
    write_format(model, options, folder);
    write_file_atomically(folder / "README.md", model_card(model, options, target.filename().string()));
    sync_folder(folder);
    const fs::path archive = scratch.path() / "archive";
    if (is_archive) write_zip(folder, scratch.path(), archive);
    fs::rename(is_archive ? archive : folder, target);
    sync_folder(target.parent_path());
    return omission;
  } catch (const fs::filesystem_error& error) {
    fail("export: {}: {}", target.string(), error.code().message());
  }
}

std::vector<std::string> validation_sources(const fs::path& checkpoint, std::int64_t count) {
  const fs::path file = checkpoint / "config.yaml";
  const DataConfig data = read_config(read_file(file), file.string(), {}).data;
  const fs::path folder = data.folder;
  if (data.valid_set.empty() || !fs::exists(folder / Manifest::file_name)) return {};
  if (load_manifest(folder).vocabulary.sha256 != sha256_hex(read_file(checkpoint / "spm.model"))) return {};
  std::vector<std::string> lines = ParallelText::open(folder, data.valid_set).source;
  lines.resize(std::min(lines.size(), static_cast<std::size_t>(count)));
  return lines;
}

}  // namespace babelring
