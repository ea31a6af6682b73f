#!/bin/sh
# Prints what Debian packages (FILE…) depend on, without versions and alternatives: the names, separated by commas.
for package in "$@"; do dpkg-deb --field "$package" Depends; done |
  sed 's/ | [^,]*//g; s/([^)]*)//g; s/ //g' | paste -sd,
