//! `navlock web`, as programs see it. What browsers see is tested in npm/navlock/test/web.

mod client;

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    os::unix::{
        fs::{OpenOptionsExt, PermissionsExt},
        net::UnixStream,
    },
    path::PathBuf,
    process::Stdio,
    time::Instant,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use self::client::{Web, ask};
use crate::{
    sandbox::{Lines, Sandbox, eventually, wait},
    worker::TIMEOUT,
};

#[test]
fn the_page_is_for_who_has_been_told_its_address() {
    let sandbox = Sandbox::new();
    let web = Web::start(&sandbox, &[]);
    let host = ("host", web.host.as_str());
    let get = |path: &str, headers: &[(&str, &str)]| web.ask(&format!("GET {path}"), headers, "");
    for path in ["/", "/?token=", "/api/state", "/metrics", "/nowhere"] {
        assert_eq!(get(path, &[host]).status, 401, "{path}");
    }
    let entry = format!("/?token={}", web.token);
    assert_eq!(get(&entry, &[("host", "evil.example")]).status, 403);
    assert_eq!(get(&entry, &[]).status, 403);
    let entered = get(&entry, &[host]);
    assert_eq!(entered.status, 200);
    let cookie = entered.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.ends_with("; httponly; samesite=strict"), "{cookie}");
    let (cookie, path) = cookie.split_once("; path=").unwrap();
    let path = path.split(';').next().unwrap();
    assert_eq!(get(path, &[host]).status, 401);
    let page = get(path, &[host, ("cookie", cookie)]);
    assert_eq!(page.status, 200);
    assert!(page.body.contains("<title>navlock</title>"), "{}", page.body);
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "referrer-policy: no-referrer",
        "x-frame-options: deny",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(page.head.contains(header), "{}", page.head);
    }
    assert!(!page.head.contains("access-control"), "{}", page.head);
    let other = ("origin", "http://127.0.0.1:1");
    assert_eq!(get(path, &[host, ("cookie", cookie), other]).status, 403);
    assert_eq!(web.get("/nowhere").status, 404);
}

#[test]
fn a_program_is_told_what_there_is() {
    let sandbox = Sandbox::new();
    let web = Web::start(&sandbox, &[]);
    assert_eq!(web.state()["broker"], "none");
    assert_eq!(web.get("/metrics").status, 503);
    let holder = sandbox.hold(&["--bucket", "elsewhere", "--why", "to see", "db"]);
    // The one after the other, as its `navlock run` has told them.
    let pid = holder.command().as_raw_nonzero().get();
    eventually("it is shown", || {
        let state = web.state();
        let agents = state["agents"].as_array().unwrap();
        state["names"][0]["heldCount"] == 1 && agents.iter().any(|agent| agent["pid"] == pid)
    });
    let metrics = web.get("/metrics");
    assert_eq!(metrics.status, 200);
    assert!(metrics.body.contains("# TYPE navlock_"), "{}", metrics.body);
    let state = web.state();
    let name = &state["names"][0];
    assert_eq!((&name["name"], &name["bucket"]), (&"db".into(), &"elsewhere".into()));
    let agents = state["agents"].as_array().unwrap();
    let agent = agents.iter().find(|agent| agent["id"] == name["held"][0]["agent"]).unwrap();
    assert_eq!(agent["pid"], pid);
    assert_eq!((&agent["why"], &agent["held"]), (&"to see".into(), &1.into()));
    holder.release();
    eventually("it is not shown any more", || web.state()["names"] == Value::Array(Vec::new()));
}

#[test]
fn only_this_machine_is_served() {
    let sandbox = Sandbox::new();
    for address in ["0.0.0.0", "::", "192.168.1.1"] {
        let output = sandbox.output(&["web", "--address", address]);
        assert_eq!(output.code(), Some(64), "{output:?}");
        assert!(output.stderr.contains("this machine only"), "{output:?}");
    }
    let web = Web::start(&sandbox, &[]);
    let port = web.host.rsplit(':').next().unwrap();
    let output = sandbox.output(&["web", "--port", port]);
    assert_eq!(output.code(), Some(69), "{output:?}");
}

#[test]
fn a_socket_is_its_user_s_alone_and_goes_when_the_page_ends() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("web.sock");
    for _ in 0..2 {
        let mut web = Web::start(&sandbox, &["--unix", "web.sock"]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let connect = || {
            let connection = UnixStream::connect(&path).unwrap();
            connection.set_read_timeout(Some(TIMEOUT)).unwrap();
            connection
        };
        let entry = format!("GET /api/state?token={}", web.token);
        // A request through a port that is forwarded there.
        assert_eq!(ask(connect(), &entry, &[("host", "localhost:8080")], "").status, 200);
        assert_eq!(ask(connect(), &entry, &[("host", "evil.example")], "").status, 403);
        // Another server listens there already.
        assert_eq!(sandbox.code(&["web", "--unix", "web.sock"]), 69);
        assert_eq!(ask(connect(), &entry, &[("host", "localhost")], "").status, 200);
        kill_process(Pid::from_child(&web.child), Signal::INT).unwrap();
        assert_eq!(wait(&mut web.child).code(), None);
        assert!(!path.exists());
    }
    // A killed server leaves its socket behind.
    drop(Web::start(&sandbox, &["--unix", "web.sock"]));
    assert!(path.exists());
    drop(Web::start(&sandbox, &["--unix", "web.sock"]));
}

