//! A PostgreSQL that speaks TLS.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

#[path = "../../etcd/tests/authority/mod.rs"]
mod authority;
mod server;

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use navlock_core::{Error, UserAgent, blocking::block_on_timeout};
use navlock_postgres::{Credentials, PostgresOptions, postgres};

use crate::{
    authority::{Authority, Identity},
    server::{DEADLINE, Server, connect},
};

/// The name in the server's certificate.
const NAME: &str = "db.test";

/// Lets in whoever is encrypted.
const ENCRYPTED: &str = "hostssl all all 127.0.0.1/32 trust\n";

/// Lets in everybody.
const ANY: &str = "host all all 127.0.0.1/32 trust\n";

fn secured(rules: &str) -> (Server, Authority) {
    let (server, authority) = (Server::start(), Authority::new());
    let Identity { certificate, key } = authority.sign(NAME);
    server.encrypt(&certificate, &key, &authority.pem, rules);
    (server, authority)
}

/// The server by this name, and with these parameters.
fn options(server: &Server, name: &str, parameters: &str) -> PostgresOptions {
    let port = server.port();
    let url = format!("postgres://navlock@{name}:{port}/postgres?hostaddr=127.0.0.1&{parameters}");
    PostgresOptions::new(url)
}

fn lock(machine: &UserAgent) {
    let locks = machine.lock_manager("bucket");
    drop(block_on_timeout(locks.lock("db"), DEADLINE).expect("it comes to an end").unwrap());
}

/// Whether what machines say is encrypted, by all sessions or by none.
fn is_encrypted(server: &Server) -> bool {
    let all = server.do_sql(
        "select distinct ssl from pg_stat_ssl join pg_stat_activity using (pid) \
         where application_name = 'navlock'",
    );
    assert!(["t", "f"].contains(&&*all), "{all}");
    all == "t"
}

/// What connecting fails with.
#[track_caller]
fn refusal(options: PostgresOptions) -> String {
    let error = block_on_timeout(postgres(options), DEADLINE).expect("it does not hang");
    error.map(drop).unwrap_err().to_string()
}

#[test]
fn a_connection_is_encrypted_if_the_server_can_do_that() {
    let (server, _) = secured(ANY);
    for (parameters, encrypted) in
        [("", true), ("sslmode=disable", false), ("sslmode=require", true)]
    {
        let machine = connect(&options(&server, "another.test", parameters));
        lock(&machine);
        assert_eq!(is_encrypted(&server), encrypted, "{parameters}");
        drop(machine);
        let since = Instant::now();
        while server
            .do_sql("select count(*) from pg_stat_activity where application_name = 'navlock'")
            != "0"
        {
            assert!(since.elapsed() < DEADLINE, "it does not go");
        }
    }
    // Encryption is only preferred.
    let Identity { certificate, key } = Authority::new().sign(NAME);
    server.encrypt(&certificate, &key, &Authority::new().pem, "hostnossl all all all trust\n");
    lock(&connect(&options(&server, NAME, "")));
    assert!(refusal(options(&server, NAME, "sslmode=require")).contains("pg_hba.conf"));
    let plain = Server::start();
    let said = refusal(options(&plain, NAME, "sslmode=require"));
    assert!(said.contains("does not support TLS"), "{said}");
}

#[test]
fn a_server_shows_who_it_is_if_it_is_asked() {
    let (server, authority) = secured(ENCRYPTED);
    let by = |name: &str, parameters: &str, authority: &Authority| {
        let trusting = Credentials::new().certificate_authority(&authority.pem);
        options(&server, name, parameters).credentials(trusting)
    };
    for parameters in ["", "sslmode=require", "sslmode=verify-full"] {
        lock(&connect(&by(NAME, parameters, &authority)));
        let said = refusal(by("another.test", parameters, &authority));
        assert!(said.contains("not valid for name"), "{said}");
    }
    lock(&connect(&by("another.test", "sslmode=verify-ca", &authority)));
    for parameters in ["", "sslmode=verify-ca", "sslmode=verify-full"] {
        let said = refusal(by(NAME, parameters, &Authority::new()));
        assert!(said.contains("invalid peer certificate"), "{said}");
    }
    let said = refusal(options(&server, NAME, "sslmode=verify-ca"));
    assert!(said.contains("needs a certificate-authority"), "{said}");
    // The system trusts no authority of tests.
    let said = refusal(options(&server, NAME, "sslmode=verify-full"));
    assert!(said.contains("UnknownIssuer") || said.contains("there is no authority"), "{said}");
    let said = refusal(by(NAME, "sslmode=disable", &authority));
    assert!(said.contains("sslmode=disable does not go with certificates"), "{said}");
}

#[test]
fn a_machine_shows_who_it_is() {
    let (server, authority) = secured("hostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n");
    let trusting = Credentials::new().certificate_authority(&authority.pem);
    let showing = |certificate: &str, key: &str| {
        options(&server, NAME, "").credentials(trusting.clone().identity(certificate, key))
    };
    let Identity { certificate, key } = authority.sign("client");
    lock(&connect(&showing(&certificate, &key)));
    let said = refusal(options(&server, NAME, "").credentials(trusting.clone()));
    assert!(said.contains("requires a valid client certificate"), "{said}");
    // As a key looks whose lines were lost.
    let said = refusal(showing(&certificate, &key.replace('\n', "")));
    assert!(said.contains("the key is no PEM") && !said.contains("45"), "{said}");
    let said = refusal(showing("no certificate", &key));
    assert!(said.contains("the certificate"), "{said}");
}

/// The password is bound to the connection, so nobody between passes it on.
#[test]
fn a_password_is_bound_to_the_channel_and_can_be_replaced() {
    let (server, _) = secured(
        "hostssl all machine 127.0.0.1/32 scram-sha-256\n\
         host all navlock 127.0.0.1/32 trust\n",
    );
    server.do_sql("create role machine login password 'first'");
    server.do_sql("grant usage on schema navlock to machine");
    let password = Arc::new(Mutex::new("first"));
    let source = Arc::clone(&password);
    let options = options(&server, NAME, "channel_binding=require").credentials(move || {
        Ok::<_, Error>(Credentials::new().user("machine", *source.lock().unwrap()))
    });
    let machine = connect(&options);
    lock(&machine);
    server.do_sql("alter role machine password 'second'");
    *password.lock().unwrap() = "second";
    server
        .do_sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'machine'");
    lock(&machine);
    assert!(is_encrypted(&server));
    *password.lock().unwrap() = "first";
    let said = refusal(options);
    assert!(said.contains("password authentication failed"), "{said}");
}
