//! What this process says of itself.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use navlock_core::{
    AgentInfo,
    host::{clip_chars, is_interpreter},
};
use navlock_platform::{
    process,
    user::{self, UserId, ours},
};

/// How many characters of a command others are shown.
pub const LONGEST_COMMAND: usize = 200;

/// What agents of this process say of themselves, unless the program sets something else: the
/// number of the process, its program without arguments, its user, and the name of its machine.
///
/// ```
/// # use navlock::this_process;
/// # let locks = navlock::UserAgent::new().lock_manager("my-app");
/// let mut info = this_process();
/// info.why = "nightly backup".to_owned();
/// locks.describe(&info);
/// ```
pub fn this_process() -> AgentInfo {
    static USER: OnceLock<String> = OnceLock::new();
    let mut info = this_client();
    info.user.clone_from(USER.get_or_init(user));
    info
}

/// As [`this_process`], without the user.
///
/// FAST: a broker knows the users of its clients, and their names stand in a file or with a service.
pub fn this_client() -> AgentInfo {
    static THIS: OnceLock<AgentInfo> = OnceLock::new();
    let mut info = THIS.get_or_init(look).clone();
    // A forked process inherits the rest from its parent, but has its own number.
    info.pid = std::process::id();
    info
}

/// The PID namespace of this process, as the number of the namespace's inode. The number of a process has a
/// meaning only in the namespace in which it was seen. `None` if the system has no such namespaces, or if the
/// namespace cannot be found out.
pub fn pid_namespace() -> Option<u64> {
    process::namespace()
}

fn look() -> AgentInfo {
    let mut info = AgentInfo::default();
    info.command = command();
    info.host = user::host();
    info
}

/// The program as it was called, without its arguments. The arguments may be secret, and what an
/// agent says of itself is shown to all who share its locks.
fn command() -> String {
    let mut command = program().to_string_lossy().into_owned();
    if let Some(script) = script().filter(|_| is_interpreter(&program_name())) {
        command = format!("{command} {}", script.to_string_lossy());
    }
    clip_chars(&command, LONGEST_COMMAND).to_owned()
}

/// The name of this program, without its path and its arguments.
pub(crate) fn program_name() -> String {
    let program = program();
    program.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The script that an interpreter was started with, as far as that can be told. Code on the command line is none.
fn script() -> Option<OsString> {
    let mut words = env::args_os().skip(1).filter(|word| word != "run");
    let is_script = |word: &OsString| {
        let extension = Path::new(word).extension().and_then(OsStr::to_str).unwrap_or_default();
        let extension = extension.trim_start_matches(['m', 'c']);
        ["js", "ts", "jsx", "tsx", "py"].contains(&extension)
    };
    let first = words.next()?;
    let code = ["-e", "-p", "-pe", "-c", "--eval", "--print"];
    if code.iter().any(|option| first == **option) {
        return None;
    }
    if first.to_string_lossy().starts_with('-') { words.find(is_script) } else { Some(first) }
}

/// The program as it was called.
fn program() -> PathBuf {
    env::args_os().next().unwrap_or_default().into()
}

/// The user's name, or else the user's number. It is not taken from the environment, which any process can set.
fn user() -> String {
    user::name().unwrap_or_else(|| user_words(ours()))
}

/// A user without a name, for people.
pub(crate) fn user_words(user: UserId) -> String {
    format!("uid {user}")
}
