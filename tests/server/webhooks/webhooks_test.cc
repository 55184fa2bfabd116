#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/digest.h"
#include "base/json.h"
#include "server/alerts/alert_watch.h"
#include "server/store/webhooks.h"
#include "server/webhooks/digest.h"
#include "server/webhooks/message.h"
#include "server/webhooks/sender.h"
#include "tests/client/scripted_server.h"
#include "tests/server/api_fixture.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::Answer;
using testing::Client;
using ::testing::HasSubstr;
using testing::run_id;

const std::string page = "https://train.example/";

store::AlertRow alert_of(const std::string& kind, const std::string& message, const std::string& run = run_id) {
  store::AlertRow alert;
  alert.rule = alert.kind = kind;
  alert.run = run;
  alert.message = message;
  alert.raised_ms = 1'700'000'000'000;
  alert.update = 40;
  return alert;
}

/// A server with a run, and receivers that it tells.
class WebhooksTest : public testing::ApiFixture {
 protected:
  WebhooksTest() {
    testing::put(server.store(), {testing::step_record(1, 1)});
    Client(server.port()).request("PATCH", run_path(), R"({"name": "big", "labels": {"team": "mt"}})");
  }
  Answer create(const std::string& url, const std::string& more = "", const std::string& kind = "json") {
    const std::string body = R"({"name": "ops", "kind": ")" + kind + R"(", "url": ")" + url + '"' + more + '}';
    return Client(server.port()).post("/api/v1/webhooks", body);
  }
  std::string created(const std::string& url, const std::string& more = "", const std::string& kind = "json") {
    const Answer answer = create(url, more, kind);
    EXPECT_EQ(answer.status, 201) << answer.body;
    return "/api/v1/webhooks/" + get_text(object(answer), "id");
  }
  Answer edit(const std::string& path, const std::string& body) {
    return Client(server.port()).request("PATCH", path, body);
  }
  /// Stores the alert as the watch does.
  bool tell(store::AlertRow alert, bool is_event = false) {
    return server.store().write([&](store::Database& database) {
      auto raised = store::raise_alert(database, alert);
      EXPECT_TRUE(raised);
      return webhooks::queue_alert(database, *raised, is_event);
    });
  }
  webhooks::SenderOptions quick() { return {.first_pause = 20ms, .max_pause = 50ms}; }
  std::unique_ptr<webhooks::Sender> sender(const webhooks::SenderOptions& options) {
    auto made = std::make_unique<webhooks::Sender>(server.store(), options);
    made->start(page);
    server.service().webhooks = made.get();
    return made;
  }
  json::object newest_delivery(const std::string& path) {
    const json::object answer = get(path + "/deliveries");
    const json::array& items = answer.at("items").as_array();
    return items.empty() ? json::object() : items.front().as_object();
  }
  bool reaches(const std::string& path, const std::string& state) {
    return soon([&] { return get_text(newest_delivery(path), "state") == state; });
  }
};

TEST_F(WebhooksTest, DeliversASignedMessageWithTheAlertAndItsRun) {
  ScriptedServer receiver([](const ScriptedRequest&) { return ScriptedAnswer{.status = 204}; });
  const std::string path =
      created(receiver.address() + "/hook?key=1", R"(, "secret": "0123456789abcdef", "labels": ["team=mt"])");
  ASSERT_TRUE(tell(alert_of("stall", "no update for 61 s")));
  const auto sending = sender(quick());
  ASSERT_TRUE(reaches(path, "delivered"));
  ASSERT_EQ(receiver.requests().size(), 1u);
  const ScriptedRequest request = receiver.requests().front();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/hook?key=1");
  EXPECT_EQ(request.header("x-babelring-signature"), "sha256=" + hmac_sha256_hex("0123456789abcdef", request.body));
  EXPECT_EQ(request.header("x-babelring-event"), "alert_raised");
  EXPECT_EQ(request.header("x-babelring-delivery"), get_text(newest_delivery(path), "id"));
  const json::object body = parse_json(request.body).value().as_object();
  EXPECT_EQ(get_text(body, "id"), request.header("x-babelring-delivery"));
  EXPECT_EQ(get_text(body, "title"), "big: stall");
  EXPECT_EQ(get_text(body, "link"), page + "#/runs/" + run_id);
  EXPECT_EQ(get_text(body.at("alert").as_object(), "message"), "no update for 61 s");
  EXPECT_EQ(get_text(body.at("run").as_object(), "id"), run_id);
  EXPECT_EQ(get(path).at("last").at("status"), 204);
}

