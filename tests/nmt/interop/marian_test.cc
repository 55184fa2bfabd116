#include <cmath>
#include <cstring>
#include <map>

#include "base/failure.h"
#include "tests/nmt/interop/export_fixture.h"

namespace babelring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Options that Marian's arithmetic needs.
const std::string marian_options = "  norm: post\n  norm_epsilon: 1e-6\n  positions: marian\n  decoder_start: zero\n";

/// Takes numbers and texts from the bytes of a file, one after the other.
struct Bytes {
  template <class T>
  T take() {
    T value{};
    const std::string_view bytes = take_bytes(sizeof value);
    if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string_view take_bytes(std::size_t size) {
    if (size > rest.size()) {
      ADD_FAILURE() << size << " bytes expected, " << rest.size() << " left";
      return {};
    }
    const std::string_view bytes = rest.substr(0, size);
    rest.remove_prefix(size);
    return bytes;
  }

  std::string_view rest;
};

std::vector<float> floats_of(std::string_view bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

/// A tensor of either file.
struct Stored {
  std::vector<std::int64_t> shape;
  std::uint64_t type = 0;
  std::string_view data;

  std::vector<float> values() const { return floats_of(data); }
};

/// Reads an archive as Marian does, which looks at local headers only and takes the length of data from .npy headers.
struct Npz {
  explicit Npz(const fs::path& file) : bytes(read_file(file)) {
    Bytes reader{bytes};
    std::string before;
    while (reader.rest.starts_with("PK\x03\x04")) {
      reader.take_bytes(6);
      EXPECT_EQ(reader.take<std::uint16_t>() & 8U, 0U) << "lengths are in the header";
      EXPECT_EQ(reader.take<std::uint16_t>(), 0U) << "not compressed";
      EXPECT_EQ(reader.take<std::uint32_t>(), 0U) << "no date";
      reader.take<std::uint32_t>();  // CRC
      const auto size = reader.take<std::uint32_t>();
      EXPECT_EQ(reader.take<std::uint32_t>(), size);
      const auto name_size = reader.take<std::uint16_t>(), extra_size = reader.take<std::uint16_t>();
      std::string name(reader.take_bytes(name_size));
      EXPECT_TRUE(name.ends_with(".npy")) << name;
      name.resize(name.size() - 4);
      EXPECT_LT(before, name);
      before = name;
      reader.take_bytes(extra_size);
      tensors[name] = array(reader.take_bytes(size));
    }
    EXPECT_TRUE(reader.rest.starts_with("PK\x01\x02")) << "the central directory follows";
  }

  static Stored array(std::string_view file) {
    Bytes reader{file};
    EXPECT_EQ(reader.take_bytes(8), std::string_view("\x93NUMPY\x01\x00", 8));
    const std::string header(reader.take_bytes(reader.take<std::uint16_t>()));
    EXPECT_EQ((10 + header.size()) % 16, 0U);
    EXPECT_LT(header.size(), 256U) << "Marian's buffer";
    EXPECT_EQ(header.back(), '\n');
    Stored stored;
    long long rows = 0, columns = 0;
    if (std::sscanf(header.c_str(), "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }", &rows,
                    &columns) == 2) {
      stored = {.shape = {rows, columns}, .type = 4, .data = reader.rest};
    } else if (std::sscanf(header.c_str(), "{'descr': '<i1', 'fortran_order': False, 'shape': (%lld,), }", &rows) ==
               1) {
      stored = {.shape = {rows}, .type = 1, .data = reader.rest};
      columns = 1;
    } else {
      ADD_FAILURE() << header;
    }
    EXPECT_EQ(stored.data.size(), static_cast<std::size_t>(rows * columns) * stored.type);
    return stored;
  }

  std::string bytes;
  std::map<std::string, Stored> tensors;
};

/// Reads a whole model.bin, and requires that not a byte is left.
struct Binary {
  explicit Binary(const fs::path& file) : bytes(read_file(file)) {
    Bytes reader{bytes};
    EXPECT_EQ(reader.take<std::uint64_t>(), 1U);
    struct Header {
      std::uint64_t name, type, shape, data;
    };
    std::vector<Header> headers(reader.take<std::uint64_t>());
    for (Header& header : headers) header = reader.take<Header>();
    std::vector<std::string> names;
    for (const Header& header : headers) {
      names.emplace_back(reader.take_bytes(header.name));
      EXPECT_EQ(names.back().back(), '\0');
      names.back().pop_back();
    }
    for (std::size_t i = 0; i < headers.size(); ++i) {
      Stored& stored = tensors[names[i]];
      stored.type = headers[i].type;
      for (std::uint64_t axis = 0; axis < headers[i].shape; ++axis) stored.shape.push_back(reader.take<std::int32_t>());
    }
    const auto padding = reader.take<std::uint64_t>();
    EXPECT_EQ(reader.take_bytes(padding), std::string(padding, '\0'));
    for (std::size_t i = 0; i < headers.size(); ++i) {
      EXPECT_EQ((bytes.size() - reader.rest.size()) % 256, 0U) << names[i];
      tensors[names[i]].data = reader.take_bytes(headers[i].data);
    }
    EXPECT_EQ(tensors.size(), headers.size()) << "no name twice";
    EXPECT_TRUE(reader.rest.empty());
  }

  /// A matrix in 8 bits, by the factor behind its bytes.
  std::vector<float> dequantized(const std::string& name) const {
    const Stored& stored = tensors.at(name);
    EXPECT_EQ(stored.type, 0x4101U) << name;
    const auto elements = static_cast<std::size_t>(stored.shape.at(0) * stored.shape.at(1));
    EXPECT_EQ(stored.data.size(), (elements + 4 + 255) / 256 * 256) << name;
    const float factor = floats_of(stored.data.substr(elements, sizeof(float)))[0];
    std::vector<float> values;
    for (const char byte : stored.data.substr(0, elements)) {
      values.push_back(static_cast<float>(static_cast<std::int8_t>(byte)) / factor);
    }
    return values;
  }

  std::string bytes;
  std::map<std::string, Stored> tensors;
};

/// [rows, width] values with the columns in Marian's order: 0 2 4 … 1 3 5 …
std::vector<float> with_sines_first(const std::vector<float>& values, std::size_t width) {
  std::vector<float> result;
  for (std::size_t row = 0; row < values.size(); row += width) {
    for (std::size_t column = 0; column < width; column += 2) result.push_back(values[row + column]);
    for (std::size_t column = 1; column < width; column += 2) result.push_back(values[row + column]);
  }
  return result;
}

/// [columns, rows] of [rows, columns] values.
std::vector<float> transpose(const std::vector<float>& values, std::size_t columns) {
  std::vector<float> result;
  for (std::size_t column = 0; column < columns; ++column) {
    for (std::size_t at = column; at < values.size(); at += columns) result.push_back(values[at]);
  }
  return result;
}

std::vector<float> part(const std::vector<float>& values, std::size_t begin, std::size_t size) {
  return {values.begin() + static_cast<std::ptrdiff_t>(begin),
          values.begin() + static_cast<std::ptrdiff_t>(begin + size)};
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_LE(std::abs(found[i] - expected[i]), 0.5001F * largest / 127) << i;
  }
}

class MarianTest : public ExportTest {
 protected:
  fs::path exported(const std::string& options, ExportFormat format) {
    fs::remove_all(folder_.path() / "checkpoint");
    return ExportTest::exported(checkpoint(options), Quantization::float32, format);
  }
};

TEST_F(MarianTest, NpzHasAllTensorsInMariansShapesAndOrder) {
  const fs::path output = exported(marian_options + "  activation: swish\n", ExportFormat::marian);
  const Npz npz(output / "model.npz");
  EXPECT_EQ(npz.tensors.size(), 3U + 2 * 16 + 26) << "a table, a bias, options; two encoder layers, a decoder layer";
  const auto values = [&](const std::string& name) { return npz.tensors.at(name).values(); };
  EXPECT_EQ(values("Wemb"), with_sines_first(ours("embedding"), 8));
  EXPECT_THAT(npz.tensors.at("Wemb").shape, ElementsAre(34, 8));
  const std::vector<float> qkv = with_sines_first(ours("encoder.1.attention.qkv.weight"), 8);
  EXPECT_EQ(values("encoder_l2_self_Wk"), transpose(part(qkv, 64, 64), 8));
  EXPECT_EQ(values("encoder_l2_self_bk"), std::vector<float>(8));
  const std::vector<float> key_value = with_sines_first(ours("decoder.0.cross.key_value.weight"), 8);
  EXPECT_EQ(values("decoder_l1_context_Wv"), transpose(part(key_value, 64, 64), 8));
  // Rows of what writes the stream: columns of its transpose.
  EXPECT_EQ(values("decoder_l1_self_Wo"), with_sines_first(transpose(ours("decoder.0.self.output.weight"), 8), 8));
  EXPECT_EQ(values("encoder_l1_ffn_W1"),
            transpose(with_sines_first(ours("encoder.0.feed_forward.first.weight"), 8), 8));
  EXPECT_THAT(npz.tensors.at("encoder_l1_ffn_W1").shape, ElementsAre(8, 12));
  EXPECT_EQ(values("encoder_l1_ffn_b1"), ours("encoder.0.feed_forward.first.bias"));
  EXPECT_EQ(values("encoder_l1_ffn_b2"), with_sines_first(ours("encoder.0.feed_forward.second.bias"), 8));
  EXPECT_EQ(values("encoder_l2_self_Wo_ln_scale"), with_sines_first(ours("encoder.1.attention_norm.gain"), 8));
  EXPECT_EQ(values("decoder_l1_ffn_ffn_ln_bias"), with_sines_first(ours("decoder.0.feed_forward_norm.bias"), 8));
  EXPECT_EQ(values("decoder_ff_logit_out_b"), std::vector<float>(34));
  EXPECT_THAT(npz.tensors.at("decoder_ff_logit_out_b").shape, ElementsAre(1, 34));
}

TEST_F(MarianTest, OptionsAreInTheModelAndFilesBesideIt) {
  const fs::path output = exported(marian_options + "  activation: swish\n", ExportFormat::marian);
  const Npz npz(output / "model.npz");
  const std::string options(npz.tensors.at("special:model.yml").data);
  EXPECT_EQ(options.find('\0'), options.size() - 1);
  for (const char* line :
       {"type: transformer\n", "dim-vocabs:\n  - 34\n  - 34\n", "dim-emb: 8\n", "enc-depth: 2\n", "dec-depth: 1\n",
        "transformer-heads: 2\n", "transformer-dim-ffn: 12\n", "transformer-ffn-activation: swish\n",
        "tied-embeddings-all: true\n", "tied-embeddings: false\n", "transformer-preprocess: \"\"\n",
        "transformer-postprocess: dan\n", "transformer-postprocess-emb: d\n", "transformer-postprocess-top: \"\"\n"}) {
    EXPECT_THAT(options, HasSubstr(line));
  }
  EXPECT_EQ(read_file(output / "vocab.spm"), vocabulary_);
  EXPECT_THAT(read_file(output / "decoder.yml"), HasSubstr("models:\n  - model.npz\nvocabs:\n  - vocab.spm\n"));
  EXPECT_THAT(read_file(output / "README.md"), HasSubstr("marian-decoder -c exported/decoder.yml"));
  EXPECT_FALSE(fs::exists(output / "npz"));
}

TEST_F(MarianTest, NpzHasThreeTablesAndAllBiasesWhereTheModelHas) {
  const std::string options = "  tied_embeddings: none\n  attention_bias: true\n  output_bias: true\n";
  const Npz npz(exported(marian_options + options, ExportFormat::marian) / "model.npz");
  EXPECT_EQ(npz.tensors.at("encoder_Wemb").values(), with_sines_first(ours("encoder.embedding"), 8));
  EXPECT_EQ(npz.tensors.at("decoder_Wemb").values(), with_sines_first(ours("decoder.embedding"), 8));
  EXPECT_EQ(npz.tensors.at("decoder_ff_logit_out_Wt").values(), with_sines_first(ours("output"), 8));
  EXPECT_EQ(npz.tensors.at("decoder_ff_logit_out_b").values(), ours("output.bias"));
  EXPECT_EQ(npz.tensors.at("decoder_l1_context_bq").values(), ours("decoder.0.cross.query.bias"));
  EXPECT_EQ(npz.tensors.at("decoder_l1_self_bv").values(), part(ours("decoder.0.self.qkv.bias"), 16, 8));
  EXPECT_EQ(npz.tensors.size(), 5U + 2 * 16 + 26);
  const Npz tied(exported(marian_options + "  tied_embeddings: decoder\n", ExportFormat::marian) / "model.npz");
  EXPECT_THAT(std::string(tied.tensors.at("special:model.yml").data),
              AllOf(HasSubstr("tied-embeddings-all: false\n"), HasSubstr("tied-embeddings: true\n")));
  EXPECT_FALSE(tied.tensors.contains("decoder_ff_logit_out_Wt"));
}

TEST_F(MarianTest, BinaryHasMatricesIn8BitsAndTablesOfWholeTiles) {
  width_ = 64, inner_ = 128;
  const std::string options = "  tied_embeddings: none\n  output_bias: true\n";
  const fs::path output = exported(marian_options + options, ExportFormat::bergamot);
  const Binary file(output / "model.bin");
  const std::size_t matrices = 2 * 6 + 10 + 1;  // whose inputs have factors, that of the output under two names
  EXPECT_EQ(file.tensors.size(), 5U + 2 * 16 + 26 + matrices + 1);
  // 34 pieces and 6 that are never chosen.
  std::vector<float> table = with_sines_first(ours("decoder.embedding"), 64);
  table.resize(40 * 64);
  expect_near(file.dequantized("decoder_Wemb"), table);
  EXPECT_THAT(file.tensors.at("decoder_Wemb").shape, ElementsAre(40, 64));
  std::vector<float> bias = ours("output.bias");
  bias.resize(40, -1e9F);
  EXPECT_EQ(part(file.tensors.at("decoder_ff_logit_out_b").values(), 0, 40), bias);
  EXPECT_EQ(file.tensors.at("decoder_ff_logit_out_b").type, 0x404U);
  // Transposed, but with the shape of what is not.
  table = with_sines_first(ours("output"), 64);
  table.resize(40 * 64);
  expect_near(file.dequantized("decoder_ff_logit_out_W"), table);
  EXPECT_THAT(file.tensors.at("decoder_ff_logit_out_W").shape, ElementsAre(64, 40));
  expect_near(file.dequantized("encoder_l1_ffn_W1"), with_sines_first(ours("encoder.0.feed_forward.first.weight"), 64));
  EXPECT_THAT(file.tensors.at("encoder_l1_ffn_W1").shape, ElementsAre(64, 128));
  EXPECT_EQ(part(file.tensors.at("encoder_l1_self_bq").values(), 0, 64), std::vector<float>(64));
  const std::string model_options(file.tensors.at("special:model.yml").data);
  EXPECT_THAT(model_options, HasSubstr("dim-vocabs:\n  - 40\n  - 40\n"));
  EXPECT_EQ(file.tensors.at("special:model.yml").type, 0x101U);
  EXPECT_EQ(file.tensors.at("special:model.yml").shape.at(0), static_cast<std::int64_t>(model_options.find('\0')) + 1);
  EXPECT_THAT(read_file(output / "config.yml"), HasSubstr("gemm-precision: int8shiftAll\n"));
  EXPECT_EQ(read_file(output / "vocab.spm"), vocabulary_);
}

TEST_F(MarianTest, BinaryHasAFactorForTheInputOfEachMatrix) {
  width_ = 64, inner_ = 128;
  const Binary file(exported(marian_options, ExportFormat::bergamot) / "model.bin");
  const auto factor = [&](const std::string& name) { return file.tensors.at(name + "_QuantMultA").values().at(0); };
  // The first layer reads embeddings and positions, of two sentences at a time.
  const Vocabulary vocabulary = Vocabulary::from_bytes(vocabulary_, "test");
  const std::vector<float> table = ours("embedding");
  const std::vector<float> positions = sinusoids(64, model_->config().position_divisor());
  std::vector<double> largest((lines.size() + 1) / 2);
  for (std::size_t line = 0; line < lines.size(); ++line) {
    std::vector<std::int32_t> ids = vocabulary.encode(lines[line]);
    ids.push_back(eos_id);
    for (std::size_t i = 0; i < ids.size() * 64; ++i) {
      const auto element = static_cast<std::size_t>(ids[i / 64]) * 64 + i % 64;
      largest[line / 2] = std::max(largest[line / 2], std::abs(8.0 * table[element] + positions[i]));
    }
  }
  double mean = 0, variance = 0;
  for (const double value : largest) mean += value / static_cast<double>(largest.size());
  for (const double value : largest) variance += (value - mean) * (value - mean) / static_cast<double>(largest.size());
  const double expected = 127 / (mean + 1.1 * std::sqrt(variance));
  for (const char* name : {"encoder_l1_self_Wq", "encoder_l1_self_Wk", "encoder_l1_self_Wv"}) {
    EXPECT_NEAR(factor(name), expected, 1e-4 * expected) << name;
  }
  EXPECT_EQ(factor("none"), factor("Wemb"));
  EXPECT_EQ(factor("decoder_l1_context_Wk"), factor("decoder_l1_context_Wv"));
  EXPECT_NE(factor("decoder_l1_context_Wk"), factor("decoder_l1_context_Wq"));
}

TEST_F(MarianTest, RefusesEachOptionThatMarianLacksByNameAndValue) {
  const auto refusal = [&](const std::string& options, ExportFormat format) {
    try {
      exported(options, format);
    } catch (const UsageFailure& failure) {
      return std::string(failure.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(
      refusal("  activation: gelu\n", ExportFormat::marian),
      "export: Marian needs a model with model.norm: post (found pre), model.norm_epsilon: 1e-6 (found 1e-05), "
      "model.positions: marian (found sinusoid), model.decoder_start: zero (found bos), model.activation: relu or "
      "swish (found gelu)");
  EXPECT_EQ(refusal(marian_options, ExportFormat::bergamot),
            "export: Bergamot needs a model with model.width: a multiple of 64 (found 8), model.inner: a multiple of "
            "64 (found 12)");
  EXPECT_FALSE(fs::exists(folder_.path() / "2" / "exported"));
}

TEST_F(MarianTest, TheSameCheckpointGivesTheSameBytes) {
  width_ = 64, inner_ = 128;
  for (const ExportFormat format : {ExportFormat::marian, ExportFormat::bergamot}) {
    const fs::path first = exported(marian_options, format), second = exported(marian_options, format);
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(first)) {
      names.push_back(entry.path().filename());
      EXPECT_EQ(read_file(entry.path()), read_file(second / names.back())) << names.back();
    }
    const bool is_marian = format == ExportFormat::marian;
    EXPECT_THAT(names, testing::UnorderedElementsAre(is_marian ? "model.npz" : "model.bin",
                                                     is_marian ? "decoder.yml" : "config.yml", "vocab.spm",
                                                     "conformance.jsonl", "README.md"));
  }
}

}  // namespace
}  // namespace babelring
