//! The package for Debian, installed in a fresh Debian and removed.

use std::{fs, path::Path, process::Command};

use crate::{
    cross,
    fresh::host::debian_sources,
    run::{Result, root, run, within},
};

use super::{archive, empty, folder, shell, sum_up, tools::subcommand, version};

/// In a fresh Debian ($1): installs $2, uses it as root and as another user, and removes it.
const TRY: &str = r#"
root=$1
cp "$2" "$root/navlock.deb"
mount --bind /proc "$root/proc"
mount -t tmpfs dev "$root/dev"
for node in null zero urandom; do : >"$root/dev/$node"; mount --bind "/dev/$node" "$root/dev/$node"; done
inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
inside dpkg --install /navlock.deb
inside dpkg --verify navlock
for user in root daemon; do
  # shellcheck disable=SC2016
  said=$(inside setpriv --reuid "$user" --clear-groups sh -c 'navlock run db -- sh -c "navlock query; navlock run -n -q db true || echo refused"')
  echo "$said"
  echo "$said" | grep -q refused
  inside setpriv --reuid "$user" --clear-groups navlock daemon stop
done
for file in /usr/share/man/man1/navlock-run.1.gz /usr/share/doc/navlock/copyright \
  /usr/share/bash-completion/completions/navlock /usr/lib/systemd/user/navlock.socket \
  /usr/lib/systemd/system/navlock.socket /usr/lib/sysusers.d/navlock.conf \
  /usr/lib/tmpfiles.d/navlock-system.conf; do
  test -s "$root$file" || { echo "it lacks $file" >&2; exit 1; }
done
for whose in user system; do
  grep -q '^ExecStart=/usr/bin/navlock ' "$root/usr/lib/systemd/$whose/navlock.service"
done
enabled=$(find "$root/etc/systemd" -name '*navlock*')
test -z "$enabled" || { echo "it enables $enabled" >&2; exit 1; }
inside dpkg --purge navlock
left=$(find "$root/usr" "$root/etc" -name '*navlock*')
test -z "$left" || { echo "it leaves $left" >&2; exit 1; }
"#;

pub(super) fn deb() -> Result<String> {
    let _program = cross::static_program()?;
    // The files that belong beside the program come from the archive.
    let unpacked = folder().join(archive::name());
    if !unpacked.join("share").exists() {
        return Err("the archive comes first: cargo xtask release --dry-run archive deb".to_owned());
    }
    // The manifest expects the files here that cargo does not build.
    let share = root().join("target/share");
    let _ = fs::remove_dir_all(&share);
    run(Command::new("cp").arg("-r").arg(unpacked.join("share")).arg(&share))?;
    units(&share)?;

    let machine = if cross::MUSL.starts_with("aarch64") { "arm64" } else { "amd64" };
    let name = format!("navlock_{}-1_{machine}.deb", version());
    let to = folder().join(&name);
    let mut make = subcommand("cargo-deb", "3.8.0")?;
    make.args(["--package", "navlock-cli", "--no-build", "--no-strip", "--locked"]);
    make.args(["--target", cross::MUSL, "--output"]).arg(&to);
    make.env("CARGO_TARGET_DIR", root().join("target/cross"));
    run(&mut within(10, &make))?;
    sum_up()?;

    cross::install(&[("debootstrap", "debootstrap")])?;
    let debian = debian()?;
    let fresh = empty("debian-tried")?;
    run(&mut shell(5, r#"cp -a "$1/." "$2""#, &[&debian, &fresh]))?;
    let mut tried = Command::new("unshare");
    tried.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", TRY, "sh"]);
    run(&mut within(10, tried.arg(&fresh).arg(&to)))?;
    let _ = fs::remove_dir_all(fresh);
    Ok(format!("{name} is installed in a fresh Debian, used, and removed without a trace"))
}

/// Writes systemd's units for users and for the machine, with the path of the installed program.
fn units(share: &Path) -> Result {
    for (whose, program) in [("user", "%h/.cargo/bin/"), ("system", "/usr/local/bin/")] {
        let from = root().join("contrib/systemd").join(whose);
        let to = share.join("systemd").join(whose);
        let failed = |error: std::io::Error| format!("{}: {error}", to.display());
        fs::create_dir_all(&to).map_err(failed)?;
        let service = fs::read_to_string(from.join("navlock.service")).map_err(failed)?;
        let lines = service.lines().filter(|line| !line.contains("cargo install"));
        let lines: Vec<_> = lines.map(|line| line.replace(program, "/usr/bin/")).collect();
        fs::write(to.join("navlock.service"), lines.join("\n") + "\n").map_err(failed)?;
        fs::copy(from.join("navlock.socket"), to.join("navlock.socket")).map_err(failed)?;
    }
    Ok(())
}

/// A minimal Debian, which is made once and kept.
fn debian() -> Result<std::path::PathBuf> {
    let to = root().join("target/cross/debian");
    if to.join("etc/debian_version").exists() && to.join("made").exists() {
        return Ok(to);
    }
    let _ = fs::remove_dir_all(&to);
    let sources = debian_sources()?;
    let mut make = Command::new("debootstrap");
    make.arg("--variant=minbase").arg(&sources.suite).arg(&to).arg(&sources.mirror);
    run(&mut within(20, &make))?;
    fs::write(to.join("made"), "").map_err(|error| error.to_string())?;
    Ok(to)
}
