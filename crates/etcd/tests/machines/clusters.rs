//! Two clusters of one node each that share the names of locks.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use navlock_core::{Error, LockManager, Lost, Mode, ResourceName, UserAgent};
use navlock_etcd::{EtcdClusters, EtcdOptions, EtcdReach, Evict};

use super::{exclusive, settle, soon, state, until_waiting};
use crate::server::{DEADLINE, Server, as_told, both, join, namespace, two};

fn options(server: &Server, namespace: &str) -> EtcdOptions {
    as_told(&EtcdOptions::new([server.endpoint()]).namespace(namespace))
}

/// The clusters that most tests have.
fn clusters(namespace: &str) -> EtcdClusters {
    let [east, west] = both().map(|server| options(server, namespace));
    EtcdClusters::new().cluster("east", east).cluster("west", west)
}

fn name(text: &str) -> ResourceName {
    ResourceName::try_from(text).unwrap()
}

/// A name on each of these clusters, in their order.
fn spread(clusters: &EtcdClusters, bucket: &str) -> Vec<String> {
    let each = clusters.each().filter(|(.., is_retired)| !is_retired);
    let on = |cluster: &str| {
        let mut names = (0..).map(|nth| format!("name-{nth}"));
        names.find(|text| clusters.cluster_of(bucket, &name(text)) == Some(cluster)).unwrap()
    };
    each.map(|(cluster, ..)| on(cluster)).collect()
}

/// How many keys of locks and requests a server has in a namespace.
fn keys(server: &Server, namespace: &str) -> usize {
    let prefix = format!("{namespace}/3/");
    let said = server.etcdctl(&["get", "--prefix", "--keys-only", &prefix]).unwrap();
    said.lines().filter(|line| !line.is_empty()).count()
}

