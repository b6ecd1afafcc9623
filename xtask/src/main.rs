//! The project's own commands.
//!
//! - `cargo xtask test`: everything that must hold before a change lands; `--quick`: the part of it that
//!   takes two minutes; `--with-book`: it fails if it cannot build the book, because mdBook is not installed.
//! - `cargo xtask bench in-process`, `bench broker`, `bench looking`, `bench etcd`, `bench etcd-scale`,
//!   `bench embedded`, `bench js`, `bench faces` and `bench python`: the tables of docs/figures.md.
//! - `cargo xtask book`: writes the pages of docs that are made from the code, and builds the book.
//! - `cargo xtask break-rules`: breaks each rule on purpose and sees its tests fail.
//! - `cargo xtask browser`: the backend suite on the locks of headless Chromium.
//! - `cargo xtask fresh`: follows the README on a minimal Debian that has only Rust and Node.
//! - `cargo xtask cross`: builds and tests for musl, for 64-bit ARM, and checks for macOS.
//! - `cargo xtask torture`: kills, stops and starves workers at random, and sees that their locks hold.
//! - `cargo xtask simulate`: simulates the broker and its clients, from seeds, further than its tests do.
//! - `cargo xtask model`: explores the model of the keeper further than its tests do.
//! - `cargo xtask msrv`: builds and tests the library with the oldest Rust that is promised.
//! - `cargo xtask release --dry-run`: makes all parts of a release, installs them, and publishes nothing.
//! - `cargo xtask wpt`: the web-platform-tests of Web Locks on the engines embedded in Rust.
//! - `cargo xtask windows`: builds navlock for Windows, and runs its tests by Wine.
//! - `cargo xtask fuzz`: searches for bytes that break the codec of the broker's protocol.

#![forbid(unsafe_code)]

mod bench;
mod book;
mod break_rules;
mod browser;
mod cross;
mod fresh;
mod fuzz;
mod model;
mod msrv;
mod python;
mod release;
mod run;
mod simulate;
mod test;
mod torture;
mod windows;
mod wpt;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  test                      format, clippy, tests, doctests, model checks, rustdoc, the book, examples, npm,
                            Python
  test --with-book          the same; fails if mdBook is not installed
  test --quick              the part of these that takes two minutes: format, clippy, unit tests, documents
  bench in-process [ARG…]   time locks within one process; writes the table into docs/figures.md
  bench broker [ARG…]       the same between processes
  bench looking [ARG…]      what it costs others that somebody looks
  bench etcd [ARG…]         time locks between machines
  bench etcd-scale [ARG…]   what many names and many machines cost
  bench embedded [ARG…]     time locks in JavaScript engines within Rust programs
  bench js [ARG…]           time locks in JavaScript
  bench python [ARG…]       time locks in Python
  bench faces [ARG…]        compare section 3 of the specification in Rust with that in JavaScript
  book [--pictures]         write the reference of flags into docs, draw its pictures, build it with mdBook
  break-rules [ARG…]        break each rule in copies of the sources and see its tests fail
  browser [WORD…]           run the backend suite in headless Chromium, or the tests with a WORD in their names;
                            needs packages of Debian
  torture [OPTION…]         kill, stop and starve workers at random, as root; --minutes N,
                            --reach broker|etcd, --seed N, --without KIND, --break
  simulate [OPTION…]        simulate the broker and its clients; --seed N, --histories N
  model [OPTION…] [NAME…]   explore what tests of the model of the keeper search at random; --minutes N
  fresh [OPTION…]           follow the README on a minimal Debian that has only Rust and Node
  cross [TARGET…]           build and test for other systems: musl, arm64, macos
  msrv                      build and test the library with the oldest Rust that is promised
  windows [SUITE…]          build it for Windows and run its tests by Wine; needs packages of Debian
  release --dry-run [STEP…] make and try all that a release is made of, and publish nothing
  wpt --wpt CHECKOUT        the web-platform-tests on Boa and QuickJS; needs Node and a checkout of them
  fuzz [SECONDS]            search for bytes that break the broker's codec; a minute each way
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["test", rest @ ..] => test::test(rest),
        ["bench", rest @ ..] => bench::bench(rest),
        ["book", rest @ ..] => book::book(rest),
        ["fuzz", rest @ ..] => fuzz::fuzz(rest),
        ["torture", rest @ ..] => torture::torture(rest),
        ["break-rules", rest @ ..] => break_rules::break_rules(rest),
        ["browser", rest @ ..] => browser::browser(rest),
        ["cross", rest @ ..] => cross::cross(rest),
        ["fresh", rest @ ..] => fresh::fresh(rest),
        ["model", rest @ ..] => model::model(rest),
        ["simulate", rest @ ..] => simulate::simulate(rest),
        ["msrv", rest @ ..] => msrv::msrv(rest),
        ["windows", rest @ ..] => windows::windows(rest),
        ["release", rest @ ..] => release::release(rest),
        ["wpt", rest @ ..] => wpt::wpt(rest),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
