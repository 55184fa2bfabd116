#include "worker/delivery.h"

#include <gtest/gtest.h>

namespace babelring {
namespace {

TEST(Delivery, OnlyStatusesAboutTheRecordsRefuseThem) {
  for (const int status : {200, 204}) EXPECT_EQ(delivery_of(status), Delivery::stored) << status;
  for (const int status : {400, 409, 413, 422}) EXPECT_EQ(delivery_of(status), Delivery::refused) << status;
  for (const int status : {401, 403}) EXPECT_EQ(delivery_of(status), Delivery::barred) << status;
  for (const int status : {301, 404, 405, 408, 421, 429, 500, 503, 507}) {
    EXPECT_EQ(delivery_of(status), Delivery::again) << status;
  }
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
