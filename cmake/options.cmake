# What can be chosen, what the machine has, and the flags that follow.

list(APPEND CMAKE_MODULE_PATH ${PROJECT_SOURCE_DIR}/cmake)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

option(TANDEM_NATIVE "Compile for this machine's CPU; the library then runs on its like only" ON)
option(TANDEM_APPS "Build the programs" ${PROJECT_IS_TOP_LEVEL})
option(TANDEM_WERROR "Treat warnings as errors" OFF)
set(TANDEM_SANITIZE "" CACHE STRING "address, undefined, thread, or a comma-separated list")

# An option whose default is what the machine has. AUTO takes the package where it is found, ON insists on it, OFF leaves
# it out; decided anew at each configuration, so that a package installed later is seen. Sets `variable`.
function(tandem_feature option variable package target doc)
  set(default AUTO)
  if(ARGC GREATER 5)
    set(default ${ARGV5})
  endif()
  set(${option} ${default} CACHE STRING "${doc}: ON, OFF, or AUTO for what the machine has")
  set_property(CACHE ${option} PROPERTY STRINGS AUTO ON OFF)
  set(${variable} OFF PARENT_SCOPE)
  if(${option} STREQUAL "AUTO")
    find_package(${package} QUIET)
  elseif(${option})
    find_package(${package} REQUIRED)
  else()
    return()
  endif()
  if(TARGET ${target})
    set(${variable} ON PARENT_SCOPE)
  endif()
endfunction()

set(tests_default AUTO)
if(NOT PROJECT_IS_TOP_LEVEL)
  set(tests_default OFF)
endif()
tandem_feature(TANDEM_ONEDNN with_onednn oneDNN oneDNN::oneDNN
  "oneDNN for the CPU's convolutions and matrix products (Eigen without it)")
tandem_feature(TANDEM_OPENMP with_openmp OpenMP OpenMP::OpenMP_CXX
  "OpenMP for parallel loops (std::thread without it, as the thread sanitizer needs)")
set(MPI_CXX_SKIP_MPICXX ON)  # its C++ bindings, which are no more
tandem_feature(TANDEM_MPI with_mpi MPI MPI::MPI_CXX "MPI for groups with backend mpi")
tandem_feature(TANDEM_TESTS with_tests doctest doctest::doctest "The tests" ${tests_default})

# What the library's sources need. Nothing of it shows in an installed header.
find_package(Threads REQUIRED)
find_package(Eigen3 3.3 REQUIRED NO_MODULE)
find_package(nlohmann_json REQUIRED)
find_package(CURL REQUIRED)
find_package(LibArchive REQUIRED)
find_package(OpenSSL REQUIRED)  # its SHA-256, HMAC and GMAC
find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED DOC "Standalone Asio")  # it comes without a package file
add_library(tandem_dependencies INTERFACE)
target_link_libraries(tandem_dependencies INTERFACE Threads::Threads Eigen3::Eigen nlohmann_json::nlohmann_json
  CURL::libcurl LibArchive::LibArchive OpenSSL::Crypto)
target_include_directories(tandem_dependencies SYSTEM INTERFACE ${ASIO_INCLUDE_DIR})
target_compile_definitions(tandem_dependencies INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED)
if(with_openmp)
  target_link_libraries(tandem_dependencies INTERFACE OpenMP::OpenMP_CXX)
endif()
if(with_onednn)
  target_link_libraries(tandem_dependencies INTERFACE oneDNN::oneDNN)
  target_compile_definitions(tandem_dependencies INTERFACE TANDEM_ONEDNN)
endif()

# Flags of our own sources, programs and tests included. No contraction to fused multiply-adds: the same numbers give
# the same bits in two loops. `omp simd` counts with and without OpenMP.
add_library(tandem_options INTERFACE)
target_compile_options(tandem_options INTERFACE -Wall -Wextra -ffp-contract=off -fopenmp-simd)
if(TANDEM_WERROR)
  target_compile_options(tandem_options INTERFACE -Werror)
endif()
if(TANDEM_NATIVE)
  target_compile_options(tandem_options INTERFACE -march=native)
endif()
if(TANDEM_SANITIZE)
  target_compile_options(tandem_options INTERFACE -fsanitize=${TANDEM_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer -O1 -g1)
  target_link_options(tandem_options INTERFACE -fsanitize=${TANDEM_SANITIZE})
  if(TANDEM_SANITIZE MATCHES "thread")  # Asio's fences, which that sanitizer does not see: its locks suffice
    target_compile_options(tandem_options INTERFACE -Wno-tsan)
  endif()
endif()

find_program(ccache_program ccache)
if(ccache_program AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ccache_program})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${ccache_program})
endif()
