#!/usr/bin/env bash
# Runs the image of .build/image/apus.tar as a container engine would: unprivileged, on a read-only root, without
# capabilities. First as the compose example does, whose backend sends a push; then as a service with its volume.
# `make image-test` makes the image first. Needs root, for a network and host names of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [ "${1-}" != inside ]; then
  scripts/setup.sh image
  exec unshare --mount --net --pid --fork --mount-proc --kill-child bash "$0" inside
fi

image=.build/image/apus.tar
limit=60000000
ip link set lo up
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
chmod 755 "$work"
printf '127.0.0.1 localhost\n::1 localhost\n127.0.0.1 apus\n' >"$work/hosts"
mount --bind "$work/hosts" /etc/hosts

fail() {
  echo "image: $1" >&2
  tail -n 20 "$work"/*.log >&2 || true
  exit 1
}

# eventually COMMAND…: within ten seconds.
eventually() {
  for _ in $(seq 100); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  fail "after ten seconds, this still failed: $*"
}

# The image, by its own description.
mkdir "$work/image" "$work/root" "$work/data"
tar -xf "$image" -C "$work/image"
mapfile -t facts < <(python3 - "$work/image" <<'PYTHON'
import json, pathlib, sys
layout = pathlib.Path(sys.argv[1])
blob = lambda d: layout / "blobs" / d["digest"].replace(":", "/")
(image,) = json.loads((layout / "index.json").read_bytes())["manifests"]
manifest = json.loads(blob(image).read_bytes())
config = json.loads(blob(manifest["config"]).read_bytes())["config"]
(layer,) = manifest["layers"]
assert list(config["Volumes"]) == ["/data"], config
print(blob(layer), layer["size"], config["User"], *config["Entrypoint"], *config["Cmd"])
print(*config["Healthcheck"]["Test"][1:])
print(*config["Env"])
print(image["annotations"]["org.opencontainers.image.ref.name"])
PYTHON
)
read -r layer size user entry <<<"${facts[0]}"
health=${facts[1]}
read -ra environment <<<"${facts[2]}"
[ "$size" -le "$limit" ] || fail "the layer has $size bytes, more than $limit"
tar -xf "$layer" -C "$work/root"
[ "$(stat -c %u:%g "$work/root/data")" = "$user" ] || fail "/data does not belong to $user"
chown "$user" "$work/data"
chmod 700 "$work/data"
[ -z "$(find "$work/root" -perm /4000 -user 0 -path '*apus*')" ] || fail "a program of Apus is setuid"

# container [NAME=VALUE…] -- COMMAND…
container() {
  local set=()
  while [ "$1" != -- ]; do
    set+=("$1")
    shift
  done
  shift
  # With the container's namespaces, but one network for all.
  setpriv --reuid="${user%:*}" --regid="${user#*:}" --clear-groups --no-new-privs \
    bwrap --unshare-user --unshare-pid --as-pid-1 --unshare-ipc --unshare-uts --cap-drop ALL --die-with-parent \
    --clearenv \
    --ro-bind "$work/root" / --bind "$work/data" /data --proc /proc --dev /dev --ro-bind /etc/hosts /etc/hosts \
    --chdir /data /usr/bin/env "${environment[@]}" "${set[@]}" "$@"
}

# As engines stop a container: its first process gets SIGTERM.
stop() {
  pkill --exact apus
  wait "$1" || fail "the container ended with $?"
}

step() { echo "- $*"; }

# The compose example.
compose=Examples/compose.yaml
grep -q "^    image: ${facts[3]}\$" "$compose" || fail "$compose uses another image than ${facts[3]}"
command=$(sed -nE 's/^    command: (.*)/\1/p' "$compose")
password=$(sed -nE 's/^      (APUS_DEV_PASSWORD): (.*)/\1=\2/p' "$compose" | head -n 1)
# shellcheck disable=SC2086
container "$password" -- apus $command >"$work/dev.log" 2>&1 &
dev=$!
# shellcheck disable=SC2086
eventually container -- $health
(cd "$work" && env "$password" sh "$OLDPWD/Examples/compose/backend.sh") || fail "the backend failed"
stop $dev
[ -z "$(ls -A "$work/data")" ] || fail "apus dev left something in /data"
step "the compose example"

# The service.
container -- apus init --name apus >"$work/init.log" 2>&1 || fail "apus init"
# shellcheck disable=SC2086
container -- $entry >"$work/serve.log" 2>&1 &
serve=$!
# shellcheck disable=SC2086
eventually container -- $health
container -- sh -c 'touch /usr/x 2>&1; test ! -e /usr/x' >/dev/null || fail "the root can be written"
container -- apus status >"$work/status.log" || fail "apus status"
stop $serve
if container -- $health >/dev/null 2>&1; then fail "a stopped service is healthy"; fi
[ -z "$(find "$work/data" ! -uid "${user%:*}")" ] || fail "a file in /data belongs to another user"
step "the service, with its volume"
step "$((size / 1000000)) MB, passed"
