#include "cli/probe/report.h"

#include <gtest/gtest.h>

#include <sstream>

namespace babelring {
namespace {

TEST(ProbeCompareReport, NamesLibrariesBeforeItAccusesAnOp) {
  ProbeRecord a{.update = 1, .phase = "forward", .layer = "encoder.0", .op = "linear_forward", .member = "y"};
  ProbeRecord b = a;
  ProbeComparison comparison{.sameness = Sameness::differs, .first = 0, .cause = FirstCause::op};
  comparison.pairs.push_back({.a = &a, .b = &b, .sameness = Sameness::differs});
  comparison.library_lines = {"oneDNN differs: 2.6.3 / 3.7.2", "glibc differs: 2.36 / 2.41"};
  std::ostringstream out;
  print_comparison(comparison, {}, {.out = out});
  const std::string text = out.str();
  EXPECT_TRUE(
      text.starts_with("probes: differ\noneDNN differs: 2.6.3 / 3.7.2\nglibc differs: 2.36 / 2.41\n"
                       "first divergence: "))
      << text;
  EXPECT_NE(text.find("this op differs"), std::string::npos) << text;
}

}  // namespace
}  // namespace babelring
