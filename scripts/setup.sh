#!/usr/bin/env bash
# Makes sure that a machine can build (`build`), test (`test`), package (`package`, `image`) or benchmark (`bench`)
# Apus, count its allocations (`allocations`), or test its alerts and its dashboard (`monitoring`), the renewal of
# certificates (`certbot`) or the agent on bad days (`agent`).
#
#   scripts/setup.sh build|test|allocations|bench|package|image|monitoring|certbot|agent
#
# Where nothing is missing it prints nothing, changes nothing and is done in a tenth of a second, so every target of
# the Makefile may call it. Installed packages are looked up with dpkg-query, which needs neither network nor root.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Each package with the reason that is printed when it has to be installed. libssl-dev and the six after it bring
# the headers that the module maps in Sources/C* name; pkg-config is how the Swift package manager finds them.
build_packages=(
  "libssl-dev:TLS, certificates, provider tokens"
  "libuv1-dev:event loop, timers"
  "librocksdb-dev:the durable store"
  "g++:the C++ headers that its logger needs"
  "libsystemd-dev:the agent's way to the session bus and the journal"
  "libmicrohttpd-dev:the administration's HTTP server"
  "libcurl4-openssl-dev:the commands' way to a service elsewhere"
  "libpq-dev:the store in a PostgreSQL database"
  "pkg-config:how the build finds those libraries"
  "make:runs the Makefile"
  "curl:speaks HTTP/2 to the service in 'make run'"
  "ca-certificates:lets curl and pip check whom they talk to"
)
test_packages=(
  "libnghttp2-dev:the reference that HTTP/2 is tested against"
  "openssl:the reference that TLS and certificates are tested against"
  "sslscan:checks what each listener offers"
  "haproxy:relays connections to the service (Debian starts it without a port)"
  "nghttp2-server:nghttpd, which the client sends to"
  "nginx-light:likewise (Debian starts it on port 80)"
  "nodejs:likewise"
  "golang-go:likewise"
  "postgresql-15:the database of the store's tests (Debian starts it on port 5432; nothing here uses that one)"
  "systemd:checks units"
  "python3:runs the third-party APNs clients of the interoperability tests"
  "python3-venv:keeps those clients out of the system's Python"
  "ruby:runs the device client in Ruby"
  "php-cli:runs the snippets in PHP"
  "php-curl:likewise"
  "chromium:opens the console's page"
  "chromium-headless-shell:likewise, with less processor time"
  "chromium-driver:lets tests and scripts/screenshots drive it"
  "fonts-dejavu-core:what it writes with"
  "fonts-noto-color-emoji:the emoji in pushes"
  "dbus:the session bus on which the agent shows notifications"
  "dunst:shows them"
  "xvfb:the screen on which it does"
  "imagemagick:takes a picture of that"
)
allocations_packages=(
  "nghttp2-client:h2load, the load"
  "nghttp2-server:nghttpd, the yardstick of HTTP/2"
  "openssl:makes the yardsticks' certificates"
  "python3:runs the benchmarks"
  "util-linux:taskset, pins servers and load to their processors"
)
package_packages=(
  "dpkg-dev:makes Debian packages"
  "debhelper:what packages have in common"
  "lintian:checks packages"
  "mmdebstrap:makes the system in which they are tested"
  "iproute2:gives that system a network of its own"
  "systemd-container:boots it"
)
image_packages=(
  "mmdebstrap:makes the system in the image"
  "umoci:writes the image"
  "bubblewrap:runs it, in its test"
  "python3:edits the image's configuration"
)
# Without a compiler: a program that was built elsewhere can be monitored, too.
monitoring_packages=(
  "prometheus:scrapes a service (Debian starts it on port 9090 as well; nothing here uses that one)"
  "python3:compares what it has with rules and dashboard"
)
agent_packages=(
  "iproute2:makes networks for the agent"
  "nftables:the NAT that forgets"
  "strace:counts what the agent does at rest"
  "python3:runs the shows"
)
certbot_packages=(
  "certbot:gets and renews certificates (Debian has it renew twice a day; without certificates that does nothing)"
  "pebble:the ACME server that it gets them from"
  "openssl:makes that server's own certificate"
  "python3:finds free ports"
)
bench_packages=(
  "${allocations_packages[@]}"
  "libpq-dev:the yardstick of the store in PostgreSQL"
  "postgresql-15:its servers (Debian starts one on port 5432; nothing here uses that one)"
  "mosquitto:the yardstick of devices (Debian starts it on port 1883 as well; nothing here uses that one)"
  "mosquitto-clients:check that the load for it speaks MQTT"
)

