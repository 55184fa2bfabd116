#include <gmock/gmock.h>

#include <thread>

#include "nmt/comm/nccl/functions.h"
#include "nmt/comm/nccl/operation.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

#include <type_traits>
#endif

namespace babelring {
namespace {

using testing::HasSubstr;

TEST(NcclLibraryTest, NamesMissingLibraryOrSymbol) {
  EXPECT_THAT(open_nccl_library("libbabelring_absent.so").error(),
              HasSubstr("libbabelring_absent.so: cannot open shared object file"));
  EXPECT_EQ(open_nccl_library("libm.so.6").error(), "libm.so.6 has no ncclGetVersion");
}

TEST(NcclLibraryTest, VersionIsReadable) {
  NcclLibrary library;
  library.version = 22809;
  EXPECT_EQ(library.version_text(), "2.28.9");
}

/// Without a GPU, joining fails immediately with an error; with one, a group of one rank can be joined.
TEST(NcclLibraryTest, RealLibraryWorks) {
  const Result<NcclLibrary>& library = find_nccl();
  if (!library) GTEST_SKIP() << library.error();
  const Result<NcclUniqueId> id = NcclGroup::make_id(library->functions);
  ASSERT_TRUE(id) << id.error();
  NcclGroup group(library->functions);
  group.join(*id, 0, 1);
  Result<NcclGroup::State> state = group.state();
  for (int i = 0; i < 600 && state && *state == NcclGroup::State::busy; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    state = group.state();
  }
  if (!state) {
    EXPECT_THAT(state.error(), HasSubstr("unhandled cuda error"));
  } else {
    EXPECT_EQ(*state, NcclGroup::State::ready);
    group.close();
  }
  group.abort();
  EXPECT_FALSE(group.state());
}

#ifdef NCCL_H_
/// Compares the declarations of nmt/comm/nccl/functions.h with nccl.h.
template <class Ours, class Theirs>
constexpr bool same_call = false;
template <class... Ours, class... Theirs, class OurResult, class TheirResult>
constexpr bool same_call<OurResult (*)(Ours...), TheirResult (*)(Theirs...)> =
    sizeof...(Ours) == sizeof...(Theirs) && sizeof(OurResult) == sizeof(TheirResult) &&
    ((sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>) && ...);

TEST(NcclLibraryTest, DeclarationsMatchTheHeader) {
  static_assert(same_call<decltype(NcclFunctions::get_version), decltype(&ncclGetVersion)>);
  static_assert(same_call<decltype(NcclFunctions::get_unique_id), decltype(&ncclGetUniqueId)>);
  static_assert(same_call<decltype(NcclFunctions::init_rank), decltype(&ncclCommInitRankConfig)>);
  static_assert(same_call<decltype(NcclFunctions::async_error), decltype(&ncclCommGetAsyncError)>);
  static_assert(same_call<decltype(NcclFunctions::all_reduce), decltype(&ncclAllReduce)>);
  static_assert(same_call<decltype(NcclFunctions::reduce_scatter), decltype(&ncclReduceScatter)>);
  static_assert(same_call<decltype(NcclFunctions::all_gather), decltype(&ncclAllGather)>);
  static_assert(same_call<decltype(NcclFunctions::broadcast), decltype(&ncclBroadcast)>);
  static_assert(same_call<decltype(NcclFunctions::group_start), decltype(&ncclGroupStart)>);
  static_assert(same_call<decltype(NcclFunctions::group_end), decltype(&ncclGroupEnd)>);
  static_assert(same_call<decltype(NcclFunctions::finalize), decltype(&ncclCommFinalize)>);
  static_assert(same_call<decltype(NcclFunctions::abort), decltype(&ncclCommAbort)>);
  static_assert(same_call<decltype(NcclFunctions::destroy), decltype(&ncclCommDestroy)>);
  static_assert(same_call<decltype(NcclFunctions::error_string), decltype(&ncclGetErrorString)>);
  static_assert(same_call<decltype(NcclFunctions::last_error), decltype(&ncclGetLastError)>);
  static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId));
  static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
  static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
  static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
  static_assert(offsetof(NcclConfig, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const NcclConfig ours;
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.cga_cluster_size, theirs.cgaClusterSize);
  EXPECT_EQ(int{nccl_success}, int{ncclSuccess});
  EXPECT_EQ(int{nccl_remote_error}, int{ncclRemoteError});
  EXPECT_EQ(int{nccl_in_progress}, int{ncclInProgress});
  EXPECT_EQ(int{nccl_int8}, int{ncclInt8});
  EXPECT_EQ(int{nccl_float32}, int{ncclFloat32});
  EXPECT_EQ(int{nccl_bfloat16}, int{ncclBfloat16});
  EXPECT_EQ(int{nccl_sum}, int{ncclSum});
}
#endif

}  // namespace
}  // namespace babelring
