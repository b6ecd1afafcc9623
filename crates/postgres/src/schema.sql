-- What stands in PostgreSQL: a store of keys that have revisions, leases and watches.
--
-- Brokers decide what is locked (crates/machines); this keeps their keys, runs their transactions one after the
-- other, and ends the leases of brokers that are silent. Nobody touches the tables: whoever may execute the
-- functions may lock. Each function is one call and one transaction, under READ COMMITTED.
--
-- What a lock writes is UNLOGGED, so a commit waits for no disk. It is gone after a crash of the server, and on a
-- replica that was promoted. The first call notices that by the missing row of `present`, and a recovery begins:
-- nothing is read or changed until each machine has put back the keys that stand under its leases, or was silent for
-- as long as its lease lasts.
--
-- No clock is compared. A renewal raises a number; whoever has seen the same number for as long as the lease lasts,
-- by its own clock, ends the lease.

create schema "@schema@";
set local search_path = "@schema@";

-- The row that outlives a crash.
create table store (
    -- Which store this is, in claims of clients whose broker has died.
    id bigint not null,
    -- The version of this file, and the format of the keys.
    version int not null,
    format text not null,
    -- A number that grows with each loss of the memory. Its upper half is the timeline, so that a replica that did not
    -- hear of the last era does not use its number again.
    era bigint not null,
    -- The timeline of the server when a recovery last ended: another one has been promoted if it differs.
    timeline int not null,
    -- Revisions below this one may be in use. The next era begins here.
    reserved bigint not null,
    -- The longest time that a lease has ever lasted, in milliseconds.
    longest int not null
);
-- The leases that began, so that a recovery knows whom to wait for.
create table machines (id bigint primary key, time_to_live int not null);

-- The state of this era: one row. It is missing when the memory was lost.
create unlogged table present (store bigint not null, era bigint not null, revision bigint not null,
    -- As in `store`, so that it is at hand.
    reserved bigint not null,
    -- Whether some keys are not put back yet.
    recovers boolean not null,
    -- Whether the list of machines may miss some, because it is a promoted replica's.
    is_unsure boolean not null);

create unlogged table leases (id bigint primary key, time_to_live int not null, renewals bigint not null,
    -- Whether its keys are here. Else its machine has not put them back yet.
    is_complete boolean not null,
    -- For people alone.
    renewed timestamptz not null);

create unlogged table keys (key text collate "C" primary key, value bytea not null, made bigint not null,
    written bigint not null, lease bigint not null);
create index keys_by_lease on keys (lease);

-- What has happened to keys, for watches, and for lists of the near past.
create unlogged table changes (place text collate "C" not null, revision bigint not null, nth int not null,
    key text collate "C" not null,
    -- The key as it is now, if it is there, and as it was.
    value bytea, made bigint, lease bigint,
    old_value bytea, old_made bigint, old_written bigint, old_lease bigint,
    primary key (place, revision, nth));
create index changes_in_order on changes (revision);

-- Who wants to be notified of what.
create unlogged table watches (place text collate "C" not null, listener bigint not null,
    primary key (place, listener));
create index watches_by_listener on watches (listener);
create unlogged table listeners (id bigint primary key, seen timestamptz not null);

-- Which revision there was when, by the clock of the server: it decides what is forgotten, and nothing else.
create unlogged table moments (at timestamptz primary key, revision bigint not null);

-- Rows come and go all the time.
alter table present set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
alter table leases set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
alter table keys set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
alter table changes set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0);

-- How many revisions are reserved at a time. Each time costs a flush to the disk.
create function block() returns bigint immutable language sql return 1 << 20;

-- The timeline of the server: another one after a promotion.
create function timeline() returns int stable language sql
return ('x' || substring(pg_walfile_name(pg_current_wal_lsn()) for 8))::bit(32)::int;

insert into store values (
    ('x' || replace(gen_random_uuid()::text, '-', ''))::bit(63)::bigint,
    @version@, '@format@', 0, timeline(), 1, 0
);

