#include "nmt/checkpoint/weights_digest.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "base/digest.h"
#include "base/failure.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string leaf(const std::string& name, const std::string& digest) {
  return sha256_hex(std::string(1, '\0') + name + " " + digest);
}

std::string node(const std::string& left, const std::string& right) {
  return sha256_hex('\1' + left + right);
}

TEST(WeightsDigestTest, TheRootIsThatOfRfc6962OverSortedNames) {
  EXPECT_EQ(merkle_root({}), sha256_hex(""));
  EXPECT_EQ(merkle_root({{"a", "1"}}), leaf("a", "1"));
  const std::string ab = node(leaf("a", "1"), leaf("b", "2")), cd = node(leaf("c", "3"), leaf("d", "4"));
  EXPECT_EQ(merkle_root({{"b", "2"}, {"a", "1"}}), ab);
  EXPECT_EQ(merkle_root({{"a", "1"}, {"b", "2"}, {"c", "3"}}), node(ab, leaf("c", "3")));
  EXPECT_EQ(merkle_root({{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}, {"e", "5"}}),
            node(node(ab, cd), leaf("e", "5")));
}

TEST(WeightsDigestTest, DependsOnEveryBitAndEveryName) {
  const std::vector<float> one = {1, 2, 3}, zero = {0, -0.0F};
  const auto digest = [&](const char* name, const float* other) {
    const NamedTensor weights[] = {{"w", ConstTensor(one.data(), Shape{3}, DType::f32)},
                                   {name, ConstTensor(other, Shape{1}, DType::f32)}};
    return digest_of_weights(weights);
  };
  const WeightsDigest a = digest("b", zero.data());
  EXPECT_EQ(a.parameters.at("w"), Sha256().add(one.data(), 12).hex());
  EXPECT_EQ(a, digest("b", zero.data()));
  EXPECT_NE(a.root, digest("b", zero.data() + 1).root);
  EXPECT_NE(a.root, digest("c", zero.data()).root);
}

TEST(WeightsDigestTest, JsonIsReadBackAndChecked) {
  WeightsDigest digest{.parameters = {{"a", "1"}, {"b", "2"}}, .root = ""};
  digest.root = merkle_root(digest.parameters);
  EXPECT_EQ(weights_digest_from_json(to_json(digest)), digest);
  json::object damaged = to_json(digest);
  damaged["parameters"].as_object()["b"] = "3";
  EXPECT_THAT([&] { weights_digest_from_json(damaged); },
              ThrowsMessage<Failure>(HasSubstr("member 'weights': root " + digest.root.substr(0, 12))));
  EXPECT_THAT([] { weights_digest_from_json("text"); },
              ThrowsMessage<Failure>(HasSubstr("expected an object with 'root' and 'parameters'")));
}

}  // namespace
}  // namespace babelring