#[test]
#[cfg(target_os = "linux")]
fn the_remedy_for_a_deadlock_is_the_one_of_the_terminal_and_ends_nobody_else() {
    let sandbox = Sandbox::new();
    let other = sandbox.hold(&["other"]);
    let theirs = other.command().as_raw_nonzero().to_string();
    let mut liar = crate::worker::program(&sandbox, "jams::crossed", &theirs).spawn().unwrap();
    let web = Web::start(&sandbox, &[]);
    let mut remedies = Value::Null;
    eventually("the deadlock is shown", || {
        let state = web.state();
        remedies = state["deadlocks"][0]["remedies"].clone();
        state["deadlocks"][0]["members"].is_array()
    });
    let [remedy] = &remedies.as_array().unwrap()[..] else { panic!("{remedies}") };
    assert_eq!(remedy["line"], format!("kill {}", liar.id()));
    assert!(remedy["does"].as_str().unwrap().starts_with("ends "), "{remedy}");
    liar.kill().unwrap();
    liar.wait().unwrap();
    other.release();
}

#[test]
fn a_page_that_ends_removes_no_socket_but_its_own() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("web.sock");
    let mut first = Web::start(&sandbox, &["--unix", "web.sock"]);
    fs::remove_file(&path).unwrap();
    let second = Web::start(&sandbox, &["--unix", "web.sock"]);
    kill_process(Pid::from_child(&first.child), Signal::INT).unwrap();
    assert_eq!(wait(&mut first.child).code(), None);
    assert_eq!(second.get_at(&path, "/api/state").status, 200);
}

#[test]
fn of_many_who_find_a_socket_that_was_left_behind_one_listens_there() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("web.sock");
    for _ in 0..3 {
        drop(Web::start(&sandbox, &["--unix", "web.sock"]));
        let all: Vec<_> = (0..6).map(|_| sandbox.start(&["web", "--unix", "web.sock"])).collect();
        let all: Vec<_> = all.into_iter().map(Web::of).collect();
        let [one] = &all.iter().flatten().collect::<Vec<_>>()[..] else {
            panic!("{} serve", all.iter().flatten().count());
        };
        assert_eq!(one.get_at(&path, "/api/state").status, 200);
    }
}