-- The name that a key is of, or the mailbox: what is watched as one.
create function place_of(key text) returns text immutable parallel safe language sql
return coalesce(substring(key from '^[^/]*/[^/]*/(?:@mailbox/[^/]*|[^/]*/l/[^/]*)/'), '');

-- Takes the turn of this transaction among all that change something. Whoever reads afterwards, by another statement,
-- sees what the ones before have committed.
create function take_turn() returns present language plpgsql as $$
declare
    now present;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'navlock needs READ COMMITTED' using errcode = 'NL003';
    end if;
    select * into now from present for update;
    if not found then
        perform from store for update;
        -- Another transaction may have been here first.
        select * into now from present for update;
        if not found then
            now := begin_era();
        end if;
    end if;
    return now;
end $$;

-- Begins a recovery. Only one transaction at a time is here.
create function begin_era() returns present language plpgsql as $$
declare
    now present;
    old store;
begin
    select * into old from store;
    -- It must not be lost in another crash, or two eras would have the same revisions. It waits for no standby, since
    -- eras and revisions begin far above after a promotion.
    perform set_config('synchronous_commit', 'local', true);
    -- In the first era nothing was lost.
    now := row(old.id, greatest(old.era + 1, timeline()::bigint << 32), old.reserved, 0,
        old.era > 0 and exists (select from machines), false);
    if old.timeline <> timeline() then
        -- A replica may lack the newest machines, and the newest reservations.
        now.revision := now.revision + (1::bigint << 32);
        now.recovers := true;
        now.is_unsure := true;
    end if;
    now.reserved := now.revision + block();
    update store set era = now.era, reserved = now.reserved;
    delete from keys; delete from changes; delete from watches; delete from leases; delete from moments;
    insert into leases select id, time_to_live, 0, false, clock_timestamp() from machines where now.recovers;
    insert into present values (now.*);
    return now;
end $$;

-- A key as it is told.
create function shown(k keys) returns jsonb stable language sql
return jsonb_build_array(k.key, encode(k.value, 'hex'), k.made, k.written, k.lease);

-- A change as it is told.
create function shown(c changes) returns jsonb stable language sql
return jsonb_build_array(c.key, encode(c.value, 'hex'), c.made, c.revision, c.lease);

-- What a call answers while the machines put back their keys. It is no error, which would undo the beginning of that.
create function refusal() returns jsonb immutable language sql
return '{"refused": "recovering"}'::jsonb;

-- The store and its revision, as a part of each answer.
create function stamp(p present) returns jsonb stable language sql
return jsonb_build_object('store', p.store, 'era', p.era, 'revision', p.revision);

-- Takes the turn, for what will be the next revision, whether anything is changed or not.
create function next_turn() returns present language plpgsql as $$
declare
    now present;
begin
    if current_setting('transaction_isolation') = 'read committed' then
        update present set revision = revision + 1 where revision + 1 < reserved returning * into now;
        if found then
            return now;
        end if;
    end if;
    now := take_turn();
    now.revision := now.revision + 1;
    if now.revision >= now.reserved then
        -- It waits for no standby: after a promotion revisions begin far above.
        perform set_config('synchronous_commit', 'local', true);
        now.reserved := now.revision + block();
        update store set reserved = now.reserved;
    end if;
    update present set revision = now.revision, reserved = now.reserved;
    return now;
end $$;

-- Notes a change, and returns what is told of it: its place, who watches that, the revision of the change before in that
-- place, and the key. So who has heard of the change before has heard of all. Where nobody watches, and where the place
-- is that of the `last` one that was noted, there is only the key.
create function note(last jsonb, nth int, now present, of text, value bytea, made bigint, lease bigint, old keys)
returns jsonb language plpgsql as $$
declare
    here text := place_of(of);
    others jsonb;
    before bigint;
