#!/usr/bin/env bash
# Fuzzes the parsers with libFuzzer and the address sanitizer.
#
#   Fuzz/run.sh [TARGET|all] [SECONDS]      all targets, 20 seconds each
#
# A target is Fuzz/Targets/NAME.swift with a line in the table below; its seeds are in Fuzz/Corpus/NAME, and an optional
# dictionary is Fuzz/Targets/NAME.dict. New interesting inputs stay in .build/fuzz/NAME/found. An input that crashes is
# saved as Fuzz/Crashes/NAME-*, and each later run tries it first.
set -euo pipefail
cd "$(dirname "$0")/.."

# name: the modules it needs, lowest first.
targets() {
  cat <<'TABLE'
binary ApusModel ApusWire
courier ApusModel ApusWire
json ApusModel ApusWire
proxy ApusModel ApusWire
token ApusModel ApusWire ApusTrust
topics ApusModel ApusWire ApusTrust
certificate ApusModel ApusWire ApusTrust
record ApusModel ApusTLS
http2 ApusModel ApusHTTP2
http2-client ApusModel ApusHTTP2
journal ApusModel ApusWire ApusStore
TABLE
}

wanted=${1:-all}
seconds=${2:-20}
build=.build/fuzz
mkdir -p "$build"

# The crash handler of the Swift runtime would take the signal from libFuzzer and hang.
export SWIFT_BACKTRACE=enable=no
# The Swift runtime keeps metadata that the leak check reports as leaked.
export ASAN_OPTIONS=detect_leaks=0

flags=(-swift-version 6 -O -g -wmo -sanitize=fuzzer,address -parse-as-library -package-name apus -use-ld=lld
  -enable-experimental-feature Lifetimes -enable-upcoming-feature ExistentialAny
  -enable-upcoming-feature InternalImportsByDefault -enable-upcoming-feature MemberImportVisibility
  -I "$build")

shims=()
# OpenSSL and the C shims, for the modules above them.
c_shims() {
  local cflags
  read -r -a cflags <<<"$(pkg-config --cflags openssl)"
  printf 'module CShims {\n  umbrella "%s"\n  export *\n}\n' "$PWD/Sources/CShims/include" \
    >"$build/CShims.modulemap"
  local file object
  for file in Sources/CShims/*.c; do
    object=$build/CShims-$(basename "$file" .c).o
    clang -c -g -O1 -fsanitize=fuzzer-no-link,address "${cflags[@]}" -I Sources/CShims/include "$file" -o "$object"
    shims+=("$object")
  done
  flags+=(-Xcc "-fmodule-map-file=$PWD/Sources/COpenSSL/module.modulemap"
    -Xcc "-fmodule-map-file=$build/CShims.modulemap" -I Sources/CShims/include)
  for flag in "${cflags[@]}"; do flags+=(-Xcc "$flag"); done
}

engine=()
# RocksDB and our C++ code for it, for the store.
engine_shims() {
  printf 'module CEngineLog {\n  umbrella "%s"\n  export *\n}\n' "$PWD/Sources/CEngineLog/include" \
    >"$build/CEngineLog.modulemap"
  local file object
  for file in Sources/CEngineLog/*.cpp; do
    object=$build/CEngineLog-$(basename "$file" .cpp).o
    clang++ -c -g -O1 -std=c++17 -fsanitize=address -I Sources/CEngineLog/include "$file" -o "$object"
    engine+=("$object")
  done
  engine+=(-lrocksdb -lstdc++)
  flags+=(-Xcc "-fmodule-map-file=$PWD/Sources/CRocksDB/module.modulemap"
    -Xcc "-fmodule-map-file=$build/CEngineLog.modulemap" -I Sources/CEngineLog/include)
}

built=" "
module() {
  case $built in *" $1 "*) return ;; esac
  case $1 in
    ApusTrust | ApusTLS) if ((!${#shims[@]})); then c_shims; fi ;;
    ApusStore) engine_shims ;;
  esac
  echo "Compiling $1"
  # Targets may use @testable imports, like tests.
  swiftc "${flags[@]}" -enable-testing -module-name "$1" -emit-module \
    -emit-module-path "$build/$1.swiftmodule" -c -o "$build/$1.o" \
    $(find "Sources/$1" -name '*.swift' | sort)
  built+="$1 "
}

# Compiles the fuzzer of a target, given with its modules.
compile() {
  local name=$1 objects=() libraries=()
  shift
  for module in "$@"; do
    module "$module"
    objects+=("$build/$module.o")
    case $module in
      ApusTrust | ApusTLS) libraries=("${shims[@]}" $(pkg-config --libs openssl)) ;;
      ApusStore) libraries=("${engine[@]}") ;;
    esac
  done
  swiftc "${flags[@]}" -module-name Fuzzer Fuzz/Input.swift "Fuzz/Targets/$name.swift" \
    "${objects[@]}" ${libraries[@]+"${libraries[@]}"} -o "$build/$name-fuzzer"
}

# Tries inputs that crashed before, then new ones.
fuzz() {
  local name=$1 log=$build/$1/log kept=() words=()
  mkdir -p "$build/$name/found" Fuzz/Crashes "Fuzz/Corpus/$name"
  shopt -s nullglob
  kept=(Fuzz/Crashes/"$name"-*)
  shopt -u nullglob
  if ((${#kept[@]})) && ! "$build/$name-fuzzer" "${kept[@]}" >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "$name: a saved input still crashes" >&2
    return 1
  fi
  if [ -e "Fuzz/Targets/$name.dict" ]; then words=(-dict="Fuzz/Targets/$name.dict"); fi
  if ! "$build/$name-fuzzer" ${words[@]+"${words[@]}"} -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 \
    -max_len=8192 -print_final_stats=1 -artifact_prefix="Fuzz/Crashes/$name-" \
    "$build/$name/found" "Fuzz/Corpus/$name" >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "$name: crashed; the input is in Fuzz/Crashes" >&2
    return 1
  fi
  grep -E '^Done|stat::new_units_added' "$log" | sed "s/^/$name: /"
}

ran=0
failed=0
while read -r name modules; do
  if [ "$wanted" != all ] && [ "$wanted" != "$name" ]; then continue; fi
  ran=1
  compile "$name" $modules
  echo "Fuzzing $name for $seconds s"
  fuzz "$name" || failed=1
done < <(targets)
rmdir Fuzz/Crashes 2>/dev/null || true
if ((!ran)); then
  echo "unknown target: $wanted; the targets are: $(targets | cut -d ' ' -f 1 | xargs)" >&2
  exit 2
fi
exit "$failed"
