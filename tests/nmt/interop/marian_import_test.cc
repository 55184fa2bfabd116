#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "base/failure.h"
#include "base/json.h"
#include "base/protobuf.h"
#include "nmt/checkpoint/safetensors.h"
#include "nmt/checkpoint/store.h"
#include "nmt/interop/import.h"
#include "nmt/interop/marian.h"
#include "nmt/interop/npz.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/interop/export_fixture.h"
#include "tests/nmt/interop/zip_builder.h"

namespace babelring {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::string of_marian = "  norm: post\n  norm_epsilon: 1e-6\n  positions: marian\n  decoder_start: zero\n";

struct Array {
  std::string type;
  std::vector<std::int64_t> shape;
  std::string bytes;
};
using Arrays = std::map<std::string, Array>;

Arrays arrays_in(const fs::path& file) {
  const std::string archive = read_file(file);
  const NpzReader reader(std::as_bytes(std::span(archive)), file.string());
  Arrays arrays;
  for (const NpzArray& array : reader.arrays()) {
    arrays[array.name] = {.type = array.type,
                          .shape = array.shape,
                          .bytes = {reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size()}};
  }
  return arrays;
}

void write(const Arrays& arrays, const fs::path& path) {
  AtomicFile file(path);
  NpzWriter npz(file);
  for (const auto& [name, array] : arrays) {
    npz.add(name, array.type, array.shape, std::as_bytes(std::span(array.bytes)));
  }
  npz.finish();
  file.commit();
}

/// The rows of an array in another order, of which some may be left out.
void move_rows(Array& array, const std::vector<std::int64_t>& rows) {
  const bool is_bias = array.shape[0] == 1;
  const std::size_t bytes = is_bias ? sizeof(float) : static_cast<std::size_t>(array.shape[1]) * sizeof(float);
  std::string moved;
  for (const std::int64_t row : rows) moved += array.bytes.substr(static_cast<std::size_t>(row) * bytes, bytes);
  array.shape[is_bias ? 1 : 0] = std::ssize(rows);
  array.bytes = moved;
}

void replace_option(Arrays& arrays, const std::string& from, const std::string& to) {
  Array& options = arrays.at("special:model.yml");
  const std::size_t at = options.bytes.find(from);
  ASSERT_NE(at, std::string::npos) << from << " in " << options.bytes;
  options.bytes.replace(at, from.size(), to);
  options.shape = {std::ssize(options.bytes)};
}

class MarianFileTest : public ExportTest {
 protected:
  fs::path exported(const std::string& options) {
    fs::remove_all(folder_.path() / "checkpoint");
    return ExportTest::exported(checkpoint(of_marian + options), Quantization::float32, ExportFormat::marian);
  }
  fs::path back(const fs::path& checkpoint) {
    return ExportTest::exported(checkpoint, Quantization::float32, ExportFormat::marian);
  }
  fs::path imported(const fs::path& input) {
    const fs::path output = folder_.path() / ("imported-" + std::to_string(++imports_));
    import_checkpoint({.input = input, .command = "nmt import"}, output);
    return output;
  }
  void refuses(const fs::path& input, const std::string& words) {
    EXPECT_THAT([&] { imported(input); }, ThrowsMessage<Failure>(HasSubstr(words)));
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path())) {
      EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp")) << entry.path();
    }
  }
  /// Changes an option of model.npz for one import.
  void refuses_option(const fs::path& folder, const std::string& from, const std::string& to,
                      const std::string& words) {
    const Arrays before = arrays_in(folder / "model.npz");
    Arrays arrays = before;
    replace_option(arrays, from, to);
    write(arrays, folder / "model.npz");
    refuses(folder, words);
    write(before, folder / "model.npz");
  }

  const Vocabulary before_ = Vocabulary::from_bytes(vocabulary_, "before");
  int imports_ = 0;
};

TEST_F(MarianFileTest, RoundTripIsBitEqual) {
  for (const std::string options : {"", "  tied_embeddings: none\n  attention_bias: true\n  activation: swish\n",
                                    "  tied_embeddings: decoder\n", "  output_bias: true\n"}) {
    const fs::path first = exported(options), original = folder_.path() / "checkpoint", again = imported(first);
    EXPECT_EQ(read_file(again / "weights.safetensors"), read_file(original / "weights.safetensors")) << options;
    EXPECT_EQ(split_models(read_file(again / "spm.model")).source, vocabulary_);
    const fs::path second = back(again);
    for (const char* file : {"model.npz", "vocab.spm", "decoder.yml"}) {
      EXPECT_EQ(read_file(second / file), read_file(first / file)) << file << " " << options;
    }
  }
}