TEST_F(WebhooksTest, TriesAgainInOrderAndWithTheSameIdUntilTaken) {
  ScriptedServer receiver([](const ScriptedRequest& request) {
    return request.number < 2 ? ScriptedAnswer{.status = 500, .body = "out of order"} : ScriptedAnswer{};
  });
  const std::string path = created(receiver.address());
  tell(alert_of("stall", "first"));
  tell(alert_of("silent", "second"));
  const auto sending = sender(quick());
  ASSERT_TRUE(receiver.wait_for_requests(4));
  ASSERT_TRUE(reaches(path, "delivered"));
  const auto requests = receiver.requests();
  ASSERT_EQ(requests.size(), 4u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(requests[i].header("x-babelring-delivery"), requests[0].header("x-babelring-delivery"));
    EXPECT_EQ(requests[i].body, requests[0].body);
  }
  EXPECT_THAT(requests[3].body, HasSubstr("second"));
  const json::object answer = get(path + "/deliveries");
  const json::array& items = answer.at("items").as_array();
  EXPECT_EQ(items.at(1).at("tries"), 3);
  EXPECT_EQ(items.at(0).at("tries"), 1);
}

TEST_F(WebhooksTest, KeepsWhatWaitsOverARestart) {
  std::string path;
  {
    ScriptedServer receiver([](const ScriptedRequest&) { return ScriptedAnswer{.status = 503}; });
    path = created(receiver.address());
    tell(alert_of("failed", "failed at update 40"), true);
    const auto sending = sender(quick());
    ASSERT_TRUE(receiver.wait_for_requests(2));
    server.service().webhooks = nullptr;
  }
  const json::object waiting = newest_delivery(path);
  EXPECT_EQ(get_text(waiting, "state"), "waiting");
  server.restart();
  ScriptedServer receiver([](const ScriptedRequest&) { return ScriptedAnswer{}; });
  const auto sending = sender(quick());
  EXPECT_EQ(edit(path, R"({"url": ")" + receiver.address() + "\"}").status, 200);
  ASSERT_TRUE(reaches(path, "delivered"));
  EXPECT_EQ(receiver.requests().front().header("x-babelring-delivery"), get_text(waiting, "id"));
}

TEST_F(WebhooksTest, GivesUpWhatIsRefusedOrTooOld) {
  ScriptedServer elsewhere([](const ScriptedRequest&) { return ScriptedAnswer{}; });
  ScriptedServer receiver([&](const ScriptedRequest& request) {
    if (request.target == "/moved") {
      return ScriptedAnswer{.status = 307, .headers = {"Location: " + elsewhere.address() + "/"}};
    }
    return ScriptedAnswer{.status = request.target == "/gone" ? 410 : 500, .body = R"({"detail": "no such hook"})"};
  });
  const std::string gone = created(receiver.address() + "/gone"), moved = created(receiver.address() + "/moved"),
                    broken = created(receiver.address() + "/broken"), closed = created("http://127.0.0.1:1/");
  tell(alert_of("stall", "no update"));
  webhooks::SenderOptions options = quick();
  options.give_up = 0ms;
  const auto sending = sender(options);
  for (const std::string& path : {gone, moved, broken, closed}) ASSERT_TRUE(reaches(path, "failed")) << path;
  EXPECT_THAT(get_text(newest_delivery(gone), "detail"), HasSubstr("no such hook"));
  EXPECT_THAT(get_text(newest_delivery(moved), "detail"), HasSubstr("redirects are not followed"));
  EXPECT_EQ(newest_delivery(moved).at("status"), 307);
  EXPECT_THAT(get_text(newest_delivery(closed), "detail"), HasSubstr("Connection refused"));
  EXPECT_EQ(newest_delivery(closed).at("status"), nullptr);
  EXPECT_TRUE(elsewhere.requests().empty());
}

TEST_F(WebhooksTest, IgnoresAReceiverThatDoesNotAnswerInTime) {
  ScriptedServer silent([](const ScriptedRequest&) { return ScriptedAnswer{.silent = true}; });
  ScriptedServer receiver([](const ScriptedRequest&) { return ScriptedAnswer{}; });
  const std::string stuck = created(silent.address()), well = created(receiver.address());
  tell(alert_of("stall", "no update"));
  webhooks::SenderOptions options = quick();
  options.timeout = 200ms;
  const auto sending = sender(options);
  ASSERT_TRUE(reaches(well, "delivered"));
  EXPECT_TRUE(soon([&] { return newest_delivery(stuck).at("tries").to_number<int>() > 1; }));
  EXPECT_THAT(get_text(newest_delivery(stuck), "detail"), HasSubstr("receive: "));
}

