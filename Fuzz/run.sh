#!/usr/bin/env bash
# Fuzzes the parsers with libFuzzer and the address sanitizer.
#
#   Fuzz/run.sh [TARGET|all] [SECONDS]      all targets, 20 seconds each
#   Fuzz/run.sh check                       whether all fit the sources, after `swift build --build-tests`
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
journal ApusModel ApusWire ApusLease ApusThread ApusEmbedded ApusStore
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

language=(-swift-version 6 -parse-as-library -enable-experimental-feature Lifetimes
  -enable-upcoming-feature ExistentialAny -enable-upcoming-feature InternalImportsByDefault
  -enable-upcoming-feature MemberImportVisibility)
flags=("${language[@]}" -O -g -wmo -sanitize=fuzzer,address -package-name apus -use-ld=lld -I "$build")

objects=()
libraries=()

# A C module of the system, NAME with flags for the compiler.
system_module() {
  flags+=(-Xcc "-fmodule-map-file=$PWD/Sources/$1/module.modulemap")
  local flag
  for flag in "${@:2}"; do flags+=(-Xcc "$flag"); done
}

# Our own C or C++ module, likewise.
c_module() {
  local name=$1 file object
  shift
  printf 'module %s {\n  umbrella "%s"\n  export *\n}\n' "$name" "$PWD/Sources/$name/include" >"$build/$name.modulemap"
  flags+=(-Xcc "-fmodule-map-file=$build/$name.modulemap" -I "Sources/$name/include")
  for file in "Sources/$name"/*.c*; do
    object=$build/$name-$(basename "${file%.*}").o
    case $file in
      *.c) clang -c -g -O1 -fsanitize=fuzzer-no-link,address "$@" -I "Sources/$name/include" "$file" -o "$object" ;;
      *) clang++ -c -g -O1 -std=c++17 -fsanitize=address "$@" -I "Sources/$name/include" "$file" -o "$object" ;;
    esac
    objects+=("$object")
  done
}

# The C modules and libraries below a module.
below() {
  local cflags
  case $1 in
    ApusTLS | ApusTrust)
      case $built in *" ApusTLS "* | *" ApusTrust "*) return ;; esac
      read -r -a cflags <<<"$(pkg-config --cflags openssl)"
      system_module COpenSSL ${cflags[@]+"${cflags[@]}"}
      c_module CShims ${cflags[@]+"${cflags[@]}"}
      libraries+=($(pkg-config --libs openssl))
      ;;
    ApusEmbedded) c_module CEmbedded ;;
    ApusStore)
      system_module CRocksDB
      c_module CEngineLog
      c_module CPostgres
      libraries+=(-lrocksdb -lstdc++)
      ;;
  esac
}

built=" "
module() {
  case $built in *" $1 "*) return ;; esac
  below "$1"
  echo "Compiling $1"
  # Targets may use @testable imports, like tests.
  swiftc "${flags[@]}" -enable-testing -module-name "$1" -emit-module \
    -emit-module-path "$build/$1.swiftmodule" -c -o "$build/$1.o" \
    $(find "Sources/$1" -name '*.swift' | sort)
  objects+=("$build/$1.o")
  built+="$1 "
}

# Compiles the fuzzer of a target, given with its modules. What targets before it needed is linked as well.
compile() {
  local name=$1 module
  shift
  for module in "$@"; do module "$module"; done
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

# Whether a target compiles against the modules of a debug build, and has all modules below its own in the table.
check() {
  local name=$1 before=" " module own map
  shift
  for module in "$@"; do
    for own in $(grep -rhoE '^(@testable |package |public |internal )*import Apus[A-Za-z0-9]+' "Sources/$module" |
      sed 's/.* //' | sort -u); do
      if [[ $before != *" $own "* ]]; then
        echo "Fuzz/run.sh: $name needs $own before $module in the table" >&2
        return 1
      fi
    done
    before+="$module "
  done
  local maps=()
  for map in .build/debug/C*.build/module.modulemap Sources/C*/module.modulemap; do
    maps+=(-Xcc "-fmodule-map-file=$PWD/$map")
  done
  # The Swift package manager names the package after its folder; the modules are open to that name only.
  local package
  package=$(sed -n '/"-package-name"/ { s/.*"-package-name","\([^"]*\)".*/\1/p; q; }' .build/debug.yaml)
  swiftc "${language[@]}" -typecheck -package-name "$package" \
    -I .build/debug/Modules $(pkg-config --cflags-only-I libpq | sed 's/-I/-Xcc -I/g') "${maps[@]}" \
    -module-name Fuzzer Fuzz/Input.swift "Fuzz/Targets/$name.swift"
}

if [ "$wanted" = check ]; then
  targets | while read -r name modules; do check "$name" $modules; done
  exit
fi

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
