# The cases of cases/clients.yaml, in Perl's words.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/lib";

use Cases;
use Test::More;

case a_table_of_rows => database => sub ($s, $) {
    my $db   = $s->lookup(database => 'DataBase');
    my $rows = $s->rows($db->users, [qw(string int)], sub ($e) { $e->touch; ($e->name, $e->visits) });
    is_deeply $rows->claim, [ [ ann => 1 ], [ bob => 1 ], [ eve => 1 ] ];
    is $s->crossings, 1;
};

case a_table_with_a_break => database => sub ($s, $) {
    my $db   = $s->lookup(database => 'DataBase');
    my $rows = $s->rows($db->users, ['string'], sub ($e) {
        $s->if($e->name == 'eve', sub { $s->break });
        $e->name;
    });
    my $none = $s->rows($s->value(int => 1)->to(0), [qw(int bool)], sub ($n) { ($n, 1) });
    is_deeply $rows->claim, [ ['ann'], ['bob'] ];
    is_deeply $none->claim, [];
};

case rows_of_255_columns => database => sub ($s, $) {
    my $rows = $s->rows($s->value(int => 1)->to(2), [ ('int') x 255 ], sub ($n) { map { $n + $_ } 0 .. 254 });
    is_deeply $rows->claim, [ [ 1 .. 255 ], [ 2 .. 256 ] ];
};

case a_wide_call => wide => sub ($s, $) {
    is $s->routine(wide_sum => 1 .. 22)->claim, 24151;
};

case compounds_cross_by_value => conformance => sub ($s, $) {
    my $v    = $s->lookup(probe => 'Probe')->values;
    my @told = (
        $v->total([ 1 .. 4 ]), $v->total([]), $v->nested([ [ 1, 2 ], [], [3] ]),
        $v->distance({ name => 'x', from => { x => 1, y => 1 }, to => { x => 3, y => 4 } }),
        $v->area({ dot => { x => 1, y => 2 } }), $v->area({ nothing => undef }), $v->named({ some => 'eve' }),
        map { $s->get($_) } $v->twice([ 5, 6 ]), $v->shape(3), $v->counts,
    );
    is_deeply [ map { $_->claim } @told ], [
        10, 0, 6, 105, '{dot: {x: 1, y: 2}}', '{nothing: nil}', 'eve',
        [ 10, 12 ], { dot => { x => 3, y => 0 } }, [ [ one => { x => 1, y => 1 } ], [ two => { x => 2, y => 2 } ] ],
    ];
    is $s->crossings, 1;
    like failure(sub { $v->total({}) }), qr/^a sequence\[int\] is an array reference/;
    like failure(sub { $v->distance({ name => 'x' }) }), qr/has the field `from`/;
    like failure(sub { $v->area({ square => 1 }) }), qr/has no tag `square`/;
};

case compounds_have_objects => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my $v = $p->values;
    my $a = $p->item('a');
    is $v->members({ head => $a, members => [ $a, $p->item('b') ] })->claim, 'a,a,b';
    my $failed = $v->members({ head => $a, members => [ $p->item('zoe') ] });
    is failure(sub { $failed->claim })->name, 'not_found';
};

case types_at_run_time => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    $s->foreach($p->items, sub ($item) {
        $s->if($item->is('Counter'), sub { $item->as('Counter')->add(7) });
    });
    my ($seven, $no, $yes) = ($p->counter->value, $p->item('a')->is('Counter'), $p->counter->is('Item'));
    my $value = $p->item('a')->as('Counter')->value;
    is $seven->claim, 7;
    ok !$no->claim && $yes->claim;
    is failure(sub { $value->claim })->name, 'wrong_type';
};

case transactions_commit_and_abort => database => sub ($s, $) {
    my $e = $s->lookup(database => 'DataBase')->fetch('eve');
    $e->touch;
    $s->commit;
    $e->touch;
    is $e->visits->claim, 2;
    $s->abort;
    is $e->visits->claim, 1;
};

case a_commit_names_unseen_failures => database => sub ($s, $) {
    my $db = $s->lookup(database => 'DataBase');
    $db->fetch('nobody');
    like failure(sub { $s->commit }), qr/^commit was not sent: fetch signals not_found$/;
    is failure(sub { $db->fetch('nobody')->claim })->name, 'not_found';
    is failure(sub { $s->commit }), undef, 'a failure that was claimed prevents nothing';
};

case a_refused_call_prevents_the_commit_live => database => sub ($s, $) {
    my $db = $s->lookup(database => 'DataBase');
    $s->lookup(database => 'DataElem')->touch;
    like failure(sub { $s->commit }), qr/^commit was not sent: lookup was refused: .*, and 1 more failures$/;
    is failure(sub { $s->commit }), undef;
};

case a_batch_is_a_transaction => database => sub ($s, $) {
    my $db  = $s->lookup(database => 'DataBase');
    my $one = $s->transaction(sub { my $e = $db->new_user('zoe'); $e->touch; $e->visits }, tries => 3);
    is $one->claim, 1;
    is $s->crossings, 2;
    my $e = $db->fetch('zoe');
    $s->commit;
    is failure(sub { $s->transaction(sub { $e->touch; $db->new_user('zoe') }) })->name, 'not_possible';
    is $e->visits->claim, 1, 'nothing of it was done';
};

case nothing_crosses_in_a_transaction_live => database => sub ($s, $) {
    my $e = $s->lookup(database => 'DataBase')->fetch('eve');
    $s->commit;
    like failure(sub { $s->transaction(sub { $e->touch; $e->visits->claim }) }), qr/^claim stands outside transactions/;
    is $e->visits->claim, 0;
};