TEST_F(MarianFileTest, AVocabularyThatTrainingChangedIsWrittenInOurOrder) {
  const fs::path again = imported(exported("  output_bias: true\n"));
  const MarianOrigin origin = MarianOrigin::unpack(split_models(read_file(again / "spm.model")).origin).value();
  EXPECT_EQ(origin.model, "model.npz");
  EXPECT_THAT(origin.vocabularies, ElementsAre("vocab.spm", "vocab.spm"));
  EXPECT_EQ(origin.rows.size(), 34U);
  MarianOrigin of_more = origin;
  of_more.rows.push_back(34);
  EXPECT_FALSE(MarianOrigin::unpack(""));
  EXPECT_FALSE(MarianOrigin::unpack("text"));
  MarianOrigin of_path = origin;
  of_path.files["../away"] = "x";
  EXPECT_FALSE(MarianOrigin::unpack(of_path.packed()));
  of_path.files = {};
  EXPECT_TRUE(MarianOrigin::unpack(of_path.packed()));
  of_path.model = "/away.npz";
  EXPECT_FALSE(MarianOrigin::unpack(of_path.packed()));
  // One that is not this model's is left alone.
  vocabulary_ = join_models({.source = vocabulary_, .target = {}, .origin = of_more.packed()});
  const fs::path other = exported("  output_bias: true\n");
  EXPECT_TRUE(fs::exists(other / "vocab.spm"));
  of_more.rows = origin.rows;
  of_more.model = "their.npz";
  of_more.options = "type: transformer\nenc-depth: 9";
  vocabulary_ = join_models({.source = split_models(vocabulary_).source, .target = {}, .origin = of_more.packed()});
  EXPECT_TRUE(fs::exists(exported("  output_bias: true\n") / "model.npz"));
}

/// Changes an exported folder to what Marian itself trains: vocab.spm has </s> 0, <unk> 1 and no <s>.
class OwnVocabularyTest : public MarianFileTest {
 protected:
  fs::path with_marians_ids() {
    const fs::path folder = exported("  output_bias: true\n");
    std::vector<std::int64_t> ours = {eos_id, unk_id};  // by their id
    for (std::int32_t id = before_.size() - 1; id >= first_free_id; --id) ours.push_back(id);
    std::vector<std::string> pieces;
    ProtobufMessage model;
    for (ProtobufReader fields(vocabulary_); fields.next();) {
      if (fields.field() == 1) {
        pieces.emplace_back(fields.bytes());
      } else {
        model.bytes(fields.field(), fields.bytes());
      }
    }
    for (const std::int64_t id : ours) model.bytes(1, pieces[static_cast<std::size_t>(id)]);
    write_file_atomically(folder / "vocab.spm", model.text());
    Arrays arrays = arrays_in(folder / "model.npz");
    move_rows(arrays.at("Wemb"), ours);
    move_rows(arrays.at("decoder_ff_logit_out_b"), ours);
    replace_option(arrays, "- 34\n  - 34", "- 33\n  - 33");
    write(arrays, folder / "model.npz");
    return folder;
  }
};

TEST_F(OwnVocabularyTest, RowsGoByPieceAndComeBackWithTheSameBytes) {
  const fs::path folder = with_marians_ids(), again = imported(folder);
  const Vocabulary vocabulary = Vocabulary::load(again / "spm.model");
  ASSERT_EQ(vocabulary.size(), before_.size());
  const SafetensorsReader weights(again / "weights.safetensors");
  const auto *table = weights.tensor("embedding").as<float>(), *bias = weights.tensor("output.bias").as<float>();
  const std::vector<float> old_table = ours("embedding"), old_bias = ours("output.bias");
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    std::int32_t old = 0;
    while (before_.piece(old) != vocabulary.piece(id)) ++old;
    EXPECT_EQ(bias[id], id == bos_id ? -50 : old_bias[static_cast<std::size_t>(old)]) << id;
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(table[id * 8 + i], id == bos_id ? 0 : old_table[static_cast<std::size_t>(old * 8 + i)]) << id;
    }
  }
  for (const std::string& line : lines) EXPECT_EQ(vocabulary.decode(vocabulary.encode(line)), line);
  const fs::path second = back(again);
  for (const char* file : {"model.npz", "vocab.spm", "decoder.yml"}) {
    EXPECT_EQ(read_file(second / file), read_file(folder / file)) << file;
  }
  const fs::path with_more = imported(second);
  EXPECT_EQ(read_file(with_more / "spm.model"), read_file(again / "spm.model"));
}

