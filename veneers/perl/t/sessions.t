# The cases of cases/sessions.yaml, in Perl's words: several sessions at one server.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/lib";

use Cases;
use Test::More;

# Two or three sessions, each with the table and its first two rows.
sub places ($server, $first, $count = 2) {
    return map {
        my $s = $_;
        my $t = $s->lookup(table => 'Table');
        my %place = (s => $s, t => $t, one => $t->row(1), two => $t->row(2));
        $s->commit;
        \%place;
    } $first, map { Bifrost->connect($server->url) } 2 .. $count;
}

sub value ($row) { return $row->value->claim }

# Another session has changed something before this one.
sub conflicts ($place) { return is failure(sub { $place->{s}->commit })->name, 'Conflict', 'a conflict' }

case g0_write_cycles => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    $a->{one}->put(11), $a->{s}->flush;
    $b->{one}->put(12), $b->{s}->flush;
    $a->{two}->put(21), $a->{s}->commit;
    $b->{two}->put(22), conflicts($b);
    is_deeply [ value($b->{one}), value($b->{two}) ], [ 11, 21 ];
};

case g1a_aborted_reads => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    $a->{one}->put(101), $a->{s}->flush;
    is value($b->{one}), 10;
    $a->{s}->abort;
    is value($b->{one}), 10;
    $b->{s}->commit;
};

case g1b_intermediate_reads => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    $a->{one}->put(101), $a->{s}->flush;
    is value($b->{one}), 10;
    $a->{one}->put(11), $a->{s}->commit;
    is value($b->{one}), 10;
    conflicts($b);
    is value($b->{one}), 11;
};

case g1c_circular_information_flow => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    $a->{one}->put(11), $a->{s}->flush;
    $b->{two}->put(22), $b->{s}->flush;
    is_deeply [ value($a->{two}), value($b->{one}) ], [ 20, 10 ];
    $a->{s}->commit;
    conflicts($b);
    is_deeply [ value($b->{one}), value($b->{two}) ], [ 11, 20 ];
};

case otv_observed_transaction_vanishes => hermitage => sub ($s, $server) {
    my ($a, $b, $c) = places($server, $s, 3);
    $a->{one}->put(11), $a->{two}->put(19), $a->{s}->flush;
    $b->{one}->put(12), $b->{s}->flush;
    $a->{s}->commit;
    is value($c->{one}), 11;
    $b->{two}->put(18), conflicts($b);
    is_deeply [ value($c->{two}), value($c->{two}), value($c->{one}) ], [ 19, 19, 11 ];
    $c->{s}->commit;
};

case pmp_predicate_many_preceders => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    is $a->{t}->with_value(30)->claim, 0;
    $b->{t}->insert(3, 30), $b->{s}->commit;
    is $a->{t}->divisible(3)->claim, 0;
    conflicts($a);
    is $a->{t}->divisible(3)->claim, 1;
    $a->{s}->commit;
};

case pmp_with_changes => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    my $remove = sub {
        $b->{s}->foreach($b->{t}->rows, sub ($r) { $b->{s}->if($r->value == 20, sub { $b->{t}->remove($r->id) }) });
    };
    $a->{s}->foreach($a->{t}->rows, sub ($r) { $r->add(10) });
    $a->{s}->flush;
    $remove->(), $b->{s}->flush;
    $a->{s}->commit;
    conflicts($b);
    $remove->(), $b->{s}->commit;
    is $b->{t}->total->claim, 30;
};

case p4_lost_update => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    my @seen = map { $_->{one}->value } $a, $b;
    is $_->claim, 10 for @seen;
    $a->{one}->put($seen[0] + 1), $a->{s}->commit;
    $b->{one}->put($seen[1] + 1), conflicts($b);
    my $again = $b->{one}->value;
    $b->{one}->put($again + 1), $b->{s}->commit;
    is_deeply [ $again->claim, value($b->{one}) ], [ 11, 12 ];
};

case g_single_read_skew => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    is value($a->{one}), 10;
    $b->{one}->put(12), $b->{two}->put(18), $b->{s}->commit;
    is value($a->{two}), 20;
    $a->{two}->put(0), conflicts($a);
    is_deeply [ value($a->{one}), value($a->{two}) ], [ 12, 18 ];
    $a->{s}->commit;
};

case g2_item_write_skew => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    is_deeply [ map { value($_->{one}), value($_->{two}) } $a, $b ], [ 10, 20, 10, 20 ];
    $a->{one}->put(11), $a->{s}->flush;
    $b->{two}->put(21), $b->{s}->flush;
    $a->{s}->commit;
    conflicts($b);
    is $b->{t}->total->claim, 31;
};

case g2_anti_dependency_cycles => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    is $_->{t}->divisible(3)->claim, 0 for $a, $b;
    $a->{t}->insert(3, 30), $a->{s}->flush;
    $b->{t}->insert(4, 42), $b->{s}->flush;
    $a->{s}->commit;
    conflicts($b);
    $b->{s}->if($b->{t}->divisible(3) == 0, sub { $b->{t}->insert(4, 42) });
    $b->{s}->commit;
    is $b->{t}->divisible(3)->claim, 1;
};

