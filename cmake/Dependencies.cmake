# Every library from outside, found once. Rooms name the imported targets they link.
if(POLICY CMP0167)  # Boost is found by the configuration that it installs; CMake 3.30 has no FindBoost of its own
  cmake_policy(SET CMP0167 NEW)
endif()
set(Boost_NO_WARN_NEW_VERSIONS ON)
set(BABELRING_BOOST_HINT "scripts/setup.sh installs libboost, libboost-json and libboost-url by version")
find_package(Boost 1.81 QUIET COMPONENTS json url)
if(NOT Boost_FOUND)
  message(FATAL_ERROR "Boost 1.81 or newer not found; ${BABELRING_BOOST_HINT}")
endif()
find_package(Threads REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc)
find_package(SQLite3 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(MPI REQUIRED COMPONENTS C)
# Debian's dnnl-config.cmake asks for OpenCL headers, which the CPU engine does not need.
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
add_library(DNNL::dnnl UNKNOWN IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION "${DNNL_LIBRARY}"
                      INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}")
# Debian 13's sentencepiece.pc requires protobuf-lite.pc, which libsentencepiece-dev does not bring along.
find_library(SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)
find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train REQUIRED)
find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_trainer.h REQUIRED)
add_library(sentencepiece::sentencepiece UNKNOWN IMPORTED)
set_target_properties(sentencepiece::sentencepiece PROPERTIES IMPORTED_LOCATION "${SENTENCEPIECE_LIBRARY}"
                      INTERFACE_INCLUDE_DIRECTORIES "${SENTENCEPIECE_INCLUDE_DIR}"
                      INTERFACE_LINK_LIBRARIES "${SENTENCEPIECE_TRAIN_LIBRARY}")
find_package(PkgConfig REQUIRED)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(JEMALLOC REQUIRED IMPORTED_TARGET jemalloc)
# Debian's prometheus-cpp-config.cmake wants the libraries of its web server and client, which we do not use.
find_library(PROMETHEUS_CORE_LIBRARY prometheus-cpp-core REQUIRED)
find_path(PROMETHEUS_INCLUDE_DIR prometheus/registry.h REQUIRED)
add_library(prometheus::core UNKNOWN IMPORTED)
set_target_properties(prometheus::core PROPERTIES IMPORTED_LOCATION "${PROMETHEUS_CORE_LIBRARY}"
                      INTERFACE_INCLUDE_DIRECTORIES "${PROMETHEUS_INCLUDE_DIR}")
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()