TEST_F(OwnVocabularyTest, RefusesTheFileOfAnotherModel) {
  const fs::path folder = with_marians_ids();
  refuses_option(folder, "- 33\n  - 33", "- 33\n  - 34", "vocab.spm: found ids up to 32, expected 34, as dim-vocabs");
  refuses_option(folder, "- 33\n  - 33", "- 33", "dim-vocabs has 1 numbers, expected 2");
  refuses_option(folder, "- 33\n  - 33", "- 33\n  - x", "expected x, as dim-vocabs");
  Arrays arrays = arrays_in(folder / "model.npz");
  arrays.at("Wemb").shape = {8, 33};
  write(arrays, folder / "model.npz");
  refuses(folder, "model.npz: Wemb is [8, 33], expected [33, 8]");
}

TEST_F(OwnVocabularyTest, ReadsCompressedFilesHalfPrecisionAndOneWithoutOutputBias) {
  const fs::path folder = with_marians_ids(), again = imported(folder);
  Arrays arrays = arrays_in(folder / "model.npz");
  ZipBuilder zip;
  for (const auto& [name, array] : arrays) {
    const std::string shape = fmt::format("{}{}", fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
    zip.add(name + ".npy",
            npy(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}\n", array.type, shape),
                array.bytes),
            {.is_deflated = true});
  }
  write_file_atomically(folder / "model.npz", zip.archive());
  EXPECT_EQ(read_file(imported(folder) / "weights.safetensors"), read_file(again / "weights.safetensors"));
  Array& bias = arrays.at("encoder_l1_ffn_b1");
  bias = {.type = "<f2", .shape = {1, 12}, .bytes = std::string(23, '\0') + '\x3c'};
  arrays.erase("decoder_ff_logit_out_b");
  write(arrays, folder / "model.npz");
  const fs::path halves = imported(folder);
  const SafetensorsReader weights(halves / "weights.safetensors");
  EXPECT_EQ(weights.tensor("encoder.0.feed_forward.first.bias").as<float>()[11], 1);
  EXPECT_EQ(weights.tensor("output.bias").as<float>()[bos_id], -50);
  EXPECT_EQ(weights.tensor("output.bias").as<float>()[eos_id], 0);
}

