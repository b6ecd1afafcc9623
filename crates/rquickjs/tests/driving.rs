//! How hosts have the tasks of agents done.

use navlock_rquickjs::{navlock::UserAgent, register, run};
use rquickjs::{Context, Runtime};

#[test]
fn a_runtime_without_futures_is_driven_by_a_call_that_blocks() {
    let runtime = Runtime::new().unwrap();
    let context = Context::full(&runtime).unwrap();
    context.with(|ctx| {
        let _ = register(&ctx, UserAgent::new().lock_manager("app")).unwrap();
        let script = "globalThis.log = [];
            navigator.locks.request('db', (lock) => { log.push(`${lock.name} ${lock.mode} ${lock}`); });";
        ctx.eval::<(), _>(script).unwrap();
    });
    run(&context).unwrap();
    let log: String = context.with(|ctx| ctx.eval("log.join()")).unwrap();
    assert_eq!(log, "db exclusive [object Lock]");
}
