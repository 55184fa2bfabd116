#include "server/launch/host_choice.h"

#include <gtest/gtest.h>

#include <chrono>

namespace babelring::launch {
namespace {

using namespace std::chrono_literals;

constexpr auto first_fault = SteadyClock::time_point(100h);

TEST(CoolDown, GrowsTenfoldAtMostAndIsForgotten) {
  CoolDown cool;
  EXPECT_EQ(cool.ready_at("h", first_fault), first_fault);
  for (const int seconds : {10, 20, 40, 80, 100, 100}) {
    cool.strike("h", 10s, first_fault);
    EXPECT_EQ(cool.ready_at("h", first_fault), first_fault + std::chrono::seconds(seconds));
  }
  EXPECT_EQ(cool.strikes("h", first_fault), 6);
  EXPECT_EQ(cool.strikes("h", first_fault + 11min), 0);
  cool.strike("h", 10s, first_fault + 11min);
  EXPECT_EQ(cool.ready_at("h", first_fault + 11min), first_fault + 11min + 10s);
}

std::string names_of(const std::optional<HostChoice::Choice>& chosen) {
  if (!chosen) return "none";
  std::string names;
  for (const Host& host : chosen->hosts) names += fmt::format("{}:{} ", host.name, host.slots);
  return names;
}

TEST(HostChoice, FillsHostsInOrderAndPutsThoseThatFailedOnceLast) {
  const Profile profile{.name = "p", .hosts = {"a:2", "b:2"}, .cool_down_s = 10};
  HostChoice hosts;
  EXPECT_EQ(names_of(hosts.choose(profile, 3, false, first_fault)), "a:2 b:1 ");
  EXPECT_EQ(names_of(hosts.choose(profile, 5, false, first_fault)), "none") << "there are four slots";
  hosts.record_fault(profile, "a", first_fault);
  EXPECT_EQ(names_of(hosts.choose(profile, 2, false, first_fault)), "b:2 ");
  EXPECT_EQ(names_of(hosts.choose(profile, 3, false, first_fault)), "b:2 a:1 ") << "rather than wait";
  hosts.record_fault(profile, "a", first_fault);
  EXPECT_EQ(names_of(hosts.choose(profile, 3, false, first_fault)), "none") << "it failed twice";
  EXPECT_EQ(names_of(hosts.choose(profile, 3, false, first_fault + 21s)), "a:2 b:1 ");
}

TEST(HostChoice, KnowsAListedHostByTheNameThatItGivesItself) {
  const std::vector<Host> hosts = {{"birch.example.org", 2}, {"10.0.0.2", 2}, {"10.0.0.3", 2}, {"login", 1}};
  EXPECT_EQ(listed_host(hosts, "10.0.0.3", 0), "10.0.0.3");
  EXPECT_EQ(listed_host(hosts, "Birch", std::nullopt), "birch.example.org");
  EXPECT_EQ(listed_host(hosts, "login.cluster", std::nullopt), "login");
  EXPECT_EQ(listed_host(hosts, "oak", 3), "10.0.0.2") << "ranks 2 and 3 are there";
  EXPECT_EQ(listed_host(hosts, "oak", std::nullopt), "");
  EXPECT_EQ(listed_host(hosts, "oak", 7), "");
  EXPECT_EQ(listed_host(hosts, "", 3), "") << "nobody blames a host";
  EXPECT_EQ(listed_host({{"a.x", 1}, {"a.y", 1}}, "a", 1), "a.y") << "two hosts have this short name";
  EXPECT_EQ(listed_host({}, "a", 0), "") << "an earlier server started it";
}

TEST(HostChoice, GoesOnWithTheHostsThatRemain) {
  Profile profile{.name = "p", .hosts = {"a:2", "b:2", "c:2", "d:2"}, .minimum_ranks = 4, .cool_down_s = 10};
  HostChoice hosts;
  hosts.record_fault(profile, "b", first_fault);
  EXPECT_EQ(names_of(hosts.choose(profile, 6, false, first_fault)), "a:2 c:2 d:2 ") << "there are hosts to spare";
  EXPECT_EQ(names_of(hosts.choose(profile, 8, false, first_fault)), "a:2 c:2 d:2 ");
  EXPECT_EQ(hosts.choose(profile, 8, false, first_fault)->ranks, 6);
  EXPECT_EQ(names_of(hosts.choose(profile, 8, true, first_fault)), "a:2 c:2 ") << "four ranks";
  profile.minimum_ranks = 7;
  EXPECT_EQ(names_of(hosts.choose(profile, 8, false, first_fault)), "a:2 c:2 d:2 b:2 ") << "too few remain";
  EXPECT_EQ(hosts.choose(profile, 8, false, first_fault + 11s)->ranks, 8);
}

TEST(HostChoice, AFaultWithoutAHostDelaysTheProfileFromTheSecondOnly) {
  const Profile profile{.name = "p", .cool_down_s = 10};
  HostChoice hosts;
  hosts.record_fault(profile, "elsewhere", first_fault);
  EXPECT_EQ(names_of(hosts.choose(profile, 4, false, first_fault)), "") << "the launcher chooses the hosts";
  hosts.record_fault(profile, "", first_fault);
  EXPECT_EQ(names_of(hosts.choose(profile, 4, false, first_fault)), "none");
  EXPECT_EQ(names_of(hosts.choose({.name = "other"}, 4, false, first_fault)), "");
  EXPECT_EQ(names_of(hosts.choose(profile, 4, false, first_fault + 21s)), "");
}

}  // namespace
}  // namespace babelring::launch
