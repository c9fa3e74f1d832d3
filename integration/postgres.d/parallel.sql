-- Hash joins, index builds and a vacuum, all parallel: each puts its work memory into dynamic shared memory.
set max_parallel_workers_per_gather = 4;
set max_parallel_maintenance_workers = 4;
set min_parallel_table_scan_size = 0;
set min_parallel_index_scan_size = 0;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
-- The workers do all of it, so they have to attach to what the leader and other workers made.
set parallel_leader_participation = off;
set enable_mergejoin = off;
set enable_nestloop = off;
set work_mem = '256MB';
set maintenance_work_mem = '256MB';

create unlogged table orders as select i as id, repeat(md5(i::text), 8) as what from generate_series(1, 300000) i;
create unlogged table lines as select i as id, (i * 7) % 300000 + 1 as of, repeat(md5((i % 1000)::text), 8) as what
    from generate_series(1, 300000) i;
alter table orders set (parallel_workers = 4, autovacuum_enabled = off);
alter table lines set (parallel_workers = 4, autovacuum_enabled = off);
analyze orders;
analyze lines;

\pset format unaligned
\pset tuples_only on
\echo parallel hash join
explain (costs off) select count(*), sum(hashtext(orders.what || lines.what)) from orders join lines on lines.of = orders.id;
select count(*), sum(hashtext(orders.what || lines.what)) from orders join lines on lines.of = orders.id;
select count(*) from (select a.what from orders a join orders b on a.what = b.what group by a.what) x;
\echo parallel index builds
create index on orders (what);
create index on orders (id);
create index on lines (of, what);
select indexrelid::regclass, pg_relation_size(indexrelid) > 0 from pg_index where indrelid = 'orders'::regclass order by 1;
set enable_seqscan = off;
select what from orders where id between 1000 and 1003 order by id;
set enable_seqscan = on;
\echo parallel vacuum
delete from orders where id % 3 = 0;
vacuum (parallel 4) orders;
select count(*), sum(id) from orders;
