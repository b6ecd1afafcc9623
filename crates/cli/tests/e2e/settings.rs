//! From where a broker learns of its etcd, and what is said if etcd cannot be used.

#[cfg(feature = "etcd")]
use std::net::TcpListener;
use std::{
    path,
    process::{Command, Stdio},
    time::Instant,
};

use navlock_testkit::Port;

use crate::sandbox::{Output, Sandbox, finish, write};

/// The words of a broker that cannot start.
fn refusal(command: &mut Command) -> String {
    let child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let output = finish(child);
    assert_eq!(output.code(), Some(69), "{output:?}");
    let said = output.stderr;
    assert_eq!(said.matches('\n').count(), 1, "{said}");
    said
}

/// All buckets live in a store, whose settings are next.
const ALL: &str = "[buckets.'*']\nstore = 'main'\n[stores.main]\n";

/// An endpoint at which nobody listens.
fn nobody() -> Port {
    Port::take().unwrap()
}

#[test]
fn an_option_goes_before_a_variable_and_that_before_the_file() {
    let sandbox = Sandbox::new();
    let ports = [(); 4].map(|()| nobody());
    let [option, variable, other, file] = ports.each_ref().map(Port::to_string);
    let chosen = sandbox.path("chosen.toml");
    for (path, endpoint) in [(&chosen, &other), (&sandbox.path("file.toml"), &file)] {
        write(path, &format!("[stores.main]\netcd = [\"{endpoint}\"]\n"));
    }
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = sandbox.navlock(&["daemon", "run"]);
        command.env("NAVLOCK_CONFIG", sandbox.path("file.toml"));
        refusal(command.args(arguments).envs(variables.iter().copied()))
    };
    let chosen = ["--store", "main", "--config", chosen.to_str().unwrap()];
    let (store, etcd) = (["--store", "main"], ["--etcd", &option]);
    let both = ["--store", "main", "--etcd", &option];
    let variable_of = |etcd| [("NAVLOCK_ETCD", etcd)];
    for (said, endpoint, origin) in [
        (run(&store, &[]), &file, "file.toml, [stores.main]"),
        (run(&[], &[("NAVLOCK_STORE", "main")]), &file, "file.toml"),
        (run(&store, &variable_of("")), &file, "file.toml"),
        (run(&chosen, &[]), &other, "chosen.toml"),
        // The variable is for what has no store.
        (run(&[], &variable_of(&variable)), &variable, "NAVLOCK_ETCD"),
        (run(&chosen, &variable_of(&variable)), &other, "chosen.toml"),
        (run(&etcd, &variable_of(&variable)), &option, "--etcd"),
        (run(&both, &[]), &option, "--etcd"),
    ] {
        assert!(said.contains(&**endpoint) && said.contains(origin), "{endpoint}: {said}");
    }
}

#[test]
fn settings_that_cannot_be_used_are_told_to_whoever_needs_the_broker() {
    let sandbox = Sandbox::new();
    for (settings, what) in [
        ("[stores\n", "c.toml, line 1"),
        ("[buckets.'a*b*']\n", "c.toml, line 1 (buckets): "),
        ("[buckets.db]\nstore = 'none'\n", "c.toml, line 1 (buckets): "),
        (
            &format!("{ALL}endpoint = \"a:1\"\n"),
            "c.toml, line 4 (endpoint): there is no setting `endpoint`",
        ),
        ("[etcd]\nendpoints = [\"a:1\"]\n", "c.toml, line 1: an etcd is a store"),
        (ALL, "c.toml, [stores.main]: no endpoints of etcd"),
        // What these mean is known only where etcd is.
        #[cfg(feature = "etcd")]
        (&format!("{ALL}etcd = [\"a:1\"]\ntime-to-live = 2\n"), "a broker needs 5 s at least"),
        #[cfg(feature = "etcd")]
        (&format!("{ALL}etcd = [\"a:1\"]\nuser = \"u\"\n"), "no password-file; add one"),
        // On Windows, a sandbox's files are its user's alone.
        #[cfg(all(feature = "etcd", unix))]
        (
            &format!("{ALL}etcd = [\"a:1\"]\nuser = \"u\"\npassword-file = \"c.toml\"\n"),
            "with which others can read or write it; 'chmod 06",
        ),
    ] {
        let file = sandbox.path("c.toml");
        write(&file, settings);
        let mut command = sandbox.navlock(&["run", "db", "true"]);
        let said = refusal(command.env("NAVLOCK_CONFIG", &file).env("NAVLOCK_STORE", "main"));
        assert!(said.contains(what), "{settings}: {said}");
        let cannot =
            ["navlock: cannot reach the broker at ", "navlock: cannot tell where the broker is: "];
        assert!(cannot.iter().any(|cannot| said.starts_with(cannot)), "{said}");
        let mut command = sandbox.navlock(&["doctor"]);
        let output = Output::of(command.env("NAVLOCK_CONFIG", &file).env("NAVLOCK_STORE", "main"));
        let shown = &output.stdout;
        assert!(shown.contains("fail  settings: ") && shown.contains(what), "{shown}");
        assert_eq!(output.code(), Some(1));
    }
    let none = path::absolute("/none.toml").unwrap();
    for (path, what) in
        [("none.toml", "an absolute path"), (none.to_str().unwrap(), "cannot read the settings")]
    {
        let said = refusal(sandbox.navlock(&["run", "db", "true"]).env("NAVLOCK_CONFIG", path));
        assert!(said.contains(what), "{said}");
    }
}