TEST_F(WebhooksTest, TellsOnlyOfWhatIsWanted) {
  const std::string other = "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3F";
  created("http://127.0.0.1:1/", R"(, "alert_kinds": ["nan"])");
  created("http://127.0.0.1:1/", R"(, "runs": [")" + other + "\"]");
  created("http://127.0.0.1:1/", R"(, "labels": ["team=asr"])");
  created("http://127.0.0.1:1/", R"(, "labels": ["owner"])");
  created("http://127.0.0.1:1/", R"(, "enabled": false)");
  EXPECT_FALSE(tell(alert_of("stall", "no update")));
  EXPECT_TRUE(tell(alert_of("nan", "not finite")));
  EXPECT_FALSE(tell(alert_of("disk_low", "full", "")));
  const std::string all = created("http://127.0.0.1:1/", R"(, "cleared": true)");
  EXPECT_TRUE(tell(alert_of("disk_low", "full", "/")));
  const auto clear = [&](const std::string& kind, bool is_event) {
    return server.store().write([&](store::Database& database) {
      const auto cleared = store::clear_alert(database, kind, run_id, "", wall_time_ms());
      EXPECT_TRUE(cleared);
      return webhooks::queue_alert(database, *cleared, is_event);
    });
  };
  EXPECT_TRUE(clear("stall", false));
  EXPECT_EQ(get_text(newest_delivery(all), "title"), "big: stall is over");
  EXPECT_FALSE(clear("nan", true)) << "the end of an event is no news";
}

TEST_F(WebhooksTest, SendsWhatIsDueInAFarFutureAsTheClockWasSetBack) {
  ScriptedServer receiver([](const ScriptedRequest&) { return ScriptedAnswer{}; });
  const std::string path = created(receiver.address());
  tell(alert_of("stall", "no update"));
  server.store().write([](store::Database& database) {
    store::DeliveryRow delivery = store::list_deliveries(database, 1, 0, 1).front();
    delivery.due_ms += std::int64_t{30} * 86'400'000;
    store::store_try(database, delivery);
  });
  const auto sending = sender(quick());
  ASSERT_TRUE(reaches(path, "delivered"));
}

TEST_F(WebhooksTest, DropsTheOldestWhereTooManyWait) {
  const std::string path = created("http://127.0.0.1:1/");
  server.store().write([&](store::Database& database) {
    const auto webhook = store::list_webhooks(database).front();
    for (int i = 0; i <= store::max_waiting; ++i) webhooks::queue_test(database, webhook, i);
  });
  const json::object item = get(path);
  EXPECT_EQ(item.at("waiting"), store::max_waiting);
  EXPECT_EQ(item.at("dropped"), 1);
}

TEST_F(WebhooksTest, KeepsTheSecretAndIsForAdministrators) {
  const Answer answer = create("http://127.0.0.1:1/");
  const json::object made = object(answer);
  EXPECT_EQ(get_text(made, "secret").size(), 43u);
  const std::string path = "/api/v1/webhooks/" + get_text(made, "id");
  EXPECT_TRUE(get_flag(get(path), "signed"));
  EXPECT_EQ(object(create("http://127.0.0.1:1/", "", "slack")).at("secret"), nullptr) << "chats check no signatures";
  EXPECT_FALSE(get(path).contains("secret"));
  EXPECT_EQ(Client(server.port(), server.token(http::Scope::operate)).get("/api/v1/webhooks").status, 403);

  Client client(server.port());
  const json::array listed = object(client.get("/api/v1/webhooks")).at("items").as_array();
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(get_text(listed[0].as_object(), "id"), get_text(made, "id"));
  EXPECT_FALSE(listed[0].as_object().contains("secret"));
  const std::string tag = client.get(path).headers.at("etag");
  EXPECT_EQ(edit(path, R"({"secret": ""})").status, 200);
  EXPECT_FALSE(get_flag(get(path), "signed"));
  EXPECT_EQ(client.request("DELETE", path, "", "If-Match: " + tag + "\r\n").status, 412);
  EXPECT_EQ(client.request("DELETE", path).status, 204);
  EXPECT_EQ(client.get(path).status, 404);
  const std::string key = "Idempotency-Key: w1\r\n", body = R"({"name": "a", "kind": "json", "url": "http://a/"})";
  EXPECT_TRUE(object(client.post("/api/v1/webhooks", body, key)).at("secret").is_string());
  EXPECT_TRUE(object(client.post("/api/v1/webhooks", body, key)).at("secret").is_null()) << "a replay";
}

