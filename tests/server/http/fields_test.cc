#include "server/http/fields.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/server/api_fixture.h"

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

namespace babelring {
namespace {

using testing::Answer;
using testing::Client;

std::string detail_of(const std::string& target, const std::vector<std::string>& known) {
  const auto fault = http::query_fault(target, known);
  return fault ? fault->code() + ": " + fault->what() : "";
}

TEST(QueryFault, NamesTheParameterAndWhatIsNear) {
  const std::vector<std::string> known = {"limit", "cursor", "q"};
  for (const char* target : {"/a", "/a?", "/a?limit=5", "/a?limit=5&", "/a?limit=5&&q=x", "/a?q", "/a?q=a%26b=c"}) {
    EXPECT_EQ(detail_of(target, known), "") << target;
  }
  EXPECT_EQ(detail_of("/a?limt=5", known),
            "unknown_parameter: query parameter 'limt' is unknown; did you mean 'limit'?");
  EXPECT_EQ(detail_of("/a?q=1&nonsense", known),
            "unknown_parameter: query parameter 'nonsense' is unknown; expected one of limit, cursor, q");
  EXPECT_EQ(detail_of("/a?x=1", {}), "unknown_parameter: query parameter 'x' is unknown; none is taken here");
  EXPECT_EQ(detail_of("/a?Limit=1", known),
            "unknown_parameter: query parameter 'Limit' is unknown; did you mean 'limit'?");
  EXPECT_EQ(detail_of("/a?limit=1&q=x&limit=1", known), "bad_parameter: query parameter 'limit' is given twice");
  EXPECT_EQ(detail_of("/a?limit=1&%6cimit=1", known), "bad_parameter: query parameter 'limit' is given twice");
  EXPECT_TRUE(detail_of("/a?=1", known).starts_with("unknown_parameter"));
}

TEST(EntityTags, SkipsWeakTagsOfAList) {
  using Tags = std::vector<std::string_view>;
  EXPECT_EQ(http::entity_tags(R"("a", W/"b",  "c,d")", http::WeakTags::skip), (Tags{R"("a")", R"("c,d")"}));
  EXPECT_EQ(http::entity_tags(R"(W/"a")", http::WeakTags::skip), Tags());
  EXPECT_EQ(http::entity_tags(R"("a", W/"b")", http::WeakTags::take), (Tags{R"("a")", R"("b")"}));
  EXPECT_EQ(http::entity_tags(R"("a" b "c")", http::WeakTags::skip), (Tags{R"("a")"}));
  EXPECT_EQ(http::entity_tags(R"("a)", http::WeakTags::skip), Tags());
  EXPECT_EQ(http::entity_tags("", http::WeakTags::skip), Tags());
  EXPECT_TRUE(http::if_match_holds("", R"("a")"));
  EXPECT_TRUE(http::if_match_holds(" * ", R"("a")"));
  EXPECT_TRUE(http::if_match_holds(R"("b", "a")", R"("a")"));
  EXPECT_FALSE(http::if_match_holds(R"(W/"a")", R"("a")"));
  EXPECT_FALSE(http::if_match_holds("a", R"("a")"));
}

class QueryTest : public testing::ApiFixture {
 protected:
  std::string code(const Answer& answer) { return std::string(object(answer).at("code").as_string()); }
};

TEST_F(QueryTest, EveryRouteRefusesUnknownParameters) {
  post({testing::step_record(1, 1)});
  EXPECT_GT(api::route_table().size(), 50u);
  for (const api::RouteEntry& route : api::route_table()) {
    std::string path(route.path);
    if (const auto run = path.find("{run}"); run != std::string::npos) path.replace(run, 5, testing::run_id);
    for (char& c : path) c = c == '{' || c == '}' ? 'x' : c;
    const std::string method(route.method);
    SCOPED_TRACE(method + " " + path);
    const Answer answer = Client(server.port()).request(method, path + "?nonsense=1");
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(code(answer), "unknown_parameter");
    EXPECT_NE(answer.body.find("nonsense"), std::string::npos);
  }
  const auto anonymous = Client(server.port(), "").get("/api/v1/runs?nonsense=1");
  EXPECT_EQ(anonymous.status, 401) << "what is taken is told to those who may ask";
}

TEST_F(QueryTest, ValuesAreAlwaysLookedAt) {
  post({testing::step_record(1, 1)});
  for (const char* query : {"/logs?limit=-1", "/logs?limit=5001&tail=3", "/logs?tail=0&after=1", "/logs?level=nonsense",
                            "/metrics/loss?agg=raw&points=1", "/metrics/loss?agg=raw&points=x", "/ranks?limit=0"}) {
    const Answer answer = Client(server.port()).get(run_path(query));
    EXPECT_EQ(answer.status, 400) << query;
    EXPECT_EQ(code(answer), "bad_parameter") << query;
  }
  EXPECT_EQ(Client(server.port()).get(run_path("/logs?level=warn&limit=5000&tail=1")).status, 200);
  EXPECT_EQ(Client(server.port()).get(run_path("/metrics/loss?agg=raw&points=1000000")).status, 200);
}

TEST_F(QueryTest, RanksComeInPages) {
  for (std::int64_t rank = 0; rank < 5; ++rank) testing::put(server.store(), {testing::step_record(1, 1, rank * 100)});
  std::vector<std::int64_t> ranks;
  std::string path = run_path("/ranks?limit=2");
  for (std::size_t pages = 1; !path.empty(); ++pages) {
    ASSERT_LE(pages, 3u);
    const Answer answer = Client(server.port()).get(path);
    const auto page = object(answer);
    EXPECT_EQ(page.at("attempt"), 1);
    for (const auto& item : page.at("items").as_array()) ranks.push_back(item.at("rank").as_int64());
    path.clear();
    if (!answer.headers.contains("link")) continue;
    const std::string& link = answer.headers.at("link");
    path = link.substr(1, link.find('>') - 1);
    EXPECT_NE(path.find(page.at("next_cursor").as_string()), std::string::npos);
  }
  EXPECT_EQ(ranks, (std::vector<std::int64_t>{0, 100, 200, 300, 400}));
}

TEST_F(QueryTest, AnEmptyObjectIsAsGoodAsNoBody) {
  EXPECT_EQ(Client(server.port()).post("/api/v1/admin/backup", "{}").status, 202);
  const auto refused = Client(server.port()).post("/api/v1/admin/backup", R"({"to":"/tmp"})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(code(refused), "bad_body");
  EXPECT_EQ(code(Client(server.port()).post("/api/v1/alerts/a_x/ack", "[]")), "bad_body");
  EXPECT_EQ(code(Client(server.port()).post("/api/v1/alerts/a_x/ack", "{}")), "alert_unknown");
  EXPECT_EQ(code(Client(server.port()).post("/api/v1/alerts/a_x/ack", "")), "alert_unknown");
  const auto put = Client(server.port()).request("PUT", "/api/v1/checkpoints/c_x/pin", "{}");
  EXPECT_EQ(put.status, 413);
  EXPECT_EQ(object(put).at("detail"), "the body has 2 bytes; PUT takes no body here");
}

}  // namespace

}  // namespace babelring
