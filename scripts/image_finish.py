#!/usr/bin/env python3
"""Adds a health check and a name to the image in an OCI layout.

image_finish.py LAYOUT NAME

The OCI format has no field for a health check. Docker and BuildKit use their own one, `Healthcheck`, which others
ignore. The name is what `podman load` and `docker load` give the image.
"""

import hashlib
import json
import pathlib
import sys

HEALTH = {
    "Test": ["CMD", "/usr/lib/apus/health"],
    "Interval": 10_000_000_000,
    "Timeout": 5_000_000_000,
    "StartPeriod": 10_000_000_000,
    "Retries": 3,
}


class Layout:
    def __init__(self, path):
        self.path = pathlib.Path(path)

    def blob(self, descriptor):
        return self.path / "blobs" / descriptor["digest"].replace(":", "/")

    def read(self, descriptor):
        return json.loads(self.blob(descriptor).read_bytes())

    def replace(self, descriptor, value):
        """Writes another blob, and points the descriptor at it."""
        self.blob(descriptor).unlink()
        content = json.dumps(value).encode()
        descriptor["digest"] = "sha256:" + hashlib.sha256(content).hexdigest()
        descriptor["size"] = len(content)
        self.blob(descriptor).write_bytes(content)


def main():
    layout = Layout(sys.argv[1])
    index_file = layout.path / "index.json"
    index = json.loads(index_file.read_bytes())
    (image,) = index["manifests"]
    manifest = layout.read(image)
    assert len(manifest["layers"]) == 1, "the image has more than one layer"
    config = layout.read(manifest["config"])
    config["config"]["Healthcheck"] = HEALTH
    layout.replace(manifest["config"], config)
    layout.replace(image, manifest)
    name = sys.argv[2]
    image["annotations"] = {
        "org.opencontainers.image.ref.name": name,
        "io.containerd.image.name": f"docker.io/library/{name}",
    }
    index_file.write_text(json.dumps(index))


main()