TEST_F(WebhooksTest, RefusesWhatNoWebhookCanHave) {
  const auto refusal = [&](const std::string& url, const std::string& more, const std::string& kind) {
    const Answer answer = create(url, more, kind);
    EXPECT_EQ(answer.status, 400) << answer.body;
    return get_text(object(answer), "detail");
  };
  for (const char* url : {"ftp://a/", "a", "http://", "http://user:word@a/", "http://a/#b", "/x", "http://a:0/"}) {
    EXPECT_THAT(refusal(url, "", "json"), HasSubstr("url: expected http://host/path or https://host/path"));
  }
  EXPECT_THAT(refusal("https://ntfy.sh/", "", "ntfy"), HasSubstr("expected a topic at the end"));
  EXPECT_THAT(refusal("http://a/", "", "irc"), HasSubstr("kind: expected one of json, slack, mattermost, ntfy"));
  EXPECT_THAT(refusal("http://a/", R"(, "secret": "short")", "json"), HasSubstr("secret: expected at least 16"));
  EXPECT_THAT(refusal("http://a/", R"(, "alert_kinds": ["x"])", "json"),
              AllOf(HasSubstr("alert_kinds/0: expected one of nan, stall"), HasSubstr(", found 'x'")));
  EXPECT_THAT(refusal("http://a/", R"(, "runs": ["big"])", "json"), HasSubstr("runs/0: expected the id of a run"));
  EXPECT_THAT(refusal("http://a/", R"(, "labels": ["=x"])", "json"), HasSubstr("labels/0: expected NAME or NAME=VAL"));
  EXPECT_THAT(refusal("http://a/", R"(, "page": "train")", "json"), HasSubstr("page: expected http://host/path"));
  const std::string path = created("http://a/topic", "", "ntfy");
  EXPECT_EQ(edit(path, R"({"url": "http://a/"})").status, 400);
  EXPECT_EQ(edit(path, R"({"kind": "slack", "url": "http://a/"})").status, 200);
}

TEST_F(WebhooksTest, TestsAnAddressOnceAlsoWhileOthersWait) {
  ScriptedServer receiver([](const ScriptedRequest&) { return ScriptedAnswer{.status = 500}; });
  const std::string path = created(receiver.address(), R"(, "enabled": false)");
  const auto sending = sender(quick());
  const Answer asked = Client(server.port()).post(path + "/test", "");
  EXPECT_EQ(asked.status, 202);
  ASSERT_TRUE(reaches(path, "failed"));
  EXPECT_EQ(get_text(newest_delivery(path), "id"), get_text(object(asked), "id"));
  EXPECT_EQ(receiver.requests().size(), 1u);
  EXPECT_EQ(receiver.requests().front().header("x-babelring-event"), "test");
}

TEST_F(WebhooksTest, SendsADigestOnceADayInsteadOfAlerts) {
  ScriptedServer receiver([](const ScriptedRequest&) { return ScriptedAnswer{}; });
  const std::string path = created(receiver.address(), R"(, "digest_at": "08:00", "labels": ["team=mt"])");
  EvalRecord eval;
  eval.update = 1;
  eval.set = "valid";
  eval.sacrebleu = 27.31;
  testing::put(server.store(), {testing::record_of(eval, 2)});
  EXPECT_FALSE(tell(alert_of("stall", "no update for 61 s")));
  server.store().write([](store::Database& database) {
    store::mark_digest(database, 1, wall_time_ms() - 25 * std::int64_t{3'600'000});
  });
  const auto sending = sender(quick());
  ASSERT_TRUE(receiver.wait_for_requests(1));
  ASSERT_TRUE(reaches(path, "delivered"));
  const json::object body = parse_json(receiver.requests().front().body).value().as_object();
  EXPECT_EQ(get_text(body, "event"), "digest");
  EXPECT_EQ(get_text(body, "title"), "Digest: 1 open alert, 1 running");
  EXPECT_EQ(get_text(body, "text"),
            "Open alerts:\n- big: stall: no update for 61 s\nRunning:\n- big: running at update 1, best BLEU 27.31");
  EXPECT_EQ(get_text(body, "link"), page + "#/runs");
  const json::object& digest = body.at("digest").as_object();
  EXPECT_EQ(digest.at("ended").as_array().size(), 0u);
  EXPECT_EQ(get_text(digest.at("running").at(0).as_object(), "id"), run_id);
  EXPECT_EQ(receiver.requests().size(), 1u) << "one a day";
  EXPECT_EQ(create("http://a/", R"(, "digest_at": "24:00")").status, 400);
}

TEST(WebhookDigest, KnowsTheNextTimeOfDay) {
  const std::int64_t now_ms = 1'700'000'000'000;
  const std::int64_t eight = webhooks::next_time_of_day("08:00", now_ms);
  EXPECT_GT(eight, now_ms);
  EXPECT_LE(eight, now_ms + 25 * std::int64_t{3'600'000}) << "a day with a change of clocks has 25 hours";
  const std::time_t seconds = eight / 1000;
  std::tm local{};
  localtime_r(&seconds, &local);
  EXPECT_EQ(local.tm_hour * 100 + local.tm_min, 800);
  EXPECT_GT(webhooks::next_time_of_day("08:00", eight), eight);
  EXPECT_TRUE(webhooks::is_time_of_day("23:59"));
  for (const char* text : {"", "8:00", "24:00", "08:60", "0800", "ab:cd"}) {
    EXPECT_FALSE(webhooks::is_time_of_day(text)) << text;
  }
}

/// The body of a message in one kind's form.
json::object body_of(const std::string& kind, const std::string& title, const std::string& text,
                     webhooks::Message* message = nullptr) {
  const store::DeliveryRow delivery{.id = "d_1",
                                    .event = "alert_raised",
                                    .content = to_text({{"event", "alert_raised"},
                                                        {"title", title},
                                                        {"text", text},
                                                        {"alert", {{"kind", "failed"}}},
                                                        {"run", {{"id", "r_1"}}}})};
  store::WebhookRow webhook;
  webhook.kind = kind;
  webhook.url = "https://host/a/topic?auth=x";
  const webhooks::Message made = webhooks::message_of(delivery, webhook, page);
  if (message != nullptr) *message = made;
  return parse_json(made.body).value().as_object();
}

TEST(WebhookMessage, HasTheFormOfItsKindAndNoMarkupOfNames) {
  const std::string title = "<!channel> a*b: failed", text = "@all: 1 < 2 & 3";
  EXPECT_EQ(get_text(body_of("slack", title, text), "text"),
            "*<https://train.example/#/runs/r_1|&lt;!channel&gt; a*b: failed>*\n@all: 1 &lt; 2 &amp; 3");
  EXPECT_EQ(get_text(body_of("mattermost", title, text), "text"),
            "**[\\<\\!channel\\> a\\*b: failed](https://train.example/#/runs/r_1)**\n@\u200ball: 1 \\< 2 & 3");
  webhooks::Message message;
  const json::object ntfy = body_of("ntfy", title, text, &message);
  EXPECT_EQ(message.address.origin, "https://host");
  EXPECT_EQ(message.address.target, "/a/?auth=x");
  EXPECT_EQ(get_text(ntfy, "topic"), "topic");
  EXPECT_EQ(get_text(ntfy, "title"), title);
  EXPECT_EQ(get_text(ntfy, "message"), text);
  EXPECT_EQ(ntfy.at("priority"), 4);
  EXPECT_EQ(get_text(ntfy, "click"), "https://train.example/#/runs/r_1");
}

/// The watch stores a message with the alert: a server that ends in between loses neither.
TEST_F(WebhooksTest, FollowTheAlertsOfTheRules) {
  const std::string path = created("http://127.0.0.1:1/");
  alerts::AlertWatch watch(
      server.store(), {}, server.alert_publisher(), 20ms,
      [](store::Database& database, const store::AlertRow& alert) { webhooks::queue_alert(database, alert, false); });
  StepRecord step;
  step.update = 2;
  step.loss = std::numeric_limits<double>::quiet_NaN();
  const Record bad = testing::record_of(step, 2);
  testing::put(server.store(), {bad});
  watch.observe(bad);
  ASSERT_TRUE(reaches(path, "waiting"));
  EXPECT_EQ(get_text(newest_delivery(path), "title"), "big: nan");
}

}  // namespace
}  // namespace babelring
