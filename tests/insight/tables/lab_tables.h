#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/csv.h"

namespace babelring::insight {

/// Tests of published tables, which are not part of the repository. Skips them where the folder is absent.
/// BABELRING_LAB names it.
class LabTables : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder())) GTEST_SKIP() << "no published tables in " << folder() << " (BABELRING_LAB)";
  }
  /// Reads a table, given as FOLDER/NAME.csv.
  static CsvTable lab_table(const std::string& name) { return CsvTable::read((folder() / name).string()); }

 private:
  static std::filesystem::path folder() {
    const char* named = std::getenv("BABELRING_LAB");
    return named != nullptr ? named : BABELRING_SOURCE_DIR "/../shared/lab";
  }
};

}  // namespace babelring::insight
