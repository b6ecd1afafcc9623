//! The project's own commands.
//!
//! - `cargo xtask test`: everything that must hold before a change lands.
//! - `cargo xtask bench in-process`, `bench broker`, `bench looking`, `bench etcd`, `bench etcd-scale`,
//!   `bench embedded` and `bench js`: the tables of docs/figures.md.
//! - `cargo xtask break-rules`: breaks each rule on purpose and sees its tests fail.
//! - `cargo xtask fresh`: follows the README on a minimal Debian that has only Rust and Node.
//! - `cargo xtask torture`: kills, stops and starves workers at random, and sees that their locks hold.
//! - `cargo xtask model`: explores the model of the keeper of etcd further than its tests do.
//! - `cargo xtask msrv`: builds and tests the library with the oldest Rust that is promised.
//! - `cargo xtask wpt`: the web-platform-tests of Web Locks on the engines embedded in Rust.
//! - `cargo xtask fuzz`: searches for bytes that break the codec of the broker's protocol.

#![forbid(unsafe_code)]

mod bench;
mod break_rules;
mod fresh;
mod fuzz;
mod model;
mod msrv;
mod run;
mod test;
mod torture;
mod wpt;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  test                      format, clippy, tests, doctests, model checks, rustdoc, examples, npm
  bench in-process [ARG…]   time locks within one process; writes the table into docs/figures.md
  bench broker [ARG…]       the same between processes
  bench looking [ARG…]      what it costs others that somebody looks
  bench etcd [ARG…]         time locks between machines
  bench etcd-scale [ARG…]   what many names and many machines cost
  bench embedded [ARG…]     time locks in JavaScript engines within Rust programs
  bench js [ARG…]           time locks in JavaScript
  break-rules [ARG…]        break each rule in copies of the sources and see its tests fail
  torture [OPTION…]         kill, stop and starve workers at random, as root; --minutes N,
                            --reach broker|etcd, --seed N, --without KIND, --break
  model [OPTION…] [NAME…]   explore what tests of the model of etcd's keeper search at random; --minutes N
  fresh [OPTION…]           follow the README on a minimal Debian that has only Rust and Node
  msrv                      build and test the library with the oldest Rust that is promised
  wpt --wpt CHECKOUT        the web-platform-tests on Boa and QuickJS; needs Node and a checkout of them
  fuzz [SECONDS]            search for bytes that break the broker's codec; a minute each way
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["test"] => test::test(),
        ["bench", rest @ ..] => bench::bench(rest),
        ["fuzz", rest @ ..] => fuzz::fuzz(rest),
        ["torture", rest @ ..] => torture::torture(rest),
        ["break-rules", rest @ ..] => break_rules::break_rules(rest),
        ["fresh", rest @ ..] => fresh::fresh(rest),
        ["model", rest @ ..] => model::model(rest),
        ["msrv", rest @ ..] => msrv::msrv(rest),
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
