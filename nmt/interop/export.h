#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/options/options.h"
#include "nmt/checkpoint/checkpoint.h"
#include "nmt/data/vocabulary.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// A checkpoint of a translation model, to be written in the format of another program.
struct ExportedModel {
  /// Throws Failure if a file is absent or damaged or a weight is not finite, UsageFailure if it is no translation
  /// model.
  static ExportedModel load(const std::filesystem::path& folder);

  Checkpoint checkpoint;
  TrainConfig config;
  Vocabulary vocabulary;
  TensorFiles weights;  // mapped; f32, by the names of nmt/layers
  /// For each matmul's weight, by its name: the largest magnitude in its input at each of its matmuls in the greedy
  /// translations of ExportOptions::sources.
  std::map<std::string, std::vector<float>> inputs = {};
};

/// Which axis of a module's tensors is that of the residual stream: of a table and of a Linear that reads the stream
/// the columns of the matrix; of a Linear that writes it the rows of matrix and bias; of a Norm its only axis.
enum class StreamAxis { columns, rows };

/// A module of ours and of another format: an embedding table, a Linear or a Norm. A `*` in both names stands for the
/// number of a layer, a `?` in theirs for the kind of tensor. Theirs may be a part of ours: of equal parts of the rows.
struct ModuleRule {
  std::string_view ours, theirs;
  StreamAxis stream = StreamAxis::columns;
  int part = 0, parts = 1;
};

/// How a format names tensors. A tensor's name is that of its module, the separator and the kind of tensor, or that of
/// its module with the kind in the place of `?`.
struct FormatNames {
  std::string_view separator, norm_gain, norm_bias;  // the latter two are kinds of tensors
  std::string_view weight = "weight";                // of a table or a Linear
  std::string_view bias = "bias";                    // of a Linear
  int first_layer = 0;                               // the number of our layer 0
  std::span<const ModuleRule> modules;
};

/// A name of a tensor in another format, and the rule that gives it.
struct ForeignName {
  std::string name;
  const ModuleRule* rule = nullptr;
};
/// The names of a tensor of ours, in the order of the rules. Throws Failure if it has none.
std::vector<ForeignName> foreign_names(const std::string& ours, const FormatNames& names);

/// A tensor of ours, in the mapped file, by its name in another format.
struct ForeignTensor {
  std::string name;
  std::string ours;                  // its name in a checkpoint
  ConstTensor tensor;                // f32, contiguous
  const ModuleRule* rule = nullptr;  // which names it; never null
};

/// All weights by the names of a format, in the order of the weights; one that has several names, as tied tables have,
/// occurs several times. Throws Failure for a weight that has no name in the format.
std::vector<ForeignTensor> foreign_tensors(const TensorFiles& weights, const FormatNames& names);

/// The order of features in the residual stream: sines and cosines of positions alternate, as ours, or all sines come
/// before all cosines, as in Marian.
enum class FeatureOrder { alternating, sines_first };

/// The values of a matrix [rows, columns] or, with 1 column, of a vector, with the features in the order `to` instead
/// of the other. A vector whose stream is its columns (the bias of a Linear that reads the stream) has no features.
std::vector<float> reordered(std::span<const float> values, std::int64_t columns, StreamAxis stream, FeatureOrder to);
/// [columns, rows] of `values`, which are [rows, columns].
std::vector<float> transposed(const std::vector<float>& values, std::int64_t rows, std::int64_t columns);
/// The values of a tensor of ours, in f32, with the features in the order sines_first.
std::vector<float> reordered(const ConstTensor& tensor, StreamAxis stream);

/// Positions in an exported model. The other programs fail beyond the last one.
inline constexpr std::int64_t exported_positions = 4096;

/// A score or a logit that makes a choice impossible, finite so that no sum is NaN.
inline constexpr float never_chosen = -1e9F;

/// Sinusoidal positions as EmbeddingForward adds them, [exported_positions, width] row-major.
std::vector<float> sinusoids(std::int64_t width, std::int64_t divisor);

/// The bias of the output projection, zeros without ModelConfig::output_bias, and `never_chosen` for <pad> at the end.
std::vector<float> padded_output_bias(const ExportedModel& model);

/// The tensor names of MarianMTModel in model.safetensors.
extern const FormatNames marian_names;

/// The tensor names of CTranslate2. `separate_output`: the output projection is not tied to the decoder's embeddings.
FormatNames ctranslate2_names(bool separate_output);

/// Types of the matrices in a CTranslate2 model. Norms and biases stay f32.
enum class Quantization { float32, bfloat16, int8 };
const Choices<Quantization>& quantizations();

/// Writes model.bin (binary version 6, TransformerSpec revision 7), config.json, shared_vocabulary.json,
/// sentencepiece.model and, if the vocabulary has a second model for the target, target.spm into an existing folder.
/// Throws Failure if a tensor has 4 GiB or more, which the format cannot hold.
void write_ctranslate2(const ExportedModel& model, Quantization quantization, const std::filesystem::path& folder);

