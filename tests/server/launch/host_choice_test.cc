#include "server/launch/host_choice.h"

#include <gtest/gtest.h>

#include <chrono>

namespace babelring::launch {
namespace {

using namespace std::chrono_literals;

constexpr auto begin = SteadyClock::time_point(100h);

TEST(CoolDown, GrowsTenfoldAtMostAndIsForgotten) {
  CoolDown cool;
  EXPECT_EQ(cool.ready_at("h", begin), begin);
  for (const int seconds : {10, 20, 40, 80, 100, 100}) {
    cool.strike("h", 10s, begin);
    EXPECT_EQ(cool.ready_at("h", begin), begin + std::chrono::seconds(seconds));
  }
  EXPECT_EQ(cool.strikes("h", begin), 6);
  EXPECT_EQ(cool.strikes("h", begin + 11min), 0);
  cool.strike("h", 10s, begin + 11min);
  EXPECT_EQ(cool.ready_at("h", begin + 11min), begin + 11min + 10s);
}

std::string names_of(const std::optional<std::vector<Host>>& hosts) {
  if (!hosts) return "none";
  std::string names;
  for (const Host& host : *hosts) names += fmt::format("{}:{} ", host.name, host.slots);
  return names;
}

TEST(HostChoice, FillsHostsInOrderAndPutsThoseThatFailedOnceLast) {
  const Profile profile{.name = "p", .hosts = {"a:2", "b:2"}, .cool_down_s = 10};
  HostChoice hosts;
  EXPECT_EQ(names_of(hosts.choose(profile, 3, begin)), "a:2 b:1 ");
  EXPECT_EQ(names_of(hosts.choose(profile, 5, begin)), "none") << "there are four slots";
  hosts.record_fault(profile, "a", begin);
  EXPECT_EQ(names_of(hosts.choose(profile, 2, begin)), "b:2 ");
  EXPECT_EQ(names_of(hosts.choose(profile, 3, begin)), "b:2 a:1 ") << "rather than wait";
  hosts.record_fault(profile, "a", begin);
  EXPECT_EQ(names_of(hosts.choose(profile, 3, begin)), "none") << "it failed twice";
  EXPECT_EQ(names_of(hosts.choose(profile, 3, begin + 21s)), "a:2 b:1 ");
}

TEST(HostChoice, AFaultWithoutAHostDelaysTheProfileFromTheSecondOnly) {
  const Profile profile{.name = "p", .cool_down_s = 10};
  HostChoice hosts;
  hosts.record_fault(profile, "elsewhere", begin);
  EXPECT_EQ(names_of(hosts.choose(profile, 4, begin)), "") << "the launcher chooses the hosts";
  hosts.record_fault(profile, "", begin);
  EXPECT_EQ(names_of(hosts.choose(profile, 4, begin)), "none");
  EXPECT_EQ(names_of(hosts.choose({.name = "other"}, 4, begin)), "");
  EXPECT_EQ(names_of(hosts.choose(profile, 4, begin + 21s)), "");
}

}  // namespace
}  // namespace babelring::launch
