#!/bin/sh
# Installs the command `navlock`, its manual and its completions for this user, and nothing else:
#
#   sh install.sh [VERSION]
#
# The archive is compared with its checksum before anything of it is used. Where it comes from, and what
# that is worth, says SECURITY.md. Environment:
#
#   NAVLOCK_INSTALL   below it are bin/ and share/ (~/.local)
#   NAVLOCK_FROM      where the archives are; by default the releases of the project
set -eu

version=${1:-0.1.0}
to=${NAVLOCK_INSTALL:-$HOME/.local}
from=${NAVLOCK_FROM:-https://github.com/navlock/navlock/releases/download/v$version}

fail() {
  echo "navlock was not installed: $1" >&2
  exit 1
}

case $(uname -s) in
  Linux) system=unknown-linux-musl ;;
  Darwin) system=apple-darwin ;;
  *) fail "it installs on Linux and macOS alone; elsewhere: cargo install navlock-cli" ;;
esac
case $(uname -m) in
  x86_64) machine=x86_64 ;;
  aarch64 | arm64) machine=aarch64 ;;
  *) fail "there is no archive for $(uname -m); with Rust: cargo install navlock-cli" ;;
esac
name=navlock-$version-$machine-$system

if command -v curl >/dev/null; then
  get() { curl --fail --silent --show-error --location --output "$2" "$1"; }
elif command -v wget >/dev/null; then
  get() { wget --quiet --output-document "$2" "$1"; }
else
  fail "neither curl nor wget is there"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
get "$from/$name.tar.gz" "$folder/$name.tar.gz" || fail "$from/$name.tar.gz cannot be had"
get "$from/SHA256SUMS" "$folder/SHA256SUMS" || fail "$from/SHA256SUMS cannot be had"
cd "$folder"
grep " [ *]$name.tar.gz\$" SHA256SUMS >expected || fail "SHA256SUMS has no checksum of $name.tar.gz"
# As it is called by GNU, by busybox, and on macOS.
sha256sum --check --status expected 2>/dev/null || sha256sum -c -s expected 2>/dev/null ||
  shasum -a 256 --check --status expected 2>/dev/null ||
  fail "$name.tar.gz is not what SHA256SUMS says; it was damaged on the way, or changed"

tar -xzf "$name.tar.gz"
for directory in bin share; do
  (cd "$name/$directory" && find . -type d) | while read -r path; do mkdir -p "$to/$directory/$path"; done
  # By renaming: who has the old program in use keeps it whole.
  (cd "$name/$directory" && find . -type f) | while read -r path; do
    cp "$name/$directory/$path" "$to/$directory/$path.new"
    mv -f "$to/$directory/$path.new" "$to/$directory/$path"
  done
done
echo "$("$to/bin/navlock" --version) is in $to/bin"
case :$PATH: in
  *":$to/bin:"*) ;;
  *) echo "your PATH does not have $to/bin" ;;
esac
