#include "cli/trace/dry_options.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "tests/lab/parameters/example_window.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

class TraceParameters : public testing::Test {
 protected:
  TraceParameters() {
    ParameterWindow window = example_window();
    write_window(run / "lab", window);
    window.last_update = 200, window.first_update = 101;
    window.rows[4].ratios = 100;
    write_window(run / "lab", window);
  }
  /// The output of `parameters RUN` with these options.
  std::string shown(const std::string& options) {
    CLI::App app;
    add_trace_parameters(app);
    testing::internal::CaptureStdout();
    try {
      app.parse("parameters " + run.path().string() + " " + options);
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
  }
  TemporaryFolder run;
};

TEST_F(TraceParameters, ShowsTheHottestUnitsOfTheNewestWindow) {
  const std::string table = shown("--unit row --top 2");
  EXPECT_THAT(table, StartsWith("updates 101 to 200, 100 counted: 29 rows of 6 parameters\n"));
  EXPECT_THAT(table, HasSubstr("cold (changed in under 1 % of updates): 3.4 %;"));
  EXPECT_THAT(table, HasSubstr("encoder.0.attention.qkv.weight[1]"));
  EXPECT_THAT(table, HasSubstr("q head 0"));
  EXPECT_THAT(table, HasSubstr("1.00e+00"));
  EXPECT_THAT(shown("--unit head"), HasSubstr("decoder.0.cross head 1"));
}

TEST_F(TraceParameters, PrintsCsvAndJson) {
  EXPECT_EQ(shown("--unit row --sort changed --coldest --top 1 --csv"),
            "name,label,rows,changed,changed_elements,visible,untouched,ratio,max_ratio\n"
            "\"encoder.embedding[1]\",\"\",1,0,0,0,1,0,0\n");
  const json::value parsed =
      parse_json(shown("--unit row --sort visible --coldest --top 2 --update 100 --json")).value();
  EXPECT_EQ(parsed.at("first_update"), 1);
  EXPECT_EQ(parsed.at("units").as_array().size(), 2U);
  EXPECT_EQ(parsed.at("units").at(1).at("name"), "encoder.embedding[2]");
  EXPECT_EQ(parsed.at("units").at(1).at("changed"), 0.5);
}

/// At the end of a training, the newest window may hold a few updates only.
TEST_F(TraceParameters, ShowsTheWindowBeforeAStump) {
  ParameterWindow last = example_window();
  last.first_update = 201, last.last_update = 203, last.updates = 3;
  write_window(run / "lab", last);
  testing::internal::CaptureStderr();
  EXPECT_THAT(shown(""), StartsWith("updates 101 to 200, 100 counted"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "updates 101 to 200, before the newest window, which has only 3 updates (--update 203 shows it)\n");
  EXPECT_THAT(shown("--update 203"), StartsWith("updates 201 to 203, 3 counted"));
}

/// Biases begin at 0, so that their ratios are large without saying much.
TEST_F(TraceParameters, SortsVectorsBehindMatricesByRatio) {
  const json::value parsed = parse_json(shown("--json")).value();
  EXPECT_EQ(parsed.at("units").as_array().back().at("name"), "encoder.0.feed_forward.first.bias");
  EXPECT_EQ(parsed.at("units").at(0).at("name"), "encoder.0.attention.qkv.weight");
}

/// For scripts made for another tracer's log.
TEST_F(TraceParameters, WritesALineForEachWindow) {
  shown("--log " + (run / "log").string());
  EXPECT_EQ(read_file(run / "log"),
            "1795247730, 100: 0:100 1:100 2:100 3:100 4:100 5:100\n"
            "1795247730, 200: 0:100 1:100 2:100 3:100 4:100 5:100\n");
}

TEST_F(TraceParameters, RefusesWhatIsNotThere) {
  EXPECT_THAT(
      [&] { shown("--update 150"); },
      ThrowsMessage<Failure>(HasSubstr("no window ends with update 150; there are 2 from parameters-00000100 to "
                                       "parameters-00000200")));
  EXPECT_THROW(shown("--unit column"), CLI::ValidationError);
  EXPECT_THROW(shown("--json --csv"), CLI::ExcludesError);
  std::filesystem::remove_all(run / "lab");
  EXPECT_THAT([&] { shown(""); }, ThrowsMessage<Failure>(HasSubstr("found no parameters-*.json")));
}

}  // namespace
}  // namespace babelring
