#include "lab/parameters/parameter_window.h"

#include <gmock/gmock.h>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/lab/parameters/example_window.h"

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

}  // namespace
}  // namespace babelring
