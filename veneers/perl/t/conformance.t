# The cases of cases/conformance.yaml, in Perl's words.

use v5.36;
use utf8;

use FindBin;
use lib "$FindBin::Bin/lib";

use Cases;
use Test::More;

case values_come_back_as_they_went => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my @kinds = (
        int    => [ 0, -1, '-9223372036854775808', '9223372036854775807' ],
        real   => [ 0.1, -1.5e300, 5e-324 ],
        char   => [ '€', "\x{10ffff}", "'", "\n" ],
        string => [ '', '1234567', '12345678', "äß€🦀\0\n\"\\" ],
        bytes  => [ '', "\x07" x 9, "\xff\0" ],
    );
    my @asked;
    while (my ($type, $values) = splice @kinds, 0, 2) {
        my $method = "same_$type";
        push @asked, map { [ $type, $_, $p->$method($_) ] } @$values;
    }
    my ($yes, $no) = ($p->same_bool(1), $p->same_bool(0));
    my $added = $s->value(bytes => "\1\2")->concat($asked[-2][2]);
    my ($null, $nothing) = ($p->same_null(undef), $p->nothing);
    is $_->[2]->claim, $_->[1], $_->[0] for @asked;
    ok $yes->claim && !$no->claim, 'bool';
    is $added->claim, "\1\2" . "\x07" x 9, 'a method of bytes';
    is $null->claim,    undef, 'nil';
    is $nothing->claim, undef, 'no result';
    is $s->crossings, 1, 'one crossing';
    is $added->length->claim, 11;
    is $s->crossings, 2;
};

case results_of_all_shapes => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my ($quotient, $remainder) = $p->divide(17, 5);
    my ($item, $length) = $p->item_and_length('grüße');
    my $text = $p->all(1, $quotient + 1, 0.5, 'ß', $item->name . '!', $item);
    is_deeply [ map { $_->claim } $quotient, $remainder, $length, $text ],
        [ 3, 2, 5, 'true 4 0.5 ß grüße! grüße' ];
    is $s->crossings, 1;
    my ($q, $r) = $p->divide(1, 0);
    is failure(sub { $q->claim })->name, 'zero';
    is failure(sub { $r->claim })->name, 'zero';
};

case a_subtype_passes_for_its_supertype => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my $counter = $s->lookup(counter => 'Counter');
    my $before  = $p->name_of($counter);
    $counter->rename('other');
    $p->add_item($counter);
    my $after = $p->name_of($counter);
    is_deeply [ $before->claim, $after->claim ], [ 'counter', 'other' ];
    my $wrong = $s->lookup(probe => 'Counter')->value;
    is failure(sub { $wrong->claim })->name, 'WrongType';
    my $item = $p->counter->as('Item');
    my @is   = map { $item->is($_) } qw(Counter Probe);
    is_deeply [ map { $_->claim ? 1 : 0 } @is ], [ 1, 0 ];
    is $item->as('Counter')->value->claim, 0;
    is $item->call(name => ())->claim, 'other', 'a method by its name';
};

case records_oneofs_and_anys_are_stubs => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my $t     = $p->tagged;
    my $point = $t->point(3, 4);
    $point->set_x(5);
    my $labelled = $t->labelled($point, 'here');
    my @told     = (
        $labelled->replace_name('there')->name, $labelled->at->x, $t->answer(3)->value_number,
        $t->sum($t->found(2)), $t->sum($t->found(0)), $t->found(0)->value_or($point)->y,
        map { $t->what($t->thing($_)) } 0, 7, 12,
    );
    my $wrong = $t->answer(3)->value_text;
    my $total = $s->cell(int => 0);
    $s->foreach($t->answers(4), sub ($answer) { $total->put($total->get + $answer->value_number) });
    is_deeply [ map { $_->claim } @told ], [ 'there', 5, 3, 4, 0, 4, 'nil', 7, '{x: 12, y: 12}' ];
    is failure(sub { $wrong->claim })->name, 'wrong_tag';
    is $total->get->claim, 10;
};