#[track_caller]
fn refusal(connected: Result<UserAgent, Error>) -> String {
    match connected {
        Err(Error::Refused(why)) => why.message().to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_name_is_on_one_cluster_and_all_are_seen_together() {
    let namespace = namespace();
    let machines = [(); 2].map(|()| two(&namespace).unwrap().lock_manager("bucket"));
    let names = spread(&clusters(&namespace), "bucket");
    let held: Vec<_> = names.iter().map(|name| exclusive(&machines[0], name)).collect();
    assert_eq!(both().map(|server| keys(server, &namespace)), [1, 1]);
    assert_eq!(state(&machines[1]), (vec![Mode::Exclusive; 2], vec![]));
    for name in &names {
        assert!(soon(machines[1].lock(&**name).if_available()).unwrap().is_none(), "{name}");
    }
    thread::scope(|scope| {
        let successors: Vec<_> = names
            .iter()
            .map(|name| {
                let locks = &machines[1];
                scope.spawn(move || exclusive(locks, name))
            })
            .collect();
        until_waiting(&machines[0], 2);
        let tokens: Vec<_> = held.iter().map(|guard| guard.fencing_token()).collect();
        let inspected = soon(machines[1].inspect(None)).unwrap();
        let mut seen: Vec<_> = inspected.held.iter().filter_map(|one| one.fencing_token).collect();
        seen.sort_unstable();
        let mut sorted = tokens.clone();
        sorted.sort_unstable();
        assert_eq!(seen, sorted);
        drop(held);
        for (successor, token) in successors.into_iter().zip(tokens) {
            assert!(successor.join().unwrap().fencing_token() > token);
        }
    });
    machines.iter().for_each(settle);
    assert_eq!(state(&machines[0]), (vec![], vec![]));
}

#[test]
fn several_names_on_several_clusters_are_taken_in_one_order_by_all_machines() {
    let namespace = namespace();
    let machines = [(); 3].map(|()| two(&namespace).unwrap().lock_manager("bucket"));
    let names = spread(&clusters(&namespace), "bucket");
    let turned: Vec<_> = names.iter().rev().cloned().collect();
    let is_inside = AtomicBool::new(false);
    thread::scope(|scope| {
        for (nth, locks) in machines.iter().enumerate() {
            let names = if nth % 2 == 0 { names.clone() } else { turned.clone() };
            let is_inside = &is_inside;
            scope.spawn(move || {
                for _ in 0..20 {
                    let guards = soon(locks.lock_all(names.iter().map(String::as_str))).unwrap();
                    assert!(!is_inside.swap(true, SeqCst), "two hold both names");
                    is_inside.store(false, SeqCst);
                    drop(guards);
                }
            });
        }
    });
}

#[test]
fn a_machine_with_another_list_is_refused_while_one_of_the_clusters_is_in_use() {
    let namespace = namespace();
    let [east, west] = both().map(|server| options(server, &namespace));
    let one = EtcdClusters::new().cluster("east", east.clone());
    let alone = || soon(EtcdReach::connect(east.clone())).map(UserAgent::with_reach);

    // Who uses it alone, and has a lease.
    let machine = alone().unwrap();
    let locks = machine.lock_manager("bucket");
    drop(exclusive(&locks, "db"));
    let said = refusal(two(&namespace));
    assert!(said.contains("etcd cluster east is used by 1 machine alone"), "{said}");
    // What was refused has changed nothing.
    drop(exclusive(&locks, "db"));
    drop((locks, machine));

    // Who uses several, though nothing is held.
    let machine = two(&namespace).unwrap();
    let locks = machine.lock_manager("bucket");
    let names = spread(&clusters(&namespace), "bucket");
    drop(exclusive(&locks, &names[0]));
    let said = refusal(alone());
    assert!(said.contains("is cluster east of several (east,west)"), "{said}");
    let third = clusters(&namespace).cluster("south", options(both()[0], "elsewhere"));
    let said = refusal(join(&third));
    assert!(said.contains("used by 1 machine with another list of clusters (east,west)"), "{said}");
    assert!(said.contains("here the list is east,south,west"), "{said}");
    // Who leaves one out, though nobody is on the one that is left.
    let said = refusal(join(&one));
    assert!(said.contains("cluster west is in the list"), "{said}");
    drop(exclusive(&locks, &names[1]));
    let retired = EtcdClusters::new().cluster("east", east.clone()).retired("west", west);
    let said = refusal(join(&retired));
    assert!(said.contains("is used by 1 machine with another list"), "{said}");
    assert_eq!(clusters(&namespace).agreed().unwrap(), "east,west: all of them have this list");
    assert!(
        retired
            .agreed()
            .unwrap_err()
            .to_string()
            .contains("with another list of clusters (east,west)")
    );
    drop((locks, machine));

    // When nobody is there any more.
    drop(exclusive(&join(&retired).unwrap().lock_manager("bucket"), "db"));
    drop(exclusive(&join(&one).unwrap().lock_manager("bucket"), "db"));
    let said = refusal(alone());
    assert!(said.contains("navlock evict --key"), "{said}");
    let key = format!("{namespace}/clusters");
    navlock_etcd::evict(&east, &Evict::Key(key.as_bytes())).unwrap();
    drop(exclusive(&alone().unwrap().lock_manager("bucket"), "db"));
}

#[test]
fn a_machine_that_was_idle_when_the_list_changed_gets_no_lock_by_the_old_list() {
    let namespace = namespace();
    let [east, west] = both().map(|server| options(server, &namespace));
    // Without a lease, nobody knows of them.
    let idle = [
        soon(EtcdReach::connect(east.clone())).map(UserAgent::with_reach).unwrap(),
        join(&EtcdClusters::new().cluster("west", west.clone())).unwrap(),
    ];
    let machine = two(&namespace).unwrap();
    drop(exclusive(&machine.lock_manager("bucket"), "db"));
    for idle in idle {
        let locks = idle.lock_manager("bucket");
        let failed = soon(locks.lock("db")).expect_err("the list is another");
        assert!(matches!(failed, Error::Refused(_)), "{failed:?}");
    }
    // Nor does the other way round what has changed and changed back hurt anybody.
    drop(machine);
    drop(exclusive(&two(&namespace).unwrap().lock_manager("bucket"), "db"));
}

#[test]
fn tokens_go_on_where_a_name_moves_to_another_cluster() {
    let namespace = namespace();
    let [east, west] = both().map(|server| options(server, &namespace));
    let one = EtcdClusters::new().cluster("east", east.clone());
    let back = EtcdClusters::new().cluster("east", east).retired("west", west);
    let names = spread(&clusters(&namespace), "bucket");
    // The first has by far the larger revision.
    for nth in 0..200 {
        both()[0].etcdctl(&["put", "elsewhere", &nth.to_string()]).unwrap();
    }
    let mut last = vec![None; names.len()];
    for clusters in [&one, &clusters(&namespace), &back, &one, &clusters(&namespace)] {
        let machine = join(clusters).unwrap();
        let locks = machine.lock_manager("bucket");
        for (name, last) in names.iter().zip(&mut last) {
            // Those after the first are counted where names are kept.
            for _ in 0..3 {
                let token = Some(exclusive(&locks, name).fencing_token());
                assert!(token > *last, "{name} has {token:?} after {last:?}");
                *last = token;
            }
        }
        drop((locks, machine));
    }
}

#[test]
fn a_cluster_is_not_taken_for_another() {
    let namespace = namespace();
    let [east, west] = both().map(|server| options(server, &namespace));
    drop(two(&namespace).unwrap());
    let swapped = EtcdClusters::new().cluster("west", east.clone()).cluster("east", west);
    let said = refusal(join(&swapped));
    assert!(said.contains("and not"), "{said}");
    // Another namespace is another cluster, for those who try this out.
    let apart = |name| options(both()[0], &format!("{namespace}-{name}"));
    assert!(join(&EtcdClusters::new().cluster("a", apart("a")).cluster("b", apart("b"))).is_ok());
    let [east, _] = both().map(|server| options(server, "same"));
    let same = EtcdClusters::new().cluster("a", east.clone()).cluster("b", east);
    assert!(refusal(join(&same)).contains("are the same etcd"));
}

#[test]
fn many_who_begin_at_once_agree() {
    let namespace = namespace();
    let begin = |locks: &LockManager| {
        for _ in 0..5 {
            drop(exclusive(locks, "db"));
        }
    };
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| begin(&two(&namespace).unwrap().lock_manager("bucket")));
        }
    });
    assert_eq!(clusters(&namespace).agreed().unwrap(), "east,west: all of them have this list");
}