TEST_F(MarianFileTest, RefusesByNameAndValueWhatOursCannotCompute) {
  const fs::path folder = exported("");
  const auto refuses_value = [&](const std::string& option, const std::string& from, const std::string& to,
                                 const std::string& words) {
    refuses_option(folder, "\n" + option + ": " + from + "\n", "\n" + option + ": " + to + "\n",
                   "special:model.yml: " + option + " is " + to + ", expected " + words);
  };
  refuses_option(folder, "type: transformer\n", "type: s2s\n", "type is s2s, expected transformer");
  refuses_option(folder, "preprocess: \"\"", "preprocess: n",
                 "transformer-preprocess is n, expected no n: Marian's attention");
  refuses_option(folder, "preprocess: \"\"", "preprocess: da", "transformer-preprocess is da, expected nothing or d");
  refuses_option(folder, "process-emb: d", "process-emb: nd",
                 "transformer-postprocess-emb is nd, expected nothing or d");
  refuses_option(folder, "postprocess-top: \"\"", "postprocess-top: n", "transformer-postprocess-top is n");
  refuses_value("transformer-postprocess", "dan", "da", "dan");
  refuses_value("transformer-ffn-activation", "relu", "gelu", "swish or relu (Marian's gelu is x sigmoid(1.702 x)");
  refuses_value("transformer-decoder-autoreg", "self-attention", "rnn", "self-attention: ours has no such option");
  refuses_value("transformer-train-positions", "false", "true", "false: ours computes positions");
  refuses_value("transformer-ffn-depth", "2", "3", "2: ours has no such option");
  refuses_value("transformer-no-projection", "false", "true", "false");
  refuses_value("right-left", "false", "true", "false");
  refuses_value("lemma-dim-emb", "0", "16", "0");
  refuses_value("transformer-heads", "2", "two", "an integer of at least 1");
  refuses_value("tied-embeddings", "false", "perhaps", "true or false");
  refuses_option(folder, "tied-layers:\n  []", "tied-layers:\n  - 1\n  - 1",
                 "transformer-tied-layers is 1, 1, expected nothing");
  refuses_option(folder, "ulr: false", "new-option: 3", "new-option is 3, expected ~: ours has no such option");
  refuses_option(folder, "ulr: false", "new-option: false\ntransformer-decoder-dim-ffn: 13",
                 "transformer-decoder-dim-ffn is 13, expected 0 or 12");
  refuses_option(folder, "ulr: false", "no option", ":31: found no option, expected option: value");
  refuses_option(folder, "enc-depth: 2", "enc-depth: 3", "encoder_l3_self_Wo_ln_scale is missing, expected [1, 8]");
  refuses_option(folder, "enc-depth: 2", "enc-depth: 0", "enc-depth is 0, expected an integer of at least 1");
}

TEST_F(MarianFileTest, RefusesTensorsThatAreMissingTooMuchOrOfAnotherShape) {
  const fs::path folder = exported("");
  const Arrays before = arrays_in(folder / "model.npz");
  const auto refuses_change = [&](const std::function<void(Arrays&)>& change, const std::string& words) {
    Arrays arrays = before;
    change(arrays);
    write(arrays, folder / "model.npz");
    refuses(folder, words);
  };
  refuses_change([](Arrays& all) { all.erase("encoder_l2_ffn_W1"); },
                 "model.npz: encoder_l2_ffn_W1 is missing, expected [8, 12]");
  refuses_change([](Arrays& all) { all.at("encoder_l2_ffn_W1").shape = {12, 8}; },
                 "model.npz: encoder_l2_ffn_W1 is [12, 8], expected [8, 12]");
  refuses_change([](Arrays& all) { all.at("encoder_l2_ffn_b1").shape = {12}; },
                 "encoder_l2_ffn_b1 is [12], expected [1, 12]");
  refuses_change([](Arrays& all) { all.erase("decoder_l1_context_Wv"); },
                 "decoder_l1_context_Wv is missing, expected [8, 8]");
  refuses_change([](Arrays& all) { all["Wpos"] = all.at("Wemb"); }, "Wpos [34, 8] has no place in our model");
  refuses_change(
      [](Arrays& all) {
        all.at("encoder_l2_ffn_b1") = {.type = "<i1", .shape = {1, 12}, .bytes = std::string(12, '\0')};
      },
      "encoder_l2_ffn_b1 has the type <i1, expected <f4 or <f2");
  refuses_change([](Arrays& all) { all.erase("special:model.yml"); }, "special:model.yml is missing");
  const std::string whole = read_file(folder / "model.npz");
  for (std::size_t size = 0; size < whole.size(); size += 997) {
    write_file_atomically(folder / "model.npz", whole.substr(0, size));
    refuses(folder, "model.npz");
  }
}

