#!/bin/sh
# Fills in a template, and prints it:
#
#   sh contrib/fill-in.sh TEMPLATE VERSION SHA256SUMS
#
# @VERSION@ becomes the version, and @SHA256 TARGET@ the checksum of the archive for that target. It fails if there is
# no such checksum, or if something is left to fill in.
set -eu

template=$1 version=$2 sums=$3

text=$(sed "s/@VERSION@/$version/g" "$template")
for target in $(sed -n 's/.*@SHA256 \([a-z0-9_-]*\)@.*/\1/p' "$template"); do
  sum=$(sed -n "s/^\([0-9a-f]\{64\}\) [ *]navlock-$version-$target\.tar\.gz\$/\1/p" "$sums")
  if [ -z "$sum" ]; then
    echo "$template was not filled in: $sums has no checksum of the archive for $target" >&2
    exit 1
  fi
  text=$(printf '%s\n' "$text" | sed "s/@SHA256 $target@/$sum/")
done
if printf '%s\n' "$text" | grep '@[A-Z]'; then
  echo "$template was not filled in: this is left" >&2
  exit 1
fi
printf '%s\n' "$text"