begin
    if last ->> 0 is distinct from here then
        select jsonb_agg(w.listener) into others from watches w where w.place = here;
        if others is not null then
            select revision into before from changes where place = here and revision < now.revision
                order by revision desc limit 1;
            if not found then
                select min(revision) - 1 into before from changes;
            end if;
        end if;
    end if;
    insert into changes values (here, now.revision, nth, of, value, made, lease,
        old.value, old.made, old.written, old.lease);
    return jsonb_build_array(here, others, before,
        jsonb_build_array(of, encode(value, 'hex'), made, now.revision, lease));
end $$;

-- Whether a check holds.
create function holds(c jsonb) returns boolean language plpgsql as $$
begin
    case c ->> 0
    when 'absent' then
        return not exists (select from keys where key = c ->> 1);
    when 'present' then
        return exists (select from keys where key = c ->> 1);
    when 'made' then
        return exists (select from keys where key = c ->> 1 and made = (c ->> 2)::bigint);
    when 'written' then
        return exists (select from keys where key = c ->> 1 and written = (c ->> 2)::bigint);
    when 'empty' then
        return not exists (select from keys where key >= c ->> 1 and key < c ->> 2);
    when 'none after' then
        return not exists (select from keys where key >= c ->> 1 and key < c ->> 2 and made > (c ->> 3)::bigint);
    end case;
end $$;

-- Runs a transaction: checks, steps if they hold, steps if not. All or nothing. A step may be a transaction itself. `path`
-- says which of them have succeeded, in the order in which they stand, and `results` what other steps have found.
create function transact(transaction jsonb) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, "@schema@", pg_temp set enable_seqscan = off set jit = off as $$
declare
    now present := next_turn();
    steps jsonb := jsonb_build_array(jsonb_build_array('within', transaction));
    place int := 0;
    step jsonb;
    is_so boolean;
    under bigint := 0;
    old keys;
    path jsonb := '[]';
    results jsonb := '[]';
    removed text[];
    change jsonb;
    news jsonb[] := '{}';
begin
    if now.recovers then
        return refusal();
    end if;
    -- What is within is put in its place, so all checks come before all steps.
    while place < jsonb_array_length(steps) loop
        step := steps -> place;
        if step ->> 0 = 'within' then
            step := step -> 1;
            is_so := true;
            for nth in 0 .. jsonb_array_length(step -> 'when') - 1 loop
                is_so := holds(step -> 'when' -> nth);
                exit when not is_so;
            end loop;
            path := path || to_jsonb(is_so);
            steps := case when place = 0 then '[]' else
                    jsonb_path_query_array(steps, '$[0 to $n]', jsonb_build_object('n', place - 1)) end
                || (step -> case when is_so then 'then' else 'else' end)
                || jsonb_path_query_array(steps, '$[$n to last]', jsonb_build_object('n', place + 1));
            continue;
        end if;
        if step ->> 0 = 'put' and under <> (step ->> 3)::bigint then
            under := (step ->> 3)::bigint;
            if under <> 0 and not exists (select from leases where id = under) then
                return '{"refused": "no lease"}';
            end if;
        end if;
        place := place + 1;
    end loop;
    for nth in 0 .. jsonb_array_length(steps) - 1 loop
        step := steps -> nth;
        case step ->> 0
        when 'put' then
            under := (step ->> 3)::bigint;
            old := null;
            insert into keys values (step ->> 1, decode(step ->> 2, 'hex'), now.revision, now.revision, under)
                on conflict do nothing;
            if not found then
                select * into old from keys where key = step ->> 1;
                update keys set value = decode(step ->> 2, 'hex'), written = now.revision, lease = under
                    where key = step ->> 1;
            end if;
            change := note(change, cardinality(news), now, step ->> 1, decode(step ->> 2, 'hex'),
                coalesce(old.made, now.revision), under, old);
            news := array_append(news, change);
        when 'delete' then
            delete from keys where key = step ->> 1 returning * into old;
            if found then
                change := note(change, cardinality(news), now, old.key, null, null, null, old);
                news := array_append(news, change);
            end if;
        when 'delete range' then
            removed := '{}';
            for old in delete from keys where key >= step ->> 1 and key < step ->> 2 returning * loop
                removed := array_append(removed, old.key);
                change := note(change, cardinality(news), now, old.key, null, null, null, old);
                news := array_append(news, change);
            end loop;
            results := results || jsonb_build_array(to_jsonb(removed));
        when 'get' then
            results := results || coalesce((select to_jsonb(made) from keys where key = step ->> 1), 'null');
        when 'count' then
            results := results
                || (select to_jsonb(count(*)) from keys where key >= step ->> 1 and key < step ->> 2);
        when 'first' then
            results := results || jsonb_build_array((select shown(k) from keys k
                where key >= step ->> 1 and key < step ->> 2 order by key limit 1));
        end case;
    end loop;
    return stamp(now) || jsonb_build_object('path', path, 'results', results, 'news', news);