TEST_F(MarianFileTest, FindsTheModelAndItsVocabularies) {
  const fs::path folder = exported("");
  const std::string weights = read_file(folder_.path() / "checkpoint" / "weights.safetensors");
  fs::remove(folder / "decoder.yml");
  EXPECT_EQ(read_file(imported(folder) / "weights.safetensors"), weights);
  EXPECT_EQ(read_file(imported(folder / "model.npz") / "weights.safetensors"), weights);
  fs::copy(folder / "model.npz", folder / "model.npz.optimizer.npz");
  imported(folder);
  fs::copy(folder / "model.npz", folder / "model.npz.best-perplexity.npz");
  EXPECT_EQ(MarianOrigin::unpack(split_models(read_file(imported(folder) / "spm.model")).origin)->model,
            "model.npz.best-perplexity.npz");
  fs::copy(folder / "model.npz", folder / "other.best-perplexity.npz");
  EXPECT_THAT([&] { imported(folder); },
              ThrowsMessage<UsageFailure>(
                  HasSubstr("found model.npz, model.npz.best-perplexity.npz, other.best-perplexity.npz")));
  imported(folder / "other.best-perplexity.npz");
  fs::rename(folder / "vocab.spm", folder / "words.spm");
  refuses(folder / "model.npz", "found 0 vocabularies");
  write_file_atomically(folder / "model.npz.decoder.yml",
                        "vocabs: [/away/words.spm, 'words.spm']\nmodels:\n- /x/model.npz\n");
  EXPECT_EQ(read_file(imported(folder / "model.npz") / "weights.safetensors"), weights);
  write_file_atomically(folder / "words.spm", "text");
  refuses(folder / "model.npz", "words.spm: not a SentencePiece model");
  write_file_atomically(folder / "model.npz.decoder.yml", "vocabs: [words.txt, words.txt]");
  refuses(folder / "model.npz", "words.txt: expected a vocabulary that ends in .spm");
}

/// A release of OPUS-MT: one vocabulary in YAML, whose ids are not SentencePiece's, for two SentencePiece models, of
/// which the source's has only short pieces; a code of a language with the row of piece 5, and one id without a piece.
class ReleaseTest : public MarianFileTest {
 protected:
  static constexpr std::int32_t language_row = 5, empty_row = 6;

  std::string yaml_of(const std::vector<std::int64_t>& rows) const {
    std::string yaml;
    for (std::size_t id = 0; id < rows.size(); ++id) {
      yaml += fmt::format("'{}': {}\n", before_.piece(static_cast<std::int32_t>(rows[id])), id);
    }
    return yaml;
  }
  std::vector<std::int64_t> reversed_rows(const std::function<bool(std::int32_t)>& is_known) const {
    std::vector<std::int64_t> rows = {eos_id, unk_id};
    for (std::int32_t id = before_.size() - 1; id >= first_free_id; --id) {
      if (is_known(id)) rows.push_back(id);
    }
    return rows;
  }
  fs::path released() {
    const fs::path folder = exported("  output_bias: true\n");
    fs::remove(folder / "vocab.spm");
    std::vector<std::int64_t> rows = reversed_rows([](std::int32_t) { return true; });
    std::string yaml = yaml_of(rows);
    rows.push_back(empty_row);
    yaml += fmt::format("\">>fra<<\": {}\n", rows.size());
    rows.push_back(language_row);
    write_file_atomically(folder / "opus.vocab.yml", yaml);
    Arrays arrays = arrays_in(folder / "model.npz");
    move_rows(arrays.at("Wemb"), rows);
    move_rows(arrays.at("decoder_ff_logit_out_b"), rows);
    replace_option(arrays, "- 34\n  - 34", "- 35\n  - 35");
    fs::remove(folder / "model.npz");
    write(arrays, folder / "opus.npz");
    write_file_atomically(folder / "source.spm", short_pieces_);
    write_file_atomically(folder / "target.spm", vocabulary_);
    write_file_atomically(folder / "LICENSE", "a license");
    write_file_atomically(folder / "preprocess.sh", "sed -e 's/，/,/g' -e 's/“/a/g' | spm_encode");
    write_file_atomically(
        folder / "decoder.yml",
        "relative-paths: true\nmodels:\n  - opus.npz\nvocabs:\n  - opus.vocab.yml\n  - opus.vocab.yml\n");
    return folder;
  }
  fs::path zipped(const fs::path& folder, bool is_deflated, const std::string& prefix = "") {
    ZipBuilder zip;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      zip.add(prefix + entry.path().filename().string(), read_file(entry.path()), {.is_deflated = is_deflated});
    }
    return written(zip);
  }
  fs::path written(const ZipBuilder& zip) {
    write_file_atomically(folder_.path() / "opus.zip", zip.archive());
    return folder_.path() / "opus.zip";
  }

  const std::string short_pieces_ = with_some_pieces(
      vocabulary_, [&](std::int32_t id) { return id < first_free_id || before_.piece(id).size() < 4; });
};

