#!/bin/sh
# Turns the documentation of the libraries into pages (DocC), in .build/docs. Warnings, such as a link that leads
# nowhere, are errors.
set -eu
cd "$(dirname "$0")/.."

swift build --product apus
modules=$(swift build --show-bin-path)
graphs=.build/docs/graphs

for library in ApusModel ApusClient ApusDevice; do
  rm -rf "$graphs" ".build/docs/$library"
  mkdir -p "$graphs"
  # What the library imports must be found, though nothing of it is shown.
  swift symbolgraph-extract -module-name "$library" -I "$modules/Modules" \
    -I Sources/COpenSSL -I Sources/CUV -I Sources/CRocksDB \
    -Xcc "-fmodule-map-file=$modules/CShims.build/module.modulemap" \
    -target "$(uname -m)-unknown-linux-gnu" -minimum-access-level public -output-dir "$graphs"
  docc convert "Sources/$library/$library.docc" --additional-symbol-graph-dir "$graphs" \
    --fallback-display-name "$library" --fallback-bundle-identifier "apus.$library" \
    --warnings-as-errors --output-path ".build/docs/$library"
done
echo "To read them: docc preview, or any web server on .build/docs/ApusClient"