end $$;

-- The state, for whoever only reads. What it reads is as of one moment, since it reads in one statement.
create function reading() returns present language plpgsql as $$
declare
    now present;
begin
    select * into now from present;
    if not found then
        now := take_turn();
    end if;
    return now;
end $$;

-- The keys of a range, as of a revision, or as of now if that is 0. An earlier moment is found by what has happened
-- since. How many keys are left out is told as well.
create function list(first text, behind text, most bigint, at bigint) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, "@schema@", pg_temp set enable_seqscan = off set jit = off as $$
declare
    answer jsonb;
    oldest bigint;
begin
    if (reading()).recovers then
        return refusal();
    end if;
    with since as (
        select distinct on (key) key, old_value, old_made, old_written, old_lease from changes
            where at > 0 and revision > at and key >= first and key < behind order by key, revision, nth
    ), found as (
        select k.* from keys k
            where key >= first and key < behind and not (at > 0 and exists (select from since s where s.key = k.key))
        union all
        select key, old_value, old_made, old_written, old_lease from since where old_made is not null
    ), shown as (
        select shown(f::keys) as kv from found f order by key limit most
    )
    select stamp(p) || jsonb_build_object(
            'keys', coalesce((select jsonb_agg(kv) from shown), '[]'),
            'left out', (select count(*) from found) - (select count(*) from shown)),
            (select coalesce(min(revision), p.revision + 1) from changes)
        into answer, oldest from present p;
    if at > 0 and (at + 1 < oldest or at > (answer ->> 'revision')::bigint) then
        raise exception 'that revision is not known' using errcode = 'NL004';
    end if;
    return answer;
end $$;

-- The keys that stand under a lease.
create function under(lease bigint) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, "@schema@", pg_temp set enable_seqscan = off set jit = off as $$
declare
    answer jsonb;
begin
    if (reading()).recovers then
        return refusal();
    end if;
    select stamp(p) || jsonb_build_object('keys', coalesce(
            (select jsonb_agg(shown(k) order by k.key) from keys k where k.lease = under.lease), '[]'))
        into answer from present p;
    return answer;
end $$;

-- Notes a machine whose lease will last for so many milliseconds, and returns the number of the lease, which never
-- returns. This is flushed, and waits for a standby if there is one to be waited for, so that the standby knows whom to
-- wait for: so it is in nobody's turn.
create function enlist(time_to_live int) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, "@schema@", pg_temp set enable_seqscan = off set jit = off as $$
declare
    id bigint := ('x' || replace(gen_random_uuid()::text, '-', ''))::bit(63)::bigint;
begin
    perform set_config('synchronous_commit', 'on', true);
    insert into machines values (id, time_to_live);
    return to_jsonb(id);
end $$;

-- Begins the lease of a machine that was noted.
create function begin_lease(lease bigint, time_to_live int) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, "@schema@", pg_temp set enable_seqscan = off set jit = off as $$
declare
    now present := take_turn();