std::vector<std::string> cut(const Vocabulary& vocabulary, const std::string& line, TextSide side = TextSide::source) {
  std::vector<std::string> pieces;
  for (const std::int32_t id : vocabulary.encode(line, side)) pieces.push_back(vocabulary.piece(id));
  return pieces;
}

TEST_F(ReleaseTest, EachSideIsCutByItsModelAfterTheReplacementsOfItsScript) {
  const fs::path again = imported(released());
  const Vocabulary vocabulary = Vocabulary::load(again / "spm.model");
  const Vocabulary source_model = Vocabulary::from_bytes(short_pieces_, "source");
  ASSERT_EQ(vocabulary.size(), 36) << "and <s>, >>fra<<, an id without a piece";
  for (const std::string& line : lines) {
    EXPECT_EQ(cut(vocabulary, line, TextSide::target), cut(before_, line));
    std::vector<std::string> expected = cut(source_model, line);
    EXPECT_EQ(cut(vocabulary, line), expected);
    expected.insert(expected.begin(), "\u2581>>fra<<");
    EXPECT_EQ(cut(vocabulary, ">>fra<< " + line), expected);
  }
  EXPECT_EQ(vocabulary.encode("“ red bo“t"), vocabulary.encode("a red boat"));
  EXPECT_EQ(cut(vocabulary, "“ red bo“t", TextSide::target), cut(before_, "a red boat"));
}

TEST_F(ReleaseTest, ArchivesGiveTheSameCheckpointAndComeBackWithTheSameFiles) {
  const fs::path folder = released(), again = imported(folder);
  for (const bool is_deflated : {false, true}) {
    for (const char* prefix : {"", "opus-2020/"}) {
      const fs::path archive = zipped(folder, is_deflated, prefix), from_zip = imported(archive);
      for (const char* file : {"weights.safetensors", "spm.model"}) {
        EXPECT_EQ(read_file(from_zip / file), read_file(again / file)) << file << is_deflated << prefix;
      }
      const json::object state = load_checkpoint(from_zip).value().state;
      EXPECT_THAT(to_text(state), HasSubstr(R"("release":{"file":"opus.zip","model":"opus.npz","files":["LICENSE",)"));
    }
  }
  const fs::path second = back(again);
  for (const char* file : {"opus.npz", "opus.vocab.yml", "source.spm", "target.spm", "LICENSE", "preprocess.sh"}) {
    EXPECT_EQ(read_file(second / file), read_file(folder / file)) << file;
  }
  EXPECT_THAT(read_file(second / "decoder.yml"), HasSubstr("models:\n  - opus.npz\nvocabs:\n  - opus.vocab.yml\n"));
  EXPECT_FALSE(fs::exists(second / "model.npz"));
  EXPECT_EQ(read_file(imported(second) / "weights.safetensors"), read_file(again / "weights.safetensors"));
}

TEST_F(ReleaseTest, VocabulariesOfDifferentSizeHaveOneTableOfOurs) {
  for (const std::string tied : {"decoder", "none"}) {
    const fs::path folder = exported("  output_bias: true\n  tied_embeddings: " + tied + "\n");
    const auto is_short = [&](std::int32_t id) { return before_.piece(id).size() < 4; };
    const auto is_other = [&](std::int32_t id) { return id != 20; };
    const std::vector<std::int64_t> source = reversed_rows(is_short), target = reversed_rows(is_other);
    fs::remove(folder / "vocab.spm");
    write_file_atomically(folder / "source.vocab.yml", yaml_of(source));
    write_file_atomically(folder / "target.vocab.yml", yaml_of(target));
    write_file_atomically(folder / "source.spm", short_pieces_);
    write_file_atomically(folder / "target.spm", vocabulary_);
    fs::remove(folder / "decoder.yml");
    Arrays arrays = arrays_in(folder / "model.npz");
    move_rows(arrays.at("encoder_Wemb"), source);
    for (const char* name : {"decoder_Wemb", "decoder_ff_logit_out_b", "decoder_ff_logit_out_Wt"}) {
      if (arrays.contains(name)) move_rows(arrays.at(name), target);
    }
    replace_option(arrays, "- 34\n  - 34", fmt::format("- {}\n  - {}", source.size(), target.size()));
    write(arrays, folder / "model.npz");
    const fs::path again = imported(folder);
    const Vocabulary vocabulary = Vocabulary::load(again / "spm.model");
    const SafetensorsReader weights(again / "weights.safetensors");
    const auto *table = weights.tensor("encoder.embedding").as<float>(),
               *bias = weights.tensor("output.bias").as<float>();
    const std::vector<float> old_table = ours("encoder.embedding"), old_bias = ours("output.bias");
    for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
      std::int32_t old = 0;
      while (old < before_.size() && before_.piece(old) != vocabulary.piece(id)) ++old;
      ASSERT_LT(old, before_.size()) << vocabulary.piece(id);
      const bool has_source = old < 3 ? old != bos_id : is_short(old),
                 has_target = old < 3 ? old != bos_id : is_other(old);
      EXPECT_EQ(bias[id], has_target ? old_bias[static_cast<std::size_t>(old)] : -50) << vocabulary.piece(id);
      EXPECT_EQ(table[id * 8], has_source ? old_table[static_cast<std::size_t>(old) * 8] : 0) << vocabulary.piece(id);
    }
    const fs::path second = back(again);
    for (const char* file : {"model.npz", "source.vocab.yml", "target.vocab.yml", "source.spm"}) {
      EXPECT_EQ(read_file(second / file), read_file(folder / file)) << file << tied;
    }
  }
}

