# Positions of results in a batch, by which the answers name calls.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/lib";

use Bifrost;
use Served;
use Test::More;

sub failure ($code) {
    return undef if eval { $code->(); 1 };
    return $@;
}

# The answer names calls by their positions: each failure is that of the call which failed.
subtest 'positions of results' => sub {
    my $server = serve('cases/programs/conformance.theta');
    my $s = Bifrost->connect($server->url);
    my $p = $s->lookup(probe => 'Probe');
    my ($told) = $p->divide(17, 5);
    is $told->claim, 3;
    my %recorded = (
        'a value that was told is a receiver' => sub { $told + 1 },
        'it is in a condition'=> sub { $s->if($s->and($told->gt(1), sub { 1 }), sub { $p->nothing }) },
        'a bool that was told is a condition' => do {
            my $yes = $p->same_bool(1);
            $yes->claim;
            sub { $s->if($yes, sub { $p->nothing }) };
        },
        'a literal is a condition' => sub { $s->if(1, sub { $p->nothing }, sub { $p->nothing }) },
        'a loop'          => sub { $s->while(sub { 0 }, sub { $p->nothing }) },
        'a procedure'     => sub { $s->procedure(half => ['int'], 'int', sub ($n) { ($p->divide($n, 2))[0] }) },
        'a message'       => sub { $p->choose(1) },
        'a table'         => sub { $s->rows($s->value(int => 1)->to(2), ['int'], sub ($n) { $n }) },
        'an iterator of a value that was told' => sub { $s->foreach($told->to(4), sub ($n) { $p->nothing }) },
        'a structure that was dropped' => sub {
            $s->if(1, sub {
                eval { $s->if(1, sub { $p->nothing; die "left\n" }) };
                $p->nothing;
            });
        },
    );
    for my $name (sort keys %recorded) {
        my @kept = $recorded{$name}->();
        my ($bad)  = $p->divide(1, 0);
        my ($good) = $p->divide(6, 2);
        is failure(sub { $bad->claim })->name, 'zero', $name;
        is $good->claim, 3, "$name: the call behind";
    }
    $s->close;
};

subtest 'a stub of a structure that was dropped' => sub {
    my $server = serve('cases/programs/conformance.theta');
    my $s = Bifrost->connect($server->url);
    my $p = $s->lookup(probe => 'Probe');
    my $cell = $s->cell(int => 0);
    $s->if(1, sub {
        my $inner;
        eval { $s->if(1, sub { $cell->put(5); ($inner) = $p->divide(6, 2); die "left\n" }) };
        like failure(sub { $cell->put($inner) }), qr/^the stub of divide ended with its structure/;
        $cell->put($cell->get + 1);
    });
    is $cell->get->claim, 1, 'nothing of it was run';
    $s->close;
};

subtest 'a line that the server does not take' => sub {
    my $server = serve('cases/programs/conformance.theta');
    my $s = Bifrost->connect($server->url);
    $s->lookup(probe => 'Probe')->nothing;
    # A line that this library does not write.
    $s->_append('this is no command');
    isa_ok failure(sub { $s->_methods('Counter') }), 'Bifrost::ConnectError', 'the answer to another line';
    like failure(sub { $s->cell('int') }), qr/^the session has ended/;
};

done_testing;