#[test]
#[cfg(feature = "etcd")]
fn an_etcd_that_is_not_there_is_told_within_seconds() {
    let sandbox = Sandbox::new();
    // One endpoint at which nobody listens, and one that accepts connections and never sends anything.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = nobody();
    for endpoint in [nobody.to_string(), silent.local_addr().unwrap().to_string()] {
        let began = Instant::now();
        let mut command = sandbox.navlock(&["run", "db", "true"]);
        let said = refusal(command.env("NAVLOCK_ETCD", &endpoint));
        // A broker has five seconds to reach etcd, and is started twice.
        assert!(began.elapsed().as_secs() < 25, "{said}");
        assert!(said.contains(&format!("cannot reach etcd at {endpoint}: ")), "{said}");
        assert!(said.contains("'navlock doctor'"), "{said}");
        assert!(sandbox.broker().is_none());
    }
}

#[test]
#[cfg(not(feature = "etcd"))]
fn a_program_without_etcd_says_how_to_build_one_with_it() {
    let sandbox = Sandbox::new();
    let began = Instant::now();
    let mut command = sandbox.navlock(&["run", "db", "true"]);
    let said = refusal(command.env("NAVLOCK_ETCD", nobody().to_string()));
    assert!(said.contains("was built without etcd; build it with 'cargo install"), "{said}");
    assert!(said.contains("--features etcd'"), "{said}");
    assert!(began.elapsed().as_secs() < 9, "{said}");
}

#[test]
#[cfg(not(feature = "postgres"))]
fn a_program_without_postgresql_says_how_to_build_one_with_it() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.navlock(&["run", "db", "true"]);
    let said = refusal(command.env("NAVLOCK_POSTGRES", "postgres://ada:s3cret@db/locks"));
    assert!(said.contains("names a PostgreSQL, and this navlock was built without it"), "{said}");
    assert!(said.contains("--features postgres'") && !said.contains("s3cret"), "{said}");
}

#[test]
#[cfg(all(feature = "etcd", not(feature = "tls")))]
fn a_program_without_tls_says_how_to_build_one_with_it() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.navlock(&["run", "db", "true"]);
    let said = refusal(command.env("NAVLOCK_ETCD", format!("https://{}", nobody())));
    assert!(said.contains("was built without TLS"), "{said}");
    assert!(said.contains("--features etcd,tls'"), "{said}");
}

#[test]
#[cfg(all(feature = "postgres", not(feature = "tls")))]
fn a_program_without_tls_refuses_a_postgresql_that_has_to_be_encrypted() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.navlock(&["run", "db", "true"]);
    let url = "postgres://ada:s3cret@db/locks?sslmode=verify-full";
    let said = refusal(command.env("NAVLOCK_POSTGRES", url));
    assert!(said.contains("this build has no TLS") && !said.contains("s3cret"), "{said}");
}

#[test]
fn the_settings_say_to_all_where_the_broker_is() {
    let sandbox = Sandbox::new();
    let (file, socket) = (sandbox.path("place.toml"), sandbox.path("elsewhere"));
    write(&file, &format!("socket = '{}'\n", socket.display()));
    let run = |arguments: &[&str]| {
        let mut command = sandbox.navlock(arguments);
        command.env("NAVLOCK_CONFIG", &file).env_remove("NAVLOCK_SOCKET");
        finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    assert_eq!(run(&["run", "db", "true"]).status.code(), Some(0));
    // Programs find it too, and an option and a variable go before.
    assert!(run(&["daemon", "status"]).stdout.contains(socket.to_str().unwrap()));
    assert_eq!(sandbox.code(&["daemon", "status"]), 69);
    let other = sandbox.path("other");
    assert_eq!(
        run(&["daemon", "status", "--socket", other.to_str().unwrap()]).status.code(),
        Some(69)
    );
    assert!(run(&["daemon", "stop"]).stdout.contains("has ended"));
    for (text, what) in [
        ("socket = \"sock\"\n", "an absolute path"),
        ("socket = 7\n", "line 1 (socket)"),
        ("[etcd\n", "line 1"),
    ] {
        write(&file, text);
        let output = run(&["run", "db", "true"]);
        assert_eq!(output.code(), Some(69), "{output:?}");
        let said = output.stderr;
        assert!(
            said.starts_with("navlock: cannot tell where the broker is: ") && said.contains(what)
        );
        assert!(run(&["doctor"]).stdout.contains("fail  place: "));
        assert_eq!(run(&["man"]).status.code(), Some(0));
    }
}