case a_named_batch_is_done_once => database => sub ($s, $) {
    my $e = $s->lookup(database => 'DataBase')->fetch('eve');
    $s->commit;
    $s->transaction(sub { $e->touch }, batch => [ '000102030405060708090a0b0c0d0e0f', 1 ]) for 1 .. 2;
    is $e->visits->claim, 1;
    like failure(sub { $s->transaction(sub { }, batch => [ 'x', 1 ]) }), qr/32 hexadecimal digits/;
};

case a_wait_without_changes => database => sub ($s, $) {
    my $visits  = $s->lookup(database => 'DataBase')->fetch('eve')->visits;
    my $changed = $s->wait(10);
    is $visits->claim, 0;
    ok !$changed->claim;
};

case actors_answer_and_are_sent_to => actors => sub ($s, $) {
    my $adder = $s->lookup(adder => 'Adder');
    my $one   = $adder->add(1);
    $adder->send->add(10);
    my ($value, $wrong) = ($adder->value, $adder->add(-5));
    is_deeply [ $one->claim, $value->claim ], [ 1, 11 ];
    my $error = failure(sub { $wrong->claim });
    is_deeply [ $error->name, $error->values ], [ 'negative', -5 ];
};

case commands_are_sent_early => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    $p->nothing for 1 .. 5_000;
    is $p->same_int(1)->claim, 1;
    is_deeply [ $s->crossings, $s->calls ], [ 1, 5_001 ];
};

case structures_nest_64_deep => conformance => sub ($s, $) {
    my $count = $s->cell(int => 0);
    my $nest;
    $nest = sub ($depth) {
        $depth ? $s->if($s->value(bool => 1), sub { $nest->($depth - 1) }) : $count->put(1);
    };
    $nest->(64);
    is $count->get->claim, 1;
    $count->put(0);
    like failure(sub { $nest->(65) }), qr/^structures nest 64 deep at most/;
    is $count->get->claim, 0;
};

case dropped_stubs_leave_nothing => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    $s->foreach($p->numbers(10_000), sub ($i) { $p->fresh });
    my $item = $p->fresh;
    is $item->claim->type, 'Item';
    undef $item;
    $p->counter for 1 .. 100;
    is $p->fresh->name->claim, 'fresh';
}, 'limits.handles_max=8';

case a_connection_that_is_cut => conformance => sub ($s, $server) {
    my $p   = $s->lookup(probe => 'Probe');
    my $one = $p->same_int(1);
    is $one->claim, 1;
    my $two = $p->same_int(2);
    kill 'KILL', $server->pid;
    isa_ok failure(sub { $two->claim }), 'Bifrost::ConnectError';
    like failure(sub { $p->same_int(3) }), qr/^the session has ended/;
    is $one->claim, 1, 'what was told stays';
};

case a_session_is_left => conformance => sub ($s, $server) {
    my $counter = $s->lookup(counter => 'Counter');
    $counter->add(1);
    $s->close;
    like failure(sub { $counter->value }), qr/^the session has ended/;
};

case and_by_a_cell_live => conformance => sub ($s, $) {
    my $p    = $s->lookup(probe => 'Probe');
    my $both = $s->and($s->value(bool => 0), sub { $p->choose(3); 1 });
    my $or   = $s->or($s->value(bool => 0), sub { $p->same_bool(1) });
    ok !$both->claim && $or->claim;
    is_deeply [ $s->history ], [];
};

case names_of_the_root_directory => conformance => sub ($s, $) {
    my $root  = $s->routine('root');
    my $name  = $root->lookup('counter')->as('Counter')->name;
    my $gone  = $root->lookup('again');
    my $names = $s->rows($root->names, ['string'], sub ($n) { $n });
    is $name->claim, 'counter';
    is failure(sub { $gone->claim })->name, 'not_found';
    is_deeply $names->claim, [ ['counter'], ['probe'] ];
    my $refused = $root->insert('again', $s->lookup(counter => 'Counter'));
    is failure(sub { $refused->claim })->name, 'NotAllowed';
};

case another_interface_at_the_server => database_other => sub ($s, $) {
    my $db = $s->lookup(database => 'DataBase');
    my $e  = $db->fetch('eve');
    $e->touch;
    is $e->visits->claim, 1;
    like failure(sub { $db->new_user('zoe') }), qr/^DataBase has no method `new_user`; it has: /;
    is $e->visits->claim, 1, 'all else goes on';
};

case futures_are_mapped_again_live => conformance => sub ($s, $) {
    my $p     = $s->lookup(probe => 'Probe');
    my $total = $s->cell(int => 0);
    $total->put($total->get + 1) for 1 .. 40;
    is $total->get->claim, 40;
    ok $s->crossings > 1, 'a long batch is sent by itself';
}, 'limits.futures_max=50';

case many_results_are_mapped_again => conformance => sub ($s, $) {
    my $p    = $s->lookup(probe => 'Probe');
    my @kept = map { $p->same_int($_) } 1 .. 3_000;
    is_deeply [ map { $_->claim } @kept ], [ 1 .. 3_000 ];
    ok $s->crossings > 2;
}, 'limits.futures_max=1000';

case a_million_dropped_stubs_leave_nothing => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    $p->counter for 1 .. 1_000_000;
    my $name = $p->fresh->name;
    is $name->claim, 'fresh';
    is scalar keys $s->{batch}->%*, 0;
    ok @{ $s->{freed} } < 10, 'and so does the client';
}, 'limits.handles_max=8';

done_testing;
