#include "server/http/accept.h"

#include <gtest/gtest.h>

#include <array>

namespace babelring::http {
namespace {

/// Which of json, csv and text the header accepts.
std::string accepted(std::string_view accept) {
  static const std::array<std::string, 3> types = {"application/json", "text/csv", "text/plain"};
  const auto place = accepted_type(accept, types);
  return place ? types.at(*place) : "none";
}

TEST(Accept, TakesThePreferredType) {
  EXPECT_EQ(accepted(""), "application/json");
  EXPECT_EQ(accepted("*/*"), "application/json");
  EXPECT_EQ(accepted("text/csv"), "text/csv");
  EXPECT_EQ(accepted("Text/CSV; charset=utf-8"), "text/csv");
  EXPECT_EQ(accepted("text/*"), "text/csv");
  EXPECT_EQ(accepted("text/*;q=0.5, text/plain"), "text/plain");
  EXPECT_EQ(accepted("application/json;q=0.1, text/plain;q=0.3, text/csv;q=0.2"), "text/plain");
  EXPECT_EQ(accepted("text/html, image/gif, *; q=.2, */*; q=.2"), "application/json");
  EXPECT_EQ(accepted("*/*, application/json;q=0"), "text/csv") << "the closest range decides";
}

TEST(Accept, TakesNoneWhereNoneIsTaken) {
  EXPECT_EQ(accepted("text/html"), "none");
  EXPECT_EQ(accepted("*/*;q=0"), "none");
  EXPECT_EQ(accepted("textcsv, /, ;q=1"), "none");
  EXPECT_EQ(accepted("text/csv;q=0.0"), "none");
  EXPECT_EQ(accepted_type("*/*", {}), std::nullopt);
}

}  // namespace
}  // namespace babelring::http