begin
    -- A promoted replica may not have heard of the note.
    insert into machines values (lease, time_to_live) on conflict do nothing;
    if found or (select longest from store) < time_to_live then
        perform set_config('synchronous_commit', 'local', true);
        update store set longest = greatest(longest, time_to_live);
    end if;
    -- If the memory was lost since, a recovery waits for its keys. There are none.
    insert into leases values (lease, time_to_live, 0, true, clock_timestamp())
        on conflict (id) do update set is_complete = true;
    return end_recovery(now.era, false);
end $$;

-- Renews a lease and reads what stands in the mailbox with this prefix. Both are one moment. Tells how often these
-- leases were renewed, and the next ones in the order of their numbers: so somebody looks after each.
--
-- This waits for nobody's turn. While the lease's keys have to be put back, nothing is renewed.
create function renew(lease bigint, mailbox text, observed bigint[]) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, "@schema@", pg_temp set enable_seqscan = off set jit = off as $$
declare
    answer jsonb;
begin
    if not exists (select from present) then
        perform take_turn();
    end if;
    update leases set renewals = renewals + 1, renewed = clock_timestamp() where id = lease and is_complete;
    select stamp(p) || jsonb_build_object(
            'recovers', p.recovers, 'is unsure', p.is_unsure, 'longest', (select longest from store),
            'lease', coalesce((select case when is_complete then 'complete' else 'incomplete' end
                from leases l where l.id = renew.lease), case when p.is_unsure and p.recovers then 'incomplete' end),
            'time to live', (select time_to_live from leases l where l.id = renew.lease),
            'mailbox', coalesce((select jsonb_agg(substring(key from length(mailbox) + 1)) from keys
                where key >= mailbox and key < left(mailbox, -1) || '0'), '[]'),
            'others', coalesce((select jsonb_agg(jsonb_build_array(l.id, l.renewals, l.time_to_live)) from leases l
                where l.id <> renew.lease and (l.id = any (observed) or p.recovers and not l.is_complete
                    or l.id in (select id from leases where id > renew.lease order by id limit 2)
                    or l.id in (select id from leases order by id limit 2))), '[]'))
        into answer from present p;
    return answer;
end $$;

-- How often a lease was renewed, for how long it lasts, and for how long it was not renewed, in milliseconds and for
-- people alone.
create function lease_of(lease bigint) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, "@schema@", pg_temp set enable_seqscan = off set jit = off as $$
begin
    return (select jsonb_build_array(time_to_live, greatest(0,
            (extract(epoch from clock_timestamp() - renewed) * 1000)::bigint))
        from leases where id = lease);
end $$;

-- Ends a lease, with all keys under it: any, or one that was renewed so often in this era.
create function end_lease(lease bigint, era bigint, seen bigint) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, "@schema@", pg_temp set enable_seqscan = off set jit = off as $$
declare
    now present;
    others jsonb;
begin
    -- If the end is lost in a crash, a recovery waits for the machine in vain.
    perform set_config('synchronous_commit', 'off', true);
    now := next_turn();
    -- A renewal waits for the row, and finds none.
    perform from leases where id = lease
        and (end_lease.era is null or end_lease.era = now.era and renewals = seen) for update;
    if not found then
        return jsonb_build_object('ended', false, 'others', '[]'::jsonb);
    end if;
    delete from machines where id = lease;
    delete from leases where id = lease;
    with gone as (
        delete from keys k where k.lease = end_lease.lease returning *
    )
    insert into changes select place_of(key), now.revision, row_number() over (order by key),
        key, null, null, null, value, made, written, gone.lease from gone;
    select jsonb_agg(distinct jsonb_build_array(w.listener, w.place)) into others
        from changes c join watches w on w.place = c.place where c.revision = now.revision;
    return jsonb_build_object('ended', true, 'others', coalesce(others, '[]'));
end $$;

-- Puts back the keys that stand under leases of a machine (their numbers and times to live), as that machine knows
-- them. The recovery of this era ends with the last one.
create function put_back(era bigint, of jsonb, kept jsonb) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, "@schema@", pg_temp set enable_seqscan = off set jit = off as $$
declare
    now present := take_turn();
