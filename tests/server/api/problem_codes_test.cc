#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/failure.h"
#include "base/json.h"
#include "server/api/openapi.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// Codes with the statuses that they come with; "" for a status that is computed.
using Codes = std::map<std::string, std::set<std::string>>;

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Adds the codes of a source. A problem's status comes before its code, as in Problem(404, "run_unknown", …),
/// refuse(fault->status, "malformed", …), or refusal(request, 401, given ? "token_invalid" : "token_missing", …).
void add_codes_of(const std::string& source, Codes& codes) {
  static const std::regex call(
      R"re((\b[45]\d\d|\bstatus)\s*,\s*((?:[\w>.\-]+\s*\?\s*"[a-z_]+"\s*:\s*)?"[a-z_]+")\s*[,)])re");
  static const std::regex word(R"re("([a-z_]+)")re");
  for (std::sregex_iterator at(source.begin(), source.end(), call), end; at != end; ++at) {
    const std::string status = (*at)[1], words = (*at)[2];
    // In "line ? 414 : 431" only the last number stands before the code.
    const bool computed = status == "status" || words.find('?') != std::string::npos;
    for (std::sregex_iterator one(words.begin(), words.end(), word); one != end; ++one) {
      codes[(*one)[1]].insert(computed ? "" : status);
    }
  }
}

Codes codes_of_sources() {
  Codes codes;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(BABELRING_SOURCE_DIR) / "server")) {
    const fs::path& path = entry.path();
    if (path.extension() == ".cc" || path.extension() == ".h") add_codes_of(text_of(path), codes);
  }
  return codes;
}

std::set<std::string> names_of(const json::value& list) {
  std::set<std::string> names;
  for (const json::value& name : list.as_array()) names.emplace(name.as_string());
  return names;
}

const json::value& resolved(const json::value& contract, const json::value& response) {
  const json::value* reference = response.as_object().if_contains("$ref");
  return reference == nullptr ? response : contract.at_pointer(std::string(reference->as_string().subview(1)));
}

/// The statuses of each code, over all operations.
Codes codes_of_contract(const json::value& contract) {
  Codes codes;
  for (const auto& [path, methods] : contract.at("paths").as_object()) {
    for (const auto& [method, operation] : methods.as_object()) {
      for (const auto& [status, listed] : operation.at("responses").as_object()) {
        const json::object* content = resolved(contract, listed).as_object().contains("content")
                                          ? &resolved(contract, listed).at("content").as_object()
                                          : nullptr;
        const json::value* problem = content == nullptr ? nullptr : content->if_contains("application/problem+json");
        if (problem == nullptr) continue;
        for (const std::string& code : names_of(problem->at_pointer("/schema/allOf/1/properties/code/enum"))) {
          codes[code].insert(std::string(status));
        }
      }
    }
  }
  return codes;
}

TEST(ProblemCodes, AreTheSameInSourcesAndContract) {
  const auto contract = parse_json(api::Contract().text()).value();
  const Codes given = codes_of_sources(), listed = codes_of_contract(contract);
  std::set<std::string> in_sources, in_contract;
  for (const auto& [code, statuses] : given) in_sources.insert(code);
  EXPECT_GT(in_sources.size(), 60u);
  EXPECT_EQ(in_sources, names_of(contract.at_pointer("/components/schemas/Problem/properties/code/enum")))
      << "see x-problems in server/api/openapi.yaml";
  for (const auto& [code, statuses] : given) {
    // No operation is meant where the path or the method is none of ours.
    if (code == "path_unknown" || code == "method_not_allowed") continue;
    ASSERT_TRUE(listed.contains(code)) << code << " is listed at no operation: see x-errors";
    for (const std::string& status : statuses) {
      EXPECT_TRUE(status.empty() || listed.at(code).contains(status)) << code << ' ' << status;
    }
  }
}

TEST(ProblemCodes, AreListedAtEachOperation) {
  const auto contract = parse_json(api::Contract().text()).value();
  const auto codes = [&](const std::string& path, const std::string& method, const std::string& status) {
    const json::object& methods = contract.at("paths").at(path).as_object();
    const json::object& responses = methods.at(method).at("responses").as_object();
    if (!responses.contains(status)) return std::set<std::string>();
    const json::value& response = resolved(contract, responses.at(status));
    return names_of(response.at_pointer("/content/application~1problem+json/schema/allOf/1/properties/code/enum"));
  };
  using Names = std::set<std::string>;
  const std::string run = "/api/v1/runs/{run}";
  EXPECT_EQ(codes(run, "get", "404"), (Names{"run_unknown"}));
  EXPECT_EQ(codes(run, "get", "401"), (Names{"token_invalid", "token_missing"}));
  EXPECT_EQ(codes(run, "get", "406"), (Names{"not_acceptable"}));
  EXPECT_EQ(codes(run, "get", "412"), Names());
  EXPECT_EQ(codes(run, "get", "415"), Names());
  EXPECT_EQ(codes(run, "patch", "412"), (Names{"changed"}));
  EXPECT_EQ(codes(run, "patch", "415"), (Names{"not_json"}));
  EXPECT_EQ(codes(run, "patch", "507"), (Names{"disk_full"}));
  EXPECT_EQ(codes(run, "delete", "409"), (Names{"run_active"}));
  EXPECT_EQ(codes(run + "/checkpoint", "post", "429"), (Names{"too_many_requests", "too_soon"}));
  EXPECT_EQ(codes("/healthz", "get", "401"), Names());
  EXPECT_EQ(codes("/healthz", "get", "421"), Names());
  EXPECT_EQ(codes("/api/v1/version", "get", "421"), (Names{"host_unknown"}));
  EXPECT_EQ(codes("/api/v1/checkpoints/{checkpoint}", "delete", "409"),
            (Names{"best", "foreign_files", "in_use", "last", "not_writable", "outside_roots", "pinned"}));
  EXPECT_FALSE(contract.as_object().contains("x-problems"));
}

TEST(ProblemCodes, AreDescribedForEachOperation) {
  const std::string yaml =
      "security: []\n"
      "x-problems: {codes: {}, given_by: {any: [], parameter: {}}}\n"
      "paths: {/a: {get: {operationId: a, x-errors: [odd], responses: {'200': {description: x}}}}}\n";
  try {
    api::parse_contract(yaml);
    FAIL() << "taken";
  } catch (const Failure& failure) {
    EXPECT_EQ(std::string(failure.what()), "openapi.yaml: a: 'odd' is not under x-problems");
  }
}

}  // namespace
}  // namespace babelring
