#!/usr/bin/env bash
# Installs the library into a folder and uses it from there, by find_package and by pkg-config.
# usage: install_test.sh BUILD_DIR WORK_DIR CMAKE CXX GENERATOR
set -euo pipefail
build=$1 work=$2 cmake=$3 cxx=$4 generator=$5
consumer=$(cd "$(dirname "$0")/consumer" && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work"

fail() { echo "FAILED: $*" && exit 1; }

echo "== install"
"$cmake" --install "$build" --prefix "$work/prefix" >install.log
test -e prefix/include/tandem/tandem.h || fail "no umbrella header"

echo "== installed headers include the standard library and <tandem/...> alone"
if grep -rnE '^ *# *include' prefix/include | grep -vE '<tandem/[a-z_]+(/[a-z0-9_]+)?\.h>|<[a-z_]+>'; then
  fail "the headers above include something else"
fi

echo "== each compiles by itself"
check_header() { echo "#include <tandem/$1>" | "$cxx" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -Iprefix/include -xc++ -; }
export -f check_header
export cxx
(cd prefix/include/tandem && find . -name '*.h' -printf '%P\n') |
  xargs -P "$(nproc)" -I{} bash -c 'check_header {}' || fail "a header does not compile alone"

echo "== the library exports what is its own"
if nm -DC --defined-only prefix/lib*/libtandem.so | grep -E ' [A-Z] (dnnl|Eigen|nlohmann)::'; then
  fail "the symbols above belong to a dependency"
fi

echo "== find_package"
"$cmake" -G "$generator" -S "$consumer" -B by_cmake -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx" >by_cmake.log
"$cmake" --build by_cmake >>by_cmake.log
by_cmake/consumer

echo "== pkg-config, from where the installed tree was moved to"
mv prefix moved
PKG_CONFIG_PATH=$(dirname "$(find "$work/moved" -name tandem.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046 # the flags are words
"$cxx" -std=c++20 "$consumer/main.cpp" -o by_pkg_config $(pkg-config --cflags --libs tandem)
LD_LIBRARY_PATH=$(pkg-config --variable=libdir tandem) ./by_pkg_config