say() { printf 'setup: %s\n' "$*" >&2; }

die() {
  say "$1"
  shift
  local line
  for line in "$@"; do printf '       %s\n' "$line" >&2; done
  exit 1
}

# Swift 6.3 or newer. `swift --version` prints "Swift version 6.3.1 (swift-6.3.1-RELEASE)" among other things.
check_toolchain() {
  command -v swift >/dev/null || die "there is no 'swift' on the PATH." \
    "Install the Swift 6.3 toolchain (or a newer one) for Debian 12 from https://www.swift.org/install/linux/" \
    "and put its usr/bin folder on the PATH, for example: export PATH=/opt/swift/usr/bin:\$PATH"
  local output version
  output=$(swift --version 2>&1) || die "'swift --version' failed, so the toolchain is not complete:" \
    "$output" \
    "The page https://www.swift.org/install/linux/ lists the packages that the toolchain itself needs."
  version=$(sed -nE 's/.*Swift version ([0-9]+)\.([0-9]+).*/\1 \2/p' <<<"$output" | head -n 1)
  [ -n "$version" ] || die "cannot read a version out of what 'swift --version' prints:" "$output"
  local major=${version% *} minor=${version#* }
  if ((major < 6 || (major == 6 && minor < 3))); then
    die "this is Swift $major.$minor ($(command -v swift)); Apus needs 6.3 or newer." \
      "Get one from https://www.swift.org/install/linux/ and put its usr/bin folder first on the PATH."
  fi
}

# Prints those of the arguments ("package:reason") whose package is not installed.
missing_packages() {
  local installed entry
  # dpkg-query exits 1 when it knows nothing of a package, which is an answer here and not an error.
  installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${@%%:*}" 2>/dev/null || true)
  for entry in "$@"; do
    grep -qxF "${entry%%:*} installed" <<<"$installed" || printf '%s\n' "$entry"
  done
}

# Runs a command as root: as it is, or through sudo, which may ask for a password only where somebody can answer.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif [ -t 0 ]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

# Without apt there is nothing to install with; a machine that has the libraries all the same may go on.
without_apt() {
  local module absent=()
  for module in openssl libuv rocksdb libmicrohttpd libcurl libpq libsystemd; do
    pkg-config --exists "$module" 2>/dev/null || absent+=("$module")
  done
  [ ${#absent[@]} = 0 ] || die \
    "this is not a Debian system (no dpkg-query and apt-get), and pkg-config does not find: ${absent[*]}" \
    "Install the development packages of OpenSSL 3, libuv, RocksDB, libmicrohttpd, libcurl, libpq and libsystemd in" \
    "your system's own way, or use Debian 12, for which this script does it."
}

install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    without_apt
    return
  fi
  local missing=() entry
  while IFS= read -r entry; do missing+=("$entry"); done < <(missing_packages "$@")
  [ ${#missing[@]} != 0 ] || return 0

  local names=("${missing[@]%%:*}")
  local by_hand="apt-get update && apt-get install ${names[*]}"
  say "installing ${#missing[@]} missing system package(s) with apt-get:"
  for entry in "${missing[@]}"; do printf '       %-16s %s\n' "${entry%%:*}" "${entry#*:}" >&2; done
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    die "installing takes root, and there is no sudo. Run this as root, once:" "$by_hand"
  fi
  # A list of some other repository that cannot be fetched need not matter, so only the installation decides.
  as_root apt-get -q -o Acquire::Retries=3 update >&2 ||
    say "apt-get update reported errors (above); trying to install all the same."
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 \
    -o DPkg::Lock::Timeout=120 install --no-install-recommends "${names[@]}" >&2 ||
    die "apt-get could not install: ${names[*]} (its own message is above)." \
      "Not reached? Check the network, the proxy and /etc/apt/sources.list. No root? Give your account sudo." \
      "Not found? These are the names of Debian 12. Then try again, or run as root:" "$by_hand"
}

# The tests speak HTTP/2 through curl; Debian's can, another one earlier on the PATH may not.
check_curl() {
  curl --version 2>/dev/null | grep -qw HTTP2 || die "$(command -v curl || echo curl) cannot speak HTTP/2." \
    "Debian's curl can: put /usr/bin first on the PATH, or remove the other curl."
}

# Makes .venv anew when it is missing, broken or older than its lists of requirements. The stamp is a copy of those.
make_venv() {
  local venv=$root/.venv tests=$root/Tests/InteropTests python
  if cat "$tests"/requirements*.txt | cmp -s - "$venv/requirements.stamp" && "$venv/bin/python" -c '' 2>/dev/null; then
    return
  fi
  say "making .venv for the interoperability tests (Tests/InteropTests/requirements*.txt changed, or first run)"
  # The system's Python comes first: `python3` may be another one (pyenv, conda) that was built without ensurepip.
  for python in /usr/bin/python3 python3; do
    rm -rf "$venv"
    if command -v "$python" >/dev/null && "$python" -m venv "$venv" >"$root/.venv.log" 2>&1; then
      break
    fi
    python=
  done
  if [ -z "$python" ]; then
    cat "$root/.venv.log" >&2
    rm -rf "$venv" "$root/.venv.log"
    die "no Python 3 here can make a virtual environment (its message is above)." \
      "Most often ensurepip is missing; on Debian this brings it: apt-get install python3-venv"
  fi
  rm -f "$root/.venv.log"
  # What is for Python 2 is unpacked where only Python 2 is told to look, and not compiled: this is Python 3.
  if ! pip_install "$venv" --requirement "$tests/requirements.txt" ||
    ! pip_install "$venv" --requirement "$tests/requirements-python2.txt" \
      --no-deps --no-compile --target "$venv/python2"; then
    rm -rf "$venv"
    die "pip could not install Tests/InteropTests/requirements*.txt (its message is above)." \
      "Not reached? The tests need PyPI once: check the network, or name a mirror in PIP_INDEX_URL." \
      "Then try again; to test without it: swift test --skip InteropTests"
  fi
  cat "$tests"/requirements*.txt >"$venv/requirements.stamp"
}

# The old clients come as source. Each is built with the setuptools of the list, in an environment of its own: pip holds
# the packages of that to PIP_CONSTRAINT too, and newer ones want PIP_BUILD_CONSTRAINT for it.
pip_install() {
  local venv=$1 pins=$root/Tests/InteropTests/requirements.txt
  shift
  PIP_CONSTRAINT=$pins PIP_BUILD_CONSTRAINT=$pins "$venv/bin/python" -m pip install --quiet \
    --disable-pip-version-check --no-input --use-pep517 "$@" >&2
}

case ${1-} in
build)
  check_toolchain
  install_packages "${build_packages[@]}"
  ;;
test)
  check_toolchain
  install_packages "${build_packages[@]}" "${test_packages[@]}"
  check_curl
  make_venv
  ;;
allocations)
  check_toolchain
  install_packages "${build_packages[@]}" "${allocations_packages[@]}"
  ;;
package)
  check_toolchain
  install_packages "${build_packages[@]}" "${package_packages[@]}"
  ;;
image)
  check_toolchain
  install_packages "${build_packages[@]}" "${package_packages[@]}" "${image_packages[@]}"
  ;;
monitoring)
  install_packages "${monitoring_packages[@]}"
  ;;
certbot)
  install_packages "${certbot_packages[@]}"
  ;;
agent)
  install_packages "${agent_packages[@]}"
  ;;
bench)
  check_toolchain
  install_packages "${build_packages[@]}" "${bench_packages[@]}"
  ;;
*)
  die "unknown argument '${1-}'." \
    "Usage: scripts/setup.sh build|test|allocations|bench|package|image|monitoring|certbot|agent"
  ;;
esac
