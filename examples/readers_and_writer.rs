//! Readers and a writer over a file: any number of readers at once, or one writer alone. The
//! writer changes the file in two steps, between which nobody may look.
//!
//! `cargo run -p navlock --example readers_and_writer`

use std::{error::Error, fs, path::PathBuf};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("balance.txt");
    fs::write(&file, "0\n0\n")?;
    let locks = navlock::in_process().lock_manager("balance");

    let writer = tokio::spawn({
        let (locks, file) = (locks.clone(), file.clone());
        async move {
            for balance in 1..=100 {
                locks.request("balance.txt", async |_| write(&file, balance).await).await??;
            }
            Ok(())
        }
    });
    let readers = (0..4).map(|_| {
        let (locks, file) = (locks.clone(), file.clone());
        tokio::spawn(async move {
            for _ in 0..100 {
                let _guard = locks.lock("balance.txt").shared().await?;
                let text = fs::read_to_string(&file)?;
                let lines: Vec<_> = text.lines().collect();
                assert_eq!(lines.len(), 2, "a reader saw a file that was being written");
                assert_eq!(lines[0], lines[1], "a reader saw half of a change");
            }
            Ok(())
        })
    });
    for reader in readers.collect::<Vec<tokio::task::JoinHandle<Result<()>>>>() {
        reader.await??;
    }
    writer.await.map_err(Into::into).and_then(|written: Result<()>| written)?;
    println!("100 changes, 400 looks, and each saw a whole file:\n{}", fs::read_to_string(file)?);
    Ok(())
}

/// Writes both lines, one after the other.
async fn write(file: &PathBuf, balance: u32) -> Result<()> {
    fs::write(file, format!("{balance}\n"))?;
    tokio::task::yield_now().await;
    fs::write(file, format!("{balance}\n{balance}\n"))?;
    Ok(())
}
