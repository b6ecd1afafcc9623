#!/bin/sh
# Packs the command with its manual and its completions, as a release has it:
#
#   sh contrib/pack.sh PROGRAM TARGET FOLDER
#
# PROGRAM was built for TARGET, by Rust's name of it, and runs on this machine. In FOLDER are then the folder
# navlock-VERSION-TARGET and its archive: .zip for Windows, else .tar.gz. All that is packed has the time of the last
# commit, so that the archive comes out the same again.
set -eu

program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1") target=$2 folder=$3
sources=$(cd "$(dirname "$0")/.." && pwd)
version=$("$program" --version | cut -d ' ' -f 2 | tr -d '\r')
time=$(git -C "$sources" log -1 --format=%ct)
name=navlock-$version-$target
to=$folder/$name
rm -rf "$to"

mkdir -p "$to/bin" "$to/share/man/man1" "$to/share/bash-completion/completions" \
  "$to/share/zsh/site-functions" "$to/share/fish/vendor_completions.d" "$to/share/doc/navlock"
cp "$program" "$to/bin"
"$program" man --output "$to/share/man/man1"
"$program" completions bash >"$to/share/bash-completion/completions/navlock"
"$program" completions zsh >"$to/share/zsh/site-functions/_navlock"
"$program" completions fish >"$to/share/fish/vendor_completions.d/navlock.fish"
for file in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE; do
  cp "$sources/$file" "$to/share/doc/navlock"
done

cd "$folder"
case $target in
  *-windows-*)
    mkdir -p "$name/share/powershell"
    "$program" completions powershell >"$name/share/powershell/navlock.ps1"
    find "$name" -exec touch -d "@$time" {} +
    rm -f "$name.zip"
    7z a -bd -mtc=off "$name.zip" "$name" >/dev/null
    ;;
  *)
    chmod -R u=rwX,go=rX "$name"
    # That of macOS does not know these words; GNU's is called so there.
    tar=$(command -v gtar || echo tar)
    "$tar" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$time" -cf "$name.tar" "$name"
    gzip -nf9 "$name.tar"
    ;;
esac