begin
    if now.recovers and now.era = put_back.era then
        if now.is_unsure then
            perform set_config('synchronous_commit', 'local', true);
            insert into machines select (l ->> 0)::bigint, (l ->> 1)::int from jsonb_array_elements(of) l
                on conflict do nothing;
            insert into leases select (l ->> 0)::bigint, (l ->> 1)::int, 0, false, clock_timestamp()
                from jsonb_array_elements(of) l on conflict do nothing;
            update store set longest = greatest(longest,
                (select max((l ->> 1)::int) from jsonb_array_elements(of) l));
        end if;
        insert into keys
            select kv ->> 0, decode(kv ->> 1, 'hex'), (kv ->> 2)::bigint, (kv ->> 3)::bigint, (kv ->> 4)::bigint
            from jsonb_array_elements(kept) kv join leases l on l.id = (kv ->> 4)::bigint and not l.is_complete
            on conflict (key) do update set value = excluded.value, made = excluded.made,
                written = excluded.written, lease = excluded.lease where keys.written < excluded.written;
        update leases set is_complete = true, renewals = renewals + 1, renewed = clock_timestamp()
            where id in (select (l ->> 0)::bigint from jsonb_array_elements(of) l);
    end if;
    return end_recovery(put_back.era, false);
end $$;

-- Ends the recovery of this era, if each lease's keys are here. Where the list of machines may miss some, somebody has
-- to have waited for as long as any lease lasts.
create function end_recovery(era bigint, has_waited boolean) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, "@schema@", pg_temp set enable_seqscan = off set jit = off as $$
declare
    now present := take_turn();
begin
    if now.recovers and now.era = end_recovery.era and (has_waited or not now.is_unsure)
        and not exists (select from leases where not is_complete) then
        -- Who was robbed just before the crash may not have heard of it. An exclusive lock was alone when it was
        -- made, and a shared one was beside no exclusive one: so the lock that was made last decides. An owner may
        -- have begun to write its locks beside its own key.
        with held as (
            select key, made, lease, place_of(key) as place,
                    starts_with(key, place_of(key) || 'h/x/') as is_exclusive,
                    starts_with(key, place_of(key) || 'h/x/o-') as is_owner
                from keys where starts_with(key, place_of(key) || 'h/')
        ), last as (
            select distinct on (place) * from held order by place, made desc, key
        )
        delete from keys k using held h join last using (place)
            where k.key = h.key and h.made < last.made and (h.is_exclusive or last.is_exclusive)
                and not (h.is_owner and h.lease = last.lease);
        if now.is_unsure then
            perform set_config('synchronous_commit', 'local', true);
            update store set timeline = timeline();
        end if;
        update present set recovers = false, is_unsure = false;
    end if;
    return stamp(now);
end $$;

-- Notes that this listener wants to be notified of what happens in these places, and no longer in those. Who was not
-- here for an hour is forgotten: it is notified of nothing, and hears all the same when it asks.
create function watch(listener bigint, places text[], no_longer text[]) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, "@schema@", pg_temp set enable_seqscan = off set jit = off as $$
declare
    now present := take_turn();
begin
    if now.recovers then
        return refusal();
    end if;
    insert into listeners values (listener, clock_timestamp()) on conflict (id) do update set seen = excluded.seen;
    delete from watches w where w.listener = watch.listener and w.place = any (no_longer);
    insert into watches select unnest(places), listener on conflict do nothing;
    delete from watches w using listeners l where l.id = w.listener and l.seen < clock_timestamp() - interval '1 hour';
    delete from listeners where seen < clock_timestamp() - interval '1 hour';
    return stamp(now);
end $$;

-- Forgets what has happened long ago: everybody has had time to hear of it. One does that, and nobody waits for it.
create function tend(now present) returns void language plpgsql as $$
declare
    last timestamptz;
    long interval := make_interval(secs => greatest(20, (select longest from store) / 500));
    first bigint;
    known bigint;
