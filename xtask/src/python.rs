//! The Python package: its tests, its types and its benchmarks, in a virtual environment of its own.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::run::{Result, built_in, cargo, root, run};

/// The tests of the package, and the types of what it shows. The workspace, and the npm package, must be built.
pub(crate) fn test() -> Result {
    let python = environment()?;
    let package = assembled("debug")?;
    let tests = |module: &str| python.with(&package, &["-m", module]);
    // The other ways in, which one of the tests lets meet.
    let command = built_in("debug", "navlock")?;
    run(tests("pytest").args(["-q", "python/tests"]).env("NAVLOCK_PROGRAM", command))?;
    run(tests("mypy").args(["--strict", "python/navlock"]))?;
    run(tests("pyright").args(["--project", "python"]))?;
    // This shows that the benchmarks run; what they measure here means nothing.
    run(&mut python.with(&package, &["python/bench/bench.py", "--quick"]))
}

/// The benchmarks of the package, as it is released.
pub(crate) fn bench(arguments: &[&str]) -> Result {
    run(&mut cargo(&["build", "--release", "--quiet", "--package", "navlock-python"]))?;
    let python = environment()?;
    let mut command = python.with(&assembled("release")?, &["python/bench/bench.py"]);
    run(command.args(arguments))
}

/// A Python with what the package is tested with.
struct Environment(PathBuf);

impl Environment {
    /// Python with these arguments, which finds the package built in `package`. It does not run in the folder of the
    /// sources, where it would find them instead.
    fn with(&self, package: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.0);
        command.args(arguments).current_dir(root()).env("PYTHONPATH", package);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }
}

fn environment() -> Result<Environment> {
    let folder = folder()?.join("environment");
    let python = folder.join(if cfg!(windows) { r"Scripts\python.exe" } else { "bin/python" });
    if !python.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    }
    let needed = root().join("python/tests/requirements.txt");
    let quietly =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    run(Command::new(&python).args(quietly).arg(needed))?;
    Ok(Environment(python))
}

/// The folder of a package that is put together from its Python half and the extension module that was built.
fn assembled(profile: &str) -> Result<PathBuf> {
    let library = if cfg!(windows) {
        "_navlock.dll"
    } else if cfg!(target_vendor = "apple") {
        "lib_navlock.dylib"
    } else {
        "lib_navlock.so"
    };
    let module = if cfg!(windows) { "_navlock.pyd" } else { "_navlock.abi3.so" };
    let (from, to) = (root().join("python/navlock"), folder()?.join(profile));
    let package = to.join("navlock");
    let failed = |error| format!("{}: {error}", package.display());
    fs::create_dir_all(&package).map_err(failed)?;
    for file in fs::read_dir(from).map_err(failed)?.flatten() {
        let extension = file.path().extension().unwrap_or_default().to_owned();
        if ["py", "pyi", "typed"].iter().any(|wanted| extension == *wanted) {
            fs::copy(file.path(), package.join(file.file_name())).map_err(failed)?;
        }
    }
    // A process that has the last module loaded keeps it.
    let _ = fs::remove_file(package.join(module));
    fs::copy(built_in(profile, library)?, package.join(module)).map_err(failed)?;
    Ok(to)
}

/// The folder for all that.
fn folder() -> Result<PathBuf> {
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = root().join(target).join("python");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}