TEST_F(ReleaseTest, RefusesWhatDoesNotBelongTogether) {
  const fs::path folder = released();
  const auto refuses_without = [&](const char* file, const std::string& words) {
    fs::rename(folder / file, folder_.path() / "away");
    refuses(folder, words);
    fs::rename(folder_.path() / "away", folder / file);
  };
  refuses_without(
      "source.spm",
      "source.spm: is missing, expected the SentencePiece model that cuts text to the pieces of opus.vocab.yml");
  refuses_without("opus.vocab.yml", "opus.vocab.yml is missing");
  refuses_without("opus.npz", "opus.npz");
  const fs::path given = folder_.path() / "given.spm";
  write_file_atomically(given, short_pieces_);
  const fs::path output = folder_.path() / "given";
  const auto import_with_given = [&] {
    import_checkpoint({.input = folder, .vocabulary = given, .command = "nmt import"}, output);
  };
  EXPECT_THAT(
      import_with_given,
      ThrowsMessage<UsageFailure>(HasSubstr("--vocabulary: found source.spm in the model, expected a model without")));
  fs::rename(folder / "source.spm", folder_.path() / "away");
  import_with_given();
  fs::rename(folder_.path() / "away", folder / "source.spm");
  EXPECT_EQ(Vocabulary::load(output / "spm.model").size(), 36);
  write_file_atomically(folder / "source.bpe", "#version: 0.2");
  refuses_without("source.spm", "source.spm: Moses and BPE, not supported");
  write_file_atomically(folder / "opus.vocab.yml", "</s>: 0\n<unk>: 1\nword: 2\n");
  refuses(folder, "source.spm: ");
  write_file_atomically(folder / "opus.vocab.yml", "</s>: 0\n<unk> 1\n");
  refuses(folder, "opus.vocab.yml:2: found no colon behind <unk> 1");
}

TEST_F(ReleaseTest, RefusesArchivesThatLeaveTheirFolder) {
  const fs::path folder = released();
  const auto refuses_entry = [&](const std::string& name, const std::string& content,
                                 const ZipBuilder::Options& options, const std::string& words) {
    ZipBuilder zip;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      zip.add(entry.path().filename().string(), read_file(entry.path()));
    }
    refuses(written(zip.add(name, content, options)), "opus.zip: " + words);
  };
  for (const std::string name : {"../away", "/etc/passwd", "a/../../b", "a\\b"}) {
    refuses_entry(name, "x", {}, "the path " + name + " leaves the archive's folder");
  }
  refuses_entry("link", "/etc/passwd", {.mode = 0120777}, "link is a symbolic link, expected a file");
  refuses_entry("LARGE", std::string(4 << 20, '\0'), {.is_deflated = true}, "LARGE has 4194304 bytes of ");
  refuses_entry("source.spm", "x", {}, "source.spm is there twice");
  const std::string whole = read_file(zipped(folder, true));
  for (std::size_t size = 2; size < whole.size(); size += whole.size() / 20) {
    write_file_atomically(folder_.path() / "opus.zip", whole.substr(0, size));
    refuses(folder_.path() / "opus.zip", "opus.zip");
  }
  std::string changed = whole;
  changed[changed.find("opus.npz") + 40] ^= 1;
  write_file_atomically(folder_.path() / "opus.zip", changed);
  refuses(folder_.path() / "opus.zip", "opus.npz");
}

