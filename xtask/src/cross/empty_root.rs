//! The command in an empty root, as in a container that has nothing else.

use std::{fs, path::Path, process::Command};

use crate::run::{Result, run};

/// The trial of the program in the root. The root has the program, what every container has (`/proc`,
/// `/dev`), and `/tmp`; under its locks the program runs itself. When this shell ends, its namespaces end,
/// with all processes in them.
const SCRIPT: &str = r#"set -eu
root=$1
mount -t proc proc "$root/proc"
mount -t tmpfs dev "$root/dev"
for node in null zero urandom; do : >"$root/dev/$node"; mount --bind "/dev/$node" "$root/dev/$node"; done
navlock() { env -i "$(command -v chroot)" "$root" /navlock "$@"; }
fail() { echo "$1" >&2; exit 1; }
lines() { navlock query --json db | wc -l; }
until_it_is() { # SECONDS CONDITION
  for _ in $(seq "$1"0); do eval "$2" && return; sleep 0.1; done; fail "in $1 s it was not so: $2"
}

navlock --version
navlock run db -- /navlock query db
hold=$(navlock hold --ttl 100 db | head -n 1)
if navlock run -n -q db -- /navlock --version; then fail 'two have one lock'; fi
navlock run -w 60 db -- /navlock --version >"$root/served" &
waiter=$!
until_it_is 20 '[ "$(lines)" = 2 ]'

# The broker is killed: the next one knows who holds, and who waits.
first=$(navlock daemon status | sed -n 's/^process  *//p')
kill -KILL "$first"
until_it_is 30 '[ "$(lines)" = 2 ]'
second=$(navlock daemon status | sed -n 's/^process  *//p')
[ "$first" != "$second" ] || fail 'it is the same broker'
[ ! -s "$root/served" ] || fail 'who waited has the lock of another'

navlock release "$hold"
wait "$waiter"
grep -q '^navlock ' "$root/served" || fail 'who waited was not served'
until_it_is 20 '[ "$(lines)" = 0 ]'
navlock daemon stop
echo "broker $first was killed, $second took over, and the lock was handed on"
"#;

/// Tries this program in an empty root. A lock must have one holder at a time, and must survive a killed
/// broker.
pub(crate) fn try_out(program: &Path) -> Result {
    let root = super::folder().join("empty-root");
    let failed = |error: std::io::Error| format!("{}: {error}", root.display());
    if root.exists() {
        fs::remove_dir_all(&root).map_err(failed)?;
    }
    for folder in ["proc", "dev", "tmp"] {
        fs::create_dir_all(root.join(folder)).map_err(failed)?;
    }
    fs::copy(program, root.join("navlock")).map_err(failed)?;
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", "200", "unshare", "--map-root-user", "--mount", "--pid"]);
    command.args(["--fork", "--kill-child", "sh", "-c", SCRIPT, "sh"]).arg(&root);
    run(&mut command)
        .map_err(|error| format!("the command does not work in an empty root: {error}"))
}
