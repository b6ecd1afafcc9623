//! Processes, of whatever language, take turns to add to a number in a file.
//!
//! `several_processes [BUCKET FILE TIMES]`

use std::{env, error::Error, fs, io};

fn main() -> Result<(), Box<dyn Error>> {
    // If no broker runs, this program is started once more to be one.
    navlock::serve_if_asked();
    let mut arguments = env::args().skip(1);
    let bucket = arguments.next().unwrap_or_else(|| "example".to_owned());
    let file = arguments.next().map_or_else(|| env::temp_dir().join("navlock-example"), Into::into);
    let times = arguments.next().map_or(Ok(10), |times| times.parse())?;

    let locks = navlock::local_blocking()?.lock_manager(&bucket);
    for _ in 0..times {
        // It is held until the end of this turn.
        let _guard = locks.lock("number").blocking()?;
        let number: u64 = match fs::read_to_string(&file) {
            Ok(text) => text.trim().parse()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error.into()),
        };
        fs::write(&file, (number + 1).to_string())?;
    }
    Ok(())
}