std::vector<std::string> pieces_of_yaml(const std::string& yaml) {
  return yaml_pieces(yaml, "vocab.yml");
}

TEST(YamlPiecesTest, TextsAreTakenAsTheyStand) {
  EXPECT_THAT(
      pieces_of_yaml(
          "</s>: 0\n<unk>: 1\n~: 2\nno: 3\n1: 4\n'it''s': 5\n\"a\\\"\\\\\": 6\n\"\\x85\\u00e9\\U0001F600\\_\": 7\n"
          "? very long\n: 8\n':': 9\n'#': 10\na:b: 11\n'- ': 12\n\"\\ud83d\\ude00x\\t\": 13\r\n▁: 14 # text\n"),
      ElementsAre("</s>", "<unk>", "~", "no", "1", "it's", "a\"\\", "\u0085\u00e9\U0001F600\u00a0", "very long", ":",
                  "#", "a:b", "- ", "\U0001F600x\t", "▁"));
  EXPECT_THAT(pieces_of_yaml("---\n{</s>: 0, 'a, b': 1, \"c}\": 2,\n  d: 3}\n"),
              ElementsAre("</s>", "a, b", "c}", "d"));
  EXPECT_THAT(pieces_of_yaml("{\"a\":0,\"b\": 1}"), ElementsAre("a", "b"));
  EXPECT_THAT(pieces_of_yaml("\"long \\\n   text\": 0\n? \"a\"\n: 1"), ElementsAre("long text", "a"));
  EXPECT_THAT(pieces_of_yaml("a: 0\na: 1\nb: 2"), ElementsAre("a", "", "b")) << "the first of two counts";
}

TEST(YamlPiecesTest, RefusesByLine) {
  const auto refuses = [](const std::string& yaml, const std::string& words) {
    EXPECT_THAT([&] { pieces_of_yaml(yaml); }, ThrowsMessage<Failure>(HasSubstr("vocab.yml:" + words)));
  };
  refuses("a: 0\nb: 0", "2: found the id 0 of a and of b, expected piece: id");
  refuses("a: 0\nb: x", "2: found no id behind b");
  refuses("a: 0\nb: -1", "2: found no id behind b");
  refuses("a: 0\nb", "2: found no colon behind b");
  refuses("a: 0\n'b: 1", "2: found a quotation mark that is not closed");
  refuses("a: 0\n\"b\\xzz\": 1", "2: found an escape that is no code point");
  refuses("a: 99999999", "1: found the id 99999999, of at most 10000000");
  refuses("a: 1 2", "1: found more behind the id 1");
  refuses("", " found no piece");
  refuses("'': 1", "1: found an empty piece");
}

TEST(PreprocessScriptTest, RulesAreReadFromTheScript) {
  const Replacements rules = replacements_of_script(
      "sed -e 's/，/,/g' \\\n -e 's/。 */. /g' -e 's/？/\\?/g' -e \"s/’/\\'/g\" -e 's/…/\\.\\.\\./g' -e 's/[a-z]/x/g' "
      "|\n"
      "perl -C -pe 's/(?!\\n)\\p{C}/ /g;'",
      "preprocess.sh");
  EXPECT_EQ(rules.at("，"), ",");
  EXPECT_EQ(rules.at("。"), ". ");
  EXPECT_EQ(rules.at("？"), "?");
  EXPECT_EQ(rules.at("’"), "'");
  EXPECT_EQ(rules.at("…"), "...");
  EXPECT_EQ(rules.at("\x01"), " ");
  EXPECT_EQ(rules.at("\u200b"), " ");
  EXPECT_EQ(rules.at("\ue000"), " ");
  EXPECT_FALSE(rules.contains("\n"));
  EXPECT_FALSE(rules.contains("[a-z]"));
  EXPECT_TRUE(replacements_of_script("cat", "preprocess.sh").empty());
}

}  // namespace
}  // namespace babelring
