#include "base/options/program.h"

#include <gtest/gtest.h>

#include <new>

#include "base/failure.h"

namespace babelring {
namespace {

struct Ended {
  int code = 0;
  std::string said;
};

Ended end_of(const std::function<int()>& work) {
  testing::internal::CaptureStderr();
  const int code = run_program("tool", work);
  return {code, testing::internal::GetCapturedStderr()};
}

TEST(RunProgram, ExitsAsTheWorkEnds) {
  EXPECT_EQ(end_of([] { return 3; }).code, 3);
  const Ended wrong = end_of([]() -> int { throw UsageFailure("--beam: found 0, expected 1 to 10"); });
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.said, "tool: --beam: found 0, expected 1 to 10\n");
  const Ended failed = end_of([]() -> int { throw Failure("a.txt: no such file"); });
  EXPECT_EQ(failed.code, 1);
  EXPECT_EQ(failed.said, "tool: a.txt: no such file\n");
}

TEST(RunProgram, SaysInAWordThatMemoryIsOut) {
  const Ended out = end_of([]() -> int { throw std::bad_alloc(); });
  EXPECT_EQ(out.code, 1);
  EXPECT_EQ(out.said.substr(0, 20), "tool: out of memory:");
  EXPECT_EQ(out.said.find('\n'), out.said.size() - 1);
}

}  // namespace
}  // namespace babelring
