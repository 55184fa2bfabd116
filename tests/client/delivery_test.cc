#include "client/delivery.h"

#include <gtest/gtest.h>

namespace babelring {
namespace {

HttpResponse answer(int status, const std::string& body) {
  return {.status = status, .body = body, .retry_after = {}};
}
HttpResponse problem(int status, const std::string& code) {
  return answer(status, R"({"code":")" + code + R"(","title":"t","detail":"d"})");
}

TEST(Delivery, OnlyTheServersOwnCountsConfirmRecords) {
  EXPECT_EQ(delivery_of(answer(200, R"({"accepted":3,"duplicates":2})"), 5), Delivery::stored);
  for (const char* body : {"", "{}", "<html>", R"({"accepted":5})", R"({"accepted":3,"duplicates":1})", "[5]"}) {
    EXPECT_EQ(delivery_of(answer(200, body), 5), Delivery::again) << body;
  }
}

TEST(Delivery, OnlyTheServersOwnCodesRefuseRecordsOrTokens) {
  for (const char* code : {"record_refused", "rank_refused", "sequence_refused"}) {
    EXPECT_EQ(delivery_of(problem(422, code), 1), Delivery::refused) << code;
  }
  EXPECT_EQ(delivery_of(problem(409, "attempt_refused"), 1), Delivery::refused);
  EXPECT_EQ(delivery_of(problem(413, "too_large"), 1), Delivery::refused);
  EXPECT_EQ(delivery_of(problem(400, "bad_json"), 1), Delivery::refused);
  EXPECT_EQ(delivery_of(answer(413, "<html>"), 1), Delivery::oversized);
  for (const int status : {401, 403}) {
    EXPECT_EQ(delivery_of(problem(status, "token_invalid"), 1), Delivery::barred);
    EXPECT_EQ(delivery_of(problem(status, "origin_refused"), 1), Delivery::again);
    EXPECT_EQ(delivery_of(answer(status, "<html>"), 1), Delivery::again);
  }
  for (const char* code : {"tls_wanted", "malformed", ""}) {
    EXPECT_EQ(delivery_of(problem(400, code), 1), Delivery::again) << code;
  }
  for (const int status : {301, 308, 400, 404, 405, 408, 409, 421, 422, 429, 500, 503, 507}) {
    EXPECT_EQ(delivery_of(answer(status, "[]"), 1), Delivery::again) << status;
  }
  EXPECT_EQ(delivery_of(problem(503, "record_refused"), 1), Delivery::again);
}

TEST(Delivery, ExplainsInOneLine) {
  EXPECT_EQ(explain({422, R"({"title":"Unprocessable Content","detail":"records[0]: no\nsuch"})", {}}),
            "422 Unprocessable Content: records[0]: no\\x0asuch");
  EXPECT_EQ(explain({413, R"({"title":"Content Too Large"})", {}}), "413 Content Too Large");
  EXPECT_EQ(explain({400, "<html>", {}}), "400 <html>");
  EXPECT_EQ(explain({400, std::string(5000, 'x'), {}}).size(), 104u);
}

}  // namespace
}  // namespace babelring
