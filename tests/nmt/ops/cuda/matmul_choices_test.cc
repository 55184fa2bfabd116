#include "nmt/ops/cuda/matmul_choices.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/files.h"

namespace babelring::cuda {
namespace {

using testing::HasSubstr;

class MatmulChoicesTest : public testing::Test {
 protected:
  MatmulChoicesTest() { std::filesystem::remove_all(folder_); }
  ~MatmulChoicesTest() override { std::filesystem::remove_all(folder_); }

  MatmulChoices open(const char* gpu = "GPU A", const char* cublaslt = "13.1.0") const {
    return MatmulChoices(file_, gpu, cublaslt);
  }
  /// Makes the file with two choices.
  void make_file() const {
    MatmulChoices choices = open();
    choices.add(shape_, fast_);
    choices.add(other_, slow_);
  }
  std::string text() const { return read_file(file_); }
  void append(const std::string& more) const { write_file_atomically(file_, text() + more); }

  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / fmt::format("products-{}", ::getpid());
  std::filesystem::path file_ = folder_ / "run" / "products.jsonl";
  MatmulShape shape_{.m = 256, .n = 64, .k = 32, .b_row = 1, .b_column = 32, .varying = Varying::m};
  MatmulShape other_{.m = 64, .n = 32, .k = 256, .epilogue = Epilogue::bias_relu, .varying = Varying::k};
  MatmulChoice fast_{.algorithm = {1, 2, 3, 4, 5, 6, 7, 0xfedcba9876543210U}, .first_ms = 0.5f, .chosen_ms = 0.25f};
  MatmulChoice slow_{.algorithm = {8}};
};

TEST_F(MatmulChoicesTest, AreFoundAgain) {
  make_file();
  const MatmulChoices again = open();
  EXPECT_TRUE(again.status());
  ASSERT_NE(again.find(shape_), nullptr);
  EXPECT_EQ(*again.find(shape_), fast_);
  ASSERT_NE(again.find(other_), nullptr);
  EXPECT_EQ(*again.find(other_), slow_);
  MatmulShape unknown = shape_;
  unknown.bias_alignment = 16;
  EXPECT_EQ(again.find(unknown), nullptr);
  EXPECT_THAT(text(), HasSubstr(R"("product":"x W^T 256x64x32 f32")"));
  EXPECT_THAT(text(), HasSubstr(R"("product":"dy^T x 64x32x256 f32, bias and ReLU")"));
}

TEST_F(MatmulChoicesTest, AreDiscardedForAnotherGpuOrLibrary) {
  for (const auto& [gpu, cublaslt] : {std::pair{"GPU B", "13.1.0"}, {"GPU A", "13.2.0"}}) {
    std::filesystem::remove_all(folder_);
    make_file();
    {
      const MatmulChoices other = open(gpu, cublaslt);
      EXPECT_EQ(other.status().error(),
                fmt::format("chosen matmuls: {} was made on GPU A with cuBLASLt 13.1.0, this is {} "
                            "with {}; matmuls are timed anew",
                            file_.string(), gpu, cublaslt));
      EXPECT_EQ(other.find(shape_), nullptr);
    }
    EXPECT_TRUE(open(gpu, cublaslt).status()) << "it is that one's file now";
    EXPECT_THAT(open().status().error(), HasSubstr(fmt::format("was made on {} with cuBLASLt {}", gpu, cublaslt)));
  }
}

TEST_F(MatmulChoicesTest, ALineThatWasCutOffIsDropped) {
  make_file();
  const std::string whole = text();
  append(R"({"product":"x W)");
  EXPECT_EQ(open().status().error(),
            fmt::format("chosen matmuls: {}:4: found a damaged line; matmuls from there on are timed "
                        "anew",
                        file_.string()));
  EXPECT_EQ(text(), whole);
  EXPECT_TRUE(open().status());
}

TEST_F(MatmulChoicesTest, AreDroppedAfterADamagedLine) {
  constexpr const char* without_algorithm =
      R"({"shape":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21],"algorithm":null,"first_ms":0,"chosen_ms":0})";
  for (const char* damage : {"{}", "[1]", R"({"shape":[1,2],"algorithm":null,"first_ms":0,"chosen_ms":0})",
                             R"({"shape":[],"algorithm":"xyz","first_ms":0,"chosen_ms":0})", without_algorithm, ""}) {
    std::filesystem::remove_all(folder_);
    open();
    const std::string first = text();
    make_file();
    const std::string whole = text();
    write_file_atomically(file_, first + damage + "\n" + whole.substr(first.size()));
    const MatmulChoices choices = open();
    EXPECT_THAT(choices.status().error(), HasSubstr(":2: found a damaged line")) << damage;
    EXPECT_EQ(choices.find(shape_), nullptr);
    EXPECT_EQ(text(), first);
  }
}

TEST_F(MatmulChoicesTest, AFileOfAnotherKindIsReplaced) {
  open();
  for (const char* content :
       {"{\"format\":\"babelring products 1\"}\n", "not JSON\n", "{\"format\":\"babelring prod"}) {
    write_file_atomically(file_, content);
    EXPECT_THAT(open().status().error(), HasSubstr("found another first line than this version writes")) << content;
    EXPECT_TRUE(open().status());
  }
  write_file_atomically(file_, "");
  EXPECT_TRUE(open().status()) << "an empty file says nothing";
}

TEST_F(MatmulChoicesTest, WithoutAFileAreKeptInMemory) {
  MatmulChoices choices({}, "GPU A", "13.1.0");
  choices.add(shape_, fast_);
  EXPECT_EQ(*choices.find(shape_), fast_);
}

TEST_F(MatmulChoicesTest, AFileThatCannotBeWrittenIsAFailure) {
  std::filesystem::create_directories(file_);  // a folder of this name
  EXPECT_THROW(open(), Failure);
}

}  // namespace
}  // namespace babelring::cuda