case iterators_of_methods_routines_and_values => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my $out = $s->cell(string => '');
    my $say = sub ($text) { $out->put($out->get . $text . ' ') };
    $s->foreach($p->numbers(3), sub ($i) { $say->($i->unparse) });
    $s->foreach($p->pairs(2), sub ($j, $text) { $say->($j->unparse . '=' . $text) });
    $s->foreach($p->items, sub ($item) { $say->($item->name) });
    $s->foreach($s->routine(squares => 3), sub ($square) { $say->($square->unparse) });
    $s->foreach($s->value(int => 7)->to(8), sub ($k) { $say->($k->unparse) });
    $s->foreach($p->numbers(0), sub ($n) { $say->('never') });
    is $out->get->claim, '1 2 3 1=1 2=2 a b c counter 1 4 9 7 8 ';
    is $s->crossings, 1;
    is_deeply [ $p->numbers(9)->list(4) ], [ 1 .. 4 ], 'the first values, outside a loop';
};

case signals_carry_their_values => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my ($everything, $fine, $missing) = ($p->choose(6), $p->choose(4), $p->item('zoë'));
    my $error = failure(sub { $everything->claim });
    is $error->name, 'everything';
    is_deeply [ $error->values ], [ JSON::PP::true, 6, 0.5, 'x', 'ß' ];
    is $fine->claim, 4;
    $error = failure(sub { $missing->claim });
    is_deeply [ $error->name, $error->values ], [ 'not_found', 'zoë', 4 ];
    is $s->crossings, 1;
};

case signals_carry_objects_and_compounds => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my $v    = $p->values;
    my $item = $p->item('a');
    my $nothing = $v->reject($item, 0);
    $s->except(sub { $v->reject($item, 2) }, when => [ rejected => [ 'Item', 'int', 'struct[x: int, y: int]' ], sub ($who, $n, $spot) { $who->rename('rejected') } ]);
    my $name = $item->name;
    is failure(sub { $nothing->claim })->name, 'nothing';
    is $name->claim, 'rejected';
    is $v->total([ 1, 2, 3 ])->claim, 6, 'a sequence';
    is $v->distance({ name => 'n', from => { x => 1, y => 1 }, to => { x => 3, y => 2 } })->claim, 103, 'a struct';
    is_deeply $s->get($v->twice([ 1, 2 ]))->claim, [ 2, 4 ];
    is $v->area({ circle => 0.5 })->claim, '{circle: 0.5}', 'a oneof';
    is $v->named({ none => undef })->claim, 'nobody', 'a maybe';
};

case cells_of_everything => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my $ints = $s->cell('int');
    my ($before, $empty) = ($ints->full, $ints->get);
    $ints->put(1);
    my $first = $ints->get;
    $ints->put('-9223372036854775808');
    my ($second, $after) = ($ints->get, $ints->full);
    is failure(sub { $empty->claim })->name, 'not_possible';
    ok !$before->claim && $after->claim;
    is_deeply [ $first->claim, $second->claim ], [ 1, '-9223372036854775808' ];
    is $s->cell(string => 'äß€🦀')->get->claim, 'äß€🦀';
    my $items = $s->cell(Item => $p->counter);
    is $items->get->name->claim, 'counter';
    $items->put($p->item('a'));
    is $items->get->name->claim, 'a', 'in the next batch';
};

case straight_futures_take_one_crossing => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my $last = $p;
    $last = $last->itself for 1 .. 300;
    my $name = $last->counter->name;
    is $s->crossings, 0;
    is $name->claim, 'counter';
    is $s->crossings, 1;
};

case a_claim_flushes_once_for_all_promises => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my ($x, $y) = ($p->same_int(1), $p->same_int(2));
    my $sum = $x + $y;
    is_deeply [ map { $_->claim } $x, $y, $sum ], [ 1, 2, 3 ];
    is $s->crossings, 1;
    is $p->same_int($sum)->claim, 3;
    is $s->crossings, 2;
};

