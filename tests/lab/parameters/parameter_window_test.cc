#include "lab/parameters/parameter_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/failure.h"
#include "base/files.h"
#include "nmt/model/transformer.h"
#include "nmt/ops/dry_backend.h"
#include "tests/lab/parameters/example_window.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ParameterWindow, ReadsWhatItWrote) {
  const TemporaryFolder run;
  const ParameterWindow window = example_window();
  const auto file = write_window(run / "lab", window);
  EXPECT_EQ(file, run / "lab" / "parameters-00000100.json");
  const ParameterWindow read = read_window(file);
  EXPECT_EQ(read.rows, window.rows);
  EXPECT_EQ(read.run, window.run);
  EXPECT_EQ(read.last_update, 100);
  EXPECT_EQ(read.heads, 2);
  EXPECT_EQ(read.precision, "bf16");
  ASSERT_EQ(read.parameters.size(), window.parameters.size());
  for (std::size_t i = 0; i < read.parameters.size(); ++i) {
    EXPECT_EQ(read.parameters[i].name, window.parameters[i].name);
    EXPECT_EQ(read.parameters[i].first_row, window.parameters[i].first_row);
    EXPECT_EQ(read.parameters[i].kind, window.parameters[i].kind);
  }
}

TEST(ParameterWindow, ListsTheWindowsOfARun) {
  const TemporaryFolder run;
  EXPECT_THAT([&] { find_windows(run.path()); },
              ThrowsMessage<Failure>(HasSubstr("/lab: found no parameters-*.json; lab.parameters.window=1000u")));
  ParameterWindow window = example_window();
  for (const std::int64_t last : {200, 100}) {
    window.last_update = last;
    write_window(run / "lab", window);
  }
  EXPECT_EQ(find_windows(run.path()),
            (std::vector{run / "lab" / "parameters-00000100.json", run / "lab" / "parameters-00000200.json"}));
}

TEST(ParameterWindow, RefusesAWindowWithoutACountedUpdate) {
  const TemporaryFolder run;
  ParameterWindow window = example_window();
  window.updates = 0;
  EXPECT_THAT([&] { window_json(window, nullptr); },
              ThrowsMessage<Failure>("parameters: no update from 1 to 100 was counted, all were skipped"));
}

TEST(ParameterWindow, RefusesBadFiles) {
  const TemporaryFolder run;
  const auto file = write_window(run.path(), example_window());
  const std::string good = read_file(file);
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  const auto refusal = [&](const std::string& content, const std::string& message) {
    write_file_atomically(file, content);
    EXPECT_THAT([&] { read_window(file); },
                ThrowsMessage<Failure>(AllOf(HasSubstr("parameters-00000100"), HasSubstr(message))));
  };
  refusal("", "");
  refusal(good.substr(0, good.size() / 2), "");
  refusal("[]", "format is 0, 1 is needed");
  refusal(replaced("\"format\":1", "\"format\":2"), "format is 2, 1 is needed");
  refusal(replaced("\"updates\":100", "\"updates\":0"), "the window has no counted update");
  refusal(replaced("\"parameters\":", "\"others\":"), "no parameters");
  refusal(replaced("\"rows\":3", "\"rows\":0"), "parameter 'encoder.embedding' has 0 rows of 4 elements");
  refusal(replaced("\"rows\":3", "\"rows\":4"), "changed");  // the safetensors file has one row less
  write_file_atomically(file, good);
  std::filesystem::remove(run / "parameters-00000100.safetensors");
  EXPECT_THROW(read_window(file), Failure);
}

/// Every parameter of a model with three tables has the kind that its name says.
TEST(TracedParameters, KnowWhatTheRowsOfAModelAre) {
  ModelConfig config = model_preset("transformer-tiny");
  config.tied_embeddings = TiedEmbeddings::none;
  const auto backend = make_dry_backend();
  const Transformer model(config, 100, 0, *backend, DType::f32);
  Adam adam(model.parameters(), *backend, {});
  adam.freeze(model.parameters().all()[0]);
  std::map<std::string, int> kinds;
  std::int64_t rows = 0;
  for (const TracedParameter& parameter : traced_parameters(model.parameters(), adam)) {
    ++kinds[name_of(parameter.kind)];
    EXPECT_EQ(parameter.first_row, rows) << parameter.name;
    EXPECT_EQ(parameter.frozen, rows == 0) << parameter.name;
    rows += parameter.rows;
  }
  EXPECT_EQ(kinds["subwords"], 3);
  EXPECT_EQ(kinds["neurons"], 2 * 8) << "weights and biases of 4 + 4 layers";
  EXPECT_EQ(kinds["heads"], 4 + 4 * 3);
  EXPECT_EQ(kinds["outputs"], 4 * 2 + 4 * 3);
}

TEST(TracedParameters, NameTheHeadOfARow) {
  const TracedParameter qkv{.name = "encoder.0.attention.qkv.weight", .rows = 24, .width = 8, .kind = RowKind::heads};
  EXPECT_EQ(row_label(qkv, 0, 2, nullptr), "q head 0");
  EXPECT_EQ(row_label(qkv, 7, 2, nullptr), "q head 1");
  EXPECT_EQ(row_label(qkv, 8, 2, nullptr), "k head 0");
  EXPECT_EQ(row_label(qkv, 23, 2, nullptr), "v head 1");
  const TracedParameter kv{.name = "decoder.0.cross.key_value.weight", .rows = 16, .width = 8, .kind = RowKind::heads};
  EXPECT_EQ(row_label(kv, 4, 2, nullptr), "k head 1");
  EXPECT_EQ(row_label(kv, 8, 2, nullptr), "v head 0");
  const TracedParameter table{.name = "embedding", .rows = 3, .width = 8, .kind = RowKind::subwords};
  EXPECT_EQ(row_label(table, 2, 2, nullptr), "") << "no vocabulary";
}

}  // namespace

}  // namespace babelring
