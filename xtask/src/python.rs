//! The Python package: its tests, its types and its benchmarks, in a virtual environment of its own.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::run::{Result, built_in, cargo, root, run, within};

/// The tests of the package, which also look at its types. The workspace, and the npm package, must be built.
pub(crate) fn test() -> Result {
    let python = environment()?;
    let package = assembled("debug")?;
    // The other ways in, which one of the tests lets meet.
    let command = built_in("debug", "navlock")?;
    let mut tests = python.with(&package, &["-m", "pytest", "-q", "python/tests"]);
    run(tests.env("NAVLOCK_PROGRAM", command))?;
    // This shows that the benchmarks run; what they measure here means nothing.
    run(&mut python.with(&package, &["python/bench/bench.py", "--quick"]))
}

/// Makes a wheel for this machine in the folder `to`, by the way in which `pip install` makes it from a checkout,
/// installs it where there is nothing else, and runs the tests on what is installed. Returns the wheel.
pub(crate) fn pack(to: &Path) -> Result<PathBuf> {
    let python = environment()?;
    let mut wheel = Command::new(&python.0);
    wheel.args(["-m", "pip", "wheel", "--no-deps", "--wheel-dir"]).arg(to);
    run(&mut within(40, wheel.arg("./python").current_dir(root())))?;
    let made = fs::read_dir(to).map_err(|error| format!("{}: {error}", to.display()))?;
    let mut wheels = made.flatten().map(|file| file.path());
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|is| is == "whl");
    let wheel = wheels.find(is_wheel).ok_or("pip has made no wheel")?;

    let installed = Environment::make(&to.join("environment"))?;
    run(Command::new(&installed.0).args(["-m", "pip", "install", "--quiet"]).arg(&wheel))?;
    let tests = ["-I", "-m", "pytest", "-q", "python/tests"];
    run(&mut within(15, Command::new(&installed.0).args(tests).current_dir(root())))?;
    // Those of the package that one module stands in for.
    let theirs = ["-I", "python/tests/filelock_suite.py"];
    run(&mut within(5, Command::new(&installed.0).args(theirs).current_dir(root())))?;
    Ok(wheel)
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
    /// The environment in this folder, which is made if it is not there.
    fn make(folder: &Path) -> Result<Self> {
        let python = folder.join(if cfg!(windows) { r"Scripts\python.exe" } else { "bin/python" });
        if !python.exists() {
            run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        }
        let quietly = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let needed = root().join("python/tests/requirements.txt");
        run(Command::new(&python).args(quietly).arg("--requirement").arg(needed))?;
        Ok(Self(python))
    }

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
    Environment::make(&folder()?.join("environment"))
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