/// Writes encoder_model.onnx and decoder_model_merged.onnx (opset 17) into an existing folder. The vocabulary has one
/// more row, <pad>, which is never chosen. Throws Failure if a file would have 2 GiB.
void write_onnx(const ExportedModel& model, const std::filesystem::path& folder);

/// The piece behind the last of the vocabulary in a model of Hugging Face, which fills shorter sequences.
inline constexpr std::string_view pad_piece = "<pad>";

/// Writes tokenizer.json, which cuts text as SentencePiece does, and tokenizer_config.json into an existing folder.
/// Throws Failure if the vocabulary is neither BPE nor unigram or has a piece <pad>.
void write_tokenizer_json(const Vocabulary& vocabulary, const std::filesystem::path& folder);

/// Writes what transformers.js loads as a MarianMTModel, the graphs of write_onnx() in onnx/, into an existing folder;
/// for a model with norms after the sub-layers and norm_epsilon 1e-5 also what transformers in Python loads. Throws
/// Failure if a graph would have 2 GiB, if the vocabulary is neither BPE nor unigram or has a piece <pad>.
void write_huggingface(const ExportedModel& model, const std::filesystem::path& folder);
/// A sentence that says which files write_huggingface() leaves out, and why; empty if none.
std::string huggingface_omission(const ModelConfig& model);

/// Writes what marian-decoder 1.12 loads into an existing folder: model.npz, decoder.yml and vocab.spm, or source.spm
/// and target.spm if the vocabulary has a second model for the target. The model must have its arithmetic. Throws
/// Failure if a tensor has 4 GiB or more.
void write_marian(const ExportedModel& model, const std::filesystem::path& folder);

/// Writes what Bergamot loads into an existing folder: model.bin (matrices in 8 bits, by intgemm, and, if
/// ExportedModel::inputs are known, a factor for the input of each), config.yml and the same vocabularies. The
/// model must have its arithmetic.
void write_bergamot(const ExportedModel& model, const std::filesystem::path& folder);

enum class ExportFormat { ctranslate2, argos, huggingface, marian, bergamot };
const Choices<ExportFormat>& export_formats();

/// Throws UsageFailure that names each option of the model whose arithmetic the program or its files lack, and the
/// value that it needs: everywhere RMS norms, SwiGLU and rotary positions.
void require_arithmetic(const ModelConfig& model, ExportFormat format);

struct ExportOptions {
  ExportFormat format = ExportFormat::ctranslate2;
  Quantization quantization = Quantization::float32;  // of ctranslate2 and argos
  std::string from, into;                             // codes of the languages, of argos
  std::vector<std::string> sources;                   // lines of the source language; empty: no conformance.jsonl
  std::string command;                                // the command line, for the model card
};

/// Throws UsageFailure unless `from` and `into` are codes of two languages.
void check_languages(const ExportOptions& options);
/// The folder inside a package of Argos Translate: "translate-en_de-1_0".
std::string argos_folder(const ExportOptions& options);
/// Writes model/, what write_ctranslate2() writes, sentencepiece.model and metadata.json into an existing folder.
void write_argos(const ExportedModel& model, const ExportOptions& options, const std::filesystem::path& folder);

/// Beam of the translations in conformance.jsonl.
inline constexpr int conformance_beam = 4;

/// Writes a line for each source: its ids, our greedy translation and the best of a beam, in f32 on the processor. Sets
/// ExportedModel::inputs.
void write_conformance(ExportedModel& model, const std::vector<std::string>& lines, const std::filesystem::path& file);

/// Writes all files below the folder into a new zip archive, by their names relative to `root`, not compressed, dated
/// 1980-01-01, so that the same files give the same bytes. Durable. Throws Failure if that fails.
void write_zip(const std::filesystem::path& folder, const std::filesystem::path& root,
               const std::filesystem::path& file);

/// Writes a checkpoint in another program's format into the new folder `output`, or the new archive of argos: the
/// format's files, README.md, a model card, and, if there are sources, conformance.jsonl, by which the other program
/// can be checked: each source with its pieces and our greedy and beam translations. The same input gives the same
/// bytes. `output` appears when it is complete.
///
/// Throws UsageFailure if `output` exists, the checkpoint is not a translation model, or the other program lacks the
/// arithmetic of one of its options, Failure if the checkpoint is damaged, a weight is not finite, or the format cannot
/// hold a tensor.
///
/// Returns a sentence that says what the format cannot hold of this model; empty if nothing.
std::string export_checkpoint(const std::filesystem::path& checkpoint, const ExportOptions& options,
                              const std::filesystem::path& output);

/// The first `count` source lines of the checkpoint's validation set; empty if its prepared folder is not there or has
/// another vocabulary.
std::vector<std::string> validation_sources(const std::filesystem::path& checkpoint, std::int64_t count);

}  // namespace babelring