#[test]
fn locks_of_a_lost_cluster_are_lost_and_the_others_go_on() {
    let (mut east, west) = (Server::start(), Server::start());
    let of = |server: &Server| {
        EtcdOptions::new([server.endpoint()]).time_to_live(Duration::from_secs(2))
    };
    let clusters = EtcdClusters::new().cluster("east", of(&east)).cluster("west", of(&west));
    let names = spread(&clusters, "bucket");
    let machines =
        [(); 2].map(|()| join(&clusters).unwrap()).map(|machine| machine.lock_manager("bucket"));
    let (on_east, on_west) =
        (exclusive(&machines[0], &names[0]), exclusive(&machines[0], &names[1]));
    east.kill();
    assert_eq!(soon(on_east.lost()), Lost::Disconnected);
    assert!(!on_west.is_lost());
    drop(on_west);
    drop(exclusive(&machines[1], &names[1]));
    // It forgets all it had, its list among that.
    east.wipe();
    east.restart();
    drop(on_east);
    let since = Instant::now();
    while let Err(error) = soon(machines[1].lock(&*names[0])) {
        assert!(since.elapsed() < DEADLINE, "{error}");
    }
    drop(exclusive(&machines[0], &names[0]));
    assert_eq!(clusters.agreed().unwrap(), "east,west: all of them have this list");
}

#[test]
fn a_name_of_any_cluster_is_taken_from_those_alone_who_were_seen_to_hold_it() {
    let namespace = namespace();
    let [by, other] = [(); 2].map(|()| two(&namespace).unwrap());
    let locks = other.lock_manager("bucket");
    for name in spread(&clusters(&namespace), "bucket") {
        super::strays::takes_what_was_seen(&by, &locks, &name);
        settle(&locks);
    }
}