#[test]
fn idle_connections_keep_nobody_out() {
    let sandbox = Sandbox::new();
    let web = Web::start(&sandbox, &[]);
    let connect = || TcpStream::connect(&web.host).unwrap();
    // These are more than are served at a time.
    let mut idle: Vec<_> = (0..200).map(|_| connect()).collect();
    assert_eq!(web.get("/api/state").status, 200);
    // The server hangs up on them, also if they go on asking for what they do not get.
    let mut asks = connect();
    let end = Instant::now() + TIMEOUT;
    while asks.write_all(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").is_ok() {
        assert!(Instant::now() < end, "it stays by asking");
    }
    for stranger in &mut idle {
        stranger.set_read_timeout(Some(TIMEOUT)).unwrap();
        let read = stranger.read(&mut [0; 512]);
        assert!(!read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    }
}

#[test]
fn nothing_is_stolen_but_what_was_seen_and_where_that_is_allowed() {
    let sandbox = Sandbox::new();
    steals_what_was_seen(&sandbox, &sandbox);
}

/// By the page that is served on one machine, steals what is held on the other.
pub(crate) fn steals_what_was_seen(here: &Sandbox, there: &Sandbox) {
    let [read_only, web] = [&[][..], &["--allow-steal"]].map(|all| Web::start(here, all));
    let mut holder = there.hold(&["db"]);
    let mut next = there.queue(&["db"]);
    let row = |web: &Web| {
        let names = web.state()["names"].as_array().cloned().unwrap_or_default();
        names.into_iter().find(|row| row["name"] == "db").unwrap_or_default()
    };
    let steal = |web: &Web, version: &Value, intent: &str| {
        let key = row(web)["key"].clone();
        let body = serde_json::json!({ "key": key, "version": version }).to_string();
        let bearer = format!("Bearer {}", web.token);
        let page = web.page();
        let headers =
            [("host", web.host.as_str()), ("authorization", &bearer), ("x-navlock", intent)];
        web.ask(&format!("POST {page}api/steal"), &headers, &body)
    };
    for web in [&read_only, &web] {
        eventually("all is shown", || row(web)["pendingCount"] == 1);
    }
    let state = web.state();
    let (seen, before) = (&state["version"], Value::from(1));
    assert_eq!(steal(&read_only, seen, "steal").status, 403);
    assert_eq!(steal(&web, seen, "").status, 403);
    assert_eq!(steal(&web, &before, "steal").status, 409);
    assert_eq!(steal(&web, &Value::from("any"), "steal").status, 400);
    assert!(!holder.has_ended());
    let stolen = steal(&web, seen, "steal");
    assert_eq!(stolen.status, 200, "{}", stolen.body);
    assert_eq!(holder.ended().code(), Some(75));
    // The stolen lock was released at once.
    next.begun();
    next.release();
}

/// A browser: writes down how it was started, and waits while the test looks around.
const BROWSER: &str = "#!/bin/sh
tr '\\0' ' ' </proc/$$/cmdline >\"$SEEN\"
mv \"$SEEN\" \"$SEEN.whole\"
read line <\"$GATE\"
";

/// Whether a process has this text in its command line.
fn is_in_a_process_list(text: &str) -> bool {
    let all = fs::read_dir("/proc").unwrap();
    let started = all.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    started.into_iter().any(|line| String::from_utf8_lossy(&line).contains(text))
}

/// Puts a program where a browser is looked for. Returns its path.
#[cfg(target_os = "linux")]
fn install_browser(sandbox: &Sandbox) -> PathBuf {
    fs::create_dir(sandbox.path("bin")).unwrap();
    let browser = sandbox.path("bin/xdg-open");
    let mut script = fs::File::options();
    let mut script = script.write(true).create_new(true).mode(0o755).open(&browser).unwrap();
    script.write_all(BROWSER.as_bytes()).unwrap();
    browser
}

/// The host and the path to which a page sends its reader.
#[cfg(target_os = "linux")]
fn address_in(page: &str) -> (&str, &str) {
    let (_, address) = page.split_once("content=\"0;url=http://").unwrap();
    let (host, entry) = address.split_once('/').unwrap();
    (host, entry.split('"').next().unwrap())
}

#[test]
#[cfg(target_os = "linux")]
fn a_browser_is_opened_and_nobody_sees_the_token_in_what_it_is_started_with() {
    for by_name in [true, false] {
        let sandbox = Sandbox::new();
        let browser = install_browser(&sandbox);
        let (seen, gate) = (sandbox.path("seen"), sandbox.pipe("gate"));
        let mut command = sandbox.navlock(&["web", "--open"]);
        let path = std::env::var("PATH").unwrap();
        command.env("SEEN", &seen).env("GATE", &gate);
        if by_name {
            command.env_remove("BROWSER");
            command.env("PATH", format!("{}:{path}", sandbox.path("bin").display()));
        } else {
            command.env(
                "BROWSER",
                format!("{}.none:{} --url=%s", browser.display(), browser.display()),
            );
        }
        let web = Web::start_as(command);
        eventually("the browser is started", || sandbox.path("seen.whole").exists());
        let line = fs::read_to_string(sandbox.path("seen.whole")).unwrap();
        let (_, file) = line.trim().split_once("file://").expect("it is given a file");
        assert!(!line.contains(&web.token) && !is_in_a_process_list(&web.token), "{line}");
        assert_eq!(line.contains("--url=file://"), !by_name, "{line}");
        // Nobody else can read the file.
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        let page = fs::read_to_string(file).unwrap();
        let (host, entry) = address_in(&page);
        assert_eq!(host, web.host);
        assert_eq!(web.ask("GET /", &[("host", host)], "").status, 401);
        assert!(fs::exists(file).unwrap());
        // The headers of a browser that a file sends there.
        let headers = [
            ("host", host),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        let entered = web.ask(&format!("GET /{entry}"), &headers, "");
        assert_eq!(entered.status, 200);
        assert!(entered.head.contains("set-cookie: "), "{}", entered.head);
        assert!(!fs::exists(file).unwrap(), "what has done its work is removed");
        fs::File::options().write(true).open(&gate).unwrap().write_all(b"\n").unwrap();
    }
}

#[test]
fn where_no_browser_opens_that_is_said_and_a_signal_leaves_nothing() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.navlock(&["web", "--open"]);
    command.env("BROWSER", "false:/nowhere/browser").stderr(Stdio::piped());
    let mut web = Web::start_as(command);
    let said = Lines::of(web.child.stderr.take().unwrap()).next().unwrap();
    assert!(said.starts_with("navlock: no browser could be opened (false: "), "{said}");
    assert!(said.ends_with("): open the address") && !said.contains(&web.token), "{said}");
    let pages = || {
        let all = fs::read_dir(sandbox.path("")).unwrap();
        all.filter(|entry| {
            entry.as_ref().unwrap().path().extension().is_some_and(|it| it == "html")
        })
        .count()
    };
    assert_eq!(pages(), 1);
    kill_process(Pid::from_child(&web.child), Signal::TERM).unwrap();
    wait(&mut web.child);
    assert_eq!(pages(), 0);
    let output = sandbox.output(&["web", "--open", "--unix", "sock2"]);
    assert_eq!(output.code(), Some(64), "{output:?}");
}
