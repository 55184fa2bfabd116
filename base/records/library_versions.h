#pragma once

#include <string>
#include <vector>

#include "base/const_or_not.h"
#include "base/json.h"

namespace babelring {

/// Versions of the libraries from outside that can change results, such as "2.6.3". Empty: unknown.
struct LibraryVersions {
  std::string onednn, open_mpi, sentencepiece, glibc;

  bool operator==(const LibraryVersions&) const = default;
};

/// Calls `library(key, name, version)` for each: ("onednn", "oneDNN", versions.onednn).
template <const_or_not<LibraryVersions> Versions, class Visitor>
void visit_libraries(Versions& versions, Visitor&& library) {
  library("onednn", "oneDNN", versions.onednn);
  library("open_mpi", "Open MPI", versions.open_mpi);
  library("sentencepiece", "SentencePiece", versions.sentencepiece);
  library("glibc", "glibc", versions.glibc);
}

/// The known versions by key: {"onednn": "2.6.3", …}.
json::object to_json(const LibraryVersions& versions);
/// Reads what to_json() wrote. A member that is absent, no text or longer than 64 bytes is unknown.
LibraryVersions library_versions_from_json(const json::value& value);

/// "oneDNN 2.6.3, Open MPI 4.1.4, SentencePiece 0.1.97, glibc 2.36", without those that are unknown.
std::string text_of(const LibraryVersions& versions);

/// The versions of several ranks as one: where they differ, "2.6.3 / 3.7.2", in the order of the ranks.
LibraryVersions merged(const std::vector<LibraryVersions>& ranks);

/// A line for each library whose versions are both known and not equal: "oneDNN differs: 2.6.3 / 3.7.2".
std::vector<std::string> library_differences(const LibraryVersions& a, const LibraryVersions& b);

}  // namespace babelring
