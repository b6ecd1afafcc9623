fn main() -> Result<(), Box<dyn std::error::Error>> {
    navlock::blocking::block_on(async {
        let locks = navlock::local().await?.lock_manager(navlock::Project::here()?.bucket());
        let sum = locks.request("db", async |_lock| 1 + 1).await?;
        let guard = locks.lock("db").shared().await?;
        println!("computed {sum} under the lock, and now hold {guard:?}");
        Ok(())
    })
}
