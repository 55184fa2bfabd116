#include "nmt/ops/op_fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nmt/ops/op_list.h"
#include "nmt/ops/ops.h"

namespace babelring {
namespace {

/// Initializes any member of an op: each tensor with its own address, everything else with its default.
struct AnyMember {
  std::vector<const void*>* addresses;

  template <class Member>
  operator Member() const {  // NOLINT: must convert implicitly
    if constexpr (std::same_as<Member, Tensor> || std::same_as<Member, ConstTensor>) {
      auto* address = reinterpret_cast<void*>((addresses->size() + 1) * 64);
      addresses->push_back(address);
      return Member(address, Shape{2, 3}, DType::f32);
    } else if constexpr (std::same_as<Member, std::vector<ConstTensor>>) {
      const ConstTensor first = *this, second = *this;
      return {first, second};
    } else if constexpr (std::same_as<Member, RowCounters>) {
      return {.blocks = *this, .pieces = *this, .counts = *this, .parts = *this};
    } else if constexpr (std::same_as<Member, QuantizedWeight>) {
      return {.shape = {}, .elements = *this, .scales = *this, .sums = *this};
    } else {
      return Member{};
    }
  }
};

template <std::size_t>
using Any = AnyMember;

/// An op with all its members set, found by the number of initializers that it accepts.
template <class Op, std::size_t... member>
Op filled(std::vector<const void*>& addresses, std::index_sequence<member...>) {
  if constexpr (requires { Op{Any<member>{}..., AnyMember{}}; }) {
    return filled<Op>(addresses, std::make_index_sequence<sizeof...(member) + 1>());
  } else {
    return Op{Any<member>{&addresses}...};
  }
}

/// Every tensor of the op is named once; those that are written are Tensor, those that are read are ConstTensor.
template <class Op>
void expect_all_named() {
  std::vector<const void*> members, named;
  Op op = filled<Op>(members, {});
  std::vector<std::string> names;
  for_each_field(op, [&](std::string_view name, auto& view, Access access) {
    const bool writable = std::same_as<decltype(view), Tensor&>;
    EXPECT_EQ(writable, access == Access::writes || access == Access::updates) << Op::name << ": " << name;
    named.push_back(view.data);
    names.emplace_back(name);
  });
  EXPECT_FALSE(members.empty()) << Op::name;
  std::sort(named.begin(), named.end());
  EXPECT_EQ(named, members) << Op::name << " names " << testing::PrintToString(names);
  const Op& unchanged = op;
  std::size_t count = 0;
  for_each_field(unchanged, [&](std::string_view, const ConstTensor&, Access) { ++count; });
  EXPECT_EQ(count, members.size()) << Op::name;
}

template <class... Ops>
void expect_all_named(OpList<Ops...>) {
  (expect_all_named<Ops>(), ...);
}

TEST(OpFields, EveryOpNamesEachOfItsTensorsOnce) {
  expect_all_named(AllOps());
}

template <class Op>
std::string text_of(const Op& op) {
  std::string text;
  for_each_field(op, [&](std::string_view name, const ConstTensor&, Access access) {
    const char* const signs[] = {"<", ">", "<>", "<host "};
    text += (text.empty() ? "" : " ") + std::string(signs[static_cast<int>(access)]) + std::string(name);
  });
  return text;
}

/// The staged backend's lists of fields read and written, from before ops named their fields.
TEST(OpFields, AccessFollowsFromTheOp) {
  std::vector<const void*> unused;
  const AnyMember any{&unused};
  EXPECT_EQ(text_of(LinearForward{.x = any, .weight = any, .y = any}), "<x <weight >y") << "absent fields are skipped";
  LinearBackwardData data{.dy = any, .weight = any, .dx = any};
  EXPECT_EQ(text_of(data), "<dy <weight >dx");
  data.accumulate = true;
  EXPECT_EQ(text_of(data), "<dy <weight <>dx");
  data = {.dy = any, .weight = any, .dx = any, .gate = any, .dbias = any};
  EXPECT_EQ(text_of(data), "<dy <weight <gate >dx <>dbias");
  data.accumulate_dbias = false;
  EXPECT_EQ(text_of(data), "<dy <weight <gate >dx >dbias");
  LinearBackwardWeight weight{.dy = any, .x = any, .dweight = any, .dbias = any};
  EXPECT_EQ(text_of(weight), "<dy <x <>dweight <>dbias");
  weight.accumulate = false;
  EXPECT_EQ(text_of(weight), "<dy <x >dweight >dbias");
  LayerNormBackward norm{.dx = any, .dgain = any, .dbias = any};
  EXPECT_EQ(text_of(norm), ">dx <>dgain <>dbias");
  norm.accumulate = true;
  norm.accumulate_parameters = false;
  EXPECT_EQ(text_of(norm), "<>dx >dgain >dbias");
  norm.dbranch = norm.dbranch_bias = any;
  EXPECT_EQ(text_of(norm), "<>dx >dbranch >dgain >dbias >dbranch_bias");
  norm.dbias = {};
  EXPECT_EQ(text_of(norm), "<>dx >dbranch >dgain >dbranch_bias");
  EXPECT_EQ(text_of(ActivationBackward{.dy = any, .z = any, .dz = any, .key = {}, .up = any, .dup = any}),
            "<dy <z <up >dz >dup");
  EXPECT_EQ(text_of(SumWithNorm{.parts = any, .sum = any, .norms = any}), "<parts <parts >sum >norms");
  EXPECT_EQ(text_of(AttentionForward{.q = any, .q_offsets = any, .out = any}), "<q <host q_offsets >out");
  EXPECT_EQ(text_of(AdamUpdate{.master = any, .gradient = any, .m = any, .v = any, .compute = any}),
            "<>master <gradient <>m <>v >compute");
  EXPECT_EQ(text_of(EmbeddingBackward{.ids = any, .dy = any, .dtable = any}), "<ids <dy <>dtable");
}

}  // namespace
}  // namespace babelring