begin
    if not pg_try_advisory_xact_lock(1315009612, hashtext('@schema@')) then
        return;
    end if;
    select min(revision) into first from changes;
    select max(revision) into known from moments where at < clock_timestamp() - long;
    if first < known then
        -- Not more than a call has time for: else it would be given up, and so would the next one.
        delete from changes where revision < least(first + 50000, known);
    end if;
    select max(at) into last from moments;
    if last > clock_timestamp() - interval '5 seconds' and last <= clock_timestamp() then
        return;
    end if;
    insert into moments values (clock_timestamp(), now.revision) on conflict do nothing;
    delete from moments where at < (select max(at) from moments where at < clock_timestamp() - long)
        or at > clock_timestamp();
    -- Also if it is given up: by then it has written something that a standby is told.
    perform set_config('synchronous_commit', 'local', true);
    perform rewrite();
end $$;

-- Writes the rows that are alive into new files, where an old snapshot keeps vacuum from removing the dead ones: the
-- more there are of those, the longer each call takes. The row of `present` fills one page as long as its old versions
-- can be removed. Whoever waits for a table meanwhile reads it afterwards.
create function rewrite() returns void language plpgsql as $$
declare
    of regclass;
    alive text[];
begin
    if pg_relation_size('present') < 1 << 17 or pg_stat_get_dead_tuples('present'::regclass) < 1000 then
        return;
    end if;
    -- Everybody waits meanwhile, so not for somebody who reads for long, as a dump does.
    perform set_config('lock_timeout', '50', true);
    lock table present, leases, keys, changes in access exclusive mode;
    foreach of in array array['present', 'leases', 'keys', 'changes']::regclass[] loop
        -- Where most rows are alive that would not help, and many would take too long.
        if pg_stat_get_dead_tuples(of) > greatest(1000, pg_stat_get_live_tuples(of))
            and pg_stat_get_live_tuples(of) < 20000 and pg_relation_size(of) < 1 << 28 then
            execute format('select array_agg(r::text) from %s r', of) into alive;
            execute format('truncate %s', of);
            execute format('insert into %1$s select (r::%1$s).* from unnest($1) r', of) using alive;
        end if;
    end loop;
exception when lock_not_available then
    -- Somebody reads them for long. Next time.
end $$;

-- What has happened in these places since these revisions. `kept` is the first revision of which everything is known:
-- who has heard less has to list.
create function news(places text[], since bigint[]) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, "@schema@", pg_temp set enable_seqscan = off set jit = off as $$
declare
    now present := reading();
    answer jsonb;
begin
    if now.recovers then
        return refusal();
    end if;
    select stamp(p) || jsonb_build_object(
            'kept', (select coalesce(min(revision), p.revision + 1) from changes),
            'news', coalesce((select jsonb_agg(jsonb_build_array(place, told)) from (
                select c.place, jsonb_agg(shown(c) order by c.revision, c.nth) as told
                    from unnest(places, since) asked(place, since)
                    join changes c on c.place = asked.place and c.revision > asked.since group by c.place
                ) of_places), '[]'))
        into answer from present p;
    perform tend(now);
    return answer;
end $$;

-- What the store is, for whoever connects.
create function hello() returns jsonb
language plpgsql security definer
set search_path = pg_catalog, "@schema@", pg_temp set enable_seqscan = off set jit = off as $$
begin
    if pg_is_in_recovery() then
        raise exception 'the server is a replica' using errcode = '25006';
    end if;
    return (select jsonb_build_object('version', version, 'format', format) from store);
end $$;

-- Who may use the schema may lock. The functions that these ones call are nobody else's.
revoke execute on all functions in schema "@schema@" from public;
grant execute on function hello(), enlist(int), begin_lease(bigint, int), renew(bigint, text, bigint[]),
    lease_of(bigint), end_lease(bigint, bigint, bigint), put_back(bigint, jsonb, jsonb), end_recovery(bigint, boolean),
    transact(jsonb), list(text, text, bigint, bigint), under(bigint), watch(bigint, text[], text[]),
    news(text[], bigint[]) to public;
