//! The command in an archive, with its manual and its completions; and the script that installs it.

use std::{fs, path::Path, process::Command};

use crate::{
    cross,
    run::{Result, root, run},
};

use super::{empty, folder, shell, sum_up, time_of_commit, version};

/// The name of the archive and of the folder in it.
pub(super) fn name() -> String {
    format!("navlock-{}-{}", version(), cross::MUSL)
}

/// What is made: the program $1, the sources $2, the time $3 that all of it has, into the folder $4.
const PACK: &str = r#"
name=$(basename "$4")
mkdir -p "$4/bin" "$4/share/man/man1" "$4/share/bash-completion/completions" \
  "$4/share/zsh/site-functions" "$4/share/fish/vendor_completions.d" "$4/share/doc/navlock"
cp "$1" "$4/bin/navlock"
"$1" man --output "$4/share/man/man1"
"$1" completions bash >"$4/share/bash-completion/completions/navlock"
"$1" completions zsh >"$4/share/zsh/site-functions/_navlock"
"$1" completions fish >"$4/share/fish/vendor_completions.d/navlock.fish"
for file in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE; do cp "$2/$file" "$4/share/doc/navlock"; done
chmod -R u=rwX,go=rX "$4"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$3" -cf "$name.tar" "$name"
gzip -nf9 "$name.tar"
"#;

/// What the script of the repository ($1) does with the archives ($2), into an empty home ($3).
const INSTALL: &str = r#"
export HOME="$3/home" NAVLOCK_FROM="file://$2" PATH=/usr/bin:/bin
mkdir -p "$HOME"
sh "$1" "$4"
"$HOME/.local/bin/navlock" --version
test -s "$HOME/.local/share/man/man1/navlock-run.1"
bash -euc '. "$HOME/.local/share/bash-completion/completions/navlock"; complete -p navlock'

# Changed in one place, or without its line, it is refused, and nothing is installed.
mkdir "$3/changed" "$3/other"
cp "$2"/*.tar.gz "$2/SHA256SUMS" "$3/changed"
for archive in "$3"/changed/*.tar.gz; do printf x | dd of="$archive" bs=1 seek=1000 conv=notrunc status=none; done
export HOME="$3/other" NAVLOCK_FROM="file://$3/changed"
if sh "$1" "$4" 2>"$3/said"; then echo "what was changed is installed" >&2; exit 1; fi
cat "$3/said"; grep -q 'is not what SHA256SUMS says' "$3/said"
: >"$3/changed/SHA256SUMS"
if sh "$1" "$4" 2>"$3/said"; then echo "what has no checksum is installed" >&2; exit 1; fi
cat "$3/said"; grep -q 'has no checksum' "$3/said"
test -z "$(ls -A "$3/other")"
"#;

pub(super) fn archive() -> Result<String> {
    let name = name();
    let program = cross::static_program()?;
    let unpacked = empty(&name)?;
    let time = time_of_commit()?;
    let sources = root();
    run(&mut shell(5, PACK, &[&program, &sources, Path::new(&time), &unpacked]))?;
    sum_up()?;

    // What users have is what is tried: unpacked once more.
    let tried = empty("archive-tried")?;
    let archive = folder().join(format!("{name}.tar.gz"));
    run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&tried))?;
    cross::try_out(&tried.join(&name).join("bin/navlock"))?;
    let script = root().join("contrib/install.sh");
    run(&mut shell(5, INSTALL, &[&script, &folder(), &tried, Path::new(version())]))?;

    let size = fs::metadata(&archive).map_err(|error| error.to_string())?.len();
    Ok(format!(
        "{name}.tar.gz, {size} bytes, runs in an empty root, and is installed if it is whole"
    ))
}
