//! The image with the command alone: a broker beside containers that share a folder with it.

use std::{fs, process::Command};

use crate::{
    cross,
    run::{Result, root, run, within},
};

use super::{archive, empty, folder, shell};

/// Builds the image from the Dockerfile $1 and the archive $2, in a store of its own below $3, and
/// unpacks it there.
const BUILD: &str = r#"
store="--root $3/store --runroot $3/run --storage-driver vfs"
mkdir -p "$3/context"
cp "$1" "$3/context/Dockerfile"
cp -r "$2" "$3/context"
name=$(basename "$2")
# shellcheck disable=SC2086
{
  buildah $store build --isolation chroot --build-arg "ARCHIVE=$name" --tag navlock "$3/context"
  buildah $store inspect --type image --format '{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}' navlock
  broker=$(buildah $store from navlock)
}
mount=$(buildah $store mount "$broker")
cp -a "$mount" "$3/image"
"#;

/// Containers of the image $1 that share the folder $2 and nothing else: each has processes of its own. One
/// of them is the broker.
const APART: &str = r#"
image=$1 locks=$2
mkdir -m 700 "$locks"
mkdir -p "$image/proc" "$image/dev" "$image/tmp" "$image/run/navlock"
mount --bind "$locks" "$image/run/navlock"
mount -t tmpfs dev "$image/dev"
for node in null zero urandom; do : >"$image/dev/$node"; mount --bind "/dev/$node" "$image/dev/$node"; done
# A container has processes and a /proc of its own, which end with the script $1.
export NAVLOCK_SOCKET=/run/navlock/sock NAVLOCK_STATE=/run/navlock/state
contained() {
  script=$1; shift
  unshare --mount --pid --fork --kill-child sh -euc \
    "mount -t proc proc $image/proc; navlock() { $(command -v chroot) $image /bin/navlock \"\$@\"; }; $script" sh "$@"
}
contained 'navlock daemon run --idle-seconds 31536000' &
for _ in $(seq 100); do test -S "$locks/sock" && break; sleep 0.1; done
contained 'navlock run db -- /bin/navlock query'

# One that holds the lock until it is told to end, as a whole.
contained 'navlock hold --ttl 100 db; until test -e "$1"; do sleep 0.1; done' "$locks/end" &
for _ in $(seq 100); do contained 'navlock query --json db' | grep -q held && break; sleep 0.1; done
if contained 'navlock run -n db -- /bin/navlock --version'; then echo "two have one lock" >&2; exit 1; fi
touch "$locks/end"
contained 'navlock run -w 60 db -- /bin/navlock query'
"#;

pub(super) fn container() -> Result<String> {
    let unpacked = folder().join(archive::name());
    if !unpacked.join("bin/navlock").exists() {
        return Err(
            "the archive comes first: cargo xtask release --dry-run archive container".to_owned()
        );
    }
    cross::install(&[("buildah", "buildah")])?;
    let dockerfile = root().join("contrib/docker/Dockerfile");
    let to = empty("container")?;
    run(&mut shell(10, BUILD, &[&dockerfile, &unpacked, &to]))?;

    // The image has the command and nothing else.
    let files = crate::run::said(
        Command::new("find").args([".", "-type", "f"]).current_dir(to.join("image")),
    )?;
    let files: Vec<_> = files.lines().collect();
    if files != ["./bin/navlock"] {
        return Err(format!("the image has other files than the command: {files:?}"));
    }
    let mut tried = Command::new("unshare");
    tried.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", APART, "sh"]);
    run(&mut within(5, tried.arg(to.join("image")).arg(to.join("locks"))))?;
    let _ = fs::remove_dir_all(&to);
    Ok("the image has one file, and containers beside it share its locks".to_owned())
}