case only_what_is_kept_gets_a_handle => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    for my $round (1 .. 3) {
        $p->fresh for 1 .. 200;
        $s->flush;
        my @kept = map { $p->fresh } 1 .. 6;
        is $_->claim->type, 'Item' for @kept;
    }
    is $p->same_int(1)->claim, 1;
}, 'limits.handles_max=8';

case structures_nest => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my $out = $s->cell(string => '');
    $s->foreach($p->numbers(5), sub ($i) {
        $s->if($i == 4, sub { $s->break });
        my $j = $s->cell(int => 0);
        $s->while(sub { $j->get < 10 }, sub {
            $j->put($j->get + 1);
            $s->if($j->get % 2 == 0, sub { $s->continue });
            $s->if($j->get > $i + 3, sub { $s->break }, sub {
                $s->if($i == 2,
                    sub { $out->put($out->get . 'two ') },
                    sub { $out->put($out->get . $i->unparse . ':' . $j->get->unparse . ' ') });
            });
        });
    });
    is $out->get->claim, '1:1 1:3 two two two 3:1 3:3 3:5 ';
    is $s->crossings, 1;
};

case handlers_get_names_and_values => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my $out = $s->cell(string => '');
    my $say = sub ($text) { $out->put($out->get . $text . ' ') };
    $s->foreach($p->numbers(8), sub ($i) {
        $s->except(sub {
                $s->if($i == 8, sub { $p->item('zoe') });
                $say->($p->choose($i)->unparse);
            },
            when => [ third => sub { $say->('third') } ],
            when => [ odd => ['int'], sub ($n) { $say->($n->unparse . '!') } ],
            when => [ everything => [qw(bool int real char string)], sub (@v) { $say->($p->all(@v, $p->item('a'))) } ],
            others => sub ($name) { $say->($name) });
    });
    is $out->get->claim, '1! 2 third 4 5! true 6 0.5 x ß a 7! not_found ';
    is_deeply [ $s->history ], [];
};

case exceptions_in_loops_say_the_round => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my $begun = $s->cell(int => 0);
    $s->foreach($p->numbers(4), sub ($i) { $begun->put($i); $p->choose($i + 1) });
    my ($error) = $s->flush;
    is_deeply [ $error->name, $error->rounds ], [ 'third', 2 ];
    is $begun->get->claim, 2;
    $s->foreach($p->numbers(4), sub ($i) {
        $s->foreach($p->numbers(2), sub ($j) { $p->choose($i * $i * 2 + ($j - 1) * 2) });
    });
    ($error) = $s->flush;
    is_deeply [ $error->name, $error->rounds ], [ 'third', 3, 1 ];
    is scalar $s->history, 2;
};

case what_depends_on_a_failure_says_why => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my $zoe     = $p->item('zoe');
    my $name    = $zoe->name;
    my $further = $p->same_string($name)->length + 1;
    my $fine    = $p->same_int(1);
    my $error   = failure(sub { $name->claim });
    is_deeply [ $error->name, $error->values ], [ 'not_found', 'zoe', 4 ];
    is_deeply [ $error->via ], ['name'];
    is_deeply [ failure(sub { $further->claim })->via ], [qw(add length same_string name)];
    like "$error", qr/^item signals not_found\(zoe, 4\); not run: name$/;
    is $fine->claim, 1;
    is failure(sub { $zoe->name->claim })->name, 'not_found', 'in the next batch';
};