case g2_two_edges => hermitage => sub ($s, $server) {
    my ($a, $b, $c) = places($server, $s, 3);
    is $a->{t}->total->claim, 30;
    $b->{two}->add(5), $b->{s}->commit;
    is $c->{t}->total->claim, 35;
    $c->{s}->commit;
    $a->{one}->put(0), conflicts($a);
    is $a->{t}->total->claim, 35;
};

case changes_are_seen_after_the_commit => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    my $three = $a->{t}->insert(3, 30);
    $a->{s}->flush;
    is failure(sub { $b->{t}->row(3)->claim })->name, 'not_found';
    is $b->{t}->total->claim, 30;
    $b->{s}->commit;
    is $three->id->claim, 3;
    $a->{s}->commit;
    my $same = $b->{t}->row(3);
    is $b->{t}->total->claim, 60;
    $same->add(1), $b->{s}->commit;
    is value($three), 31;
};

case changes_of_different_objects_do_not_conflict => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    $a->{one}->add(1), $a->{s}->flush;
    $b->{two}->add(1), $b->{s}->flush;
    $_->{s}->commit for $a, $b;
    is $_->{t}->total->claim, 32 for $a, $b;
};

case commands_behind_a_conflict_are_not_reached => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    is value($_->{one}), 10 for $a, $b;
    $a->{one}->add(1), $a->{s}->commit;
    $b->{one}->add(1), conflicts($b);
    is value($b->{one}), 11, 'nothing of it was done, and the session goes on';
};

case a_conflict_undoes_objects => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    is $_->{t}->total->claim, 30 for $a, $b;
    my $three = $a->{t}->insert(3, 1);
    $a->{s}->flush;
    $b->{t}->insert(3, 2), $b->{s}->commit;
    conflicts($a);
    is failure(sub { value($three) })->name, 'NoSuchHandle';
    is value($a->{t}->row(3)), 2;
    $a->{s}->commit;
};

case conflicts_are_run_again_by_the_server => hermitage => sub ($s, $server) {
    my @places = places($server, $s, 3);
    # Processes, so that their transactions meet.
    my @others = map {
        my $pid = fork // die "no process: $!\n";
        if (!$pid) {
            my $own = Bifrost->connect($server->url);
            my $t   = $own->lookup(table => 'Table');
            $own->commit;
            for (1 .. 10) {
                $own->transaction(sub {
                    $own->foreach($own->value(int => 1)->to(100), sub ($i) {
                        $own->foreach($t->rows, sub ($r) { $r->add(1) });
                    });
                }, tries => 1000);
            }
            exec 'true';
        }
        $pid;
    } 1 .. 3;
    waitpid $_, 0 for @others;
    is $_->{t}->total->claim, 6030 for @places;
};

case a_wait_is_ended_by_a_change => hermitage => sub ($s, $server) {
    my ($a) = places($server, $s);
    is value($a->{one}), 10;
    my $pid = fork // die "no process: $!\n";
    if (!$pid) {
        my $other = Bifrost->connect($server->url);
        my $one   = $other->lookup(table => 'Table')->row(1);
        $one->put(11), $other->abort;
        select undef, undef, undef, 0.1;
        $one->put(12), $other->commit;
        exec 'true';
    }
    my $changed = $s->wait(60_000);
    my $after   = $a->{one}->value;
    ok $changed->claim;
    is $after->claim, 12, 'what was aborted was no change';
    waitpid $pid, 0;
};

case a_wait_misses_no_change => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    is value($a->{one}), 10;
    $b->{one}->put(11), $b->{s}->commit;
    my $changed = $s->wait(60_000);
    ok $changed->claim, 'a change before it';
    is value($a->{one}), 11;
};

case a_live_batch_is_run_again => hermitage => sub ($s, $server) {
    my ($a, $b) = places($server, $s);
    my @changes = (
        sub { $b->{t}->row(2)->put(22), $b->{s}->commit },
        sub { $b->{t}->insert(3, 30), $b->{t}->remove(1), $b->{s}->commit },
    );
    my @seen;
    my $begun = $s->crossings;
    $s->live(
        sub { $s->rows($a->{t}->rows, [qw(int int)], sub ($r) { ($r->id, $r->value) }) },
        sub ($rows) {
            push @seen, $rows;
            my $change = shift @changes or return 0;
            $change->();
            return 1;
        });
    is_deeply \@seen, [ [ [ 1, 10 ], [ 2, 20 ] ], [ [ 1, 10 ], [ 2, 22 ] ], [ [ 2, 22 ], [ 3, 30 ] ] ];
    is $s->crossings - $begun, 4, 'a commit, and a crossing for each answer';
};

done_testing;
