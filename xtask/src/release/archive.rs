//! The command in an archive, with its manual and its completions; and the script that installs it.

use std::{fs, path::Path, process::Command};

use crate::{
    cross,
    run::{Result, root, run, within},
};

use super::{empty, folder, shell, sum_up, version};

/// The name of the archive and of the folder in it.
pub(super) fn name() -> String {
    format!("navlock-{}-{}", version(), cross::MUSL)
}

/// Tries the install script of the repository ($1) with the archives ($2), in an empty home below $3, for the
/// version $4.
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
    let mut pack = Command::new("sh");
    pack.arg(root().join("contrib/pack.sh")).arg(&program).arg(cross::MUSL).arg(folder());
    run(&mut within(5, &pack))?;
    sum_up()?;

    // Try what users get: the archive, unpacked.
    let tried = empty("archive-tried")?;
    let archive = folder().join(format!("{name}.tar.gz"));
    run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&tried))?;
    cross::try_out(&tried.join(&name).join("bin/navlock"))?;
    cross::install(&[("curl", "curl")])?;
    let script = root().join("contrib/install.sh");
    run(&mut shell(5, INSTALL, &[&script, &folder(), &tried, Path::new(version())]))?;

    let size = fs::metadata(&archive).map_err(|error| error.to_string())?.len();
    Ok(format!(
        "{name}.tar.gz, {size} bytes, runs in an empty root, and is installed if it is whole"
    ))
}