case misuse_is_a_value_and_the_session_goes_on => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my $before = $p->same_int(1);
    my $total  = $s->cell(int => 0);
    $s->foreach($p->numbers(3), sub ($i) {
        like failure(sub { $before->claim }), qr/^claim stands outside structures at \S+conformance\.t /;
        like failure(sub { $s->flush }), qr/^flush stands outside structures/;
        $total->put($total->get + $i);
    });
    is $total->get->claim, 6;
    is $before->claim, 1;
    is $s->crossings, 1;
    like failure(sub { $s->break }), qr/^break stands in a loop/;
    like failure(sub { $p->same_int('x') }), qr/^`x` is no int/;
    like failure(sub { $p->same_int }), qr/^same_int takes 1 arguments, not 0/;
    like failure(sub { $p->sane_int(1) }), qr/^Probe has no method `sane_int`; it has: add_item, /;
    like failure(sub { 1 if $p->same_bool(1) }), qr/has no truth value/;
    like failure(sub { $s->lookup(probe => 'Prob') }), qr/^the server has no type `Prob` at \S+conformance\.t /;
    like failure(sub { $s->cell('array[Prob]') }), qr/^the server has no type/;
    my $text = $p->same_string('x');
    like failure(sub { sprintf '%s', $text }), qr/has no text: claim it/;
    my $inner;
    $s->foreach($p->numbers(1), sub ($i) { $inner = $i });
    like failure(sub { $p->same_int($inner) }), qr/ended with its structure/;
    is failure(sub { $s->foreach($p->numbers(3), sub ($i) { $total->put(0); die "mine\n" }) }), "mine\n";
    is $total->get->claim, 6, 'a structure that a body has died in is dropped';
    for my $once (1) {
        no warnings 'exiting';
        $s->foreach($p->numbers(3), sub ($i) { last });
    }
    like failure(sub { $p->same_int(1) }), qr/^`last` or `next` has left a structure/;
    is $p->same_int(1)->claim, 1;
    my $other = Bifrost->connect('unix:' . $s->{socket}->peerpath =~ s{^}{//}r);
    like failure(sub { $other->lookup(probe => 'Probe')->same_int($before) }), qr/belongs to another session/;
};

case procedures_are_kept_by_the_session => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my $label = $s->procedure(label => [qw(string int Item)], 'string', sub ($prefix, $n, $item) {
        $s->if($n < 0, sub { $s->return(string => 'negative') });
        $prefix . $n->unparse . $item->name;
    });
    my ($one, $two) = ($label->('x', 1, $p->item('a')), $label->($p->same_string('y'), -2, $p->counter));
    is_deeply [ $one->claim, $two->claim ], [ 'x1a', 'negative' ];
    my $out = $s->cell(string => '');
    $s->foreach($p->numbers(3), sub ($i) { $out->put($out->get . $label->(':', $i, $p->item('b'))) });
    is $out->get->claim, ':1b:2b:3b';
    my $touch = $s->procedure(touch => [], undef, sub { $p->counter->add(5) });
    $touch->() for 1 .. 2;
    is $p->counter->value->claim, 10;
};

case numbers_signal_what_has_no_result => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my ($least, $most, $one) = map { $s->value(int => $_) } '-9223372036854775808', '9223372036854775807', 1;
    my @failed = ($most + 1, $least - 1, $most * 2, $least / -1, -$least, $one / 0, $one % 0);
    is_deeply [ map { my $stub = $_; failure(sub { $stub->claim })->name } @failed ],
        [ ('overflow') x 5, ('zero') x 2 ];
    is 9**9**9, ($s->value(real => 1) / 0)->claim, 'infinity';
};

case what_is_too_long_is_not_sent => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my $long = $p->same_string('x' x 65_536);
    ok failure(sub { $long->claim }), 'a line that is too long';
    is $s->{socket}, undef, 'ends the session';
}, 'limits.frame_bytes_max=65536';

case endless_batches_are_ended => conformance => sub ($s, $) {
    my $p = $s->lookup(probe => 'Probe');
    my $yes = $s->value(bool => 1);
    $s->while(sub { $yes == 1 }, sub { $p->nothing });
    my $after = $p->same_int(1);
    ok failure(sub { $after->claim }), 'not reached';
    is $p->same_int(2)->claim, 2;
    ok failure(sub { $s->commit }), 'nothing is committed';
    $s->abort;
    is $p->same_int(2)->claim, 2;
    $s->commit;
}, 'limits.fuel_max=1000', 'limits.batch_time_ms_max=60000';

done_testing;
